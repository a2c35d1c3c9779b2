"""Two products in flight: which stage of the engine is at which of them, and when they end."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_hw.plan.uses import Mode
from diastole_hw.registers import data_register
from diastole_hw.schedule.tokens import product_layout
from diastole_hw.stream.credit import Credit

DIRECTIONS = ("east", "north")
_IMAGES = ("tensors", "lengths")


def _without(plan: Plan, *names: str) -> data.StructLayout:
    members = product_layout(plan).members.items()
    return data.StructLayout({name: shape for name, shape in members if name not in names})


def array_layout(plan: Plan) -> data.StructLayout:
    """What the array asks of a product, its loops among it."""
    return _without(plan, *_IMAGES, "exponents", "to_east", "to_north", "chain")


def loaded_layout(plan: Plan) -> data.StructLayout:
    """What the load unit asks of it."""
    members = product_layout(plan).members
    images = {name: members[name] for name in _IMAGES if name in members}
    return data.StructLayout(dict(array_layout(plan).members) | images)


def older_layout(plan: Plan) -> data.StructLayout:
    """What is still asked of a product that has been loaded."""
    return _without(plan, *_IMAGES)


def stored_layout(plan: Plan, direction: str) -> data.StructLayout:
    """What the drain of a direction asks of it: ``result`` and ``whole`` are those of the
    direction."""
    product = product_layout(plan)
    names = ("mode", "exponents", "lanes_outermost", "t_step")
    own = {"whole": f"{direction}_whole", "result": f"to_{direction}"}
    chain = () if plan.vector is None else ("chain",)
    return data.StructLayout(
        {name: product[name].shape for name in names}
        | {name: product[field].shape for name, field in own.items()}
        | {name: product[name].shape for name in chain}
    )


class StageSignature(wiring.Signature):
    """A stage that walks products, seen from :class:`Flight`.

    Parameters: ``layout``, what it asks of a product.

    Members
    -------
    start : Out(1)
        A pulse, only while not ``busy``: walk ``product``.
    busy : In(1)
        From the cycle after ``start`` until nothing of the product is left in the stage.
    product, number, command : Out(layout), Out(1), Out(1)
        The product at hand, from ``start`` to the next one: which of the two in flight, and which
        command it is of.
    """

    def __init__(self, layout: data.StructLayout):
        super().__init__(
            {
                "start": Out(1),
                "busy": In(1),
                "product": Out(layout),
                "number": Out(1),
                "command": Out(1),
            }
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
            }
            | ({} if plan.vector is None else {"oldest": Out(1)})
        )


def _bits(value) -> Value:
    """A field of a record, whatever it is, as a number."""
    return Value.cast(value)


class Flight(wiring.Component):
    """Hand products from stage to stage, and say when they are done.

    At most two are in flight, with numbers 0 and 1 in turn. The record of the newer one is what
    set-up shows; that of the older one, of which the load unit has done all, is kept here. A stage
    begins with the newer one when it has done all of the older one; but the fused pass begins when
    nothing else is in flight, and nothing begins before it has ended, because it has its own halves
    of a scratchpad and all maxima.

    Timing: ``load.start`` comes with ``set_up_done``, or in the first cycle in which it may;
    ``execute.start``, a register, two cycles later, or in the cycle after the first one in which it
    may. A drain goes over to a product in the cycle after it has seen its tile. ``done`` comes in
    the cycle after the first one in which nothing of the oldest product is in flight.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    start, command : In(1), In(1)
        A pulse, only while ``ready``: set-up begins with a product, of this command.
    ready : Out(1)
        Nothing is in flight but a product of which the load unit has done all.
    set_up, set_up_done : In(product_layout(plan)), In(1)
        The newer product, as set-up has it; ``set_up_done`` is 0 from the cycle after ``start``
        until it is right, 2 cycles at the least.
    newest_command : Out(1)
        Its command.
    load : Out(StageSignature(loaded_layout(plan)))
    execute : Out(StageSignature(array_layout(plan)))
    anew : Out(1)
        With ``start`` of a stage: nothing else is in flight.
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
                "set_up": In(product_layout(plan)),
                "set_up_done": In(1),
                "newest_command": Out(1),
                "load": Out(StageSignature(loaded_layout(plan))),
                "execute": Out(StageSignature(array_layout(plan))),
                "anew": Out(1),
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
        pending = Signal()  # it is being loaded, and waits for the array
        commands = Array(Signal(name=f"command_{number}") for number in range(2))
        done_newer = Signal()
        done_older = Signal()
        m.d.comb += [
            self.ready.eq(~live | ~(waits | pending | self.load.busy | older_live)),
            self.newest_command.eq(commands[newest]),
            self.busy.eq(live | older_live),
            self.busy_behind.eq(live & older_live),
            self.done.eq(done_newer | done_older),
            self.done_command.eq(commands[newest ^ done_older]),
        ]
        with m.If(done_newer):
            m.d.sync += live.eq(0)
        with m.If(done_older):
            m.d.sync += older_live.eq(0)
        with m.If(self.load.start):
            m.d.sync += waits.eq(0)
        with m.If(self.start):
            m.d.sync += [newest.eq(~newest), live.eq(1), waits.eq(1)]
            m.d.sync += _bits(older).eq(Cat(_bits(self.set_up[name]) for name in layout.members))
            m.d.sync += [older_live.eq(live & ~done_newer), commands[~newest].eq(self.command)]

        shown = []

        def show(port, following, own):
            """The product of the number ``following``, from the next cycle on, for a stage; which
            of both records that is, is a register too, since it chooses hundreds of bits. ``own``:
            fields that the stage calls otherwise. Returns the number."""
            number = Signal(name=f"at_{len(shown)}")
            kept = Signal(name=f"older_for_{len(shown)}")
            shown.append(port)
            m.d.sync += [number.eq(following), kept.eq(following != (newest ^ self.start))]
            for name in port.product.shape().members:
                field = own.get(name, name)
                record = Mux(kept, _bits(older[field]), _bits(self.set_up[field]))
                m.d.comb += _bits(port.product[name]).eq(record)
            m.d.comb += [
                port.number.eq(number),
                port.command.eq(commands[number]),
            ]
            return number

        self._stages(m, newest, older, older_live, waits, pending, show)
        numbers = self._drains(m, newest, older_live, show)
        counts = self._tiles(m, platform, numbers)
        in_flight = []
        for number in range(2):
            parts = [stage.busy & (stage.number == number) for stage in (self.load, self.execute)]
            parts += [(waits | pending | self.execute.start) & (newest == number)]
            stores = (self.east, self.north)
            for store, mine, tiles in zip(stores, numbers, counts, strict=True):
                parts += [store.busy & (mine == number), ~tiles[number].empty]
            here = Signal(name=f"in_flight_{number}")
            begins = self.start & (newest != number)
            m.d.sync += here.eq(Cat(*parts, begins).any())
            in_flight.append(here)
        of = Array(in_flight)
        m.d.comb += [
            done_older.eq(older_live & ~of[~newest]),
            done_newer.eq(live & ~older_live & ~of[newest]),
        ]
        return m

    def _stages(self, m, newest, older, older_live, waits, pending, show):
        """Load and execute."""
        load, execute = self.load, self.execute
        alone = data_register()  # of the cycle before, and constant long before set-up is done
        m.d.sync += alone.eq((self.set_up.mode == Mode.FUSED) | (older.mode == Mode.FUSED))
        begins = Signal()  # the newer one at the array, in the next cycle
        anew = Signal(name="newest_anew")
        m.d.comb += [
            load.start.eq(waits & self.set_up_done & ~(older_live & alone)),
            begins.eq(pending & ~execute.busy),
            self.anew.eq(Mux(load.start, ~older_live, anew)),
        ]
        m.d.sync += execute.start.eq(begins)
        with m.If(load.start):
            m.d.sync += [pending.eq(1), anew.eq(~older_live)]
        with m.If(begins):
            m.d.sync += pending.eq(0)
        following = Signal(name="execute_following")
        at = show(execute, following, {})
        m.d.comb += following.eq(Mux(begins, newest, at))
        m.d.comb += [
            load.product[name].eq(self.set_up[name]) for name in loaded_layout(self.plan).members
        ]
        m.d.comb += [load.number.eq(newest), load.command.eq(self.newest_command)]

    def _drains(self, m, newest, older_live, show):
        """The numbers of the products whose tiles the drains take."""
        numbers = []
        for store, name in ((self.east, "east"), (self.north, "north")):
            following = Signal(name=f"{name}_following")
            own = {"whole": f"{name}_whole", "result": f"to_{name}"}
            at = show(store, following, own)
            m.d.comb += following.eq(at)
            with m.If(self.load.start & ~older_live):
                m.d.comb += following.eq(newest)
            with m.Elif(store.waits & ~store.busy):
                m.d.comb += following.eq(store.next)
            if self.plan.vector is not None:
                m.d.comb += store.oldest.eq(at == (newest ^ older_live))
            numbers.append(at)
        return numbers

    def _tiles(self, m, platform, numbers):
        """By direction and number, the tiles between their first request and their last sum."""
        counts, rooms = [], []
        most = self.plan.tiling.tiles_in_flight
        for store, at, name in zip((self.east, self.north), numbers, DIRECTIONS, strict=True):
            tiles = [Credit(most=most) for _ in range(2)]
            mine = Signal(name=f"goes_{name}")
            m.d.comb += mine.eq(self._goes(name, self.load.product))
            for number, credit in enumerate(tiles):
                m.submodules[f"{name}_tiles_{number}"] = place(credit, platform)
                m.d.comb += [
                    credit.take.eq(self.opens & mine & (self.load.number == number)),
                    credit.give.eq(store.closes & (at == number)),
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
