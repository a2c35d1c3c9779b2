"""The model of a conversion: bounds that it keeps, and its short cut. What it says of machines is
compared with their counters in ``tests/product/test_counters.py``."""

import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.perf import Memory
from diastole_sim.perf import conversion_estimate as unit
from diastole_sim.perf.conversion_estimate import estimate_conversion, slot_cycles
from diastole_sim.perf.image_writes import ImageWrites
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from support.numerics import make_numerics
from support.products import packed_image

NUMERICS = {
    "squares": make_numerics(block=4, formats="bfp4"),
    "small": make_numerics(block=2, formats="bfp6"),
    "fp8": make_numerics(block=8, formats="fp8_e4m3"),
    "vectors": make_numerics(block=4, groupings="1x16"),
    "nvfp4": make_numerics(block=8, formats="nvfp4"),
    "two scales": make_numerics(block=4, formats="nvfp4", scales="four-over-six"),
}
FAST = {
    "planes": make_numerics(block=8, formats="fast", widths=[2, 4, 8]),
    "planes of vectors": make_numerics(block=8, formats="fast", groupings="1x16", widths=[2, 4, 8]),
    "small planes": make_numerics(block=2, formats="fast", widths=[2, 4, 8]),
}
ONE_PLANE = {
    "planes": make_numerics(block=8, formats="bfp2"),
    "planes of vectors": make_numerics(block=8, formats="bfp2", groupings="1x16"),
    "small planes": make_numerics(block=2, formats="bfp2"),
}
SHAPES = [(1, 1), (7, 300), (300, 7), (64, 64), (130, 90)]


def estimated(name, cls, shape, latency=20, data_width=64, **options):
    memory = Memory.axi(latency)
    chosen = {"data_width": data_width, "memory": memory} | options
    return estimate_conversion((NUMERICS | FAST)[name], cls, *shape, **chosen)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NUMERICS)
