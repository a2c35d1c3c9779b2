"""The register map as SystemRDL, read by a compiler of other people, is that of the table."""

import pytest

from diastole_sim.spec.reference import MachineSet, locked
from diastole_sim.spec.registers import SPECIAL
from diastole_sim.spec.systemrdl import systemrdl

compiler = pytest.importorskip("systemrdl", reason="systemrdl-compiler reads the register map")

ALL = MachineSet(config_hash=0x12345678)
FEW = MachineSet(planes=False, vector=False, choices=False, config_hash=1)


def compiled(machines, tmp_path, **options):
    path = tmp_path / "map.rdl"
    path.write_text(systemrdl("machine", machines, **options))
    reader = compiler.RDLCompiler()
    reader.compile_file(str(path))
    return {node.inst_name: node for node in reader.elaborate().top.registers()}


@pytest.mark.parametrize("machines", [ALL, FEW], ids=["all", "few"])
def test_registers_bits_and_resets(machines, tmp_path):
    nodes = compiled(machines, tmp_path)
    assert list(nodes) == [register.name for register in machines.registers]
    for register in machines.registers:
        node = nodes[register.name]
        assert node.absolute_address == register.offset
        assert node.get_property("regwidth") == 32 * register.words
        assert node.get_property("accesswidth") == 32
        bits = {bit.name: (bit.low, bit.low) for bit in register.layout}
        found = {field.inst_name: (field.low, field.high) for field in node.fields()}
        value = found.pop("value", None)
        assert found == bits
        assert (value is None) == (register.kind == SPECIAL)
        if value is not None:
            assert value == (0, (31 if bits else register.bits) - 1)
            field = node.get_child_by_name("value")
            assert field.get_property("reset") == machines.reset_value(register)
            assert field.is_sw_writable == locked(register)
        assert ("locked while" in node.get_property("desc")) == locked(register)


@pytest.mark.parametrize("machines", [ALL, FEW], ids=["all", "few"])
def test_by_words_no_register_is_wider_than_the_bus(machines, tmp_path):
    nodes = compiled(machines, tmp_path, by_words=True)
    expected = {}
    for register in machines.registers:
        expected[register.offset] = (register.name, min(register.bits, 32))
        if register.bits > 32:
            expected[register.offset + 4] = (f"{register.name}_high", register.bits - 32)
    assert {node.absolute_address: name for name, node in nodes.items()} == {
        offset: name for offset, (name, _) in expected.items()
    }
    for register in machines.registers:
        for node in (nodes[name] for name in nodes if name.removesuffix("_high") == register.name):
            assert node.get_property("regwidth") == 32
            value = node.get_child_by_name("value")
            if value is not None and not register.layout:
                assert value.width == expected[node.absolute_address][1]
                assert value.is_sw_writable == locked(register)


def test_access_of_bits(tmp_path):
    nodes = compiled(ALL, tmp_path)
    start, done = (
        nodes["control"].get_child_by_name("start"),
        nodes["status"].get_child_by_name("done"),
    )
    assert (start.is_sw_readable, start.is_sw_writable) == (False, True)
    assert start.get_property("singlepulse")
    assert done.get_property("onwrite") == compiler.rdltypes.OnWriteType.woclr
    busy = nodes["status"].get_child_by_name("busy")
    assert (busy.is_sw_readable, busy.is_sw_writable) == (True, False)


def test_other_words_than_quotes_stay(tmp_path):
    magic = compiled(ALL, tmp_path)["magic"]
    assert magic.get_property("desc") == "the letters 'DIAS'"
    assert magic.get_child_by_name("value").get_property("reset") == 0x53414944
