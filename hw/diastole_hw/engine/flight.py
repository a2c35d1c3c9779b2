"""Track two products in flight: the product of every stage, and the end of a product."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import COMMAND_RESULT, COMMAND_RESULTS, RESULT, product_layout
from diastole_hw.stream.credit import Credit
from diastole_sim.spec.command_table import ADDRESS_BITS

DIRECTIONS = ("east", "north")


def _without(plan: Plan, *names: str) -> data.StructLayout:
    members = product_layout(plan).members.items()
    return data.StructLayout({name: shape for name, shape in members if name not in names})


def _only(plan: Plan, *names: str) -> data.StructLayout:
    members = product_layout(plan).members
    return data.StructLayout({name: members[name] for name in names if name in members})


def array_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of the product fields that the array uses."""
    whole = (f"{name}_whole" for name in DIRECTIONS)
    return _only(plan, "mode", "north", "t_step", "stationary_stride", *whole, "planes")


def loaded_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of the product fields that the load unit uses, including the loop nest."""
    return _without(plan, "exponents", "chain")


def older_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of the product fields that later stages use when a product has been
    loaded."""
    return _only(plan, *array_layout(plan).members, "exponents", "lanes_outermost", "chain")


def stored_layout(plan: Plan, direction: str) -> data.StructLayout:
    """Return the layout of the product fields that the drain of a direction uses. ``whole`` is the
    field of the direction."""
    requested = _only(plan, "mode", "exponents", "lanes_outermost", "t_step", "chain").members
    whole = product_layout(plan)[f"{direction}_whole"].shape
    return data.StructLayout(requested | {"whole": whole})


class LoadSignature(wiring.Signature):
    """Load unit, seen from :class:`Flight`.

    Parameters: ``plan``.

    Members
    -------
    start : Out(1)
        Pulse, only while not ``busy``: load ``product``.
    from_idle : Out(1)
        With ``start``: no other product is in flight.
    busy : In(1)
        High from the cycle after ``start`` until all data of the product have been requested.
    product, number, command : Out(loaded_layout(plan)), Out(1), Out(1)
        Product to load, valid from ``start`` until ``busy`` falls: its record, its number among the
        two products in flight, and the number of its command.
    """

    def __init__(self, plan: Plan):
        super().__init__(
            {
                "start": Out(1),
                "from_idle": Out(1),
                "busy": In(1),
                "product": Out(loaded_layout(plan)),
                "number": Out(1),
                "command": Out(1),
            }
        )


class ExecuteSignature(wiring.Signature):
    """Unit that cuts chunks into passes, seen from :class:`Flight`.

    Parameters: ``plan``.

    Members
    -------
    waits, next : In(1), In(1)
        A chunk waits for the unit, and the number of the chunk's product.
    product, number : Out(array_layout(plan)), Out(1)
        Product whose chunks the unit may cut; constant while a chunk of the product waits.
    """

    def __init__(self, plan: Plan):
        super().__init__(
            {"waits": In(1), "next": In(1), "product": Out(array_layout(plan)), "number": Out(1)}
        )


class StoreSignature(wiring.Signature):
    """Drain of a direction, seen from :class:`Flight`.

    Parameters: ``plan``; ``direction``.

    Members
    -------
    waits, next : In(1), In(1)
        A tile waits for the drain, and the number of the tile's product.
    busy : In(1)
        The drain has a tile, or floats of a tile.
    closes : In(1)
        Pulse: the last sum of a tile has been read. Where every chunk of an output tile has a tile
        of sums of its own, the pulse comes with the last of these.
    product, number, command : Out(stored_layout(plan, direction)), Out(1), Out(1)
        Product whose tiles the drain may accept; constant while ``busy``.
    result : Out(RESULT)
        Result of the product. ``rows`` are valid where tiles may be transposed: in the north of a
        machine with a fused pass. ``tile_pitch`` is valid from 2 cycles after the product is output
        on: the first tile of a product needs no tile pitch.
    oldest : Out(1)
        True if the product is the oldest in flight; only in a machine with a vector unit.
    """

    def __init__(self, plan: Plan, direction: str):
        super().__init__(
            {
                "waits": In(1),
                "next": In(1),
                "busy": In(1),
                "closes": In(1),
                "product": Out(stored_layout(plan, direction)),
                "number": Out(1),
                "command": Out(1),
                "result": Out(RESULT),
            }
            | ({} if plan.vector is None else {"oldest": Out(1)})
        )


