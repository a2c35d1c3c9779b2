"""The converter: executes the command ``convert``."""

from amaranth.hdl import Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout, write_beat_layout
from diastole.convert.geometry import Geometry
from diastole.convert.intake import Intake, measured_layout
from diastole.convert.output import Output
from diastole.convert.pack import Packer
from diastole.convert.quantise import check_classes
from diastole.convert.reorder import Reorder
from diastole.convert.stage import QuantiseStage
from diastole.convert.walk import (
    GroupWalk,
    ReadRequests,
    group_layout,
)
from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import ADDRESS_BITS
from diastole.stream.fifo import StreamFifo
from diastole_sim.check import require_int

_GROUPS_AHEAD = 8  # asked for, and not yet read
_GROUPS_INSIDE = 4  # measured, and not yet written

convert_layout = data.StructLayout(
    {
        "cls": 2,
        "rows": unsigned(32),
        "cols": unsigned(32),
        "source": unsigned(ADDRESS_BITS),
        "destination": unsigned(ADDRESS_BITS),
        "tag": unsigned(32),
        "step": unsigned(32),
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
    """Quantise a float32 tensor in memory to blocks with shared exponents, with its maxima.

    Numbers: as :class:`LaneQuantiser`; draws: as :class:`Draws`; memory image: as in
    ``diastole_sim.program.image``. A tensor is read once and its image written once.

    Timing: one command at a time. Two groups of 8 blocks overlap in each step, so that a group of
    8 * block^2 elements takes the longest of: reading it, 8 * block^2 / lanes cycles in the lanes
    (1.25 cycles per element and at least 5 per word where draws are needed, see :class:`Draws`),
    writing it and 1 cycle. Padding to blocks takes time as elements do, but is not read.

    Parameters
    ----------
    block : int
        Block side (a power of two, 1 to 32).
    data_width : int
        Bits of a beat (a power of two, 32 to 512).
    mantissa_bits : tuple of 3 int
        Magnitude bits of the classes x, w and dy (2 to 8).
    rounding : tuple of 3 str
        Rule of each class: ``nearest``, ``stochastic-a``, ``stochastic-b`` or ``stochastic-c``.
    random_bits : int
        Bits of a draw (1 to 16).
    max_col_blocks : int
        Most columns of blocks of a tensor (1 to 65536).

    Members
    -------
    command : In(stream of :data:`convert_layout`)
        Class 0 to 2; rows and cols at least 1, cols at most ``block * max_col_blocks``; source and
        destination aligned to beats. Not checked.
    seed : In(32)
        Must not change while busy; not checked.
    busy : Out(1)
        A command is being executed; ``command.ready`` is its inverse.
    done : Out(1)
        A pulse when the writer takes the last beat (which is not yet in memory then).
    nan, inf : Out(1)
        The tensor of the last command has a NaN, an Inf. Valid from ``done`` to the next command.
    saturated : Out(32)
        Elements of it that saturated, Inf not counted.
    read_request, write_request : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
        Requests to the reader and to the writer, aligned to beats.
    read_data : In(stream of unsigned(data_width))
        The beats asked for, in order.
    write_data : Out(stream of {"data": unsigned(data_width), "strb": unsigned(data_width // 8)})
        The beats announced, in order, each after its request is taken.

    ValueError if out of range.
    """

    def __init__(
        self,
        *,
        block: int,
        data_width: int,
        mantissa_bits: tuple,
        rounding: tuple,
        random_bits: int,
        max_col_blocks: int,
    ):
        check_classes(mantissa_bits, rounding, random_bits)
        require_int("max_col_blocks", max_col_blocks, 1, 2**16)
        self.geometry = Geometry(block=block, data_width=data_width)
        self.block, self.data_width = block, data_width
        self.mantissa_bits, self.rounding = tuple(mantissa_bits), tuple(rounding)
        self.random_bits, self.max_col_blocks = random_bits, max_col_blocks
        super().__init__(
            {
                "command": In(stream.Signature(convert_layout)),
                "seed": In(32),
                "busy": Out(1),
                "done": Out(1),
                "nan": Out(1),
                "inf": Out(1),
                "saturated": Out(32),
                "read_request": Out(stream.Signature(request_layout())),
                "read_data": In(stream.Signature(unsigned(data_width))),
                "write_request": Out(stream.Signature(request_layout())),
                "write_data": Out(stream.Signature(write_beat_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        job = Signal(convert_layout)
        start = Signal()
        m.d.comb += self.command.ready.eq(~self.busy)
        m.d.sync += start.eq(0)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [job.eq(self.command.payload), self.busy.eq(1), start.eq(1)]
        with m.If(self.done):
            m.d.sync += self.busy.eq(0)
        groups = self._read(m, platform, job, start)
        stage, measured = self._quantise(m, platform, job, start, groups)
        self._write(m, platform, job, start, stage, measured)
        self._flag(m, stage, start)
        return m

    @property
    def _sizes(self):
        return {"block": self.geometry.block, "data_width": self.geometry.data_width}

    def _read(self, m, platform, job, start):
        """Walk the groups and ask for their data; the stream of groups asked for."""
        block = self.geometry.block
        layout = group_layout(block)
        m.submodules.walk = place(walk := GroupWalk(block=block), platform)
        m.submodules.requests = place(requests := ReadRequests(**self._sizes), platform)
        to_request = StreamFifo(shape=layout, depth=2)
        to_read = StreamFifo(shape=layout, depth=_GROUPS_AHEAD)
        m.submodules.to_request = place(to_request, platform)
        m.submodules.to_read = place(to_read, platform)
        pitch = Signal(35)
        beat_shift = exact_log2(self.geometry.beat_bytes)
        floats = self.geometry.floats
        m.d.comb += pitch.eq(((job.cols + (floats - 1)) >> exact_log2(floats)) << beat_shift)
        m.d.comb += [
            walk.start.eq(start),
            walk.rows.eq(job.rows),
            walk.cols.eq(job.cols),
            walk.source.eq(job.source),
            walk.pitch.eq(pitch),
            requests.pitch.eq(pitch),
        ]
        fork(m, walk.o, to_request.i, to_read.i)
        connect(m, to_request.o, requests.i)
        connect(m, requests.o, flipped(self.read_request))
        return to_read.o

    def _quantise(self, m, platform, job, start, groups):
        """Both passes over a group; the second pass, and the stream of groups measured."""
        m.submodules.intake = place(intake := Intake(**self._sizes), platform)
        stage = QuantiseStage(
            mantissa_bits=self.mantissa_bits,
            rounding=self.rounding,
            random_bits=self.random_bits,
            **self._sizes,
        )
        m.submodules.stage = place(stage, platform)
        sizes = self.geometry
        buffer = Ram(width=32 * sizes.lanes, depth=2 * sizes.group_words)
        m.submodules.buffer = place(buffer, platform)
        layout = measured_layout(sizes.block)
        to_stage = StreamFifo(shape=layout, depth=2)
        to_output = StreamFifo(shape=layout, depth=_GROUPS_INSIDE)
        m.submodules.to_stage = place(to_stage, platform)
        m.submodules.to_output = place(to_output, platform)
        connect(m, groups, intake.group)
        connect(m, flipped(self.read_data), intake.data)
        fork(m, intake.o, to_stage.i, to_output.i)
        connect(m, to_stage.o, stage.i)
        m.d.comb += [
            buffer.write_en.eq(intake.write_en),
            buffer.write_addr.eq(intake.write_addr),
            buffer.write_data.eq(intake.write_data),
            buffer.read_en.eq(stage.read_en),
            buffer.read_addr.eq(stage.read_addr),
            stage.read_data.eq(buffer.read_data),
            intake.freed.eq(stage.read_done),
            stage.cls.eq(job.cls),
            stage.cols.eq(job.cols),
            stage.seed.eq(self.seed),
            stage.tag.eq(job.tag),
            stage.step.eq(job.step),
            stage.restart.eq(start),
        ]
        return stage, to_output.o

    def _write(self, m, platform, job, start, stage, measured):
        """Order, pack and write what the lanes made."""
        element_bits = tuple(bits + 1 for bits in self.mantissa_bits)
        lanes, width = self.geometry.lanes, self.geometry.data_width
        reorder = Reorder(element_bits=max(element_bits), **self._sizes)
        packer = Packer(lanes=lanes, element_bits=element_bits, data_width=width)
        output = Output(
            mantissa_bits=self.mantissa_bits, max_col_blocks=self.max_col_blocks, **self._sizes
        )
        m.submodules.reorder = place(reorder, platform)
        m.submodules.packer = place(packer, platform)
        m.submodules.output = place(output, platform)
        connect(m, reorder.o, packer.i)
        connect(m, packer.o, output.mantissas)
        connect(m, measured, output.i)
        connect(m, output.request, flipped(self.write_request))
        connect(m, output.o, flipped(self.write_data))
        m.d.comb += [
            reorder.write_en.eq(stage.write_en),
            reorder.write_addr.eq(stage.write_addr),
            reorder.write_data.eq(stage.write_data),
            reorder.filled.eq(stage.written),
            stage.freed.eq(reorder.freed),
            packer.cls.eq(job.cls),
            output.start.eq(start),
            output.cls.eq(job.cls),
            output.rows.eq(job.rows),
            output.cols.eq(job.cols),
            output.destination.eq(job.destination),
            self.done.eq(output.done),
        ]

    def _flag(self, m, stage, start):
        with m.If(stage.nan):
            m.d.sync += self.nan.eq(1)
        with m.If(stage.inf):
            m.d.sync += self.inf.eq(1)
        m.d.sync += self.saturated.eq(self.saturated + stage.saturated)
        with m.If(start):
            m.d.sync += [self.nan.eq(0), self.inf.eq(0), self.saturated.eq(0)]
