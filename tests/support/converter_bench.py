"""The converter between a memory and a chain, against the golden model: whole images in memory."""

import numpy as np

from diastole_hw.convert.converter import Converter
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from support.bench import design, put, run
from support.bus import ServiceMemory
from support.classes import make_numerics

SEED = 0xC0FFEE11
MIXED = ("nearest", "stochastic-b", "stochastic-c")


def make(
    block,
    data_width,
    formats=("bfp4",) * 3,
    rounding=MIXED,
    max_col_blocks=80,
    fed=False,
    kept_rows=0,
    **keys,
):
    """A converter; ``keys``: as :func:`make_numerics` takes them."""
    numerics = make_numerics(*formats, block=block, rounding=rounding, **{"random_bits": 8} | keys)
    sizes = {"data_width": data_width, "max_col_blocks": max_col_blocks}
    return design(Converter, numerics=numerics, **sizes, fed=fed, kept_rows=kept_rows)


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


def patches_of(high, wide, cut):
    """(first row, first column, the row after, the column after) of each patch of a tensor of so
    many blocks, in their order; ``cut``: (rows, columns, by columns), or True for none."""
    if cut is True:
        return [(0, 0, high, wide)]
    tall, broad, by_columns = cut
    corners = [(top, left) for top in range(0, high, tall) for left in range(0, wide, broad)]
    if by_columns:
        corners.sort(key=lambda corner: corner[::-1])
    return [(t, left, min(t + tall, high), min(left + broad, wide)) for t, left in corners]


def rows_of_blocks(values, block, rng, cut=True):
    """A tensor as a chain gives it, with noise beside it: numbers that hold the rows of its blocks,
    row of blocks by row of blocks, in the patches of :func:`patches_of`."""
    rows, cols = values.shape
    whole = (-(-rows // block) * block, -(-cols // block) * block)
    noise = np.random.default_rng(rng.getrandbits(32))
    padded = noise.integers(0, 2**32, size=whole, dtype=np.uint32)
    padded[noise.random(whole) < 0.3] |= 0x7F80_0000  # NaN and Inf among it
    padded[:rows, :cols] = values.view(np.uint32)
    for first, begin, last, end in patches_of(whole[0] // block, whole[1] // block, cut):
        for i in range(first, last):
            for j in range(begin, end):
                for row in padded[i * block : (i + 1) * block, j * block : (j + 1) * block]:
                    yield row.tolist()


def convert(dut, jobs, rng, p_ready=1.0, p_write=None, p_row=1.0):
    """Run jobs (values, cls, tag, step, scale) one after the other, check all that they leave.

    ``scale``: None, or e or T. A sixth entry that is true: a chain gives the floats, in patches if
    it is a ``cut`` of :func:`patches_of`. ``p_ready``:
    how often the memory is willing, and ``p_write``, if it differs, to take writes; ``p_row``: how
    often a chain has a row. Returns the cycles of each.
    """
    beat = dut.data_width // 8
    p_write = p_ready if p_write is None else p_write
    memory = ServiceMemory(1 << 17, beat, stall=lambda: rng.random() >= p_ready)
    sink = ServiceMemory(0, beat, stall=lambda: rng.random() >= p_write)
    sink.bytes = memory.bytes
    cycles = []
    block = dut.numerics.block
    chains = [
        list(rows_of_blocks(values, block, rng, *fed)) if any(fed) else []
        for values, _, _, _, _, *fed in jobs
    ]
    given = [0]  # rows that were taken

    async def main(ctx):
        ctx.set(dut.seed, SEED)
        due = 0
        for (values, cls, tag, step, scale, *fed), chain in zip(jobs, chains, strict=True):
            cut = fed[0] if any(fed) and fed[0] is not True else None
            fed = any(fed)
            rows, cols = values.shape
            what = f"{rows}x{cols} class {cls} {scale=}" + " fed" * fed
            what += "" if cut is None else f" {cut}"
            floats = FloatLayout(rows=rows, cols=cols, data_width=dut.data_width).pack(values)
            floats.reshape(rows, -1)[:, 4 * cols :] = 0x7F  # what lies beside a row is ignored
            golden = quantise(
                values,
                Conversion(CLASS_NAMES[cls], tag=tag, step=step, scale=scale),
                dut.numerics,
                seed=SEED,
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
            if not fed:
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
            command |= {"fed": fed} if dut.fed else {}
            if cut is not None:
                lengths = dict(zip(("high", "wide", "by_columns"), cut, strict=True))
                command |= {"cut": {"cut": 1} | lengths}
            await put(ctx, dut.control.command, [command])
            cycles.append(1)
            counted, done = [0, 0], 0
            while not done:
                sampled = ctx.tick().sample(dut.control.done, dut.saturated, dut.underflowed)
                _, _, done, *now = await sampled
                counted = [total + more for total, more in zip(counted, now, strict=True)]
                cycles[-1] += not done
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
            again *= not fed
            assert sum(beats for _, beats in memory.reads) * beat <= again * len(floats), what
            due += len(chain)
            assert given[0] == due, f"{what}: {given[0]} rows were taken, not {due}"
            report = dut.control
            assert [ctx.get(report.nan), ctx.get(report.inf)] == [golden.nan, golden.inf], what
            assert counted == [golden.saturated, golden.underflowed], what
            assert ctx.get(report.amax) == golden.amax, what
            assert not ctx.get(dut.busy), what

    async def read(ctx):
        await memory.read(ctx, dut.read.requests, dut.read.beats)

    async def write(ctx):
        await sink.write(ctx, dut.write.requests, dut.write.beats)

    def rows():
        for row in (row for chain in chains for row in chain):
            yield row
            given[0] += 1

    async def feed(ctx):
        if dut.fed:
            await put(ctx, dut.rows, rows(), lambda: rng.random() < p_row)

    run(dut, main, background=[read, write, feed], limit=200_000)
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
