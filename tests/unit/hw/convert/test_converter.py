# amaranth: UnusedElaboratable=no
"""The converter against the golden model: whole images in memory, bit for bit."""

import numpy as np
import pytest

from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit
from diastole_sim.spec.rounding import RULES
from support.converter_bench import (
    convert,
    golden_conversion,
    make,
    run_all,
    some_jobs,
    specials,
)
from support.sweep import sweep


@pytest.mark.parametrize(
    "block, data_width, mantissa_bits, shapes",
    [
        sweep(8, 64, (4, 7, 2), [(1, 1), (3, 5), (31, 33)]),
        sweep(8, 64, (2, 4, 7), [(9, 70)]),
        sweep(4, 32, (4, 3, 8), [(1, 1), (3, 5), (9, 34)]),
        sweep(1, 64, (4, 5, 2), [(1, 1), (3, 5), (9, 17)]),
        sweep(8, 512, (8, 4, 3), [(1, 1), (9, 70), (17, 129)]),
        (2, 128, (3, 6, 4), [(1, 1), (3, 5), (7, 33)]),
        sweep(4, 128, (4, 4, 2), [(40, 17), (9, 34)]),
        sweep(1, 512, (2, 4, 8), [(1, 1), (3, 40), (2, 75)]),
        sweep(2, 512, (2, 4, 8), [(1, 1), (5, 40)]),
        sweep(4, 512, (2, 4, 8), [(3, 5), (9, 70)]),
        sweep(1, 32, (4, 4, 2), [(3, 5), (6, 17)]),
        sweep(16, 256, (5, 4, 1), [(3, 130)]),
        sweep(1, 256, (3, 4, 2), [(3, 11)]),
        sweep(8, 32, (3, 4, 2), [(7, 5)]),
    ],
)
def test_squares(block, data_width, mantissa_bits, shapes, rng):
    """Block floating point in blocks of their own; the memory is slow for some."""
    dut = make(block, data_width, [f"bfp{bits}" for bits in mantissa_bits])
    convert(dut, some_jobs(shapes, rng), rng, rng.choice([1.0, 0.4]))


ALL = [(1, 1), (3, 5), (9, 34)]
WIDE_SQUARES = {"grouping": ("64x64",) * 3, "rounding": ("stochastic-a",) * 3}
"""Several groups wide, with draws."""


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(4, 64, ("bfp4",) * 3, {"grouping": ("16x16", "4x4", "8x8")}, ALL),
        sweep(4, 64, ("bfp4",) * 3, WIDE_SQUARES, [(66, 70)]),
        (2, 256, ("bfp4", "mxint8", "bfp2"), {"grouping": ("8x8", "4x4", "16x16")}, ALL),
        sweep(8, 128, ("bfp4",) * 3, {"grouping": ("16x16",) * 3}, [(1, 1), (33, 130)]),
        sweep(4, 32, ("bfp4",) * 3, {"scale": ("even", "ceil", "rceil")}, ALL),
        sweep(
            4,
            64,
            ("mxfp4_e2m1",) * 3,
            {"grouping": ("32x32", "4x4", "16x16")},
            [*ALL, (40, 33)],
        ),
    ],
)
def test_larger_squares(block, data_width, formats, keys, shapes, rng):
    dut = make(block, data_width, formats, **keys)
    convert(dut, some_jobs(shapes, rng), rng, rng.choice([1.0, 0.5]))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(8, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "8x8")}, [*ALL, (20, 3)]),
        sweep(4, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x4", "16x16")}, [*ALL, (37, 18)]),
        sweep(4, 128, ("mxfp4_e2m1",) * 3, {}, [(3, 5), (37, 35)]),
        sweep(1, 64, ("mxfp4_e2m1",) * 3, {}, [(3, 5), (34, 33)]),
        sweep(1, 512, ("bfp3", "bfp4", "bfp5"), {"grouping": ("1x2", "1x4", "1x1")}, ALL),
        sweep(
            2,
            32,
            ("bfp3", "mxint8", "bfp5"),
            {"grouping": ("1x64", "1x32", "2x2")},
            [*ALL, (9, 70)],
        ),
        sweep(
            8,
            512,
            ("bfp4", "bfp8", "bfp2"),
            {"grouping": ("1x16", "1x64", "1x8")},
            [*ALL, (66, 9)],
        ),
        sweep(
            2,
            64,
            ("bfp4",) * 3,
            {"grouping": ("1x8", "1x128", "128x128")},
            [(1, 1), (130, 5), (5, 40)],
        ),
        (4, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x4", "16x16")}, [(1, 1), (3, 5), (9, 18)]),
    ],
)
def test_two_copies(block, data_width, formats, keys, shapes, rng):
    dut = make(block, data_width, formats, **keys)
    convert(dut, some_jobs(shapes, rng), rng, rng.choice([1.0, 0.5]))


