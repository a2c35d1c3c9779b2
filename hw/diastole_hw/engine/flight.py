"""Two products in flight: which stage of the engine is at which of them, and when they end."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import GIVEN_RESULT, GIVEN_RESULTS, RESULT, product_layout
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
    """What the array asks of a product."""
    whole = (f"{name}_whole" for name in DIRECTIONS)
    return _only(plan, "mode", "north", "t_step", "held_stride", *whole, "planes")


def loaded_layout(plan: Plan) -> data.StructLayout:
    """What the load unit asks of it, its loops among it."""
    return _without(plan, "exponents", "chain")


def older_layout(plan: Plan) -> data.StructLayout:
    """What is still asked of a product that has been loaded."""
    return _only(plan, *array_layout(plan).members, "exponents", "lanes_outermost", "chain")


def stored_layout(plan: Plan, direction: str) -> data.StructLayout:
    """What the drain of a direction asks of it; ``whole``: that of the direction."""
    asked = _only(plan, "mode", "exponents", "lanes_outermost", "t_step", "chain").members
    whole = product_layout(plan)[f"{direction}_whole"].shape
    return data.StructLayout(asked | {"whole": whole})


class LoadSignature(wiring.Signature):
    """The load unit, seen from :class:`Flight`.

    Parameters: ``plan``.

    Members
    -------
    start : Out(1)
        A pulse, only while not ``busy``: load ``product``.
    anew : Out(1)
        With ``start``: nothing else is in flight.
    busy : In(1)
        From the cycle after ``start`` until all of the product has been asked for.
    product, number, command : Out(loaded_layout(plan)), Out(1), Out(1)
        The product at hand, from ``start`` to the next one: which of the two in flight, and which
        command it is of.
    """

    def __init__(self, plan: Plan):
        super().__init__(
            {
                "start": Out(1),
                "anew": Out(1),
                "busy": In(1),
                "product": Out(loaded_layout(plan)),
                "number": Out(1),
                "command": Out(1),
            }
        )


class ExecuteSignature(wiring.Signature):
    """What cuts chunks into passes, seen from :class:`Flight`.

    Parameters: ``plan``.

    Members
    -------
    waits, next : In(1), In(1)
        A chunk waits for it, and the number of the chunk's product.
    product, number : Out(array_layout(plan)), Out(1)
        The product whose chunks it may cut; constant as long as such a chunk waits.
    """

    def __init__(self, plan: Plan):
        super().__init__(
            {"waits": In(1), "next": In(1), "product": Out(array_layout(plan)), "number": Out(1)}
        )


class StoreSignature(wiring.Signature):
    """The drain of a direction, seen from :class:`Flight`.

    Parameters: ``plan``; ``direction``.

    Members
    -------
    waits, next : In(1), In(1)
        A tile waits for it, and the number of the tile's product.
    busy : In(1)
        It has a tile, or floats of one.
    closes : In(1)
        A pulse: the last sum of a tile has been read (of the last one, where a tile of what is held
        has several).
    product, number, command : Out(stored_layout(plan, direction)), Out(1), Out(1)
        The product whose tiles it may take; constant while ``busy``.
    result : Out(RESULT)
        Its result. ``rows`` are there where tiles may be turned, in the north of a machine with a
        fused pass. ``tile_pitch`` is right from 2 cycles after the product is shown on: the first
        tile of a product needs none.
    oldest : Out(1)
        Of those in flight that product is the oldest; there in a machine with a vector unit.
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
    """A field of a record, whatever it is, as a number."""
    return Value.cast(value)


