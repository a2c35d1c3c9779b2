"""The converter between a memory and a chain, against the golden model: whole images in memory."""

from dataclasses import dataclass

import numpy as np

from diastole_hw.convert.converter import Converter
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.bus import ServiceMemory
from support.classes import make_numerics
from support.unit_bench import Unit, until

SEED = 0xC0FFEE11
MIXED = ("nearest", "stochastic-b", "stochastic-c")


def make(
    block,
    data_width,
    formats=("bfp4",) * 3,
    rounding=MIXED,
    max_col_blocks=80,
    streamed=False,
    stored_rows=0,
    **keys,
):
    """A converter; ``keys``: as :func:`make_numerics` takes them."""
    numerics = make_numerics(*formats, block=block, rounding=rounding, **{"random_bits": 8} | keys)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    return design(
        Converter, sizes, max_col_blocks=max_col_blocks, streamed=streamed, stored_rows=stored_rows
    )


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
    return scale + (138 if golden.storage.format.scale == "e4m3" else 127)


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


@dataclass(frozen=True, kw_only=True)
class ExpectedConversion:
    """A tensor on its way through a converter, and all that must be left of it."""

    values: np.ndarray
    command: dict
    images: list[bytes]  # of each copy
    report: dict  # members of ``control``, at the end
    counted: list[int]  # elements that saturate, and that underflow
    what: str
    rows: list | None = None  # what a chain gives; without, the floats are in memory
    reads: int = 1  # passes over the floats


def run_all(dut, conversions, rng, p_read=1.0, p_write=1.0, p_row=1.0, watch=None):
    """Run conversions one after the other, check all that they leave: memory that is no image stays
    as it was, and no row of a later tensor is taken. Returns the cycles of each.

    ``p_read``, ``p_write``: how often memory is willing; ``p_row``: how often a chain has a row.
    ``watch``: is given the bench before it runs.
    """
    beat = dut.sizes.data_width // 8
    memory = ServiceMemory(1 << 17, beat, stall=lambda: rng.random() >= p_read)
    sink = ServiceMemory(0, beat, stall=lambda: rng.random() >= p_write)
    sink.bytes = memory.bytes
    unit, counted, cycles, due = Unit(dut, rng), [0, 0], [], 0
    unit.hold(seed=SEED)
    unit.serve(memory.read, dut.read.requests, dut.read.beats)
    unit.serve(sink.write, dut.write.requests, dut.write.beats)
    commands, rows = unit.give(dut.control.command), None
    again = max(1, dut.sizes.floats // dut.sizes.max_tile_cols)  # tiles that share a beat
    if dut.streamed:
        rows = unit.give(dut.rows, (row for each in conversions for row in each.rows or ()), p_row)
        rows.needed = False

    def count(cycle, *now):
        counted[:] = [total + more for total, more in zip(counted, now, strict=True)]

    def place(each):
        """Fill memory; returns what it must be in the end, and where the tensor and its images
        are."""
        height, width = each.values.shape
        floats = FloatLayout(rows=height, cols=width, data_width=dut.sizes.data_width).pack(
            each.values
        )
        floats.reshape(height, -1)[:, 4 * width :] = 0x7F  # what lies beside a row is ignored
        source = beat * rng.randrange(1, 8)
        memory.bytes[:] = rng.randbytes(len(memory.bytes))
        if each.rows is None:
            memory.bytes[source : source + len(floats)] = floats.tobytes()
        want, at, places = bytearray(memory.bytes), source + len(floats), {}
        for copy in rng.sample(range(len(each.images)), len(each.images)):
            places[copy] = at = at + beat * rng.randrange(8)
            want[at : at + len(each.images[copy])] = each.images[copy]
            at += len(each.images[copy])
        assert at <= len(want)
        where = {"source": source, "destination": places[0]}
        return want, where | {"destination_t": places[len(places) - 1]}, len(floats)

    async def script(ctx):
        nonlocal due
        for each in conversions:
            want, where, size = place(each)
            memory.reads, sink.writes, counted[:] = [], [], [0, 0]
            commands.add([each.command | where])
            while not commands.done:
                await ctx.tick()
            cycles.append(1 + await until(ctx, dut.control.done))
            await ctx.tick()
            wrong = [n for n in range(len(want)) if memory.bytes[n] != want[n]]
            assert not wrong, f"{each.what}: bytes {wrong[:8]}, {where}"
            written = sum(beats for _, beats in sink.writes) * beat
            assert written == sum(map(len, each.images)), each.what
            read = sum(beats for _, beats in memory.reads) * beat
            assert read <= (again * each.reads * size if each.rows is None else 0), each.what
            due += len(each.rows or ())
            assert not rows or len(rows.items) == due, f"{each.what}: {len(rows.items)} rows taken"
            report = {name: ctx.get(getattr(dut.control, name)) for name in each.report}
            assert (report, counted) == (each.report, each.counted), each.what
            assert not ctx.get(dut.busy), each.what

    unit.each_cycle(count, dut.saturated, dut.underflowed)
    if watch:
        watch(unit)
    unit.run(script, limit=200_000)
    return cycles


def convert(dut, jobs, rng, p_ready=1.0, p_write=None, p_row=1.0):
    """Run jobs (values, cls, tag, step, scale) as :func:`run_all` does, against the golden model.

    ``scale``: None, or e or T. A sixth entry that is true: a chain gives the floats, in patches if
    it is a ``cut`` of :func:`patches_of`. ``p_write``: if it differs from ``p_ready``.
    """
    conversions = [golden_conversion(dut, rng, *job) for job in jobs]
    return run_all(dut, conversions, rng, p_ready, p_ready if p_write is None else p_write, p_row)


def golden_conversion(dut, rng, values, cls, tag, step, scale, streamed=False):
    rows, cols = values.shape
    cut = streamed if streamed and streamed is not True else None
    asked = Conversion(CLASS_NAMES[cls], tag=tag, step=step, scale=scale)
    golden = quantise(values, asked, dut.sizes.numerics, seed=SEED)
    sizes = {"block": dut.sizes.numerics.block, "data_width": dut.sizes.data_width}
    layouts = image_layouts(golden.storage, values.shape, **sizes)
    header = golden.tensor_exponent if layouts[0].header else None
    packed = zip(layouts, golden.copies, strict=True)
    command = {"cls": cls, "rows": rows, "cols": cols, "tag": tag, "step": step}
    command |= {"scale": command_scale(golden, scale)} | (
        {"streamed": bool(streamed)} if dut.streamed else {}
    )
    if cut is not None:
        lengths = dict(zip(("high", "wide", "by_columns"), cut, strict=True))
        command["cut"] = {"cut": 1} | lengths
    return ExpectedConversion(
        values=values,
        command=command,
        images=[layout.pack(copy, header).tobytes() for layout, copy in packed],
        report={name: getattr(golden, name) for name in ("nan", "inf", "amax")},
        counted=[golden.saturated, golden.underflowed],
        what=f"{rows}x{cols} class {cls} {scale=} {streamed=}",
        rows=[*rows_of_blocks(values, dut.sizes.numerics.block, rng, streamed)]
        if streamed
        else None,
        reads=2 if dut.sizes.scanned[cls] and scale is None else 1,
    )


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
