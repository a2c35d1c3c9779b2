"""Products in flight: each goes through all stages, in order, and is done when nothing of it is
left, neither earlier nor later, whatever the stages take."""

import pytest
from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.engine.flight import DIRECTIONS, Flight, older_layout
from diastole_hw.plan.modes import Mode
from formal.prove import prove, refute
from support.edits import edited
from support.plans import make_numerics, make_plan
from support.sweep import sweep

PLAN = make_plan(make_numerics(block=2), 2, 2)
MOST = PLAN.tiling.tiles_in_flight
ASSERTIONS = 16
STATE = (
    *("newest", "live", "older_live", "waits", "command_0", "command_1"),
    *(f"{what}_{name}" for what in ("at", "older_for") for name in ("execute", *DIRECTIONS)),
    *("in_flight_0", "in_flight_1"),
)
COUNTS = [f"{name}_tiles_{number}" for name in DIRECTIONS for number in range(2)]
PROBES = {f"of_{name}": f"dut.{name}" for name in (*STATE, "older")}
PROBES |= {f"of_{name}": f"dut.{name}.count" for name in COUNTS}
PROBES |= {f"of_closed_{name}": f"dut.closed_{name}" for name in DIRECTIONS}
OLDER_ALONE = "(self.set_up.mode == Mode.FUSED) | (older.mode == Mode.FUSED)"
EDITS = [
    ("~(waits | loading | older_live)", "~(waits | loading)"),
    ("~(waits | loading | older_live)", "~(waits | older_live)"),
    ("~(waits | loading | older_live)", "~(loading | older_live)"),
    ("loading.eq(waits | self.load.busy)", "loading.eq(self.load.busy)"),
    ("commands[newest ^ done_older]", "commands[newest]"),
    ("older_live.eq(live & ~done_newer)", "older_live.eq(live)"),
    (" & ~(older_live & alone)", " & ~(older_live & alone & self.opens)"),
    (OLDER_ALONE, "older.mode == Mode.FUSED"),
    ("parts = [(waits | self.load.busy)", "parts = [waits"),
    ("~older_live & ~waits & ~of[newest]", "~older_live & ~of[newest]"),
    ("following != (newest ^ self.start)", "following != newest"),
    ("[store.busy & (mine == number), ~tiles[number].empty]", "[~tiles[number].empty]"),
    ('"execute", self.execute.waits,', '"execute", 0,'),
    ("store.waits & ~store.busy", "store.waits"),
    ("self.load.start & ~older_live", "self.load.start"),
    ("Cat(store.closes & ~at, store.closes & at)", "Cat(store.closes & at, store.closes & ~at)"),
    ("done_newer.eq(live & ~older_live &", "done_newer.eq(live &"),
    ("tiles[0].count + tiles[1].count < most", "tiles[1].count < most"),
    ("load.from_idle.eq(~older_live)", "load.from_idle.eq(1)"),
]
"""Faults in the text of the unit."""


class Load:
    """Busy from the cycle after its start for as long as it likes."""

    def __init__(self, m, port, ends):
        self.port = port
        self.busy = Signal(name="own_load")
        self.number = Signal(name="own_load_number")
        with m.If(port.start):
            m.d.sync += [self.busy.eq(1), self.number.eq(port.number)]
        with m.Elif(ends):
            m.d.sync += self.busy.eq(0)
        m.d.comb += port.busy.eq(self.busy)

    def has(self, number):
        return self.busy & (self.number == number)


class Execute:
    """Has a chunk that waits, of a product with tiles, if it likes."""

    def __init__(self, m, port, likes, number, drains):
        self.port = port
        self.waits = Signal(name="own_chunk")
        self.next = Signal(name="own_chunk_number")
        self.waited = Signal(name="own_chunk_waited")
        has = Array(Cat(*(drain.tiles[n] for drain in drains)).any() for n in range(2))
        m.d.comb += [
            self.waits.eq(likes & has[number]),
            port.waits.eq(self.waits),
            port.next.eq(number),
        ]
        m.d.sync += [self.waited.eq(self.waits), self.next.eq(number)]


