"""Commands of a step: what loads leave in tables, two in flight, causes that add up."""

from dataclasses import replace

import pytest

from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.chain_times import ChainTimes
from diastole_sim.perf.step import ProgramState, StepModel, ended, nest_of
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Source
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.modelled import modelled
from support.vector_model import NUMERICS, modelled_vector, move

PROGRAM = move(Source.S0, o=0).encode().to_bytes(8, "little")
TABLE = b"".join(
    Descriptor(kind=kind).encode()
    for kind in (Kind.F32, *3 * [Kind.NONE], Kind.PANEL, *3 * [Kind.NONE])
)
LOADS = [
    Command.load(VectorTable.INSTRUCTIONS, address=0, first=3, count=1),
    Command.load(VectorTable.DESCRIPTORS, address=1000, first=8, count=8),
]


MEMORY = {0: PROGRAM, 1000: TABLE}


def read(address, count):
    return MEMORY[address][:count]


def model():
    machine = ModelledMachine.of(NUMERICS, rows=2, cols=2, data_width=128, memory=Memory.axi())
    return StepModel(machine, modelled_vector(), read)


def chain(**fields):
    place = ProgramPlace(first=3, length=1, streams=8)
    made = Command.chain(place, m=64, n=64, columns=False, update=False, skip=False)
    return replace(made, **fields)


def step_of(*commands):
    target = len(LOADS)
    return model().step([*LOADS, *commands, Command.next(target)], step=0)


def test_tables_are_what_was_loaded():
    state = ProgramState()
    for command in LOADS:
        state.load(command, read)
    task = state.task(chain(), block=8, step=7)
    assert list(task.inputs) == [0]
    assert task.inputs[0].kind == Kind.F32
    assert task.outputs[0].kind == Kind.PANEL
    assert (task.step, task.of_product) == (7, False)


def test_a_command_after_the_other():
    one, two = step_of(chain()), step_of(chain(), chain())
    took = one.commands[0].done - one.commands[0].started
    assert two.commands[1].started == two.commands[0].done
    assert two.cycles == one.cycles + took


def test_one_that_is_ahead_waits_for_the_unit_alone():
    apart, ahead = step_of(chain(), chain()), step_of(chain(), chain(ahead=1))
    assert ahead.commands[1].started == 2 * model().fetch
    assert 0 <= apart.cycles - ahead.cycles < 5


def test_causes_add_up_to_all_cycles():
    found = step_of(chain(), chain(update=1))
    causes = found.cause_cycles
    assert sum(causes.values()) == found.cycles
    assert causes["wait_update"] == pytest.approx(causes["wait_chain"], rel=0.05)
    assert causes["busy_slots"] == 0


def test_products_are_busy(monkeypatch):
    table = TABLE.replace(
        Descriptor(kind=Kind.F32).encode(), Descriptor(kind=Kind.PRODUCT).encode()
    )
    place = ProgramPlace(first=3, length=1, streams=8)
    nest = Nest(t_blocks=2)
    sizes = {"m": 64, "n": 64, "k": 64, "address_x": 0, "address_w": 1 << 16}
    drained = Command.chained(Opcode.FORWARD_CHAIN, place, nest=nest, **sizes)
    monkeypatch.setitem(MEMORY, 1000, table)
    found = step_of(drained)
    assert found.cause_cycles["busy_slots"] == found.commands[0].slots == 1024
    assert sum(found.cause_cycles.values()) == found.cycles