def given(jobs, scale):
    """The same jobs with a scale of the host's."""
    return [(*job[:4], scale) for job in jobs]


WINDOWED, EXACT = (("fp8_e4m3", "fp8_e5m2", "e3m4"), 16), (("e2m5", "fp8_e4m3", "e3m4"), 0)


@pytest.mark.parametrize(
    "formats, window, special, overflow",
    [
        sweep(*WINDOWED, "flag", "specification"),
        (*EXACT, "poison", "saturate"),
        sweep(*WINDOWED, "poison", "saturate"),
        sweep(*EXACT, "flag", "specification"),
    ],
)
def test_tensor_scales(formats, window, overflow, special, rng):
    """Measured and given; with a window the blocks' exponents are folded."""
    dut = make(4, 64, formats, window=window, overflow=(overflow,) * 3, special=special, headroom=1)
    assert any(dut.sizes.folds) == bool(window)
    jobs = some_jobs([(3, 5), (9, 34), (5, 33)], rng)
    jobs += given(some_jobs([(3, 5), (5, 33), (1, 1)], rng), rng.randrange(-3, 9))
    convert(dut, jobs, rng, 0.8)


@pytest.mark.parametrize(
    "formats, window, special",
    [
        (("nvfp4",) * 3, None, "flag"),
        (("nvfp4",) * 3, None, "poison"),
        (("fp8_e4m3", "e3m4", "fp8_e5m2"), None, "poison"),
        (("fp8_e4m3", "e3m4", "fp8_e5m2"), 0, "flag"),
        (("e5m2", "bf16", "e4m3"), 16, "poison"),
    ],
)
@pytest.mark.sampled(5)
def test_tensor_without_numbers(formats, window, special, rng):
    """Its scale is 1, which an Inf shows where it is the tensor's own."""
    dut = make(2, 64, formats, window=window, special=special, headroom=1)
    hollow = np.full((7, 5), 1e-40, dtype=np.float32)
    hollow[0, 0], hollow[6, 4], hollow[2, 1], hollow[3, 4] = np.inf, -np.inf, np.nan, -np.inf
    convert(dut, [(hollow, cls, 0, 0, None) for cls in range(3)], rng)


@pytest.mark.parametrize(
    "formats", [sweep(("fp8_e4m3", "e3m4", "fp8_e5m2")), ("e5m2", "bf16", "e4m3")]
)
def test_inf_in_blocks_of_zeros(formats, rng):
    """Under the scale of the data, and under the host's."""
    dut = make(2, 64, formats, window=16, headroom=1)
    values = specials(9, 11, rng, 0.1)
    values[2:6] = 0
    values[3, 4], values[4, 9] = -np.inf, np.inf
    convert(dut, [(values, cls, 0, 0, None) for cls in range(3)], rng)
    convert(dut, [(values, cls, 0, 0, 5) for cls in range(3) if formats[cls] != "bf16"], rng)


@pytest.mark.parametrize("special", ["flag", sweep("poison")])
def test_blocks_of_what_is_too_large(special, rng):
    """Beside zeros: what becomes Inf or NaN there is stored, in a block that has no exponent."""
    formats, rounding = ("fp8_e4m3", "fp8_e5m2", "e4m3"), ("nearest",) * 3
    overflow = ("specification",) * 3
    dut = make(2, 64, formats, rounding, window=16, overflow=overflow, special=special, headroom=1)
    values = np.zeros((7, 9), dtype=np.float32)
    values[0, 0], values[5, 8], values[3, 4], values[6, 1] = 63.0, -63.0, -62.9, 1.5
    jobs = [(values, cls, 0, 0, scale) for cls in range(3) for scale in (5, None)]
    convert(dut, jobs, rng, 0.8)


MIXED = ("1x32", "1x32", "32x32")
LEVELS = ("fp8_e5m2", "mxfp8_e5m2", "bf16"), {"grouping": ("16x16", "1x64", "tensor")}
FOLDED = [(3, 5), (9, 34), (18, 7)]


