"""Execute the command ``convert``: the top unit of the converter."""

from amaranth.hdl import Array, Assert, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from diastole_hw.bus.gathered_writes import DEPTH
from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.converter_control import ConverterControl, convert_layout
from diastole_hw.convert.image.copy_arbiter import CopyArbiter
from diastole_hw.convert.image.exponents import ExponentField
from diastole_hw.convert.image.image_maxima import MAX_COL_BLOCKS
from diastole_hw.convert.image.image_writer import ImageWriter
from diastole_hw.convert.image.pack import Packer, PlanePacker
from diastole_hw.convert.image.reorder import Reorder
from diastole_hw.convert.image.transposed_reorder import TransposedReorder
from diastole_hw.convert.intake.intake import Intake
from diastole_hw.convert.intake.read_requests import ReadRequests
from diastole_hw.convert.intake.tensor_walk import TensorWalk
from diastole_hw.convert.intake.tile_index import TileIndex
from diastole_hw.convert.intake.word_assembler import WordAssembler, block_row_layout
from diastole_hw.convert.lanes.monitor import Monitor
from diastole_hw.convert.lanes.quantise import MONITORED
from diastole_hw.convert.lanes.reduction import Largest
from diastole_hw.convert.lanes.scale import tensor_scale
from diastole_hw.convert.lanes.tile_quantiser import TileQuantiser
from diastole_hw.convert.lanes.unit_reduction import UnitReduction, squares_layout
from diastole_hw.convert.tile_layouts import requested_layout, waiting_tile_layout
from diastole_hw.convert.tile_order import cut_layout
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.stream.fork import fork
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.image import PITCH_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

_TO_REQUEST = 1  # tiles that the walk has visited and whose data are not requested yet


