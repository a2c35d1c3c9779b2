# amaranth: UnusedElaboratable=no
"""The converter against the golden model: whole images in memory, bit for bit."""

import numpy as np
import pytest

from diastole_hw.convert.converter import Converter
from diastole_hw.emit.verilog import emit
from diastole_hw.place import convert_ports
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.rounding import RULES
from support.bench import design, put, run
from support.bus import ServiceMemory
from support.classes import make_numerics
from support.sweep import sweep
from support.texts import exactly

SEED = 0xC0FFEE11
MIXED = ("nearest", "stochastic-b", "stochastic-c")


def make(block, data_width, formats=("bfp4",) * 3, rounding=MIXED, max_col_blocks=80, **keys):
    numerics = make_numerics(*formats, block=block, rounding=rounding, **{"random_bits": 8} | keys)
    sizes = {"data_width": data_width, "max_col_blocks": max_col_blocks}
    return design(Converter, numerics=numerics, **sizes)


def specials(rows, cols, rng, rate=0.15):
    """A float32 tensor of mixed sizes and signs, with NaN, Inf, zeros, subnormals and ties."""
    rng = np.random.default_rng(rng.getrandbits(32))
    exponents = rng.integers(-6, 4, size=(rows, cols)) - 9 * (rng.random((rows, cols)) < 0.2)
    values = np.ldexp(rng.standard_normal((rows, cols)), exponents).astype(np.float32)
    ties = np.ldexp(rng.integers(-63, 64, size=(rows, cols)), -4).astype(np.float32)
    values = np.where(rng.random((rows, cols)) < 0.3, ties, values)
    odd = np.array(
        [
            0,
            2147483648,
            1,
            2155872255,
            2139095040,
            4286578688,
            2143289344,
            4286578689,
            2139095039,
            8388608,
            2155872256,
            1073741823,
            3221225471,
        ],
        dtype=np.uint32,
    ).view(np.float32)
    return np.where(rng.random((rows, cols)) < rate, rng.choice(odd, (rows, cols)), values)


def command_scale(golden, scale):
    """The field of the command."""
    if scale is None:
        return 0
    return scale + (138 if golden.chosen.format.scale == "e4m3" else 127)