@pytest.mark.parametrize(
    "block, data_width, formats, keys, special, shapes",
    [
        (4, 32, *LEVELS, "flag", [(3, 5), (5, 18)]),
        sweep(4, 32, *LEVELS, "flag", FOLDED),
        sweep(4, 64, ("mxfp8_e4m3",) * 3, {"scale": ("rceil", "floor", "even")}, "flag", FOLDED),
        sweep(4, 64, ("mxfp8_e4m3",) * 3, {"overflow": ("specification",) * 3}, "poison", FOLDED),
        sweep(
            8,
            128,
            (*("mxfp8_e4m3",) * 2, "mxfp8_e5m2"),
            {"grouping": MIXED, "scale": ("floor", "ceil", "even")},
            "poison",
            FOLDED,
        ),
        sweep(
            2,
            512,
            ("fp8_e5m2", "e5m1", "fp8_e4m3"),
            {"grouping": ("16x16", "2x2", "4x4")},
            "poison",
            FOLDED,
        ),
    ],
)
def test_folding(block, data_width, formats, keys, special, shapes, rng):
    """The exponents of blocks are lowered to what is in them; of squares and vectors they stay."""
    dut = make(block, data_width, formats, special=special, headroom=1, **keys)
    assert dut.sizes.folds == tuple(
        chosen.grouping.kind == "tensor" for chosen in dut.sizes.classes
    )
    jobs = some_jobs(shapes, rng)
    jobs += [(specials(5, 9, rng), cls, 1, 2, None) for cls in range(3)]
    convert(dut, jobs, rng, 0.8)


@pytest.mark.parametrize(
    "block, data_width, rule, special, shapes",
    [
        (4, 128, "up", "poison", [(3, 5), (5, 18)]),
        *(
            sweep(*case, [(3, 5), (18, 20), (17, 5)])
            for case in (
                (8, 64, "nearest", "flag"),
                (4, 128, "up", "poison"),
                (4, 64, "nearest", "poison"),
                (1, 32, "nearest", "flag"),
            )
        ),
    ],
)
def test_nvfp4(rule, block, data_width, special, shapes, rng):
    """W in squares of 16, the others in vectors; a scale per tensor, measured and given."""
    dut = make(block, data_width, ("nvfp4",) * 3, scale=(rule,) * 3, special=special)
    jobs = some_jobs(shapes, rng)
    jobs += given(some_jobs([(3, 5), (1, 18)], rng), rng.randrange(-12, 2))
    convert(dut, jobs, rng, 0.8)


@pytest.mark.parametrize("special", ["flag", sweep("poison")])
def test_underflow_of_mx(special, rng):
    """Groups whose scale would be below 2^-126 are zeros, and counted."""
    dut = make(2, 64, ("mxfp6_e3m2", "mxfp4_e2m1", "mxint8"), special=special)
    values = np.ldexp(specials(5, 35, rng, 0.02), -122).astype(np.float32)
    convert(dut, [(values, cls, 0, 0, None) for cls in range(3)], rng)


def test_largest_numbers(rng):
    """Exponents above 127 do not exist: what would need one saturates."""
    dut = make(2, 64, ("bfp4", "mxfp8_e4m3", "fp8_e4m3"), scale=("ceil", "rceil", "rceil"))
    values = np.ldexp(1 + np.random.default_rng(1).random((4, 9)), 127).astype(np.float32)
    convert(dut, [(values, cls, 0, 0, None) for cls in range(3)], rng)


@pytest.mark.parametrize("p_ready, p_write", [(1.0, 0.05), (0.05, 1.0)], ids=["write", "read"])
@pytest.mark.parametrize(
    "formats, cols", [(("bfp4",) * 3, 30), sweep(("bfp4",) * 3, 60), sweep(("nvfp4",) * 3, 60)]
)
@pytest.mark.sampled(2)
def test_one_slow_side(formats, cols, p_ready, p_write, rng):
    """Every buffer inside fills up, or runs empty."""
    jobs = [(specials(3, cols, rng), cls, 1, 2, None) for cls in (0, 1)]
    convert(make(2, 64, formats), jobs, rng, p_ready, p_write)


def test_largest_block(rng):
    convert(make(32, 64), [(specials(5, 40, rng), 2, 1, 2, None)], rng, 0.8)


@pytest.mark.parametrize(
    "first, random_bits",
    [(0, 1), (1, 16), (2, 1), (3, 16), sweep(0, 16), sweep(1, 1), sweep(2, 16), sweep(3, 1)],
)
@pytest.mark.sampled(4)
def test_every_rule(first, random_bits, rng):
    """Each class has each of them once."""
    rules = [(*RULES, *RULES)[first + cls] for cls in range(3)]
    dut = make(4, 64, ("bfp2", "bfp4", "bfp8"), rules, random_bits=random_bits)
    values = specials(3, 37, rng)
    convert(dut, [(values, cls, 9, 5, None) for cls in range(3)], rng)


