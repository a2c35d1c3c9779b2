# amaranth: UnusedElaboratable=no
"""DspProducts against integers, every factor of small ones; and what flows make of them."""

import re
from itertools import product

import pytest
from amaranth.back import verilog
from amaranth.lib.wiring import In, Out

from diastole.synth.mapper import Design, MapRequest, map_design, working_folder
from diastole.synth.targets import ECP5, XILINX
from diastole.synth.tools import YOSYS
from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.dsp_products import DspProducts
from diastole_hw.cell.multiplier import Multiplier
from diastole_hw.cell.packed import pack
from oracle.cell import encoded
from support.cells import E2M1, E4M3
from support.pipelines import Built, check_pipeline
from support.sweep import sweep


def bfp(bits):
    return Element(significand_bits=bits)


def make(vector, stationary, count):
    return DspProducts(vector_element=vector, stationary_element=stationary, count=count)


def check(dut, cases):
    """Every case: an element of the vector, and the held ones; (sign, sig, d) each."""
    vector, kind = dut.vector_element, dut.stationary_element
    members = {"vector": In(vector.bits), "stationary": In(kind.bits).array(len(dut.stationary))}

    def build(m, unit):
        m.submodules.dut = dut
        m.d.comb += [dut.vector.eq(unit.vector), unit.products.eq(dut.products)]
        for packed, element in zip(dut.stationary, unit.stationary, strict=True):
            m.d.comb += packed.eq(pack(kind, element))

    pipelined = (
        (
            {"vector": encoded(vector, v), "stationary": [encoded(kind, h) for h in stationary]},
            {"products": [v[1] * h[1] for h in stationary]},
        )
        for v, stationary in cases
    )
    members["products"] = Out(dut.products.shape())
    check_pipeline(Built(members, build), pipelined, 0)


def elements(kind):
    """Of every significand, with a sign; d is anything."""
    top = 1 << kind.significand_bits
    if not kind.derived:
        return [(sig & 1, sig, 0) for sig in range(top)]
    low = [(1, sig, kind.depth) for sig in range(1, top // 2)]
    return [(0, 0, 0), *low, *((sig & 1, sig, sig % kind.depth) for sig in range(top // 2, top))]


@pytest.mark.parametrize(
    "vector, stationary, count",
    [
        (bfp(1), bfp(1), 1),
        (bfp(2), bfp(2), 4),
        (bfp(3), bfp(3), 3),
        (bfp(4), bfp(4), 2),
        (bfp(1), bfp(4), 2),
        (bfp(4), bfp(2), 3),
        (E2M1, E2M1, 4),
        (bfp(3), E4M3, 2),
    ],
    ids=lambda each: f"{each.significand_bits}" if isinstance(each, Element) else f"x{each}",
)
@pytest.mark.sampled(3)
def test_every_product(vector, stationary, count):
    cases = product(elements(vector), product(elements(stationary), repeat=count))
    check(make(vector, stationary, count), cases)


@pytest.mark.parametrize("count", [2, 3, 32])
def test_the_widest(count, rng):
    """All ones beside all ones, and beside nothing."""
    kind, full, none = bfp(8), (0, 255, 0), (1, 0, 0)
    cases = [(full, [full] * count), (full, [none] * (count - 1) + [full]), (none, [full] * count)]
    for _ in range(200):
        sigs = [(0, rng.choice((0, 1, 128, 255, rng.randrange(256))), 0) for _ in range(count + 1)]
        cases.append((sigs[0], sigs[1:]))
    check(make(kind, kind, count), cases)


def text_of(dut):
    """Verilog, without the names of parts of ports, which no flow needs."""
    lines = verilog.convert(dut, name="unit", emit_src=False).split("\n")
    return "\n".join(line for line in lines if "\\" not in line)


@pytest.mark.parametrize(
    "target, device",
    [(ECP5, "85k"), sweep(XILINX, "7z020")],  # whose flow takes minutes
    ids=["ecp5", "xc7"],
)
def test_one_dsp_block_and_nothing_else(target, device):
    count = {ECP5.name: 2, XILINX.name: 3}[target.name]
    machine = text_of(make(bfp(4), bfp(4), count))
    design = Design(top="unit", machine=machine)
    with working_folder() as folder:
        mapped = map_design(YOSYS.find(), design, MapRequest(target, device=device), folder)
    assert mapped.tree.total == {"dsps": 1}


def test_flows_find_a_multiplication_only_where_it_is_meant():
    options = {"vector_element": bfp(3), "stationary_element": bfp(8)}
    multiplier = Multiplier(**options, window=None, exact=True)
    found = [
        re.search(r"\w \* \w|\} \* |\] \* ", text_of(dut))
        for dut in (multiplier, DspProducts(**options, count=1), DspProducts(**options, count=2))
    ]
    assert [each is not None for each in found] == [False, True, True]
