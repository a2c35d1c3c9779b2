"""Find the longest path of a netlist of standard cells: delays by table lookup, without wires."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diastole.synth.delay_tables import Arc, DelayLibrary

FASTEST_SLEW = 0.0186
"""Slew in ns at ports and at clocks: the least slew in the tables of the library."""
EDGES: tuple[str, ...] = ("rise", "fall")


@dataclass(frozen=True, slots=True)
class NetArrival:
    """Arrival of an edge on a net, in ns. ``time``: time of the final value. ``slew``: duration of
    the edge. ``cell``: driver of the net. ``before``: arrival at the input that decides."""

    time: float
    slew: float
    cell: str = ""
    before: "NetArrival | None" = None

    @property
    def path(self) -> tuple[tuple[str, float], ...]:
        """Cells on the way, with the delay to the cell and in the cell."""
        steps: list[tuple[str, float]] = []
        now = self
        while now.before is not None:
            steps.append((now.cell, now.time - now.before.time))
            now = now.before
        return tuple(reversed(steps))


Edges = dict[str, NetArrival]


@dataclass(frozen=True)
class Longest:
    """Longest path in ns.

    ``logic``: delay between registers and ports, without the delays of registers, as abc counts.
    ``whole``: delay from the clock of a register to the clock of the next register, with set-up.
    ``path``: cells of the path.
    """

    logic: float
    whole: float
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathEnd:
    """End of a path: at a register or a black box (``cell``), or at an output of the module
    ("")."""

    cell: str
    time: float
    came: NetArrival

    @property
    def path(self) -> tuple[str, ...]:
        """Cells of the path, with the cell at the end."""
        return tuple(cell for cell, _ in self.came.path) + ((self.cell,) if self.cell else ())


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """Cell whose output equals the input. ``load``: load of a buffer's output."""

    cell: str
    source: str
    output: str
    load: float


