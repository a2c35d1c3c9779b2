"""The converter: executes the command ``convert``."""

from amaranth.hdl import Array, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout, write_beat_layout
from diastole.convert.exponents import ExponentField
from diastole.convert.gather import Gather, squares_layout
from diastole.convert.geometry import Geometry, by_class
from diastole.convert.intake import Intake
from diastole.convert.maxima import MAX_COL_BLOCKS
from diastole.convert.output import Output
from diastole.convert.pack import Packer
from diastole.convert.reorder import Reorder
from diastole.convert.scale import tensor_scale
from diastole.convert.stage import QuantiseStage
from diastole.convert.walk import ReadRequests, TileWalk, tile_layout
from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import ADDRESS_BITS
from diastole.stream.fifo import StreamFifo
from diastole_sim.check import require_int
from diastole_sim.numerics import Numerics

_TILES_AHEAD = 8  # asked for, and not yet read

convert_layout = data.StructLayout(
    {
        "cls": 2,
        "rows": unsigned(32),
        "cols": unsigned(32),
        "source": unsigned(ADDRESS_BITS),
        "destination": unsigned(ADDRESS_BITS),
        "destination_t": unsigned(ADDRESS_BITS),
        "tag": unsigned(32),
        "step": unsigned(32),
        "scale": unsigned(8),
    }
)


def fork(m, source, *sinks):
    """Copy a stream into several, which take each item in the same cycle."""
    ready = Const(1)
    for sink in sinks:
        ready = ready & sink.ready
        m.d.comb += sink.payload.eq(source.payload)
    for sink in sinks:
        m.d.comb += sink.valid.eq(source.valid & ready)
    m.d.comb += source.ready.eq(ready)