def _bits(value) -> Value:
    """Return a field of a record, of any shape, as a number."""
    return Value.cast(value)


class Flight(wiring.Component):
    """Pass products from stage to stage, and report when they are done.

    At most two products are in flight, numbered 0 and 1 alternately. The record of the newer
    product is the output of the set-up. The record of the older product, whose data are all
    requested, is stored in this unit. The results of both products are in tables of two words.

    The load unit begins with the newer product when it has requested all data of the older product.
    The fused pass begins only when no product is in flight, and no product begins before the fused
    pass has ended, because it uses separate halves of a scratchpad and all maxima. The later stages
    go from product to product with the chunks and tiles that wait for them. A product is in flight
    until it has been loaded and the last sums of all its tiles have been drained, hence as long as
    any of its chunks is.

    Timing: ``load.start`` is in the cycle of ``set_up_done``, or in the first later cycle in which
    the product may begin. ``execute`` and the drains go over to a product in the cycle after a
    chunk or tile of the product waits, or after ``load.start`` if no other product is in flight.
    ``done`` is in the cycle after the first cycle in which nothing of the oldest product is in
    flight.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    start, command : In(1), In(1)
        Pulse, only while ``ready``: the set-up of a product of this command begins.
    ready : Out(1)
        True if nothing is in flight, or only a product whose data are all requested.
    results : In(COMMAND_RESULTS)
        Results of the product, valid with ``start``. ``base`` and ``pitch`` are multiples of a
        beat: their lowest bits are ignored.
    set_up, set_up_done : In(product_layout(plan)), In(1)
        Record of the newer product from the set-up. ``set_up_done`` is 0 from the cycle after
        ``start`` until the record is valid, for at least 2 cycles.
    newest_command : Out(1)
        Command number of the newer product.
    load : Out(LoadSignature(plan))
    execute : Out(ExecuteSignature(plan))
    east, north : Out(StoreSignature(plan, direction))
    opens : In(1)
        Pulse: the first request for a tile of ``load.product`` is issued.
    space : Out(1)
        True if there is a free slot of maxima for another tile of ``load.product``.
    busy : Out(1)
        A product is in flight.
    busy_behind : Out(1)
        Two products are in flight.
    done, done_command : Out(1), Out(1)
        Pulse at the end of the oldest product, and its command number.
    """

    results: data.View
    set_up: data.View
    load: wiring.PureInterface
    execute: wiring.PureInterface
    east: wiring.PureInterface
    north: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "command": In(1),
                "ready": Out(1),
                "results": In(COMMAND_RESULTS),
                "set_up": In(product_layout(plan)),
                "set_up_done": In(1),
                "newest_command": Out(1),
                "load": Out(LoadSignature(plan)),
                "execute": Out(ExecuteSignature(plan)),
                **{name: Out(StoreSignature(plan, name)) for name in DIRECTIONS},
                "opens": In(1),
                "space": Out(1),
                "busy": Out(1),
                "busy_behind": Out(1),
                "done": Out(1),
                "done_command": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        newest = Signal()  # number of the newer product
        layout = older_layout(self.plan)
        older = data_register(layout)
        live = Signal()  # the newer product is in flight
        older_live = Signal()
        waits = Signal()  # the newer product waits for set-up and load unit
        loading = Signal()  # busy now or in the cycle before: ``load.busy`` arrives late
        commands = Array(Signal(name=f"command_{number}") for number in range(2))
        done_newer = Signal()
        done_older = Signal()
        m.d.comb += [
            self.ready.eq(~live | ~(waits | loading | older_live)),
            self.newest_command.eq(commands[newest]),
            self.busy.eq(live | older_live),
            self.busy_behind.eq(live & older_live),
            self.done.eq(done_newer | done_older),
            self.done_command.eq(commands[newest ^ done_older]),
        ]
        m.d.sync += loading.eq(waits | self.load.busy)
        with m.If(done_newer):
            m.d.sync += live.eq(0)
        with m.If(done_older):
            m.d.sync += older_live.eq(0)
        with m.If(self.load.start):
            m.d.sync += waits.eq(0)
        with m.If(self.ready):  # no older product needs the record
            m.d.sync += _bits(older).eq(Cat(_bits(self.set_up[name]) for name in layout.members))
        with m.If(self.start):
            m.d.sync += [newest.eq(~newest), live.eq(1), waits.eq(1)]
            m.d.sync += [older_live.eq(live & ~done_newer), commands[~newest].eq(self.command)]

        def show(port, name, moves, own):
            """Output the record of a stage's current product on ``port``. With ``moves`` the stage
            goes on to the product with the number ``port.next``. The selection between both records
            is a register, because it drives hundreds of bits. ``own``: names of record fields that
            differ from the port's names. Return the number of the product."""
            number = Signal(name=f"at_{name}")
            following = Signal(name=f"following_{name}")
            is_older = Signal(name=f"older_for_{name}")
            m.d.comb += following.eq(number)
            with m.If(self.load.start & ~older_live):
                m.d.comb += following.eq(newest)
            with m.Elif(moves):
                m.d.comb += following.eq(port.next)
            m.d.sync += [number.eq(following), is_older.eq(following != (newest ^ self.start))]
            for member in port.product.shape().members:
                field = own.get(member, member)
                record = Mux(is_older, _bits(older[field]), _bits(self.set_up[field]))
                m.d.comb += _bits(port.product[member]).eq(record)
            m.d.comb += port.number.eq(number)
            return number

        self._load(m, newest, older, older_live, waits)
        show(self.execute, "execute", self.execute.waits, {})
        numbers = [self._drain(m, newest, older_live, commands, name, show) for name in DIRECTIONS]
        directions = self.plan.directions
        pitches = {name: self._result(m, name, newest) for name in directions}
        self._tile_pitches(m, pitches)
        counts = self._tiles(m, numbers)
        in_flight = []
        for number in range(2):
            parts = [(waits | self.load.busy) & (newest == number)]
            stores = (self.east, self.north)
            for store, mine, tiles in zip(stores, numbers, counts, strict=True):
                parts += [store.busy & (mine == number), ~tiles[number].empty]
            here = Signal(name=f"in_flight_{number}")
            m.d.sync += here.eq(Cat(*parts).any())
            in_flight.append(here)
        of = Array(in_flight)
        m.d.comb += [
            done_older.eq(older_live & ~of[~newest]),
            done_newer.eq(live & ~older_live & ~waits & ~of[newest]),
        ]
        return m

    def _load(self, m, newest, older, older_live, waits):
        load = self.load
        alone = data_register()  # in the cycle before; constant long before set-up is done
        m.d.sync += alone.eq((self.set_up.mode == Mode.FUSED) | (older.mode == Mode.FUSED))
        m.d.comb += [
            load.start.eq(waits & self.set_up_done & ~(older_live & alone)),
            load.from_idle.eq(~older_live),
            *(load.product[name].eq(self.set_up[name]) for name in load.product.shape().members),
            load.number.eq(newest),
            load.command.eq(self.newest_command),
        ]

    def _drain(self, m, newest, older_live, commands, name, show):
        """Connect the drain of a direction. Return the number of the product whose tiles the drain
        accepts."""
        store = getattr(self, name)
        at = show(store, name, store.waits & ~store.busy, {"whole": f"{name}_whole"})
        m.d.comb += store.command.eq(commands[at])
        if self.plan.vector is not None:
            m.d.comb += store.oldest.eq(at == (newest ^ older_live))
        return at

    def _result(self, m, name, newest):
        """Store the results of both products in a table. Output the result of the drain's product,
        and return the pitch of the result. The table has the number of rows only for a drain that
        transposes tiles."""
        store, source = getattr(self, name), self.results[name]
        low = exact_log2(self.plan.beat_bytes)  # lowest bits, 0 in multiples of a beat
        widths = {each: Shape.cast(shape).width for each, shape in COMMAND_RESULT.members.items()}
        zeros = dict.fromkeys(widths, 0) | {"base": low, "pitch": low}
        if not (name == "north" and self.plan.fused):
            del widths["rows"]
        layout = data.StructLayout({each: bits - zeros[each] for each, bits in widths.items()})
        m.submodules[f"{name}_results"] = ram = DistributedRam(width=layout.size, depth=2)
        result = Signal(layout, name=f"result_{name}")
        m.d.comb += [
            ram.write_en.eq(self.start),
            ram.write_addr.eq(~newest),
            ram.write_data.eq(Cat(source[each][zeros[each] :] for each in widths)),
            ram.read_addr.eq(store.number),
            _bits(result).eq(ram.read_data),
            *(store.result[each].eq(result[each] << zeros[each]) for each in widths),
        ]
        return store.result.pitch

    def _tile_pitches(self, m, pitches):
        """Compute the pitch of T tiles in the results; tile lengths are powers of two. One shifter
        serves the directions alternately."""
        plan = self.plan
        pitch_number = Signal(range(len(pitches)))
        steps = [getattr(self, name).product.t_step for name in pitches]
        step = Array(steps)[pitch_number] if len(pitches) > 1 else steps[0]
        most = max(plan.tile_blocks, plan.fused_tile_blocks if plan.fused else 1)
        log_blocks = Signal(range(most.bit_length()))
        shifted = Signal(ADDRESS_BITS)
        m.d.comb += [
            bit.eq(Cat(step[log] for log in range(most.bit_length()) if log >> place & 1).any())
            for place, bit in enumerate(log_blocks)
        ]
        pitch = Array(pitches.values())[pitch_number] << plan.log_block
        m.d.comb += shifted.eq(pitch << log_blocks)
        m.d.sync += pitch_number.eq(~pitch_number)
        for number, name in enumerate(pitches):
            tile_pitch = data_output(m, getattr(self, name).result.tile_pitch, f"tile_pitch_{name}")
            with m.If(pitch_number == number):
                m.d.sync += tile_pitch.eq(shifted)

    def _tiles(self, m, numbers):
        """Count, by direction and number of the product, the tiles between their first request and
        their last sum. Drive ``space``."""
        counts, rooms = [], []
        most = self.plan.tiling.tiles_in_flight
        for store, at, name in zip((self.east, self.north), numbers, DIRECTIONS, strict=True):
            tiles = [Credit(most=most) for _ in range(2)]
            mine = Signal(name=f"goes_{name}")
            closed = Signal(2, name=f"closed_{name}")  # by number, in the cycle before
            m.d.comb += mine.eq(self._goes(name, self.load.product))
            m.d.sync += closed.eq(Cat(store.closes & ~at, store.closes & at))
            for number, credit in enumerate(tiles):
                m.submodules[f"{name}_tiles_{number}"] = credit
                m.d.comb += [
                    credit.take.eq(self.opens & mine & (self.load.number == number)),
                    credit.give.eq(closed[number]),
                ]
            counts.append(tiles)
            rooms.append(~mine | (tiles[0].count + tiles[1].count < most))
        m.d.comb += self.space.eq(Cat(rooms).all())
        return counts

    def _goes(self, direction: str, product: data.View):
        """Return whether a product has sums in a direction."""
        plan = self.plan
        if direction not in plan.directions:
            return 0
        if len(plan.directions) == 1:
            return 1
        if direction == "east":
            return ~product.north
        return product.north | (product.mode == Mode.FUSED)
