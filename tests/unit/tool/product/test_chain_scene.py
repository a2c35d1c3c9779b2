"""What a run of a machine with a vector unit does besides."""

from diastole.product.chain_scene import ChainScene
from diastole.product.scene import Scene
from diastole_sim.spec.command_table import PRODUCTS, VECTOR_OPCODES, Opcode
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.host_machines import VIEWS


def scene():
    made = Scene(VIEWS["floats"], 0x4000)
    chains = ChainScene(made)
    made.convert_all()
    for opcode, operation in PRODUCTS.items():
        made.multiply(opcode, operation)
    before = len(made.commands)
    chains.run_all()
    return made, chains, made.commands[before:]


def test_every_operation_of_the_unit():
    _, _, commands = scene()
    opcodes = [each.opcode for each in commands]
    assert opcodes[:3] == [Opcode.LOAD] * 3
    assert opcodes[3:] == [
        *(Opcode.FORWARD_CHAIN, Opcode.DX_CHAIN, Opcode.DW_CHAIN),
        *(Opcode.CHAIN, Opcode.STORE, Opcode.NEXT),
    ]
    assert set(opcodes) == set(VECTOR_OPCODES)


def test_tables_are_in_front_of_what_is_written():
    made, chains, _ = scene()
    assert max(chains.program, chains.streams, chains.constants) < made.written
    assert all(at >= made.written for at, _ in [*made.results, *made.stored])
    streams = dict(made.contents)[chains.streams]
    found = [Descriptor.decode(streams[at : at + 16]) for at in range(0, len(streams), 16)]
    assert [each.kind for each in found if each.kind] == [
        *(Kind.PRODUCT, Kind.F32) * 3,
        *(Kind.F32, Kind.F32),
    ]
    assert found[24].address == 0x4000 + made.results[0][0]
    written = {each.address - 0x4000 for each in found[4::8]}
    assert written == {at for at, _ in made.results[-4:]}


def test_results_are_those_of_the_products_with_their_signs_flipped():
    made, _, _ = scene()
    plain = [values for _, values in made.results[:3]]  # forward, dX, dW
    chained = [values for _, values in made.results[-4:]]
    for values, flipped in zip([*plain, plain[0]], chained, strict=True):
        assert (flipped == -values).all()