@pytest.mark.parametrize("first", ["chained", "plain"])
@pytest.mark.parametrize("second", ["chained", "plain"])
def test_products_in_flight_share_one_array(first, second, monkeypatch):
    """A product that is ahead enters the array behind the one before: no step is shorter than its
    vectors, and no cause is negative."""
    table = TABLE.replace(
        Descriptor(kind=Kind.F32).encode(), Descriptor(kind=Kind.PRODUCT).encode()
    )
    monkeypatch.setitem(MEMORY, 1000, table)
    place, nest = ProgramPlace(first=3, length=1, streams=8), Nest(t_blocks=2)
    sizes = {"m": 64, "n": 128, "k": 256}
    made = {
        "plain": Command.product(
            Opcode.FORWARD, nest=nest, address_x=0, address_w=1 << 16, out_a=1 << 17, **sizes
        ),
        "chained": Command.chained(
            Opcode.FORWARD_CHAIN, place, nest=nest, address_x=0, address_w=1 << 16, **sizes
        ),
    }
    for ahead in (0, 1):
        found = step_of(made[first], replace(made[second], ahead=ahead))
        slots = sum(each.slots for each in found.commands)
        assert slots == 2 * 64 * 128 * 256 // model().machine.macs
        assert slots == found.cause_cycles["busy_slots"] < found.cycles
        assert sum(found.cause_cycles.values()) == found.cycles
        assert all(cycles >= 0 for cycles in found.cause_cycles.values())


@pytest.mark.parametrize("x, w", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_product_takes_a_pass_for_every_pair_of_planes(x, w):
    machine = modelled(widths=(2, 4), rows=2, cols=2, data_width=128, memory=Memory.axi())
    steps = StepModel(machine, modelled_vector(), read)
    made = Command.product(
        Opcode.FORWARD, m=64, n=64, k=64, planes={"x": x, "w": w}, address_x=0,
        address_w=1 << 16, out_a=1 << 17,
    )  # fmt: skip
    found = steps.step([*LOADS, made, Command.next(len(LOADS))], step=0)
    assert found.commands[0].slots == x * w * 64**3 // machine.macs


def test_alone_it_is_fetched_first():
    """As `nano` counted it."""
    commands = [*LOADS, chain()]
    assert model().alone(commands, 2) == 1129
    assert model().alone(commands, 0) == 64


def test_what_is_kept_is_counted_behind_the_fetch():
    """Of what streams: 4 slices of a chunk, 2 tiles, 1 chunk and 4 T tiles, each with 2 cycles, and
    3."""
    sizes = {"m": 64, "n": 64, "k": 64, "address_x": 0, "address_w": 1 << 16}
    place = ProgramPlace(first=3, length=1, streams=8)
    none, stream = (
        Command.chained(
            Opcode.FORWARD_CHAIN, place,
            nest=Nest(t_blocks=2, chunk=8, outer="l", keep=keep), **sizes,
        )
        for keep in ("none", "stream")
    )  # fmt: skip
    assert model().fetch_of(none) == model().fetch
    assert model().fetch_of(stream) == model().fetch + (4 + 2 + 1 + 4) + 4 * 2 + 3


def test_answers_end_a_command_that_writes():
    written = ChainTimes(done=100, last_response=120, read_beats=0, write_beats=1)
    assert ended(written) > 120
    assert ended(replace(written, last_response=0)) <= 100


def test_the_nest_of_a_command():
    nest = Nest(t_blocks=2, chunk=4, keep="stationary", outer="l")
    made = replace(chain(), nest_t=2, nest_chunk=4, nest_outer=1, nest_keep=2)
    assert nest_of(made).t_blocks == nest.t_blocks
    assert (nest_of(made).outer, nest_of(made).keep) == ("l", "stationary")


@pytest.mark.parametrize("free", [0, 6000])
def test_a_drained_image_waits_for_the_one_before(monkeypatch, free):
    """In whatever cycle its product starts."""
    kinds = (Kind.PRODUCT, *3 * [Kind.NONE], Kind.IMAGE, *3 * [Kind.NONE])
    monkeypatch.setitem(MEMORY, 1000, b"".join(Descriptor(kind=each).encode() for each in kinds))
    place = ProgramPlace(first=3, length=1, streams=8)
    sizes = {"m": 64, "n": 64, "k": 64, "address_x": 0, "address_w": 1 << 16}
    command = Command.chained(Opcode.FORWARD_CHAIN, place, nest=Nest(t_blocks=2), **sizes)
    modelled = model()
    for load in LOADS:
        modelled.tables.load(load, read)
    modelled.converter_free = free
    times, _ = modelled._command(0, command, 500, 0, 0)
    assert (times.done > 6000 + 1024) == bool(free)
    assert times.done > 500 + 1024