class Timing:
    """Static timing of a flat module in the form of ``write_json``, mapped to cells of ``library``.

    The load of a net is the sum of the capacitances of the driven pins. With a ``buffer``, a load
    above the driver's limit is driven through as many buffers as the load needs. Cells with a clock
    begin and end paths. Cells of the types ``black_boxes`` begin and end paths without a delay of
    their own. ValueError for a cell that the library does not have, or for a loop.
    """

    def __init__(
        self,
        library: DelayLibrary,
        module: Mapping[str, Any],
        *,
        black_boxes: Collection[str] = (),
        buffer: Buffer | None = None,
    ):
        self.library, self.buffer = library, buffer
        self.into_boxes: list[tuple[str, Any]] = []
        self.cells: dict[str, tuple[str, dict[str, Any]]] = {}
        self.loads: dict[Any, float] = {}
        self.drivers: dict[Any, tuple[str, str]] = {}
        for name, cell in module["cells"].items():
            if cell["type"] in black_boxes:
                self.into_boxes += [
                    (name, bit)
                    for pin, bits in cell["connections"].items()
                    if cell["port_directions"][pin] == "input"
                    for bit in bits
                ]
                continue
            if cell["type"] not in library:
                raise ValueError(f"{name} must be of the library, not {cell['type']}")
            bits = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
            self.cells[name] = cell["type"], bits
            for pin, bit in bits.items():
                of_pin = library[cell["type"]][pin]
                if of_pin.output:
                    self.drivers[bit] = name, pin
                else:
                    self.loads[bit] = self.loads.get(bit, 0.0) + of_pin.capacitance
        self.outputs = [
            bit
            for port in module["ports"].values()
            if port["direction"] == "output"
            for bit in port["bits"]
        ]

    def longest(self) -> Longest:
        """Return the longest path over all paths that end at a register or an output."""
        logic, whole = (
            max(self.ends(registers=registers), key=lambda end: end.time)
            for registers in (False, True)
        )
        return Longest(logic.time, whole.time, whole.path)

    def ends(self, *, registers: bool) -> Iterator[PathEnd]:
        """Yield the ends of all paths. ``registers``: include the delay and the set-up of
        registers."""
        arrivals = self._arrivals(registers=registers)
        nothing = dict.fromkeys(EDGES, NetArrival(0.0, FASTEST_SLEW))
        places = [("", bit) for bit in self.outputs] + self.into_boxes
        for name, bit in places:
            for came in arrivals.get(bit, nothing).values():
                yield PathEnd(name, came.time, came)
        for name, (kind, bits) in self.cells.items():
            for pin, bit in bits.items():
                for arc in self.library[kind][pin].arcs:
                    if arc.kind != "setup_rising":
                        continue
                    for edge, came in arrivals.get(bit, nothing).items():
                        setup = arc.table(f"{edge}_constraint").at(came.slew, FASTEST_SLEW)
                        yield PathEnd(name, came.time + setup * registers, came)

    def _arrivals(self, *, registers: bool) -> dict[Any, Edges]:
        """Return the arrivals by net."""
        arrivals: dict[Any, Edges] = {}
        for start in self.drivers:
            waiting = [start]
            opened: set[Any] = set()
            while waiting:
                bit = waiting[-1]
                if bit in arrivals:
                    waiting.pop()
                    continue
                missing = [each for each in self._before(bit) if each not in arrivals]
                if missing and bit in opened:
                    raise ValueError("the netlist must be without loops")
                if missing:
                    opened.add(bit)
                    waiting += missing
                    continue
                arrivals[bit] = self._arrival(bit, arrivals, registers=registers)
                waiting.pop()
        return arrivals

    def _arcs(self, bit: Any) -> Iterator[tuple[Arc, Any]]:
        """Yield the arcs that end at the driver of a net, with the nets where the arcs begin."""
        if bit not in self.drivers:
            return
        name, pin = self.drivers[bit]
        kind, bits = self.cells[name]
        for arc in self.library[kind][pin].arcs:
            if arc.kind in ("combinational", "rising_edge"):
                yield arc, bits.get(arc.source)

    def _before(self, bit: Any) -> list[Any]:
        return [source for arc, source in self._arcs(bit) if arc.kind == "combinational"]

    def _arrival(self, bit: Any, arrivals: dict[Any, Edges], *, registers: bool) -> Edges:
        started = NetArrival(0.0, FASTEST_SLEW)
        candidates: dict[str, list[NetArrival]] = {edge: [] for edge in EDGES}
        load, buffered = self._load(bit)
        for arc, source in self._arcs(bit):
            clocked = arc.kind == "rising_edge"
            if clocked and not registers:
                continue
            before: Edges = dict.fromkeys(EDGES, started) if clocked else arrivals[source]
            for edge in EDGES:
                for cause in _causes(arc, edge):
                    came = before[cause]
                    delay = arc.table(f"cell_{edge}").at(came.slew, load)
                    slew = arc.table(f"{edge}_transition").at(came.slew, load)
                    there = NetArrival(came.time + delay, slew, self.drivers[bit][0], came)
                    candidates[edge].append(
                        self._through_buffer(there, edge) if buffered else there
                    )
        return {
            edge: max(every, key=lambda each: each.time, default=started)
            for edge, every in candidates.items()
        }

    def _load(self, bit: Any) -> tuple[float, bool]:
        """Return the load of a net's driver, and whether buffers stand behind the driver."""
        load = self.loads.get(bit, 0.0)
        if self.buffer is None or bit not in self.drivers:
            return load, False
        name, pin = self.drivers[bit]
        max_load = self.library[self.cells[name][0]][pin].max_load
        if max_load is None or load <= max_load:
            return load, False
        into = self.library[self.buffer.cell][self.buffer.source].capacitance
        return min(max_load, into * load / self.buffer.load), True

    def _through_buffer(self, came: NetArrival, edge: str) -> NetArrival:
        assert self.buffer is not None
        (arc,) = self.library[self.buffer.cell][self.buffer.output].arcs
        delay = arc.table(f"cell_{edge}").at(came.slew, self.buffer.load)
        slew = arc.table(f"{edge}_transition").at(came.slew, self.buffer.load)
        return NetArrival(came.time + delay, slew, came.cell, came.before)


def _causes(arc: Arc, edge: str) -> tuple[str, ...]:
    """Return the edges of an input that may cause ``edge`` at the output."""
    other = "fall" if edge == "rise" else "rise"
    if arc.sense == "positive_unate":
        return (edge,)
    return (other,) if arc.sense == "negative_unate" else EDGES