def convert(dut, jobs, rng, p_ready=1.0, p_write=None):
    """Run jobs (values, cls, tag, step, scale) one after the other, check all that they leave.

    ``scale``: None, or e or T. ``p_ready``: how often the memory is willing, and ``p_write``, if it
    differs, to take writes. Returns the cycles of each.
    """
    beat = dut.data_width // 8
    p_write = p_ready if p_write is None else p_write
    memory = ServiceMemory(1 << 17, beat, stall=lambda: rng.random() >= p_ready)
    sink = ServiceMemory(0, beat, stall=lambda: rng.random() >= p_write)
    sink.bytes = memory.bytes
    cycles = []

    async def main(ctx):
        ctx.set(dut.seed, SEED)
        for values, cls, tag, step, scale in jobs:
            rows, cols = values.shape
            what = f"{rows}x{cols} class {cls} {scale=}"
            floats = FloatLayout(rows=rows, cols=cols, data_width=dut.data_width).pack(values)
            floats.reshape(rows, -1)[:, 4 * cols :] = 0x7F  # what lies beside a row is ignored
            golden = quantise(
                values, CLASS_NAMES[cls], dut.numerics, seed=SEED, tag=tag, step=step, scale=scale
            )
            layouts = image_layouts(
                golden.chosen, values.shape, block=dut.numerics.block, data_width=dut.data_width
            )
            header = golden.tensor_exponent if layouts[0].header else None
            images = [
                layout.pack(copy, header)
                for layout, copy in zip(layouts, golden.copies, strict=True)
            ]
            source = beat * rng.randrange(1, 8)
            memory.bytes[:] = rng.randbytes(len(memory.bytes))
            memory.bytes[source : source + len(floats)] = floats.tobytes()
            want = bytearray(memory.bytes)
            at, places = source + len(floats), []
            for image in images[:: rng.choice([1, -1])]:
                at += beat * rng.randrange(8)
                places.append((at, image))
                want[at : at + len(image)] = image.tobytes()
                at += len(image)
            assert at <= len(want)
            addresses = [next(at for at, other in places if other is image) for image in images]
            memory.reads, sink.writes = [], []
            command = {"cls": cls, "rows": rows, "cols": cols, "source": source}
            command |= {"destination": addresses[0], "destination_t": addresses[-1]}
            command |= {"tag": tag, "step": step, "scale": command_scale(golden, scale)}
            await put(ctx, dut.control.command, [command])
            cycles.append(1)
            while not (await ctx.tick().sample(dut.control.done))[-1]:
                cycles[-1] += 1
            await ctx.tick()
            for number, (address, image) in enumerate(zip(addresses, images, strict=True)):
                wrong = [n for n in range(len(image)) if memory.bytes[address + n] != image[n]]
                where = f"copy {number}, group bytes {layouts[number].group_bytes}"
                assert not wrong, f"{what}: {where}: bytes {wrong[:8]} of {len(image)}"
            assert memory.bytes == want, what
            written = sum(beats for _, beats in sink.writes) * beat
            assert written == sum(len(image) for image in images), what
            again = max(1, dut.geometry.floats // dut.geometry.max_tile_cols)
            again *= 2 if dut.geometry.scanned[cls] and scale is None else 1
            assert sum(beats for _, beats in memory.reads) * beat <= again * len(floats), what
            report = dut.control
            flags = (report.nan, report.inf, report.saturated, report.underflowed)
            got = [ctx.get(flag) for flag in flags]
            assert got == [golden.nan, golden.inf, golden.saturated, golden.underflowed], what
            assert ctx.get(report.amax) == golden.amax, what
            assert not ctx.get(dut.busy), what

    async def read(ctx):
        await memory.read(ctx, dut.read.requests, dut.read.beats)

    async def write(ctx):
        await sink.write(ctx, dut.write.requests, dut.write.beats)

    run(dut, main, background=[read, write], limit=200_000)
    return cycles


def some_jobs(shapes, rng, classes=(0, 1, 2)):
    """Tensors of these shapes, of the classes in turn; with many specials, with few, with none."""
    start = rng.randrange(len(classes))
    return [
        (
            specials(*shape, rng, (0.15, 0.01, 0)[number % 3]),
            classes[(start + number) % len(classes)],
            rng.getrandbits(32),
            rng.getrandbits(32),
            None,
        )
        for number, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize(
    "block, data_width, mantissa_bits, shapes",
    [
        (8, 64, (4, 7, 2), [(1, 1), (3, 5), (31, 33)]),
        sweep(8, 64, (2, 4, 7), [(9, 70)]),
        (4, 32, (4, 3, 8), [(1, 1), (3, 5), (9, 34)]),
        (1, 64, (4, 5, 2), [(1, 1), (3, 5), (9, 17)]),
        sweep(8, 512, (8, 4, 3), [(1, 1), (9, 70), (17, 129)]),
        (2, 128, (3, 6, 4), [(1, 1), (3, 5), (7, 33)]),
        (4, 128, (4, 4, 2), [(40, 17), (9, 34)]),
        sweep(1, 512, (2, 4, 8), [(1, 1), (3, 40), (2, 75)]),
        sweep(2, 512, (2, 4, 8), [(1, 1), (5, 40)]),
        (4, 512, (2, 4, 8), [(3, 5), (9, 70)]),
        sweep(1, 32, (4, 4, 2), [(3, 5), (6, 17)]),
        (16, 256, (5, 4, 1), [(3, 130)]),
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
        (4, 64, ("bfp4",) * 3, {"grouping": ("16x16", "4x4", "8x8")}, ALL),
        sweep(4, 64, ("bfp4",) * 3, WIDE_SQUARES, [(66, 70)]),
        (2, 256, ("bfp4", "mxint8", "bfp2"), {"grouping": ("8x8", "4x4", "16x16")}, ALL),
        sweep(8, 128, ("bfp4",) * 3, {"grouping": ("16x16",) * 3}, [(1, 1), (33, 130)]),
        sweep(4, 32, ("bfp4",) * 3, {"scale": ("even", "ceil", "rceil")}, ALL),
        (4, 64, ("mxfp4_e2m1",) * 3, {"grouping": ("32x32", "4x4", "16x16")}, [*ALL, (40, 33)]),
    ],
)
def test_larger_squares(block, data_width, formats, keys, shapes, rng):
    dut = make(block, data_width, formats, **keys)
    convert(dut, some_jobs(shapes, rng), rng, rng.choice([1.0, 0.5]))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (8, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "8x8")}, [*ALL, (20, 3)]),
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
        (
            2,
            64,
            ("bfp4",) * 3,
            {"grouping": ("1x8", "1x128", "128x128")},
            [(1, 1), (130, 5), (5, 40)],
        ),
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
        (*WINDOWED, "flag", "specification"),
        (*EXACT, "poison", "saturate"),
        sweep(*WINDOWED, "poison", "saturate"),
        sweep(*EXACT, "flag", "specification"),
    ],
)
def test_tensor_scales(formats, window, overflow, special, rng):
    """Measured and given; with a window the blocks' exponents are folded."""
    dut = make(4, 64, formats, window=window, overflow=(overflow,) * 3, special=special, headroom=1)
    assert any(dut.geometry.folds) == bool(window)
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
def test_tensor_without_numbers(formats, window, special, rng):
    """Its scale is 1, which an Inf shows where it is the tensor's own."""
    dut = make(2, 64, formats, window=window, special=special, headroom=1)
    hollow = np.full((7, 5), 1e-40, dtype=np.float32)
    hollow[0, 0], hollow[6, 4], hollow[2, 1], hollow[3, 4] = np.inf, -np.inf, np.nan, -np.inf
    convert(dut, [(hollow, cls, 0, 0, None) for cls in range(3)], rng)


