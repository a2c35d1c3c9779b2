"""Elements decoded, every code of every format, against the numbers that their bits stand for."""

import pytest
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import Element
from diastole_hw.stream.elements import decoded, extent
from diastole_sim.spec.formats import parse_format
from support.elements import INTEGERS, MINIFLOATS, array_element, stored_value, widest
from support.pipelines import Built, check_pipeline
from support.plans import make_numerics, make_plan


def decoder(names, special="flag"):
    """One element of ``names[0]``, in a machine of these formats."""
    stored = parse_format(names[0])
    numerics = make_numerics(formats=names, special=special, fraction=2, headroom=2)
    shape = make_plan(numerics).shape
    sig_bits, _ = widest(names)
    depth = max(parse_format(name).depth for name in names)
    target = Element(significand_bits=sig_bits, depth=depth)
    members = {"code": In(stored.magnitude_bits), "sign": In(1)}

    def build(m, unit):
        found = decoded(stored, unit.code, unit.sign, shape, target)
        m.d.comb += [unit.element.eq(found[0]), unit.special.eq(found[1])]

    return Built(members | {"element": Out(target.bits), "special": Out(1)}, build)


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
    codes = range(2 ** parse_format(names[0]).magnitude_bits)
    if len(codes) > 256:  # of bfloat16 some, both ends among them
        codes = sorted({*rng.sample(codes, 300), *range(300), *range(0x7E00, 0x8000)})
    cases = []
    for code in codes:
        sign = rng.randrange(2)
        want = array_element(names[0], names, code, sign, special == "poison")
        number = not isinstance(stored_value(names[0], code), str)
        cases.append(({"code": code, "sign": sign}, {"element": want, "special": not number}))
    check_pipeline(decoder(names, special), cases, 0)


def test_integers_are_as_they_are_stored():
    """In machines of block floating point alone."""
    for name, bits in INTEGERS.items():
        assert array_element(name, ("bfp8", name), 2**bits - 1, 1) == 2**8 | 2**bits - 1


def extent_of(count):
    """Of ``count`` elements with four bits of significand and four of d, p being 3."""
    layout = Element(significand_bits=4, depth=14)

    def build(m, unit):
        m.d.comb += unit.extent.eq(extent([*unit.elements], layout, 3))

    return Built({"elements": In(9).array(count), "extent": Out(5)}, build)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_extent_is_of_elements_that_are_not_zero(count, rng):
    cases = []
    for case in range(200):
        zeros = 1 if case % 3 == 0 else rng.random()
        elements = [
            (0, 0) if rng.random() < zeros else (rng.randrange(1, 16), rng.randrange(15))
            for _ in range(count)
        ]
        want = max((3 + fall for sig, fall in elements if sig), default=0)
        bits = [sig | fall << 4 | rng.randrange(2) << 8 for sig, fall in elements]
        cases.append(({"elements": bits}, {"extent": want}))
    check_pipeline(extent_of(count), cases, 0)