class Drain:
    """Takes a tile that waits when it is shown its product; reads its last sum some time later,
    and lets its last float go after that. ``tiles``: by product, between opened and read;
    ``lately``: read in the cycle before, so that its place is not free yet."""

    def __init__(self, m, port, name, goes):
        self.m, self.port, self.name, self.goes = m, port, name, Array(goes)
        self.tiles = Array(Signal(range(MOST + 1), name=f"own_{name}_{n}") for n in range(2))
        self.lately = Array(Signal(name=f"own_{name}_lately_{n}") for n in range(2))
        self.busy = Signal(name=f"own_{name}_busy")
        self.unread = Signal(name=f"own_{name}_unread")
        self.number = Signal(name=f"own_{name}_number")
        self.next = Signal(name=f"own_{name}_next")
        self.late = Signal(name=f"own_{name}_late")  # a tile waited, for another product

    def live(self, newest, opened, loaded, waits, closes, leaves):
        """``opened``: a tile of product ``loaded``; the others: if it likes to."""
        m, port = self.m, self.port
        closed, takes = Signal(name=f"{self.name}_closed"), Signal(name=f"{self.name}_takes")
        m.d.comb += [
            self.next.eq(newest ^ (self.tiles[~newest] != 0)),
            port.next.eq(self.next),
            port.busy.eq(self.busy),
            port.waits.eq(waits & (self.tiles[self.next] != 0)),
            takes.eq(port.waits & ~self.busy & (port.number == self.next)),
            closed.eq(closes & self.busy & self.unread),
            port.closes.eq(closed),
        ]
        for number in range(2):
            more = opened & self.goes[number] & (loaded == number)
            read = closed & (self.number == number)
            m.d.sync += self.tiles[number].eq(self.tiles[number] + more - read)
            m.d.sync += self.lately[number].eq(read)
        m.d.sync += self.late.eq(port.waits & ~self.busy & (port.number != self.next))
        with m.If(takes):
            m.d.sync += [self.busy.eq(1), self.unread.eq(1), self.number.eq(self.next)]
        with m.If(closed):
            m.d.sync += self.unread.eq(0)
        with m.If(self.busy & ~self.unread & leaves):
            m.d.sync += self.busy.eq(0)

    @property
    def places(self):
        """That are not free."""
        return self.tiles[0] + self.tiles[1] + self.lately[0] + self.lately[1]

    def has(self, number):
        return (self.busy & (self.number == number)) | (self.tiles[number] != 0)