@pytest.mark.parametrize("formats", [("fp8_e4m3", "e3m4", "fp8_e5m2"), ("e5m2", "bf16", "e4m3")])
def test_inf_in_blocks_of_zeros(formats, rng):
    """Under the scale of the data, and under the host's."""
    dut = make(2, 64, formats, window=16, headroom=1)
    values = specials(9, 11, rng, 0.1)
    values[2:6] = 0
    values[3, 4], values[4, 9] = -np.inf, np.inf
    convert(dut, [(values, cls, 0, 0, None) for cls in range(3)], rng)
    convert(dut, [(values, cls, 0, 0, 5) for cls in range(3) if formats[cls] != "bf16"], rng)


@pytest.mark.parametrize("special", ["flag", "poison"])
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


@pytest.mark.parametrize(
    "block, data_width, formats, keys, special",
    [
        (4, 64, ("mxfp8_e4m3",) * 3, {"scale": ("rceil", "floor", "even")}, "flag"),
        sweep(4, 64, ("mxfp8_e4m3",) * 3, {"overflow": ("specification",) * 3}, "poison"),
        sweep(
            8,
            128,
            (*("mxfp8_e4m3",) * 2, "mxfp8_e5m2"),
            {"grouping": MIXED, "scale": ("floor", "ceil", "even")},
            "poison",
        ),
        (
            4,
            32,
            ("fp8_e5m2", "mxfp8_e5m2", "bf16"),
            {"grouping": ("16x16", "1x64", "tensor")},
            "flag",
        ),
        sweep(
            2,
            512,
            ("fp8_e5m2", "e5m1", "fp8_e4m3"),
            {"grouping": ("16x16", "2x2", "4x4")},
            "poison",
        ),
    ],
)
def test_folding(block, data_width, formats, keys, special, rng):
    """The exponents of squares, vectors and blocks are lowered to what is in them."""
    dut = make(block, data_width, formats, special=special, headroom=1, **keys)
    assert any(dut.geometry.folds)
    jobs = some_jobs([(3, 5), (9, 34), (18, 7)], rng)
    jobs += [(specials(5, 9, rng), cls, 1, 2, None) for cls in range(3)]
    convert(dut, jobs, rng, 0.8)


@pytest.mark.parametrize(
    "block, data_width, rule, special",
    [
        sweep(8, 64, "nearest", "flag"),
        (4, 128, "up", "poison"),
        sweep(4, 64, "nearest", "poison"),
        sweep(1, 32, "nearest", "flag"),
    ],
)
def test_nvfp4(rule, block, data_width, special, rng):
    """W in squares of 16, the others in vectors; a scale per tensor, measured and given."""
    dut = make(block, data_width, ("nvfp4",) * 3, scale=(rule,) * 3, special=special)
    jobs = some_jobs([(3, 5), (18, 20), (17, 5)], rng)
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
@pytest.mark.parametrize("formats", [("bfp4",) * 3, sweep(("nvfp4",) * 3)])
def test_one_slow_side(formats, p_ready, p_write, rng):
    """Every buffer inside fills up, or runs empty."""
    jobs = [(specials(3, 60, rng), cls, 1, 2, None) for cls in (0, 1)]
    convert(make(2, 64, formats), jobs, rng, p_ready, p_write)