DRAWN = {
    "lfsr3": {"rounding_kind": "lfsr3", "random_bits": 3},
    "lfsr": {"rounding_kind": "lfsr", "random_bits": 5, "lfsr_bits": 9},
    "lfsr-24": {"rounding_kind": "lfsr", "random_bits": 24, "lfsr_bits": 24},
    "data": {"rounding_kind": "data", "random_bits": 12},
}
SQUARES, VECTORS = ("bfp4", "bfp3", "bfp8"), {"grouping": ("1x16", "1x8", "8x8")}
RAISED = {"scale": ("rceil", "even", "floor")}
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")


@pytest.mark.parametrize(
    "kind, block, data_width, formats, keys, shapes",
    [
        sweep("lfsr3", 8, 64, SQUARES, {}, [(9, 70)]),
        ("lfsr3", 4, 32, SQUARES, {"grouping": ("16x16", "4x4", "8x8")}, [(18, 21)]),
        sweep("lfsr3", 4, 128, SQUARES, VECTORS, [(34, 39)]),
        sweep("lfsr3", 4, 64, ("fp8_e4m3", "fp8_e5m2", "bfp4"), {}, [(3, 5), (9, 37)]),
        sweep("lfsr3", 2, 64, ("mxfp8_e4m3",) * 3, RAISED, [(33, 18)]),
        sweep("lfsr3", 1, 512, SQUARES, {}, [(5, 3), (2, 75)]),
        sweep("lfsr3", 2, 128, ("nvfp4",) * 3, {}, [(18, 20)]),
        sweep("lfsr", 2, 32, SQUARES, {"grouping": ("1x8", "1x4", "2x2")}, [(3, 5), (18, 21)]),
        sweep("lfsr", 4, 512, SQUARES, {}, [(9, 70)]),
        sweep("lfsr", 4, 128, ("fp8_e4m3", "mxfp8_e5m2", "e5m2"), RAISED, [(9, 37)]),
        sweep("lfsr-24", 1, 64, SQUARES, {"grouping": ("1x2", "1x4", "1x1")}, [(9, 17)]),
        sweep("lfsr-24", 4, 64, ("nvfp4",) * 3, {}, [(5, 18)]),
        ("data", 4, 64, SQUARES, {"grouping": ("1x16", "4x4", "16x16")}, [(3, 21)]),
        sweep("data", 4, 64, SQUARES, {"grouping": ("1x16", "4x4", "16x16")}, [(9, 37)]),
        sweep("data", 4, 64, ("fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3"), RAISED, [(5, 37)]),
        sweep("data", 2, 128, ("nvfp4",) * 3, {}, [(18, 20)]),
        sweep("lfsr3", 8, 512, SQUARES, VECTORS, [(67, 131)]),
        sweep("lfsr3", 8, 128, SQUARES, VECTORS, [(20, 3), (66, 71)]),
        sweep("lfsr3", 16, 256, SQUARES, {}, [(35, 150)]),
        sweep("lfsr3", 8, 32, SQUARES, VECTORS, [(67, 131)]),
        sweep("lfsr", 8, 64, SQUARES, {"grouping": ("128x128",) * 3}, [(130, 131)]),
        sweep("lfsr", 8, 256, ("fp8_e5m2",) * 3, {}, [(35, 131)]),
    ],
)  # fmt: skip
def test_kinds_of_draws(kind, block, data_width, formats, keys, shapes, rng):
    """Draws by rows: tiles of squares, vectors and blocks, whose rows go on in the next tile; of
    both copies; found first or known at intake; some memories are slow."""
    dut = make(block, data_width, formats, STOCHASTIC, **DRAWN[kind], **keys)
    convert(dut, some_jobs([*shapes, shapes[-1]], rng), rng, rng.choice([1.0, 0.5]))


def test_draws_of_each_command_are_its_own(rng):
    """The same few elements again, under another tag, then under another step."""
    dut = make(2, 64, rounding=("stochastic-a",) * 3)
    values = np.array([[1.17, 0.33]], dtype=np.float32)
    convert(dut, [(values, 0, tag, step, None) for tag in range(8) for step in (0, 1)], rng)


def test_copies_draw_separately(rng):
    """Again and again: neither copy's draws, nor those of the command before, stay behind."""
    dut = make(2, 64, ("mxfp4_e2m1",) * 3, rounding=("stochastic-a",) * 3)
    values = np.array([[1.17, 0.33], [0.7, 1.9]], dtype=np.float32)
    convert(dut, [(values, 0, tag, 0, None) for tag in (0, 0x80000000, 1, 0)], rng)


