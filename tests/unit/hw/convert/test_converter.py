# amaranth: UnusedElaboratable=no
"""The converter against the golden model: whole images in memory, bit for bit."""

import numpy as np
import pytest
from amaranth.back import verilog

from diastole.convert.converter import Converter
from diastole.emit.place import convert_ports
from diastole_sim.formats import parse_format
from diastole_sim.golden.convert import quantise
from diastole_sim.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.program.image import FloatLayout, StoredTensor, image_layout
from diastole_sim.rounding import RULES
from support.bench import put, run
from support.bus import ServiceMemory

SEED = 0xC0FFEE11
MIXED = ("nearest", "stochastic-b", "stochastic-c")


def make(block, data_width, mantissa_bits=(4, 4, 4), rounding=MIXED, random_bits=8):
    return Converter(
        block=block,
        data_width=data_width,
        mantissa_bits=mantissa_bits,
        rounding=rounding,
        random_bits=random_bits,
        max_col_blocks=80,
    )


def expected(dut, values, cls, tag, step):
    """The golden model's result, and its image."""
    classes = {
        name: TensorClass(format=parse_format(f"bfp{bits}"), rounding=rule)
        for name, bits, rule in zip(CLASS_NAMES, dut.mantissa_bits, dut.rounding, strict=True)
    }
    numerics = Numerics(
        block=dut.block, random_bits=dut.random_bits, fraction=4, headroom=4, **classes
    )
    golden = quantise(values, CLASS_NAMES[cls], numerics, seed=SEED, tag=tag, step=step)
    names = ("magnitudes", "negative", "exponents", "row_max", "col_max")
    stored = StoredTensor(**{name: getattr(golden, name) for name in names})
    return golden, image_layout(golden, dut.data_width).pack(stored)


def specials(rows, cols, rng):
    """A float32 tensor of mixed sizes and signs, with NaN, Inf, zeros, subnormals and ties."""
    rng = np.random.default_rng(rng.getrandbits(32))
    exponents = rng.integers(-6, 4, size=(rows, cols))
    values = np.ldexp(rng.standard_normal((rows, cols)), exponents).astype(np.float32)
    ties = np.ldexp(rng.integers(-63, 64, size=(rows, cols)), -4).astype(np.float32)
    values = np.where(rng.random((rows, cols)) < 0.3, ties, values)
    odd = np.array(
        [0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001, 0x7F7FFFFF]
        + [0x00800000, 0x80800000, 0x3FFFFFFF, 0xBFFFFFFF],
        dtype=np.uint32,
    ).view(np.float32)
    return np.where(rng.random((rows, cols)) < 0.15, rng.choice(odd, (rows, cols)), values)


def convert(dut, jobs, rng, p_ready=1.0, p_write=None):
    """Run jobs (values, cls, tag, step) one after the other, check all that they leave in memory.

    ``p_ready``: how often the memory is willing, and ``p_write``, if it differs, to take writes.
    Returns the cycles of each.
    """
    beat = dut.data_width // 8
    p_write = p_ready if p_write is None else p_write
    memory = ServiceMemory(1 << 16, beat, stall=lambda: rng.random() >= p_ready)
    sink = ServiceMemory(0, beat, stall=lambda: rng.random() >= p_write)
    sink.bytes = memory.bytes
    cycles = []

    async def main(ctx):
        ctx.set(dut.seed, SEED)
        for values, cls, tag, step in jobs:
            rows, cols = values.shape
            what = f"{rows}x{cols} class {cls}"
            floats = FloatLayout(rows=rows, cols=cols, data_width=dut.data_width).pack(values)
            floats.reshape(rows, -1)[:, 4 * cols :] = 0x7F  # what lies beside a row is ignored
            golden, image = expected(dut, values, cls, tag, step)
            source = beat * rng.randrange(1, 8)
            destination = source + len(floats) + beat * rng.randrange(8)
            memory.bytes[:] = rng.randbytes(len(memory.bytes))
            memory.bytes[source : source + len(floats)] = floats.tobytes()
            want = bytearray(memory.bytes)
            want[destination : destination + len(image)] = image.tobytes()
            memory.reads, sink.writes = [], []
            command = {"cls": cls, "rows": rows, "cols": cols, "source": source}
            command |= {"destination": destination, "tag": tag, "step": step}
            await put(ctx, dut.command, [command])
            cycles.append(1)
            while not (await ctx.tick().sample(dut.done))[-1]:
                cycles[-1] += 1
            await ctx.tick()
            wrong = [n - destination for n in range(len(want)) if want[n] != memory.bytes[n]]
            assert not wrong, f"{what}: bytes {wrong[:8]} of {len(image)}"
            assert sum(beats for _, beats in sink.writes) * beat == len(image), what
            again = 2 if dut.geometry.floats > dut.geometry.lanes else 1
            assert sum(beats for _, beats in memory.reads) * beat <= again * len(floats), what
            got = tuple(ctx.get(flag) for flag in (dut.nan, dut.inf, dut.saturated))
            assert got == (golden.nan, golden.inf, golden.saturated), what
            assert not ctx.get(dut.busy), what

    async def read(ctx):
        await memory.read(ctx, dut.read_request, dut.read_data)

    async def write(ctx):
        await sink.write(ctx, dut.write_request, dut.write_data)

    run(dut, main, background=[read, write], limit=100_000)
    return cycles


