"""Top level of the vector unit: commands, tables, and chains over memory or a product."""

from functools import reduce
from operator import add
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.binary32 import float_fields
from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.chain_setup import ChainSetup, chain_layout
from diastole_hw.vector.core.vector_core import VectorCore
from diastole_hw.vector.float.narrow import not_finite
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_hw.vector.streams.chain_walk import ChainWalk
from diastole_hw.vector.streams.inputs import InputStreams
from diastole_hw.vector.streams.outputs import OutputStreams
from diastole_hw.vector.streams.product_walk import tiles_layout
from diastole_hw.vector.transfer import TableTransfer, transfer_layout
from diastole_hw.vector.vector_control import VectorControl, image_layout
from diastole_hw.vector.vector_tables import (
    WIDTH_PORTS,
    VectorTables,
    constant_layout,
    floor_layout,
)
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import FLOOR, INPUTS, OUTPUTS
from diastole_sim.spec.patches import PatchLimits
from diastole_sim.spec.stream_table import CHOICE_FIELDS, Kind


class _Units(NamedTuple):
    """Sub-units of the engine. ``walk`` sends the blocks of a chain to the core. ``ahead`` sends
    the same blocks to the inputs, earlier."""

    tables: VectorTables
    transfer: TableTransfer
    setup: ChainSetup
    inputs: InputStreams
    core: VectorCore
    outputs: OutputStreams
    ahead: ChainWalk
    walk: ChainWalk


