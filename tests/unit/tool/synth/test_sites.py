"""Sites that place and route adds, in netlists of a few cells, counted by hand."""

from collections import Counter

import pytest

from diastole.synth.sites import SITE, ecp5_chains, gowin_chains, ice40_alone, xilinx_carries
from diastole.synth.targets import ECP5

OUTPUTS = ("COUT", "CO", "O", "F", "SUM", "Q", "Z", "S0")


def cell(kind, **connections):
    bits = {port: bit if isinstance(bit, list) else [bit] for port, bit in connections.items()}
    directions = {port: "output" if port in OUTPUTS else "input" for port in bits}
    return {"type": kind, "connections": bits, "port_directions": directions}


def added(rule, **cells):
    return Counter(rule(cells))


def test_a_carry_chain_of_an_ecp5_has_a_cell_at_both_ends():
    chain = {"a": cell("CCU2C", CIN="0", COUT=10), "b": cell("CCU2C", CIN=10, COUT=11)}
    assert added(ecp5_chains, **chain) == {("a", "CCU2C"): 1, ("b", "CCU2C"): 1}
    # one whose carry comes from logic and goes there too
    alone = cell("CCU2C", CIN=5, COUT=6)
    both = added(ecp5_chains, alone=alone, lut=cell("LUT4", A=6, Z=7))
    assert both == {("alone", "CCU2C"): 2}
    # the carry in the middle is read by logic as well
    read = added(ecp5_chains, **chain, lut=cell("LUT4", A=10, Z=7))
    assert read == {("a", "CCU2C"): 2, ("b", "CCU2C"): 1}
    assert ECP5.counted("CCU2C") == {"carry": 1, "sites": 2}


def test_a_cell_of_an_ice40_holds_what_belongs_together():
    lut = cell("SB_LUT4", I0="0", I1=1, I2=2, I3=3, O=4)
    carry = cell("SB_CARRY", I0=1, I1=2, CI=3, CO=5)
    before = cell("SB_CARRY", I0="0", I1="0", CI="0", CO=3)
    register = cell("SB_DFFE", D=4, Q=6)
    # the first carry has no LUT of its inputs, the second has
    assert added(ice40_alone, lut=lut, before=before, carry=carry, register=register) == {
        ("before", SITE): 1
    }
    # a register whose word another one reads too, and registers one behind the other
    second, third = cell("SB_DFF", D=6, Q=7), cell("SB_DFF", D=4, Q=8)
    assert added(ice40_alone, lut=lut, second=second, register=register, third=third) == {
        ("register", SITE): 1,
        ("second", SITE): 1,
        ("third", SITE): 1,
    }
    # a carry that comes from logic, and one that logic reads
    entered = cell("SB_CARRY", I0=1, I1=2, CI=3, CO=5)
    leaves = cell("SB_LUT4", I0=5, I1="0", I2="0", I3="0", O=9)
    assert added(ice40_alone, lut=lut, entered=entered, leaves=leaves) == {("entered", SITE): 2}


def test_a_carry_of_a_xilinx_passes_lone_bits_through_luts():
    lut = cell("LUT2", I0=1, I1=2, O=3)
    carry = cell("CARRY4", S=[3, 4, "0", 5], CO=[6, 7, 8, 9])
    assert added(xilinx_carries, lut=lut, carry=carry) == {("carry", SITE): 2}


@pytest.mark.parametrize("read", [False, True])
def test_a_carry_chain_of_a_gowin_has_an_alu_in_front_and_behind_where_it_is_read(read):
    cells = {"first": cell("ALU", CIN="0", COUT=5), "last": cell("ALU", CIN=5, COUT=6)}
    if read:
        cells["reads"] = cell("LUT1", I0=6, F=10)
    tail = {("last", "ALU"): 1} if read else {}
    assert added(gowin_chains, **cells) == {("first", "ALU"): 1} | tail