def test_only_zeros_and_specials(rng):
    dut = make(4, 64)
    empty = np.zeros((5, 9), dtype=np.float32)
    hollow = np.full((5, 9), 1e-40, dtype=np.float32)
    hollow[0, 0], hollow[4, 8], hollow[2, 5] = np.inf, -np.inf, np.nan
    convert(dut, [(hollow, 0, 0, 0, None), (empty, 0, 0, 0, None)], rng)


def test_which_beats_may_pause(rng):
    """Of each request the first ``slow``, here those of a group's exponents; then one follows the
    other."""
    dut, left = make(4, 32), []  # of each request beats, and how many of them may pause
    requests, beats = dut.write.requests, dut.write.beats

    def note(cycle, asks, count, slow, comes, taken):
        if left:
            assert comes or left[0][1], f"cycle {cycle}: a pause"
        if comes and taken:
            left[0] = left[0][0] - 1, max(0, left[0][1] - 1)
            if not left[0][0]:
                left.pop(0)
        if asks:
            left.append((count, min(count, slow)))

    def watch(unit):
        signals = requests.p.beats, dut.slow, beats.valid, beats.ready
        unit.each_cycle(note, requests.valid & requests.ready, *signals)

    job = golden_conversion(dut, rng, specials(3, 5, rng), 2, 1, 2, None)
    run_all(dut, [job], rng, watch=watch)


def test_timing(rng):
    """A word per cycle, with draws too; half a group is a piece, col_max comes at the end."""
    dut = make(4, 64)
    groups = 10
    values = np.random.default_rng(1).standard_normal((4, 32 * groups)).astype(np.float32)
    nearest, stochastic = convert(dut, [(values, cls, 0, 0, None) for cls in (0, 1)], rng)
    words = dut.sizes.group_words
    maxima = 8 * groups * 1.25  # a cycle per byte and two per beat
    assert nearest <= (groups + 0.5) * words + maxima + 40
    assert stochastic <= nearest + 14  # of a hash, once


@pytest.mark.parametrize(
    "formats, passes, cols",
    [
        (("mxfp4_e2m1",) * 3, (2,), 32),
        sweep(("mxfp4_e2m1",) * 3, (2,), 64),
        sweep(("mxfp4_e2m1", "mxfp8_e4m3", "fp8_e4m3"), (2, 2), 64),  # the latter is read twice
    ],
)
def test_timing_of_passes(formats, passes, cols, rng):
    """A word per cycle and pass: the tensor's scan, and one per copy."""
    values = np.random.default_rng(1).standard_normal((32, cols)).astype(np.float32)
    dut = make(4, 64, formats, rounding=("nearest",) * 3)
    classes = (1, 2)[: len(passes)]
    got = convert(dut, [(values, cls, 0, 0, None) for cls in classes], rng)
    words = values.size // dut.sizes.lanes
    tile = 32 * 32 // dut.sizes.lanes
    for cycles, count in zip(got, passes, strict=True):
        assert cycles <= count * (words + 32) + tile + 250, count


@pytest.mark.parametrize(
    "keys, asked",
    [({}, (640, 350, 110)), sweep({"grouping": ("1x16",) * 3}, (1500, 1000, 220))],
)
def test_timing_of_small_tensors(keys, asked, rng):
    """Blocks beside the tensor take no time in the lanes; one after the other, in any order."""
    dut = make(8, 64, rounding=("nearest",) * 3, **keys)
    values = [specials(*shape, rng) for shape in ((64, 10), (1, 64), (1, 1))]
    order = [0, 2, 1, 2, 0]
    got = convert(dut, [(values[n], 0, 0, 0, None) for n in order], rng)
    for cycles, number in zip(got, order, strict=True):
        assert cycles <= asked[number], values[number].shape


@pytest.mark.parametrize(
    "block, data_width, formats",
    [
        sweep(8, 64, ("bfp4",) * 3),
        sweep(1, 512, ("bfp4",) * 3),
        sweep(32, 32, ("bfp4",) * 3),
        sweep(4, 64, ("nvfp4",) * 3),
        sweep(4, 128, ("mxfp8_e4m3", "fp8_e5m2", "bfp4")),
        sweep(2, 32, ("bf16", "mxint8", "mxfp4_e2m1")),
    ],
)
def test_becomes_verilog(block, data_width, formats):
    dut = make(block, data_width, formats)
    emitted = emit(dut, name="converter", ports=convert_ports(dut))
    assert "\nmodule converter (" in "\n" + emitted.verilog