class FlightSpec(wiring.Component):
    """Products, of which this side keeps by number how far they are.

    They begin whenever they may, their set-up takes any time, the load unit and drains are busy as
    long as they like, tiles are opened whenever there is room and the load unit is busy, and read
    in the order of their products; chunks wait of any product that has tiles.
    """

    def __init__(self, dut: Flight):
        self.dut = dut
        pulses = ("starts", "command", "set_up_ends", "load_ends", "chunk", "chunk_number", "opens")
        super().__init__(
            {
                **{name: In(1) for name in pulses},
                "mode": In(Mode),
                **{name: In(2) for name in ("waits", "closes", "leaves")},  # by direction
                **{f"of_{name}": In(1) for name in STATE},
                **{f"of_{name}": In(range(MOST + 1)) for name in COUNTS},
                **{f"of_closed_{name}": In(2) for name in DIRECTIONS},
                "of_older": In(older_layout(dut.plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        self.newest = newest = Signal(name="own_newest")  # its number
        names = ("flies", "fused", "north", "command", "to_load")
        self.own = own = {
            name: Array(Signal(name=f"own_{name}_{number}") for number in range(2))
            for name in names
        }
        flies, fused, north = own["flies"], own["fused"], own["north"]
        self.load = load = Load(m, dut.load, self.load_ends)
        east = [fused[n] | ~north[n] for n in range(2)]
        self.drains = drains = [
            Drain(m, dut.east, "east", east),
            Drain(m, dut.north, "north", [fused[n] | north[n] for n in range(2)]),
        ]
        self.execute = Execute(m, dut.execute, self.chunk, self.chunk_number, drains)
        opened = Signal()
        m.d.comb += [opened.eq(self.opens & load.busy & dut.space), dut.opens.eq(opened)]
        for n, drain in enumerate(drains):
            likes = (self.waits[n], self.closes[n], self.leaves[n])
            drain.live(newest, opened, load.number, *likes)
        others = flies[~newest]
        oldest, done = Signal(), Signal()
        parts = [load, *drains]
        self.left = Array(Signal(name=f"own_left_{n}") for n in range(2))  # of it in flight
        has = [Cat(own["to_load"][n], *(part.has(n) for part in parts)).any() for n in range(2)]
        self.here = has
        for n, here in enumerate(has):
            m.d.sync += self.left[n].eq(here | (dut.start & (newest != n)))
        m.d.comb += oldest.eq(newest ^ others)
        m.d.comb += done.eq(flies[oldest] & ~self.left[oldest])
        with m.If(done):
            m.d.sync += flies[oldest].eq(0)
        set_up = self._begin(m, others)
        self._check(m, set_up, others, oldest, done)
        self._induction(m, others)
        return m

    def _begin(self, m, others):
        """Begins products, and their stages; returns whether the newest is set up."""
        dut, own, newest = self.dut, self.own, self.newest
        set_up, start = Signal(name="own_set_up"), Signal(name="own_start")
        m.d.comb += [
            start.eq(self.starts & dut.ready),
            dut.start.eq(start),
            dut.command.eq(self.command),
            dut.set_up_done.eq(set_up),
            dut.set_up.mode.eq(Mux(own["fused"][newest], Mode.FUSED.value, Mode.DX.value)),
            dut.set_up.north.eq(own["north"][newest]),
        ]
        with m.If(self.set_up_ends):
            m.d.sync += set_up.eq(1)
        with m.If(dut.load.start):
            m.d.sync += own["to_load"][newest].eq(0)
        begun = {"flies": 1, "to_load": 1, "command": self.command}
        begun |= {"fused": self.mode == Mode.FUSED, "north": self.mode == Mode.DX}
        with m.If(start):
            m.d.sync += [newest.eq(~newest), set_up.eq(0)]
            m.d.sync += [own[name][~newest].eq(value) for name, value in begun.items()]
        third = start & own["flies"][~newest]
        m.d.comb += Assert(~third, "a third product")
        return set_up

    def _check(self, m, set_up, others, oldest, done):
        dut, own, newest = self.dut, self.own, self.newest
        load, execute, drains = self.load, self.execute, self.drains
        command, fused, to_load = own["command"], own["fused"], own["to_load"]
        waits = others & (fused[0] | fused[1])
        loads = to_load[newest] & set_up & ~load.busy & ~waits
        m.d.comb += [
            Assert(dut.load.start == loads, "loads too early, too late or not at all"),
            Assert(dut.done == done, "done before nothing is left, or later"),
            Assert(~dut.done | (dut.done_command == command[oldest]), "another command is done"),
            Assert(
                (dut.busy == (own["flies"][0] | own["flies"][1]))
                & (dut.busy_behind == (own["flies"][0] & own["flies"][1])),
                "others are in flight",
            ),
        ]
        port, number = load.port, Mux(load.port.start, newest, load.number)
        seen = (port.number == number) & (port.command == command[number])
        seen &= (port.product.mode == Mode.FUSED) == fused[number]
        right = [~(port.start | load.busy) | seen, ~port.start | (port.from_idle == ~others)]
        port = execute.port
        seen = (port.product.mode == Mode.FUSED) == fused[execute.next]
        right.append(~execute.waited | (seen & (port.number == execute.next)))
        space = Signal()
        full = [d.goes[load.number] & (d.places >= MOST) for d in drains]
        m.d.comb += space.eq(~Cat(*full).any())
        for drain in drains:
            port = drain.port
            seen = (port.number == drain.number) & (port.command == command[drain.number])
            seen &= (port.product.mode == Mode.FUSED) == fused[drain.number]
            right += [~drain.busy | seen, ~drain.late | (port.number == drain.next)]
        m.d.comb += [
            Assert(Cat(*right).all(), "a stage sees another product"),
            Assert(~load.busy | (dut.space == space), "room for another tile"),
        ]

    def _induction(self, m, others):
        """How the unit's registers stand to the products, and how far these can be."""
        own, newest, load, execute = self.own, self.newest, self.load, self.execute
        flies, to_load = own["flies"], own["to_load"]
        fused = own["fused"][0] | own["fused"][1]
        older = self.of_older
        mode = Mux(own["fused"][~newest], Mode.FUSED.value, Mode.DX.value)
        true = [
            self.of_newest == newest,
            self.of_live == flies[newest],
            self.of_older_live == others,
            self.of_waits == to_load[newest],
            ~others | flies[newest],
            ~others | ((older.mode.as_value() == mode) & (older.north == own["north"][~newest])),
            ~to_load[~newest],
            ~(others & fused) | to_load[newest],
            ~load.busy | (load.number == newest),
            ~load.busy | (flies[load.number] & ~to_load[load.number]),
            ~execute.waited | (self.of_at_execute == execute.next),
            ~execute.waited | (self.left[execute.next] & flies[execute.next]),
        ]
        for name in ("execute", *DIRECTIONS):
            at = getattr(self, f"of_at_{name}")
            true.append(getattr(self, f"of_older_for_{name}") == (at != newest))
        for n in range(2):
            begins = to_load[n] & (newest == n)  # in flight, though not yet in the register
            true.append((getattr(self, f"of_in_flight_{n}") | begins) == self.left[n])
            true.append(~self.here[n] | self.left[n])
        for n, command in enumerate((self.of_command_0, self.of_command_1)):
            true += [
                ~to_load[n] | flies[n],
                ~flies[n] | (command == own["command"][n]),
                ~(own["fused"][n] & own["north"][n]),
            ]
        for drain, at in zip(self.drains, (self.of_at_east, self.of_at_north), strict=True):
            mine = drain.number
            true += [
                drain.places <= MOST,
                ~drain.busy | (flies[mine] & ~to_load[mine] & drain.goes[mine] & (at == mine)),
                ~drain.unread | (drain.busy & (drain.tiles[mine] != 0)),
                ~(drain.busy & others & (mine == newest)) | (drain.tiles[~newest] == 0),
                ~drain.late | (~drain.busy & (drain.tiles[drain.next] != 0) & (at == drain.next)),
            ]
            for n in range(2):
                there = drain.tiles[n] != 0
                true.append(~there | (flies[n] & ~to_load[n] & drain.goes[n]))
                read = drain.lately[n]
                count = getattr(self, f"of_{drain.name}_tiles_{n}")
                true.append(count == drain.tiles[n] + read)
                true.append(getattr(self, f"of_closed_{drain.name}")[n] == read)
                true.append(~read | (drain.busy & ~drain.unread & (mine == n)))
        m.d.comb += Assert(Cat(*true).all(), "lost")


def test_flight():
    prove(FlightSpec(Flight(PLAN)), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("old, new", EDITS)
def test_every_fault_has_its_place(old, new):
    assert edited(Flight, old, new) is not Flight


@pytest.mark.parametrize(
    "old, new", [edit if number % 2 else sweep(*edit) for number, edit in enumerate(EDITS)]
)
@pytest.mark.sampled(2)
def test_flight_with_a_fault_in_its_text_is_refuted(old, new):
    broken = edited(Flight, old, new)
    refute(FlightSpec(broken(PLAN)), assertions=ASSERTIONS, depth=16, probes=PROBES)