@pytest.mark.sampled(3)
def test_no_quicker_than_its_beats_and_words(name, shape, np_rng):
    for cls, data_width in (("x", 64), ("dy", 256)):
        found = estimated(name, cls, shape, data_width=data_width)
        assert found.cycles > max(found.words, found.read_beats, found.write_beats)
        values = np_rng.standard_normal(shape).astype("float32")
        converted = quantise(values, Conversion(cls, tag=2, step=3), NUMERICS[name], seed=1)
        layouts = image_layouts(
            converted.storage, shape, block=NUMERICS[name].block, data_width=data_width
        )
        images = zip(layouts, converted.copies, strict=True)
        written = (packed_image(layout, copy, converted).size for layout, copy in images)
        assert found.write_bytes == sum(written)
        row = -(-shape[1] * 32 // data_width)
        times = 1 + NUMERICS[name].tensor_class(cls).has_tensor_scale
        assert found.read_beats == times * shape[0] * row


@pytest.mark.parametrize("name", NUMERICS | FAST)
def test_rows_of_tiles_that_repeat_are_passed_over_exactly(name, rng, monkeypatch):
    cases = [
        (rng.choice(["x", "dy"]), (rng.randrange(1, 900), rng.randrange(1, 80)), latency)
        for latency in (1, 20, 100, 20, 100)
    ]
    quick = [estimated(name, *case) for case in cases]
    monkeypatch.setattr(unit.ConversionRun, "_repeat", lambda self, row, seen: row)
    assert [estimated(name, *case) for case in cases] == quick


@pytest.mark.parametrize("name", FAST)
def test_rows_repeat_with_the_bursts_that_they_end_in(name, rng, monkeypatch):
    """Of a memory so far that writes wait for responses."""
    cases = [("x", (rng.randrange(1500, 2500), rng.randrange(1, 64)), 400) for _ in range(3)]
    quick = [estimated(name, *case) for case in cases]
    monkeypatch.setattr(unit.ConversionRun, "_repeat", lambda self, row, seen: row)
    assert [estimated(name, *case) for case in cases] == quick


@pytest.mark.parametrize("name", ["planes", "planes of vectors"])
def test_every_group_has_its_place(name, monkeypatch):
    """100 x 150 elements: 13 rows of 3 groups; of the second copy 19 rows of 2."""
    seen = []
    group = ImageWrites.group
    monkeypatch.setattr(
        ImageWrites, "group",
        lambda self, at, copy, number: seen.append((copy, number)) or group(self, at, copy, number),
    )  # fmt: skip
    monkeypatch.setattr(unit.ConversionRun, "_repeat", lambda self, row, seen: row)
    estimated(name, "x", (100, 150))
    first, second = ([number for of, number in seen if of == copy] for copy in range(2))
    assert sorted(first) == list(range(13 * 3))
    assert sorted(second) == (list(range(19 * 2)) if "vectors" in name else [])
    if second:  # strip by strip, from left to right, a row of the transpose's blocks each
        assert second == [2 * col + strip for strip in range(2) for col in range(19)]
    else:
        assert first == list(range(13 * 3))


def test_a_large_tensor_takes_no_longer_to_estimate(monkeypatch):
    asked = []
    tiles = unit.ConversionRun.tiles
    monkeypatch.setattr(
        unit.ConversionRun, "tiles", lambda self, row: asked.append(row) or tiles(self, row)
    )
    estimated("squares", "x", (65536, 64))
    assert len(asked) < 200


@pytest.mark.parametrize("shape", [(1, 1), (9, 70), (130, 90)])
@pytest.mark.parametrize("name", FAST)
def test_planes_are_written_one_after_the_other(name, shape):
    """Nothing else changes: words, what is read; of one plane all is as bfp2 has it."""
    for cls, data_width in (("x", 32), ("dy", 128)):
        bus = {"data_width": data_width, "memory": Memory.axi(20)}
        one = estimate_conversion(ONE_PLANE[name], cls, *shape, **bus)
        assert estimate_conversion(FAST[name], cls, *shape, **bus, width=2) == one
        for width in (4, 8):
            found = estimate_conversion(FAST[name], cls, *shape, **bus, width=width)
            assert found.write_beats == width // 2 * one.write_beats
            assert (found.read_beats, found.words) == (one.read_beats, one.words)
            assert one.cycles < found.cycles <= one.cycles + 2 * found.write_beats
        assert estimate_conversion(FAST[name], cls, *shape, **bus) == found, "the widest"


def test_a_group_of_planes_by_hand():
    """8 x 8 elements at 64 bits: of a further plane a request, a beat of exponents, 8 blocks of
    192 bits in 24 beats, and two cycles for each of two beats of maxima."""
    bus = {"data_width": 64, "memory": Memory.axi(20)}
    cycles = [
        estimate_conversion(FAST["planes"], "x", 8, 8, **bus, width=width).cycles
        for width in (2, 4, 8)
    ]
    further = 1 + 1 + 24 + 2 * 2
    assert [each - cycles[0] for each in cycles] == [0, further, 3 * further]


@pytest.mark.parametrize("data_width, cycles", [(64, 2236), (128, 1160)])
def test_of_the_documents(data_width, cycles):
    """64 x 64 elements of bfp4, as `docs/how/converter.md` has what the Verilog takes."""
    numerics = make_numerics(block=8, formats="bfp4")
    found = estimate_conversion(
        numerics, "x", 64, 64, data_width=data_width, memory=Memory.axi(20)
    ).cycles
    assert found == pytest.approx(cycles, rel=0.005)


def test_a_known_scale_saves_a_reading():
    shape = (64, 64)
    known, found = (estimated("fp8", "x", shape, has_scale=known) for known in (True, False))
    assert found.read_beats == 2 * known.read_beats
    assert found.cycles - known.cycles >= known.read_beats
    assert estimated("squares", "x", shape, has_scale=True) == estimated("squares", "x", shape)
    delayed = make_numerics(block=8, formats="fp8_e4m3", source="delayed")
    bus = {"data_width": 64, "memory": Memory.axi(20)}
    assert estimate_conversion(delayed, "x", *shape, **bus) == known
    assert estimate_conversion(delayed, "x", *shape, **bus, has_scale=False) == found


@pytest.mark.parametrize("history", [1, 9])
def test_the_words_of_a_slot_are_read_first(history):
    others = {"source": "delayed", "history": history}
    delayed = make_numerics(block=8, formats="fp8_e4m3", **others)
    assert slot_cycles(delayed, 5) == 3 + history
    assert slot_cycles(delayed, 0) == 0
    assert slot_cycles(make_numerics(block=8), 5) == 0


KINDS = {"lfsr3": {"rounding_kind": "lfsr3", "random_bits": 3}, "data": {"rounding_kind": "data"}}


@pytest.mark.parametrize(
    "kind, shape, more",
    [("lfsr3", (64, 64), 0), ("data", (64, 64), 0), ("data", (40, 3), 0), ("lfsr3", (40, 3), 94)],
)
def test_draws_by_rows_cost_time_only_where_rows_are_short(kind, shape, more):
    """Cycles over rounding to nearest: of the Verilog, with a memory that answers at once."""
    bus = {"data_width": 128, "memory": Memory.axi(1)}
    rules = ("nearest", "stochastic-a", "stochastic-b")
    numerics = make_numerics(block=8, roundings=rules, **KINDS[kind])
    x, w, dy = (estimate_conversion(numerics, name, *shape, **bus).cycles for name in CLASS_NAMES)
    assert w == dy
    assert abs(dy - x - more) <= 3


def test_a_far_memory_takes_longer():
    near, far = (estimated("squares", "x", (8, 8), latency).cycles for latency in (20, 120))
    assert far - near == 200  # the way there, and the last answer
