"""Elements decoded, every code of every format, against the numbers that their bits stand for."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.shape import Element
from diastole_hw.stream.elements import decoded, extent
from diastole_sim.spec.formats import parse_format
from support.bench import design, run
from support.elements import INTEGERS, MINIFLOATS, array_element, stored_value, widest
from support.plans import make_numerics, make_plan


class Decode(wiring.Component):
    """One element of ``names[0]``, in a machine of these formats."""

    def __init__(self, names, special="flag"):
        self.stored = parse_format(names[0])
        numerics = make_numerics(formats=names, special=special, fraction=2, headroom=2)
        self.shape = make_plan(numerics).shape
        sig_bits, _ = widest(names)
        depth = max(parse_format(name).depth for name in names)
        self.target = Element(significand_bits=sig_bits, depth=depth)
        super().__init__(
            {
                "code": In(self.stored.magnitude_bits),
                "sign": In(1),
                "element": Out(self.target.bits),
                "special": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        found = decoded(self.stored, self.code, self.sign, self.shape, self.target)
        m.d.comb += [self.element.eq(found[0]), self.special.eq(found[1])]
        m.d.sync += Signal().eq(0)
        return m


MACHINES = {name: (name,) * 3 for name in (*MINIFLOATS, "bfp1", "bfp8", "mxint8")}
MACHINES |= {
    "minifloats mixed": ("fp8_e4m3", "fp8_e5m2", "bfp8"),
    "integers mixed": ("bfp3", "bfp5", "bfp2"),
    "integers among minifloats": ("bfp3", "mxfp6_e3m2", "bfp8"),
    "narrow among wide": ("mxfp4_e2m1", "bf16", "bfp8"),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.sampled(3)
def test_every_code(machine, special, rng):
    names = MACHINES[machine]
    dut = design(Decode, names, special)
    codes = range(2**dut.stored.magnitude_bits)
    if len(codes) > 256:  # of bfloat16 some, both ends among them
        codes = sorted({*rng.sample(codes, 300), *range(300), *range(0x7E00, 0x8000)})

    async def bench(ctx):
        for code in codes:
            sign = rng.randrange(2)
            ctx.set(dut.code, code)
            ctx.set(dut.sign, sign)
            number = not isinstance(stored_value(names[0], code), str)
            want = array_element(names[0], names, code, sign, special == "poison")
            got = ctx.get(dut.element)
            assert got == want, f"{code:#x}: {got:#x}, not {want:#x}"
            assert ctx.get(dut.special) == (not number), f"{code:#x}"

    run(dut, bench)


def test_integers_are_as_they_are_stored():
    """In machines of block floating point alone."""
    for name, bits in INTEGERS.items():
        assert array_element(name, ("bfp8", name), 2**bits - 1, 1) == 2**8 | 2**bits - 1


class Extent(wiring.Component):
    """Of ``count`` elements with four bits of significand and four of d, p being 3."""

    def __init__(self, count):
        self.count = count
        self.layout = Element(significand_bits=4, depth=14)
        super().__init__({f"element_{k}": In(9) for k in range(count)} | {"extent": Out(5)})

    def elaborate(self, platform):
        m = Module()
        elements = [getattr(self, f"element_{k}") for k in range(self.count)]
        m.d.comb += self.extent.eq(extent(elements, self.layout, 3))
        m.d.sync += Signal().eq(0)
        return m


@pytest.mark.parametrize("count", [1, 2, 8])
def test_extent_is_of_elements_that_are_not_zero(count, rng):
    dut = design(Extent, count)

    async def bench(ctx):
        for case in range(200):
            zeros = 1 if case % 3 == 0 else rng.random()
            elements = [
                (0, 0) if rng.random() < zeros else (rng.randrange(1, 16), rng.randrange(15))
                for _ in range(count)
            ]
            for k, (sig, fall) in enumerate(elements):
                ctx.set(getattr(dut, f"element_{k}"), sig | fall << 4 | rng.randrange(2) << 8)
            want = max((3 + fall for sig, fall in elements if sig), default=0)
            assert ctx.get(dut.extent) == want, f"{elements}"

    run(dut, bench)