class VectorEngine(wiring.Component):
    """Execute commands of the vector unit, one at a time: chains, and transfers of tables.

    A chain is a micro-program that runs over every block of a tensor. A chain that breaks a rule is
    refused before the chain reads or writes anything but tables. The refusal waits until the image
    of the previous chain is written. A chain that writes a NaN or Inf to a watched constant
    completes, with the image, and then stops the unit.

    Timing: a command is accepted when no command is under way, and begins in the next cycle. A
    transfer takes the time of :class:`diastole_hw.vector.transfer.TableTransfer`. A chain takes the
    time of :class:`diastole_hw.vector.core.chain_setup.ChainSetup`, of the core, and of the
    outputs, until the last beat is accepted. The core starts 4 cycles after ``done`` of the set-up,
    or later if the chain waits for tiles or for the converter. ``control.done`` is combinational
    from registers. The next command is accepted from the next cycle on, while the last rows of an
    image are converted. A second image waits for the first image. ``error_code`` is a register.

    Parameters
    ----------
    shape : VectorShape
    chain_columns : 3 integers
        Columns of the widest tensor, per class (x, w, dy), that a chain may send to the converter;
        0 for none.
    patches : PatchLimits, optional
        Limits of patches: tiles without whole rows that a chain may send to the converter. If left
        out, the converter takes no patches.
    widest : int
        Columns of the widest tensor that a chain may send in patches.

    Members
    -------
    control : In(VectorControl())
        Commands and status. A chain with a product receives the product at ``product``.
    read, write : Out(ReadSignature(data_width)), Out(WriteSignature(data_width))
    product : In(stream of row_layout(shape))
        B rows per block. Elements outside the tensor are arbitrary.
    tiles : In(stream of tiles_layout())
        Tile sizes of the result of every product with a chain, in the order of the products.
    image : Out(stream of row_layout(shape))
        Rows for the converter, in the order of the walk: the blocks of an image, which is a
        quantised tensor as memory stores the tensor.
    image_requested, image_done : Out(stream of image_layout(choices=shape.has_choices)), In(1)
        Request for an image, sent before the rows; pulse when the image is written.
    constant_put : In(constant_layout())
        Write of a constant from outside. Allowed only while no command is under way, or in the 2
        cycles after ``floor``.
    floor : Out(floor_layout())
        Constant :data:`diastole_sim.spec.micro.FLOOR` was loaded in the previous cycle.
    amax_en, amax_at, amax, amax_put_en, amax_put_at, amax_put
        Ports of the scale slots, as in :class:`diastole_hw.vector.vector_tables.VectorTables`.
        Usable at any time.
    eps, widths, width_put_en, width_put, last
        Further ports of the scale slots, only with ``shape.has_choices``. Usable at any time.
    seed : In(32)
        Seed of random numbers, stable while a chain is under way. Only with ``shape.draws``.
    working : Out(1)
        High in every cycle of an instruction.
    """

    control: wiring.PureInterface
    read: wiring.PureInterface
    write: wiring.PureInterface
    product: stream.Interface
    image: stream.Interface
    image_requested: stream.Interface
    tiles: stream.Interface
    constant_put: data.View
    floor: data.View

    def __init__(
        self,
        shape: VectorShape,
        chain_columns: tuple[int, int, int] = (0, 0, 0),
        *,
        patches: PatchLimits | None = None,
        widest: int = 0,
    ):
        self.shape, self.chain_columns, self.patches, self.widest = (
            shape,
            chain_columns,
            patches,
            widest,
        )
        row = row_layout(shape)
        super().__init__(
            {
                "control": In(VectorControl()),
                "read": Out(ReadSignature(shape.data_width)),
                "write": Out(WriteSignature(shape.data_width)),
                "product": In(stream.Signature(row)),
                "tiles": In(stream.Signature(tiles_layout())),
                "image": Out(stream.Signature(row)),
                "image_requested": Out(stream.Signature(image_layout(choices=shape.has_choices))),
                "image_done": In(1),
                "constant_put": In(constant_layout()),
                "floor": Out(floor_layout()),
                "amax_en": In(1),
                "amax_at": In(range(shape.slot_entries)),
                "amax": Out(WORD),
                "amax_put_en": In(1),
                "amax_put_at": In(range(shape.slot_entries)),
                "amax_put": In(WORD),
                "working": Out(1),
            }
            | (WIDTH_PORTS if shape.has_choices else {})
            | ({"seed": In(32)} if shape.draws else {})
        )

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        units = _Units(
            tables=VectorTables(shape),
            transfer=TableTransfer(shape),
            setup=ChainSetup(shape),
            inputs=InputStreams(shape),
            core=VectorCore(shape),
            outputs=OutputStreams(shape),
            ahead=ChainWalk(shape),
            walk=ChainWalk(shape),
        )
        for name, unit in units._asdict().items():
            m.submodules[name] = unit
        setup, transfer = units.setup, units.transfer
        chain, moved = self._keep(m)
        m.d.comb += [setup.chain.eq(chain), transfer.transfer.eq(moved)]
        m.d.comb += [setup.step.eq(self.control.step), transfer.step.eq(self.control.step)]
        tiles = data_register(tiles_layout(), name="cut")
        moves = self._sequence(m, chain, tiles, units)
        for each in (units.ahead, units.walk):
            m.d.comb += [each.chain.eq(chain), each.tiles.eq(tiles)]
        wiring.connect(m, units.ahead.blocks, units.inputs.blocks)
        wiring.connect(m, units.walk.blocks, units.core.blocks)
        self._tables(m, units)
        self._streams(m, chain, units)
        self._share(m, moves, units)
        return m

    def _keep(self, m):
        """Store the command under way. Return 2 views of the command: chain and transfer."""
        output_block = self.control.command
        transfer = Signal(transfer_layout(self.shape))
        m.d.comb += [
            transfer.store.eq(output_block.p.store),
            transfer.table.eq(output_block.p.which),
            *(transfer[n].eq(output_block.p[n]) for n in ("first", "count", "address", "advance")),
        ]
        both = (chain_layout(), transfer_layout(self.shape))
        stored = data_register(max(layout.size for layout in both), name="stored")
        with m.If(output_block.valid & output_block.ready):
            m.d.sync += stored.eq(
                Mux(output_block.p.transfer, Value.cast(transfer), Value.cast(output_block.p.chain))
            )
        return tuple(layout(stored[: layout.size]) for layout in both)

    def _sequence(self, m, chain, tiles, units):
        """Add the states of a command. Return whether the command is a transfer."""
        setup, transfer, core, outputs = units.setup, units.transfer, units.core, units.outputs
        control, moves = self.control, data_register(name="moves")
        skipped = data_register(name="skipped")
        code, refusal = data_register(8, name="code"), self._refusal(m, chain, tiles, setup)
        stops = self._not_finite(m, core, outputs)
        makes_image, written = self._image(m, chain, setup, tiles)
        with m.FSM():
            with m.State("IDLE"):  # accept a command
                m.d.comb += control.command.ready.eq(1)
                m.d.sync += [
                    moves.eq(control.command.p.transfer),
                    skipped.eq(control.command.p.skipped),
                ]
                with m.If(control.command.valid):
                    m.next = "BEGIN"
            with m.State("BEGIN"):  # start the set-up of a chain, or a transfer
                m.d.comb += [setup.start.eq(~moves), transfer.start.eq(moves)]
                m.next = "UNDER WAY"
            with m.State("UNDER WAY"):  # wait for the transfer, or for the set-up
                with m.If(transfer.done):
                    m.d.comb += control.done.eq(1)
                    m.next = "IDLE"
                with m.If(setup.done):
                    m.next = "TILES"
            with m.State("TILES"):  # receive the tiles of a chain's product
                m.d.sync += tiles.eq(self.tiles.payload)
                waits = chain.of_product & ~skipped
                m.d.comb += self.tiles.ready.eq(waits)
                with m.If(~waits | self.tiles.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):  # refuse, skip or continue the chain
                m.next = "IMAGE"
                with m.If(refusal != 0):
                    m.d.sync += code.eq(refusal)
                    m.next = "STOPS"
                with m.Elif(skipped):
                    m.d.comb += control.done.eq(1)
                    m.next = "IDLE"
            with m.State("IMAGE"):  # request the image, if the chain makes an image
                m.d.comb += self.image_requested.valid.eq(makes_image)
                with m.If(~makes_image | self.image_requested.ready):
                    m.next = "CHAIN"
            with m.State("CHAIN"):  # start core and walks
                m.d.comb += [each.start.eq(1) for each in (core, units.ahead, units.walk)]
                m.next = "RUN"
            with m.State("RUN"), m.If(core.done):  # all instructions are done
                m.next = "WRITE"
            with m.State("WRITE"), m.If(outputs.idle):  # all outputs are written
                m.d.comb += control.done.eq(~stops)
                m.next = "IDLE"
                with m.If(stops):
                    m.d.sync += code.eq(ErrorCode.NOT_FINITE)
                    m.next = "STOPS"
            with m.State("STOPS"), m.If(written):  # the last requested image is written
                m.d.sync += control.error_code.eq(code)
                m.next = "STOPPED"
            with m.State("STOPPED"):  # until a reset
                pass
        return moves

    def _refusal(self, m, chain, tiles, setup):
        """Return the error code of a refused chain, 0 if the chain is accepted. The code is valid
        after the set-up, when the tiles have arrived."""
        narrow = Signal()  # tiles of the product do not hold whole rows
        beyond = Signal()  # an image is too wide for the converter, or a unit has several streams
        unread = Signal()  # no instruction reads the product
        refusal = Signal(8)
        images = [self._makes(setup, number, Kind.IMAGE) for number in range(OUTPUTS)]
        several = reduce(add, images) > 1
        inputs = [setup.streams[number] for number in range(INPUTS)]
        products = [each.used & (each.kind == Kind.PRODUCT) for each in inputs]
        if self.shape.draws:  # there is a single source of random numbers
            drawn = [each.used & (each.kind == Kind.DRAWS) for each in inputs]
            several |= reduce(add, drawn) > 1
        rows = [self._makes(setup, number, Kind.ROW) for number in range(OUTPUTS)]
        classes = [setup.streams[INPUTS + number].tensor_class for number in range(OUTPUTS)]
        unfit = self._unfit(m, chain, tiles)
        wide, odd = [], []
        for image, cls in zip(images, classes, strict=True):
            most = Array((*self.chain_columns, 0))[cls]
            wide.append(image & (chain.cols > Mux(narrow & (cls < 3), self.widest, most)))
            odd.append(image & Array(unfit)[cls])
        m.d.comb += [
            narrow.eq(self._narrow(chain, tiles)),
            beyond.eq(Cat(wide).any() | several),
            unread.eq(chain.of_product & ~Cat(products).any()),
        ]
        with m.If(narrow & Cat(odd).any()):
            m.d.comb += refusal.eq(ErrorCode.NEST)
        with m.Elif(setup.bad_stream | beyond | unread | (narrow & Cat(rows).any())):
            m.d.comb += refusal.eq(ErrorCode.BAD_STREAM)
        with m.Elif(setup.bad_program):
            m.d.comb += refusal.eq(ErrorCode.BAD_PROGRAM)
        return refusal

    def _narrow(self, chain, tiles):
        """Return whether the tiles of the chain's product do not hold whole rows."""
        blocks = (chain.cols + (self.shape.block - 1)) >> self.shape.row_bits
        return chain.of_product & (tiles.l_step < blocks)

    def _unfit(self, m, chain, tiles):
        """Return, per class, whether the converter cannot take the product's tiles as patches."""
        unfit = Signal(4, init=~0)
        if self.patches is None:
            return unfit
        rows = (chain.rows + (self.shape.block - 1)) >> self.shape.row_bits
        stored_rows = self.patches.kept_rows
        waits = Signal()  # the converter would have to keep maxima of too many rows
        m.d.comb += waits.eq(
            (rows > stored_rows) & (tiles.lanes_outermost | (tiles.t_step > stored_rows))
        )
        for cls, (tile_rows, tile_cols) in enumerate(self.patches.tiles):
            ragged_right = tiles.l_step[: exact_log2(tile_cols)].any()
            if tile_rows > 1:
                ragged_right = tiles.l_step != tile_cols
            below = tiles.t_step[: exact_log2(tile_rows)].any() & (tiles.t_step < rows)
            m.d.comb += unfit[cls].eq(ragged_right | below | waits)
        m.d.comb += unfit[len(self.patches.tiles)].eq(1)
        return unfit

    def _makes(self, setup, number, kind):
        """Return whether output ``number`` is used and is of ``kind``."""
        stream_ = setup.streams[INPUTS + number]
        return stream_.used & (stream_.kind == kind)

    def _image(self, m, chain, setup, tiles):
        """Drive the request for an image. Return whether the chain makes an image, and whether the
        last requested image is written."""
        makes, pending, requested = Signal(), Signal(), self.image_requested.p
        for number in range(OUTPUTS):
            stream_ = setup.streams[INPUTS + number]
            with m.If(self._makes(setup, number, Kind.IMAGE)):
                m.d.comb += [
                    makes.eq(1),
                    requested.cls.eq(stream_.tensor_class),
                    requested.address.eq(stream_.address),
                    requested.offset.eq(stream_.offset),
                    requested.tag.eq(stream_.pitch),
                    requested.slot.eq(stream_.aux),
                ]
                if self.shape.has_choices:
                    for name in CHOICE_FIELDS:
                        m.d.comb += requested[name].eq(stream_[name])
        m.d.comb += [
            requested.rows.eq(chain.rows),
            requested.cols.eq(chain.cols),
            requested.cut.cut.eq(self._narrow(chain, tiles)),
            requested.cut.high.eq(tiles.t_step),
            requested.cut.wide.eq(tiles.l_step),
            requested.cut.by_columns.eq(tiles.lanes_outermost),
        ]
        with m.If(self.image_requested.valid & self.image_requested.ready):
            m.d.sync += pending.eq(1)
        with m.Elif(self.image_done):
            m.d.sync += pending.eq(0)
        return makes, ~pending

    def _not_finite(self, m, core, outputs):
        """Report NaN and Inf in watched outputs. Return a flag that is set by a watched constant,
        and stops the unit."""
        of_constant = outputs.not_finite_kind == Kind.CONSTANT
        in_panel, stops = Signal(), Signal()
        lanes = Cat(not_finite(number) for number in core.panel_write)
        m.d.sync += in_panel.eq(core.panel_write_en & core.panel_write_watched & lanes.any())
        m.d.comb += self.control.overflow.eq((outputs.not_finite & ~of_constant) | in_panel)
        with m.If(outputs.not_finite & of_constant):
            m.d.sync += stops.eq(1)
        return stops

    def _tables(self, m, units):
        """Connect the ports of the tables to the units that read and write the tables."""
        tables, transfer, setup = units.tables, units.transfer, units.setup
        core, outputs = units.core, units.outputs
        m.d.comb += [
            tables.put.eq(transfer.put),
            tables.take.eq(transfer.take),
            transfer.blocked.eq(tables.blocked),
            *(getattr(transfer, n).eq(getattr(tables, n)) for n in ("constant", "amax", "panel")),
            tables.scan_en.eq(setup.instruction_en),
            tables.scan_at.eq(setup.instruction_at),
            setup.instruction.eq(tables.instruction),
            tables.slot_en.eq(setup.slot_en),
            tables.slot_at.eq(setup.slot_at),
            setup.slot.eq(tables.slot),
            tables.instruction_en.eq(core.program_en),
            tables.instruction_at.eq(core.program_at),
            core.program_word.eq(tables.instruction),
            tables.constant_en.eq(core.constant_en),
            tables.constant_at.eq(core.constant_at),
            core.constant_word.eq(tables.constant),
            tables.panel_en.eq(core.panel_read_en),
            tables.panel_at.eq(core.panel_read_at),
            core.panel_read.eq(tables.panel),
            tables.panel_put_en.eq(core.panel_write_en),
            tables.panel_put_at.eq(core.panel_write_at),
            tables.panel_put.eq(core.panel_write),
            tables.constant_put[0].valid.eq(outputs.constant_en),
            tables.constant_put[0].index.eq(outputs.constant_at),
            tables.constant_put[0].value.eq(outputs.constant),
            tables.constant_put[1].eq(self.constant_put),
            self.amax.eq(tables.amax),
        ]
        sets_floor = (transfer.put.table == VectorTable.CONSTANTS) & (transfer.put.at == FLOOR)
        m.d.sync += [
            self.floor.valid.eq(transfer.put.valid & sets_floor),
            self.floor.field.eq(float_fields(transfer.put.chunk[:WORD]).exponent),
        ]
        for name in ("amax_en", "amax_at", "amax_put_en", "amax_put_at", "amax_put"):
            m.d.comb += getattr(tables, name).eq(getattr(self, name))
        if self.shape.has_choices:
            for name in ("eps", "widths", "last"):
                m.d.comb += getattr(self, name).eq(getattr(tables, name))
            for name in ("width_put_en", "width_put"):
                m.d.comb += getattr(tables, name).eq(getattr(self, name))
            m.d.comb += transfer.widths.eq(tables.widths)

    def _streams(self, m, chain, units):
        """Connect inputs, core and outputs, and the streams of the chain."""
        setup, inputs, core, outputs = units.setup, units.inputs, units.core, units.outputs
        for number in range(INPUTS):
            m.d.comb += inputs.streams[number].eq(setup.streams[number])
        for number in range(OUTPUTS):
            m.d.comb += outputs.streams[number].eq(setup.streams[INPUTS + number])
        m.d.comb += [
            inputs.lists.eq(setup.lists),
            inputs.by_columns.eq(chain.by_columns),
            inputs.by_lines.eq(~chain.by_columns & ~chain.of_product),
            inputs.rows_of_tensor.eq(chain.rows),
            inputs.row_at.eq(core.row_at),
            inputs.release_block.eq(core.release_block),
            core.level.eq(inputs.level),
            core.rows.eq(inputs.rows),
            core.streams.eq(setup.streams),
            core.program_first.eq(chain.first),
            core.program_length.eq(chain.length),
            core.space.eq(outputs.space),
            outputs.row_en.eq(core.out_row.valid),
            outputs.row.eq(core.out_row.row),
            self.working.eq(core.working),
            self.control.waits.input.eq(core.waits_inputs),
            self.control.waits.output.eq(core.waits_outputs),
            self.control.waits.special.eq(core.waits_specials),
        ]
        if self.shape.draws:
            m.d.comb += [
                inputs.seed.eq(self.seed),
                inputs.step.eq(self.control.step),
                inputs.columns_of_tensor.eq(chain.cols),
            ]
        wiring.connect(m, core.output_block, outputs.output_block)
        wiring.connect(m, wiring.flipped(self.product), inputs.product)
        wiring.connect(m, outputs.image, wiring.flipped(self.image))

    def _share(self, m, moves, units):
        """Give the bus to the unit of the command under way. The remaining units send no requests,
        and ignore beats."""
        transfer, inputs, outputs = units.transfer, units.inputs, units.outputs
        for ours, mine, other in (
            (self.read.requests, transfer.read.requests, inputs.read.requests),
            (self.write.requests, transfer.write.requests, outputs.write.requests),
            (self.write.beats, transfer.write.beats, outputs.write.beats),
        ):
            m.d.comb += [
                ours.valid.eq(Mux(moves, mine.valid, other.valid)),
                ours.payload.eq(Mux(moves, Value.cast(mine.payload), Value.cast(other.payload))),
                mine.ready.eq(ours.ready),
                other.ready.eq(ours.ready),
            ]
        beats = self.read.beats
        m.d.comb += beats.ready.eq(Mux(moves, transfer.read.beats.ready, inputs.read.beats.ready))
        for unit in (transfer, inputs):
            m.d.comb += [
                unit.read.beats.valid.eq(beats.valid),
                unit.read.beats.payload.eq(beats.payload),
            ]