class Flight(wiring.Component):
    """Hand products from stage to stage, and say when they are done.

    At most two are in flight, with numbers 0 and 1 in turn. The record of the newer one is what
    set-up shows; that of the older one, of which the load unit has done all, is kept here. The
    results of both are in tables of two words.

    The load unit begins with the newer one when it has done all of the older one; but the fused
    pass begins when nothing else is in flight, and nothing begins before it has ended, because it
    has its own halves of a scratchpad and all maxima. The other stages go from product to product
    with what waits for them. A product is in flight until it has been loaded and the last sums of
    all its tiles have been drained: as long as any chunk of it is.

    Timing: ``load.start`` comes with ``set_up_done``, or in the first cycle in which it may.
    ``execute`` and the drains go over to a product in the cycle after they have seen its chunk or
    tile, or after ``load.start`` if nothing else is in flight. ``done`` comes in the cycle after
    the first one in which nothing of the oldest product is in flight.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    start, command : In(1), In(1)
        A pulse, only while ``ready``: set-up begins with a product, of this command.
    ready : Out(1)
        Nothing is in flight but a product of which the load unit has done all.
    results : In(GIVEN_RESULTS)
        With ``start``: those of the product. ``base`` and ``pitch`` are multiples of a beat: their
        lowest bits are not looked at.
    set_up, set_up_done : In(product_layout(plan)), In(1)
        The newer product, as set-up has it; ``set_up_done`` is 0 from the cycle after ``start``
        until it is right, 2 cycles at the least.
    newest_command : Out(1)
        Its command.
    load : Out(LoadSignature(plan))
    execute : Out(ExecuteSignature(plan))
    east, north : Out(StoreSignature(plan, direction))
    opens : In(1)
        A pulse: the first request for a tile of ``load.product`` is made.
    room : Out(1)
        There are maxima for another tile of ``load.product``.
    busy : Out(1)
        A product is in flight.
    busy_behind : Out(1)
        Another one than the oldest is.
    done, done_command : Out(1), Out(1)
        A pulse: the oldest is not any more.
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
                "results": In(GIVEN_RESULTS),
                "set_up": In(product_layout(plan)),
                "set_up_done": In(1),
                "newest_command": Out(1),
                "load": Out(LoadSignature(plan)),
                "execute": Out(ExecuteSignature(plan)),
                **{name: Out(StoreSignature(plan, name)) for name in DIRECTIONS},
                "opens": In(1),
                "room": Out(1),
                "busy": Out(1),
                "busy_behind": Out(1),
                "done": Out(1),
                "done_command": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        newest = Signal()  # its number
        layout = older_layout(self.plan)
        older = data_register(layout)
        live = Signal()  # the newer one is in flight
        older_live = Signal()
        waits = Signal()  # the newer one for the load unit; its set-up is part of that
        loading = Signal()  # or did in the cycle before: whether there is work is known late
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
        with m.If(self.ready):  # so nothing needs what is there
            m.d.sync += _bits(older).eq(Cat(_bits(self.set_up[name]) for name in layout.members))
        with m.If(self.start):
            m.d.sync += [newest.eq(~newest), live.eq(1), waits.eq(1)]
            m.d.sync += [older_live.eq(live & ~done_newer), commands[~newest].eq(self.command)]

        def show(port, name, moves, own):
            """The product that a stage is at: where it ``moves``, that of the number that is next
            for it. Which of both records that is, is a register, since it chooses hundreds of bits.
            ``own``: fields that the stage calls otherwise. Returns the number."""
            number = Signal(name=f"at_{name}")
            following = Signal(name=f"following_{name}")
            kept = Signal(name=f"older_for_{name}")
            m.d.comb += following.eq(number)
            with m.If(self.load.start & ~older_live):
                m.d.comb += following.eq(newest)
            with m.Elif(moves):
                m.d.comb += following.eq(port.next)
            m.d.sync += [number.eq(following), kept.eq(following != (newest ^ self.start))]
            for member in port.product.shape().members:
                field = own.get(member, member)
                record = Mux(kept, _bits(older[field]), _bits(self.set_up[field]))
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
        alone = data_register()  # of the cycle before, and constant long before set-up is done
        m.d.sync += alone.eq((self.set_up.mode == Mode.FUSED) | (older.mode == Mode.FUSED))
        m.d.comb += [
            load.start.eq(waits & self.set_up_done & ~(older_live & alone)),
            load.anew.eq(~older_live),
            *(load.product[name].eq(self.set_up[name]) for name in load.product.shape().members),
            load.number.eq(newest),
            load.command.eq(self.newest_command),
        ]

    def _drain(self, m, newest, older_live, commands, name, show):
        """The number of the product whose tiles a drain takes."""
        store = getattr(self, name)
        at = show(store, name, store.waits & ~store.busy, {"whole": f"{name}_whole"})
        m.d.comb += store.command.eq(commands[at])
        if self.plan.vector is not None:
            m.d.comb += store.oldest.eq(at == (newest ^ older_live))
        return at

    def _result(self, m, name, newest):
        """Both products' in a table; shows the drain's, and returns its pitch. Only where tiles are
        turned a drain asks how many rows there are."""
        store, given = getattr(self, name), self.results[name]
        low = exact_log2(self.plan.beat_bytes)  # bits that are 0 of what is a multiple of beats
        kept = {each: Shape.cast(shape).width for each, shape in GIVEN_RESULT.members.items()}
        zeros = dict.fromkeys(kept, 0) | {"base": low, "pitch": low}
        if not (name == "north" and self.plan.fused):
            del kept["rows"]
        layout = data.StructLayout({each: bits - zeros[each] for each, bits in kept.items()})
        m.submodules[f"{name}_results"] = ram = DistributedRam(width=layout.size, depth=2)
        result = Signal(layout, name=f"result_{name}")
        m.d.comb += [
            ram.write_en.eq(self.start),
            ram.write_addr.eq(~newest),
            ram.write_data.eq(Cat(given[each][zeros[each] :] for each in kept)),
            ram.read_addr.eq(store.number),
            _bits(result).eq(ram.read_data),
            *(store.result[each].eq(result[each] << zeros[each]) for each in kept),
        ]
        return store.result.pitch

    def _tile_pitches(self, m, pitches):
        """What T tiles take of results, whose lengths are powers of two: of one direction after the
        other, with one shifter."""
        plan = self.plan
        turn = Signal(range(len(pitches)))
        steps = [getattr(self, name).product.t_step for name in pitches]
        step = Array(steps)[turn] if len(pitches) > 1 else steps[0]
        most = max(plan.tile_blocks, plan.fused_tile_blocks if plan.fused else 1)
        log_blocks = Signal(range(most.bit_length()))
        shifted = Signal(ADDRESS_BITS)
        m.d.comb += [
            bit.eq(Cat(step[log] for log in range(most.bit_length()) if log >> place & 1).any())
            for place, bit in enumerate(log_blocks)
        ]
        pitch = Array(pitches.values())[turn] << plan.log_block
        m.d.comb += shifted.eq(pitch << log_blocks)
        m.d.sync += turn.eq(~turn)
        for number, name in enumerate(pitches):
            kept = data_output(m, getattr(self, name).result.tile_pitch, f"tile_pitch_{name}")
            with m.If(turn == number):
                m.d.sync += kept.eq(shifted)

    def _tiles(self, m, numbers):
        """By direction and number, the tiles between their first request and their last sum."""
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
        m.d.comb += self.room.eq(Cat(rooms).all())
        return counts

    def _goes(self, direction: str, product: data.View):
        """Whether a product has sums in a direction."""
        plan = self.plan
        if direction not in plan.directions:
            return 0
        if len(plan.directions) == 1:
            return 1
        if direction == "east":
            return ~product.north
        return product.north | (product.mode == Mode.FUSED)