class Converter(wiring.Component):
    """Quantise a float32 tensor by the rules of its class, and find its maxima. With vector groups,
    quantise both the tensor and its transpose.

    The tensor lies in memory. With ``streamed``, a chain (a program of the vector unit that
    processes a product's output) may stream the tensor instead: the images have the same bits.

    Numbers: as ``diastole_sim.golden.convert``; random bits: as ``hw/diastole_hw/random``; memory
    image: as in ``diastole_sim.spec.image``. A tensor is read once, or twice if its scale follows
    from the whole tensor. Its images are written once.

    Timing: one command at a time. Tiles pass through the converter one after the other, two at a
    time if the buffer holds two (:class:`ConverterSizes`). A word is ``lanes`` elements. A tile
    takes the longest of the times for reading, for the lanes and for writing. Reading takes a cycle
    per word. The lanes take a cycle per word for all copies together, or two cycles if groups of
    the class have two scales to choose from. Padding to blocks takes time in the lanes as elements
    do, but is not read. Blocks outside the tensor only take the time to write their beats. If the
    scale follows from the tensor, a first reading of the tensor precedes all tiles. Streamed rows
    are accepted as :class:`diastole_hw.convert.intake.word_assembler.WordAssembler` describes, at
    most a word per cycle, while the buffer has free space. Rows outside the tensor are accepted and
    dropped.

    Parameters
    ----------
    sizes : ConverterSizes
        Sizes of all parts of the converter. The sizes follow from the classes of tensors and the
        width of the bus.
    max_col_blocks : int
        Most columns of blocks of a tensor (1 to 65536).
    streamed : bool
        True if chains may stream tensors.
    stored_rows : int
        Most rows of blocks whose maxima wait, if chains may stream tensors in patches, as in
        :class:`diastole_hw.convert.image.image_maxima.ImageMaxima`.

    Members
    -------
    control : In(ConverterControl(planes=sizes.planar, streamed=streamed))
    rows : In(stream of :func:`block_row_layout`)
        Present with ``streamed``: the blocks of a tensor. Rows of blocks come from the top, blocks
        of a row from the left, and a block with all its rows. Or patches come one after the other,
        with their blocks in this order. Values outside the tensor are arbitrary.
    seed : In(32)
        Must not change while busy; not checked.
    busy : Out(1)
        High while a command is executed; the inverse of ``control.command.ready``.
    saturated, underflowed : Out(range(sizes.stored_at_once + 1))
        Numbers of elements in this cycle, over all images: finite elements that were too large, and
        finite nonzero elements that became zero.
    read : Out(ReadSignature(sizes.data_width))
    write : Out(WriteSignature(sizes.data_width))
        Requests are aligned to beats. A beat to write comes after its request is accepted.
    slow : Out(range(DEPTH + 1))
        Number of the first beats of a write request that may come with pauses. Later beats come
        without pauses.

    ValueError if a parameter is out of range.
    """

    def __init__(
        self,
        sizes: ConverterSizes,
        *,
        max_col_blocks: int,
        streamed: bool = False,
        stored_rows: int = 0,
    ):
        require_int("max_col_blocks", max_col_blocks, 1, MAX_COL_BLOCKS)
        self.max_col_blocks, self.streamed, self.stored_rows = max_col_blocks, streamed, stored_rows
        self.sizes = sizes
        rows = stream.Signature(block_row_layout(sizes.numerics.block))
        super().__init__(
            ({"rows": In(rows)} if streamed else {})
            | {
                "control": In(ConverterControl(planes=sizes.planar, streamed=streamed)),
                "seed": In(32),
                "busy": Out(1),
                "saturated": Out(range(self.sizes.stored_at_once + 1)),
                "underflowed": Out(range(self.sizes.stored_at_once + 1)),
                "read": Out(ReadSignature(sizes.data_width)),
                "write": Out(WriteSignature(sizes.data_width)),
                "slow": Out(range(DEPTH + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        job = data_register(convert_layout(planes=self.sizes.planar, streamed=self.streamed))
        begin = Signal()  # the first reading of the tensor begins
        start = Signal()  # the reading for the images begins
        scan = Signal()  # the current reading only finds the scale
        command = self.control.command
        m.d.comb += command.ready.eq(~self.busy)
        m.d.sync += begin.eq(0)
        with m.If(command.valid & command.ready):
            m.d.sync += [job.eq(command.payload), self.busy.eq(1), begin.eq(1)]
            for name in ("source", "destination", "destination_t"):
                address = whole_beats(command.p[name], self.sizes.beat_bytes)
                m.d.sync += job[name].eq(address)
            m.d.sync += scan.eq(self._scans(m))
        with m.If(self.control.done):
            m.d.sync += self.busy.eq(0)
        intake, streaming = self._read(m, job, begin, start, scan)
        self._start(m, job, intake, begin, start, scan)
        quantiser = self._quantise(m, job, start, intake)
        if self.sizes.numerics.draws_by_rows:
            m.d.comb += [quantiser.start.eq(start), quantiser.rows.eq(job.rows)]
        self._write(m, job, start, quantiser, streaming)
        self._report(m, quantiser, intake, start)
        # Only the exponents of a group may pause: the elements are ready when the exponents are.
        slow = (min(beats, DEPTH) for beats in self.sizes.by_class(self.sizes.exponent_beats))
        m.d.comb += self.slow.eq(by_class(m, job.cls, slow, "slow_beats"))
        return m

    def _scans(self, m):
        """Return whether the command at the input requests the scale of the data."""
        scanned = by_class(m, self.control.command.p.cls, map(int, self.sizes.scanned), "scanned")
        return scanned.bool() & (self.control.command.p.scale == 0)

    def _start(self, m, job, intake, begin, start, scan):
        """Begin with the images at once, or as soon as the scale of the tensor is known."""
        if not any(self.sizes.scanned):
            m.d.comb += start.eq(begin)
            return
        m.d.sync += start.eq(intake.done & scan)
        with m.If(begin & ~scan):
            m.d.sync += start.eq(1)
        with m.If(intake.done & scan):
            m.d.sync += scan.eq(0)
            scales = [
                tensor_scale(m, cls, chosen, intake.amax) if chosen.has_tensor_scale else Const(0)
                for cls, chosen in enumerate(self.sizes.classes)
            ]
            m.d.sync += job.scale.eq(Array(scales)[job.cls])

    def _read(self, m, job, begin, start, scan):
        """Visit the tiles, request their data and write the data into the buffer."""
        m.submodules.walk = walk = TensorWalk(self.sizes, in_patches=bool(self.stored_rows))
        m.submodules.requests = requests = ReadRequests(self.sizes)
        m.submodules.intake = intake = Intake(self.sizes, streamed=self.streamed)
        to_request = StreamFifo(shape=requested_layout(self.sizes), depth=_TO_REQUEST)
        to_read = StreamFifo(shape=self._waiting_tile, depth=self.sizes.tiles_ahead)
        m.submodules.to_request = to_request
        m.submodules.to_read = to_read
        pitch = Signal(PITCH_BITS)
        beat_shift = exact_log2(self.sizes.beat_bytes)
        floats = self.sizes.floats
        m.d.comb += pitch.eq(((job.cols + (floats - 1)) >> exact_log2(floats)) << beat_shift)
        m.d.comb += [
            walk.start.eq(start | (begin & scan)),
            walk.cls.eq(job.cls),
            walk.rows.eq(job.rows),
            walk.cols.eq(job.cols),
            walk.source.eq(job.source),
            walk.pitch.eq(pitch),
            *([walk.cut.eq(self._tiles_of(m, job, "read"))] if self.stored_rows else []),
            requests.cls.eq(job.cls),
            requests.pitch.eq(pitch),
            intake.restart.eq(begin),
            intake.scan.eq(scan),
            intake.cls.eq(job.cls),
            intake.scale.eq(job.scale),
        ]
        if any(self.sizes.folds_by_draws):
            m.d.comb += [
                intake.cols.eq(job.cols),
                intake.seed.eq(self.seed),
                intake.tag.eq(job.tag),
                intake.step.eq(job.step),
            ]
            if self.sizes.numerics.draws_by_rows:
                m.d.comb += [intake.start.eq(start), intake.rows.eq(job.rows)]
        fork(m, walk.o, to_request.i, to_read.i)
        streaming = None
        if self.streamed:
            streaming = self._stream_rows(m, job, start, intake, to_request.o, requests.i)
        else:
            connect(m, to_request.o, requests.i)
        connect(m, requests.o, flipped(self.read.requests))
        indexed = any(self.sizes.folds_by_draws)
        self._tile(m, job, walk.start, to_read.o, intake.tile, "read", indexed=indexed)
        connect(m, flipped(self.read.beats), intake.data)
        return intake, streaming

    @property
    def _waiting_tile(self):
        return waiting_tile_layout(self.sizes, in_patches=bool(self.stored_rows))

    def _tile(self, m, job, start, waiting, accepted, name, *, indexed):
        """Pass tiles from the queue ``waiting`` to ``accepted``. If ``indexed``, add the index of
        the tile, unless the queue carries the index."""
        m.d.comb += [
            accepted.valid.eq(waiting.valid),
            waiting.ready.eq(accepted.ready),
            *(accepted.p[each].eq(waiting.p[each]) for each in waiting.p.shape().members),
        ]
        if self.stored_rows or not indexed:
            return
        m.submodules[f"index_{name}"] = unit = TileIndex(self.sizes)
        m.d.comb += [
            unit.start.eq(start),
            unit.cls.eq(job.cls),
            unit.cols.eq(job.cols),
            unit.leaves.eq(accepted.valid & accepted.ready),
            unit.last_col.eq(waiting.p.last_col),
            accepted.p.index.eq(unit.index),
        ]

    def _tiles_of(self, m, job, name):
        """Return the cut of the tensor into patches, with lengths in tiles."""
        sizes = self.sizes
        cut = Signal(cut_layout(), name=f"{name}_cut")
        m.d.comb += [cut.cut.eq(job.cut.cut), cut.by_columns.eq(job.cut.by_columns)]
        for length, of_tile in (("high", sizes.tile_rows), ("wide", sizes.tile_cols)):
            counts = [side // sizes.block for side in sizes.by_class(of_tile)]
            less_1 = by_class(m, job.cls, [count - 1 for count in counts], f"{name}_{length}_rest")
            shift = by_class(m, job.cls, map(exact_log2, counts), f"{name}_{length}_shift")
            m.d.comb += cut[length].eq((job.cut[length] + less_1) >> shift)
        return cut

    def _stream_rows(self, m, job, start, intake, requested, requests):
        """Stream the rows of a chain into the intake; no data are requested from memory meanwhile.
        Return whether the chain has more rows to send."""
        m.submodules.word_assembler = assembler = WordAssembler(self.sizes)
        connect(m, flipped(self.rows), assembler.i)
        connect(m, assembler.o, intake.words)
        m.d.comb += [
            assembler.start.eq(start & job.streamed),
            assembler.rows.eq(job.rows),
            assembler.cols.eq(job.cols),
            *([assembler.cut.eq(job.cut)] if self.stored_rows else []),
            intake.by_blocks.eq(job.streamed),
            requests.payload.eq(requested.payload),
            requests.valid.eq(requested.valid & ~job.streamed),
            requested.ready.eq(requests.ready | job.streamed),
        ]
        return assembler.busy

    def _quantise(self, m, job, start, intake):
        """Connect the buffer, the measurement of tiles in the buffer, and the passes over the
        tiles."""
        sizes = self.sizes
        largest = Largest(bits=sizes.measured_bits)
        keys = {"halves": sizes.buffered_tiles, "by_blocks": self.streamed}
        m.submodules.gather = gather = UnitReduction(self.sizes, reduction=largest, **keys)
        m.submodules.quantiser = quantiser = TileQuantiser(self.sizes)
        tiles = StreamFifo(shape=self._waiting_tile, depth=max(2, sizes.buffered_tiles))
        pieces = max(2, sizes.buffered_tiles * sizes.max_pieces)
        squares = StreamFifo(shape=squares_layout(sizes), depth=pieces)
        m.submodules.tiles = tiles
        m.submodules.squares = squares
        buffer = Ram(width=32 * sizes.lanes, depth=max(2, sizes.buffered_tiles * sizes.tile_words))
        m.submodules.buffer = buffer
        # The queues only hold tiles, or pieces of tiles, that are in the buffer.
        m.d.sync += Assert(~intake.loaded.valid | tiles.i.ready, "no room for a tile")
        m.d.sync += Assert(~gather.done | squares.i.ready, "no room for a piece's squares")
        m.d.comb += [
            tiles.i.valid.eq(intake.loaded.valid),
            intake.loaded.ready.eq(tiles.i.ready),
            *(tiles.i.p[each].eq(intake.loaded.p[each]) for each in tiles.i.p.shape().members),
        ]
        indexed = any(sizes.draws)
        self._tile(m, job, start, tiles.o, quantiser.tile, "quantised", indexed=indexed)
        connect(m, squares.o, quantiser.squares)
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
            buffer.read_en.eq(quantiser.read_en),
            buffer.read_addr.eq(quantiser.read_at.as_value()),
            quantiser.read_data.eq(buffer.read_data),
            intake.freed.eq(quantiser.read_done),
            quantiser.cls.eq(job.cls),
            quantiser.scale.eq(job.scale),
            quantiser.cols.eq(job.cols),
            quantiser.seed.eq(self.seed),
            quantiser.tag.eq(job.tag),
            quantiser.step.eq(job.step),
            quantiser.planes.eq(job.planes),
        ]
        if sizes.two_copies:
            m.d.comb += [
                gather.values_t.eq(intake.values),
                gather.read_en.eq(quantiser.read_en),
                gather.read_row.eq(quantiser.read_at.row),
                gather.read_word.eq(quantiser.read_at.word),
                gather.read_half.eq(quantiser.read_at.half),
                quantiser.row_value.eq(gather.row_value),
                quantiser.column_values.eq(gather.column_values),
            ]
        return quantiser

    def _write(self, m, job, start, quantiser, streaming):
        """Order, pack and write the elements from the lanes. ``streaming``: rows are still to come;
        None without ``streamed``."""
        sizes = self.sizes
        most = {"max_col_blocks": self.max_col_blocks, "stored_rows": self.stored_rows}
        m.submodules.writer = writer = ImageWriter(self.sizes, **most)
        reorder, field = Reorder(self.sizes), ExponentField(self.sizes, copy=0)
        m.submodules.reorder = reorder
        m.submodules.field = field
        packed = self._pack(m, job, quantiser.first, reorder, field, "")
        group, exponents = quantiser.first.group, field.o
        if sizes.two_copies:
            reorder, field = TransposedReorder(self.sizes), ExponentField(self.sizes, copy=1)
            arbiter = CopyArbiter(self.sizes)
            m.submodules.reorder_t = reorder
            m.submodules.field_t = field
            m.submodules.arbiter = arbiter
            transposed = self._pack(m, job, quantiser.second, reorder, field, "_t")
            connect(m, group, arbiter.first.group)
            connect(m, exponents, arbiter.first.exponents)
            connect(m, packed, arbiter.first.elements)
            connect(m, quantiser.second.group, arbiter.second.group)
            connect(m, field.o, arbiter.second.exponents)
            connect(m, transposed, arbiter.second.elements)
            group, exponents, packed = arbiter.o.group, arbiter.o.exponents, arbiter.o.elements
            m.d.comb += [
                reorder.write_at.eq(quantiser.write_at),
                quantiser.second.freed.eq(reorder.freed),
                quantiser.first.freed.eq(arbiter.freed),
            ]
        else:
            # Elements wait for the last exponent of their group. The unit holds two groups.
            beats = 2 * max(sizes.by_class(sizes.element_beats))
            m.submodules.packed = queue = StreamFifo(shape=packed.p.shape(), depth=beats)
            m.d.sync += Assert(~packed.valid | queue.i.ready, "no room for a beat")
            connect(m, packed, queue.i)
            packed = queue.o
            left = packed.valid & packed.ready & packed.p.last
            m.d.comb += quantiser.first.freed.eq(left)
        connect(m, group, writer.group)
        connect(m, packed, writer.elements)
        connect(m, writer.request, flipped(self.write.requests))
        connect(m, writer.o, flipped(self.write.beats))
        m.d.comb += [
            writer.exponents.p.byte.eq(exponents.p.byte),
            writer.exponents.p.last.eq(exponents.p.last),
            writer.exponents.valid.eq(exponents.valid),
            exponents.ready.eq(writer.exponents.ready),
            writer.start.eq(start),
            writer.cls.eq(job.cls),
            writer.rows.eq(job.rows),
            writer.cols.eq(job.cols),
            writer.destination.eq(job.destination),
            writer.destination_t.eq(job.destination_t),
            writer.scale.eq(job.scale),
            *([writer.cut.eq(self._tiles_of(m, job, "written"))] if self.stored_rows else []),
            writer.planes.eq(job.planes),
            self.control.done.eq(self._done(m, writer, streaming)),
        ]

    def _done(self, m, writer, streaming):
        """Return whether all is written. Rows below a tensor may come later, and belong to the
        tensor."""
        if streaming is None:
            return writer.done
        written = Signal()
        done = (writer.done | written) & ~streaming
        m.d.sync += written.eq((writer.done | written) & streaming)
        return done

    def _pack(self, m, job, port, reorder, field, suffix):
        """Connect the units that order and pack the elements of a copy. Return the stream of
        beats."""
        sizes = self.sizes
        keys = {"lanes": sizes.lanes, "data_width": sizes.data_width}
        if sizes.planar:
            packer = PlanePacker(planes=sizes.max_planes, **keys)
        else:
            packer = Packer(element_bits=sizes.element_bits, **keys)
        m.submodules[f"packer{suffix}"] = packer
        connect(m, reorder.o, packer.i)
        m.d.comb += [
            reorder.write_en.eq(port.write_en),
            reorder.write_data.eq(port.write_data),
            reorder.filled.eq(port.filled),
            field.cls.eq(job.cls),
            field.write_en.eq(port.field_en),
            field.write_half.eq(port.field_half),
            field.write.eq(port.field),
            field.filled.eq(port.filled),
            port.field_freed.eq(field.freed),
            *([] if sizes.planar else [packer.cls.eq(job.cls)]),
        ]
        return packer.o

    def _report(self, m, quantiser, intake, start):
        report = self.control
        m.d.comb += report.amax.eq(intake.amax)
        with m.If(quantiser.nan):
            m.d.sync += report.nan.eq(1)
        with m.If(quantiser.inf):
            m.d.sync += report.inf.eq(1)
        m.d.comb += self.saturated.eq(quantiser.saturated)
        m.d.comb += self.underflowed.eq(quantiser.underflowed)
        if self.sizes.planar:
            self._monitor(m, quantiser, start)
        with m.If(start):
            m.d.sync += [report.nan.eq(0), report.inf.eq(0)]

    def _monitor(self, m, quantiser, start):
        m.submodules.monitor = monitor = Monitor(lanes=self.sizes.lanes)
        m.d.comb += [
            monitor.clear.eq(start),
            monitor.en.eq(quantiser.monitor_en),
            *(getattr(monitor, name).eq(getattr(quantiser, name)) for name in MONITORED),
            self.control.improvement_num.eq(monitor.num),
            self.control.improvement_den.eq(monitor.den),
        ]