@pytest.mark.parametrize(
    "block, data_width, mantissa_bits, shapes",
    [
        (8, 64, (4, 7, 2), [(1, 1), (3, 5), (31, 33)]),
        (8, 64, (2, 4, 7), [(9, 70)]),
        (4, 32, (4, 3, 8), [(1, 1), (3, 5), (9, 34)]),
        (1, 64, (4, 5, 2), [(1, 1), (3, 5), (9, 17)]),
        (8, 512, (8, 4, 3), [(1, 1), (9, 70), (17, 129)]),
        (2, 128, (3, 6, 4), [(1, 1), (3, 5), (7, 33)]),
        (1, 512, (2, 4, 8), [(1, 1), (3, 40), (2, 75)]),
        (2, 512, (2, 4, 8), [(1, 1), (5, 40)]),
        (4, 512, (2, 4, 8), [(3, 5), (9, 70)]),
        (1, 32, (4, 4, 2), [(3, 5), (6, 17)]),
        (16, 256, (5, 4, 2), [(3, 130)]),
        (1, 256, (3, 4, 2), [(3, 11)]),
        (8, 32, (3, 4, 2), [(7, 5)]),
    ],
)
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_image(block, data_width, mantissa_bits, shapes, p_ready, rng):
    dut = make(block, data_width, mantissa_bits)
    jobs = [
        (specials(*shape, rng), (number + 2) % 3, rng.getrandbits(32), rng.getrandbits(32))
        for number, shape in enumerate(shapes)
    ]
    convert(dut, jobs, rng, p_ready)


@pytest.mark.parametrize("p_ready, p_write", [(1.0, 0.05), (0.05, 1.0)], ids=["write", "read"])
def test_one_slow_side(p_ready, p_write, rng):
    """Every buffer inside fills up, or runs empty."""
    convert(
        make(2, 64), [(specials(3, 75, rng), cls, 1, 2) for cls in (0, 1)], rng, p_ready, p_write
    )


def test_largest_block(rng):
    convert(make(32, 64), [(specials(5, 40, rng), 2, 1, 2)], rng, 0.8)


@pytest.mark.parametrize("random_bits", [1, 16])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule(rule, random_bits, rng):
    dut = make(4, 64, (2, 4, 8), (rule,) * 3, random_bits)
    values = specials(7, 37, rng)
    convert(dut, [(values, cls, 9, 5) for cls in range(3)], rng)


def test_draws_of_each_command_are_its_own(rng):
    """The same few elements again, under another tag, then under another step."""
    dut = make(2, 64, rounding=("stochastic-a",) * 3)
    values = np.array([[1.17, 0.33]], dtype=np.float32)
    convert(dut, [(values, 0, tag, step) for tag in range(8) for step in (0, 1)], rng)


def test_only_zeros_and_specials(rng):
    dut = make(4, 64)
    empty = np.zeros((5, 9), dtype=np.float32)
    hollow = np.full((5, 9), 1e-40, dtype=np.float32)
    hollow[0, 0], hollow[4, 8], hollow[2, 5] = np.inf, -np.inf, np.nan
    convert(dut, [(hollow, 0, 0, 0), (empty, 0, 0, 0)], rng)


def test_timing(rng):
    """A word per cycle, or 1.25 cycles per draw; two groups to begin, col_max at the end."""
    dut = make(4, 64)
    groups = 10
    values = np.random.default_rng(1).standard_normal((4, 32 * groups)).astype(np.float32)
    nearest, stochastic = convert(dut, [(values, cls, 0, 0) for cls in (0, 1)], rng)
    words = dut.geometry.group_words
    assert nearest <= (groups + 2) * words + 4 * groups + 40
    assert stochastic <= (groups * 2.7 + 2) * words + 4 * groups + 40


@pytest.mark.parametrize("block, data_width", [(8, 64), (1, 512), (32, 32)])
def test_becomes_verilog(block, data_width):
    dut = make(block, data_width)
    text = verilog.convert(dut, name="converter", ports=convert_ports(dut), emit_src=False)
    assert "\nmodule converter(" in text


def test_errors():
    with pytest.raises(ValueError) as caught:
        Converter(
            block=8,
            data_width=64,
            mantissa_bits=(4, 4, 4),
            rounding=MIXED,
            random_bits=8,
            max_col_blocks=0,
        )
    assert str(caught.value) == "max_col_blocks must be an integer in 1..65536, not 0"