def test_largest_block(rng):
    convert(make(32, 64), [(specials(5, 40, rng), 2, 1, 2, None)], rng, 0.8)


@pytest.mark.parametrize(
    "first, random_bits",
    [(0, 1), (1, 16), (2, 1), (3, 16), sweep(0, 16), sweep(1, 1), sweep(2, 16), sweep(3, 1)],
)
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
FOUND = {"scale": ("rceil", "even", "floor")}  # by a pass over the tile first
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")


@pytest.mark.parametrize(
    "kind, block, data_width, formats, keys, shapes",
    [
        ("lfsr3", 8, 64, SQUARES, {}, [(9, 70)]),
        ("lfsr3", 4, 32, SQUARES, {"grouping": ("16x16", "4x4", "8x8")}, [(18, 21)]),
        ("lfsr3", 4, 128, SQUARES, VECTORS, [(34, 39)]),
        ("lfsr3", 4, 64, ("fp8_e4m3", "fp8_e5m2", "bfp4"), {}, [(3, 5), (9, 37)]),
        ("lfsr3", 2, 64, ("mxfp8_e4m3",) * 3, FOUND, [(33, 18)]),
        ("lfsr3", 1, 512, SQUARES, {}, [(5, 3), (2, 75)]),
        ("lfsr3", 2, 128, ("nvfp4",) * 3, {}, [(18, 20)]),
        ("lfsr", 2, 32, SQUARES, {"grouping": ("1x8", "1x4", "2x2")}, [(3, 5), (18, 21)]),
        ("lfsr", 4, 512, SQUARES, {}, [(9, 70)]),
        sweep("lfsr", 4, 128, ("fp8_e4m3", "mxfp8_e5m2", "e5m2"), FOUND, [(9, 37)]),
        ("lfsr-24", 1, 64, SQUARES, {"grouping": ("1x2", "1x4", "1x1")}, [(9, 17)]),
        ("lfsr-24", 4, 64, ("nvfp4",) * 3, {}, [(5, 18)]),
        ("data", 4, 64, SQUARES, {"grouping": ("1x16", "4x4", "16x16")}, [(9, 37)]),
        ("data", 4, 64, ("fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3"), FOUND, [(5, 37)]),
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


def test_timing(rng):
    """A word per cycle, with draws too; half a group is a piece, col_max comes at the end."""
    dut = make(4, 64)
    groups = 10
    values = np.random.default_rng(1).standard_normal((4, 32 * groups)).astype(np.float32)
    nearest, stochastic = convert(dut, [(values, cls, 0, 0, None) for cls in (0, 1)], rng)
    words = dut.geometry.group_words
    maxima = 8 * groups * 1.25  # a cycle per byte and two per beat
    assert nearest <= (groups + 0.5) * words + maxima + 40
    assert stochastic <= nearest + 10


@pytest.mark.parametrize(
    "formats, passes",
    [
        (("mxfp4_e2m1",) * 3, (2,)),
        (("mxfp4_e2m1", "mxfp8_e4m3", "fp8_e4m3"), (2, 2)),  # the latter is read twice
    ],
)
def test_timing_of_passes(formats, passes, rng):
    """A word per cycle and pass: the tensor's scan, and one per copy."""
    values = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    dut = make(4, 64, formats, rounding=("nearest",) * 3)
    classes = (1, 2)[: len(passes)]
    got = convert(dut, [(values, cls, 0, 0, None) for cls in classes], rng)
    words = values.size // dut.geometry.lanes
    tile = 32 * 32 // dut.geometry.lanes
    for cycles, count in zip(got, passes, strict=True):
        assert cycles <= count * (words + 32) + tile + 250, count


@pytest.mark.parametrize(
    "keys, asked",
    [({}, (640, 350, 110)), ({"grouping": ("1x16",) * 3}, (1500, 1000, 220))],
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
    assert "\nmodule converter(" in "\n" + emitted.verilog


def test_errors():
    with pytest.raises(
        ValueError, match=exactly("max_col_blocks must be an integer in 1..65536, not 0")
    ):
        make(8, 64, max_col_blocks=0)
    with pytest.raises(
        ValueError, match=exactly("data_width must be one of 32, 64, 128, 256, 512, not 96")
    ):
        make(8, 96)