class Converter(wiring.Component):
    """Quantise a float32 tensor in memory as its class says, with its maxima; in vector groups both
    the tensor and its transpose.

    Numbers: as ``diastole_sim.golden.convert``; draws: as :class:`Draws`; memory image: as in
    ``diastole_sim.program.image``. A tensor is read once, twice where its scale follows from all of
    it; its images are written once.

    Timing: one command at a time. Tiles go through it one after the other (:class:`Geometry`), two
    at a time where the buffer holds two; a word is ``lanes`` elements. A tile takes the longest of
    reading it, a cycle per word; the lanes, a cycle per word and copy (1.25 cycles per element and
    at least 5 per word where draws are needed, see :class:`Draws`), twice as long where the class
    folds; and writing it. Padding to blocks takes time in the lanes as elements do, but is not
    read. Reading a tensor for its scale comes before all that.

    Parameters
    ----------
    numerics : Numerics
        Block side and classes of tensors.
    data_width : int
        Bits of a beat (a power of two, 32 to 512).
    max_col_blocks : int
        Most columns of blocks of a tensor (1 to 65536).

    Members
    -------
    command : In(stream of :data:`convert_layout`)
        Class 0 to 2; rows and cols at least 1, cols at most ``block * max_col_blocks``; source and
        destinations aligned to beats, ``destination_t`` that of the transpose's image, if there is
        one. ``scale``: 0, the tensor's scale follows from its data; else e + 127 of the tensor's
        top binade, or T + 138 of NVFP4; only looked at in classes with a tensor scale. Not checked.
    seed : In(32)
        Must not change while busy; not checked.
    busy : Out(1)
        A command is being executed; ``command.ready`` is its inverse.
    done : Out(1)
        A pulse when the writer takes the last beat (which is not yet in memory then).
    nan, inf : Out(1)
        The tensor of the last command has a NaN, an Inf. Valid from ``done`` to the next command,
        as are the others.
    saturated, underflowed : Out(32)
        Finite elements of all its images that were too large; that became zero and were not.
    amax : Out(31)
        Bits 30..0 of its largest finite magnitude; 0 if there is none that is no subnormal.
    read_request, write_request : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
        Requests to the reader and to the writer, aligned to beats.
    read_data : In(stream of unsigned(data_width))
        The beats asked for, in order.
    write_data : Out(stream of {"data": unsigned(data_width), "strb": unsigned(data_width // 8)})
        The beats announced, in order, each after its request is taken.

    ValueError if out of range.
    """

    def __init__(self, *, numerics: Numerics, data_width: int, max_col_blocks: int):
        require_int("max_col_blocks", max_col_blocks, 1, MAX_COL_BLOCKS)
        self.numerics, self.data_width = numerics, data_width
        self.max_col_blocks = max_col_blocks
        self.geometry = Geometry(numerics=numerics, data_width=data_width)
        super().__init__(
            {
                "command": In(stream.Signature(convert_layout)),
                "seed": In(32),
                "busy": Out(1),
                "done": Out(1),
                "nan": Out(1),
                "inf": Out(1),
                "saturated": Out(32),
                "underflowed": Out(32),
                "amax": Out(31),
                "read_request": Out(stream.Signature(request_layout())),
                "read_data": In(stream.Signature(unsigned(data_width))),
                "write_request": Out(stream.Signature(request_layout())),
                "write_data": Out(stream.Signature(write_beat_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        job = Signal(convert_layout)
        begin = Signal()  # the first reading of the tensor
        start = Signal()  # the one for its images
        scan = Signal()
        m.d.comb += self.command.ready.eq(~self.busy)
        m.d.sync += begin.eq(0)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [job.eq(self.command.payload), self.busy.eq(1), begin.eq(1)]
            m.d.sync += scan.eq(self._scans(m))
        with m.If(self.done):
            m.d.sync += self.busy.eq(0)
        intake = self._read(m, platform, job, begin, start, scan)
        self._start(m, job, intake, begin, start, scan)
        stage = self._quantise(m, platform, job, start, intake)
        self._write(m, platform, job, start, stage)
        self._report(m, stage, intake, start)
        return m

    @property
    def _sizes(self):
        return {"numerics": self.numerics, "data_width": self.data_width}

    def _scans(self, m):
        """Whether the command that comes asks for the scale of the data."""
        scanned = by_class(m, self.command.p.cls, map(int, self.geometry.scanned), "scanned")
        return scanned.bool() & (self.command.p.scale == 0)

    def _start(self, m, job, intake, begin, start, scan):
        """Begin with the images at once, or as soon as their scale is known."""
        if not any(self.geometry.scanned):
            m.d.comb += start.eq(begin)
            return
        m.d.sync += start.eq(intake.done & scan)
        with m.If(begin & ~scan):
            m.d.sync += start.eq(1)
        with m.If(intake.done & scan):
            m.d.sync += scan.eq(0)
            scales = [
                tensor_scale(m, cls, chosen, intake.amax) if chosen.has_tensor_scale else Const(0)
                for cls, chosen in enumerate(self.geometry.classes)
            ]
            m.d.sync += job.scale.eq(Array(scales)[job.cls])

    def _read(self, m, platform, job, begin, start, scan):
        """Walk the tiles, ask for their data and take them in."""
        layout = tile_layout(self.geometry)
        m.submodules.walk = place(walk := TileWalk(**self._sizes), platform)
        m.submodules.requests = place(requests := ReadRequests(**self._sizes), platform)
        m.submodules.intake = place(intake := Intake(**self._sizes), platform)
        to_request = StreamFifo(shape=layout, depth=2)
        to_read = StreamFifo(shape=layout, depth=_TILES_AHEAD)
        m.submodules.to_request = place(to_request, platform)
        m.submodules.to_read = place(to_read, platform)
        pitch = Signal(35)
        beat_shift = exact_log2(self.geometry.beat_bytes)
        floats = self.geometry.floats
        m.d.comb += pitch.eq(((job.cols + (floats - 1)) >> exact_log2(floats)) << beat_shift)
        m.d.comb += [
            walk.start.eq(start | (begin & scan)),
            walk.cls.eq(job.cls),
            walk.rows.eq(job.rows),
            walk.cols.eq(job.cols),
            walk.source.eq(job.source),
            walk.pitch.eq(pitch),
            requests.pitch.eq(pitch),
            intake.restart.eq(begin),
            intake.scan.eq(scan),
            intake.cls.eq(job.cls),
            intake.scale.eq(job.scale),
        ]
        fork(m, walk.o, to_request.i, to_read.i)
        connect(m, to_request.o, requests.i)
        connect(m, requests.o, flipped(self.read_request))
        connect(m, to_read.o, intake.tile)
        connect(m, flipped(self.read_data), intake.data)
        return intake

    def _quantise(self, m, platform, job, start, intake):
        """The buffer, what is measured of its tiles, and the passes over them."""
        sizes = self.geometry
        m.submodules.gather = place(gather := Gather(**self._sizes), platform)
        m.submodules.stage = place(stage := QuantiseStage(**self._sizes), platform)
        tiles = StreamFifo(shape=tile_layout(sizes), depth=2)
        squares = StreamFifo(shape=squares_layout(sizes), depth=2)
        m.submodules.tiles = place(tiles, platform)
        m.submodules.squares = place(squares, platform)
        buffer = Ram(width=32 * sizes.lanes, depth=max(2, sizes.halves * sizes.tile_words))
        m.submodules.buffer = place(buffer, platform)
        # Neither queue is ever full: each holds tiles that are in the buffer.
        connect(m, intake.taken, tiles.i)
        connect(m, tiles.o, stage.tile)
        connect(m, squares.o, stage.squares)
        m.d.comb += [
            gather.cls.eq(job.cls),
            gather.add.eq(intake.add),
            gather.row.eq(intake.at.row),
            gather.word.eq(intake.at.word),
            gather.half.eq(intake.at.half),
            gather.row_end.eq(intake.row_end),
            gather.last_row.eq(intake.last_row),
            gather.values.eq(intake.values),
            squares.i.payload.eq(gather.squares),
            squares.i.valid.eq(gather.done),
            buffer.write_en.eq(intake.write_en),
            buffer.write_addr.eq(intake.write_at.as_value()),
            buffer.write_data.eq(intake.write_data),
            buffer.read_en.eq(stage.read_en),
            buffer.read_addr.eq(stage.read_at.as_value()),
            stage.read_data.eq(buffer.read_data),
            intake.freed.eq(stage.read_done),
            stage.cls.eq(job.cls),
            stage.scale.eq(job.scale),
            stage.cols.eq(job.cols),
            stage.seed.eq(self.seed),
            stage.tag.eq(job.tag),
            stage.step.eq(job.step),
            stage.restart.eq(start),
        ]
        if sizes.two_copies:
            m.d.comb += [
                gather.read_en.eq(stage.read_en),
                gather.read_row.eq(stage.read_at.row),
                gather.read_word.eq(stage.read_at.word),
                gather.read_half.eq(stage.read_at.half),
                stage.row_value.eq(gather.row_value),
                stage.column_values.eq(gather.column_values),
            ]
        return stage

    def _write(self, m, platform, job, start, stage):
        """Order, pack and write what the lanes made."""
        sizes = self.geometry
        m.submodules.reorder = place(reorder := Reorder(**self._sizes), platform)
        m.submodules.field = place(field := ExponentField(**self._sizes), platform)
        packer = Packer(
            lanes=sizes.lanes, element_bits=sizes.element_bits, data_width=self.data_width
        )
        output = Output(max_col_blocks=self.max_col_blocks, **self._sizes)
        m.submodules.packer = place(packer, platform)
        m.submodules.output = place(output, platform)
        connect(m, reorder.o, packer.i)
        connect(m, packer.o, output.elements)
        connect(m, field.o, output.exponents)
        connect(m, stage.group, output.group)
        connect(m, output.request, flipped(self.write_request))
        connect(m, output.o, flipped(self.write_data))
        m.d.comb += [
            reorder.write_en.eq(stage.write_en),
            reorder.write_copy.eq(stage.write_copy),
            reorder.write_at.eq(stage.write_at),
            reorder.write_data.eq(stage.write_data),
            reorder.filled.eq(stage.written),
            stage.freed.eq(reorder.freed),
            field.cls.eq(job.cls),
            field.write_en.eq(stage.field_en),
            field.write_half.eq(stage.field_half),
            field.write.eq(stage.field),
            field.filled.eq(stage.written),
            stage.field_freed.eq(field.freed),
            packer.cls.eq(job.cls),
            output.start.eq(start),
            output.cls.eq(job.cls),
            output.rows.eq(job.rows),
            output.cols.eq(job.cols),
            output.destination.eq(job.destination),
            output.destination_t.eq(job.destination_t),
            output.scale.eq(job.scale),
            self.done.eq(output.done),
        ]

    def _report(self, m, stage, intake, start):
        m.d.comb += self.amax.eq(intake.amax)
        with m.If(stage.nan):
            m.d.sync += self.nan.eq(1)
        with m.If(stage.inf):
            m.d.sync += self.inf.eq(1)
        m.d.sync += self.saturated.eq(self.saturated + stage.saturated)
        m.d.sync += self.underflowed.eq(self.underflowed + stage.underflowed)
        with m.If(start):
            m.d.sync += [self.nan.eq(0), self.inf.eq(0)]
            m.d.sync += [self.saturated.eq(0), self.underflowed.eq(0)]
