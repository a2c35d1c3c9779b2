"""The longest path of a netlist of standard cells: delays by table lookup, without wires."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diastole.measure.delay_tables import Arc, Library

FASTEST_SLEW = 0.0186
"""ns, at ports and at clocks: the least that the library's tables have."""
EDGES: tuple[str, ...] = ("rise", "fall")


@dataclass(frozen=True)
class NetArrival:
    """When a net has its value after an edge, and how fast it changes, in ns; the nets before."""

    time: float
    slew: float
    path: tuple[str, ...] = ()


Edges = dict[str, NetArrival]


@dataclass(frozen=True)
class Longest:
    """The longest path in ns: between registers and ports with nothing of the registers, as abc
    counts; and from a register's clock to the next one's with setup. ``path``: its cells."""

    logic: float
    whole: float
    path: tuple[str, ...]


class Timing:
    """Static timing of a flat module as ``write_json`` has it, mapped to cells of ``library``.

    A net's load is the sum of the capacitances of the pins that it drives. Cells with a clock begin
    and end paths. ValueError for a cell that the library has not, or a loop.
    """

    def __init__(self, library: Library, module: Mapping[str, Any]):
        self.library = library
        self.cells: dict[str, tuple[str, dict[str, Any]]] = {}
        self.loads: dict[Any, float] = {}
        self.drivers: dict[Any, tuple[str, str]] = {}
        for name, cell in module["cells"].items():
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
        """Over all that ends at a register or leaves."""
        logic = max(self._ends(self._arrivals(registers=False), registers=False))
        whole, path = max(self._ends(self._arrivals(registers=True), registers=True))
        return Longest(logic[0], whole, path)

    def _arrivals(self, *, registers: bool) -> dict[Any, Edges]:
        """By net."""
        known: dict[Any, Edges] = {}
        for start in self.drivers:
            waiting = [start]
            opened: set[Any] = set()
            while waiting:
                bit = waiting[-1]
                if bit in known:
                    waiting.pop()
                    continue
                missing = [each for each in self._before(bit) if each not in known]
                if missing and bit in opened:
                    raise ValueError("the netlist must be without loops")
                if missing:
                    opened.add(bit)
                    waiting += missing
                    continue
                known[bit] = self._arrival(bit, known, registers=registers)
                waiting.pop()
        return known

    def _arcs(self, bit: Any) -> Iterator[tuple[Arc, Any]]:
        """Those that end at what drives a net, with the nets that they begin at."""
        if bit not in self.drivers:
            return
        name, pin = self.drivers[bit]
        kind, bits = self.cells[name]
        for arc in self.library[kind][pin].arcs:
            if arc.kind in ("combinational", "rising_edge"):
                yield arc, bits.get(arc.source)

    def _before(self, bit: Any) -> list[Any]:
        return [source for arc, source in self._arcs(bit) if arc.kind == "combinational"]

    def _arrival(self, bit: Any, known: dict[Any, Edges], *, registers: bool) -> Edges:
        started = NetArrival(0.0, FASTEST_SLEW)
        found: dict[str, list[NetArrival]] = {edge: [] for edge in EDGES}
        load = self.loads.get(bit, 0.0)
        for arc, source in self._arcs(bit):
            clocked = arc.kind == "rising_edge"
            if clocked and not registers:
                continue
            before: Edges = dict.fromkeys(EDGES, started) if clocked else known[source]
            for edge in EDGES:
                for cause in _causes(arc, edge):
                    came = before[cause]
                    delay = arc.tables[f"cell_{edge}"].at(came.slew, load)
                    slew = arc.tables[f"{edge}_transition"].at(came.slew, load)
                    path = (*came.path, self.drivers[bit][0])
                    found[edge].append(NetArrival(came.time + delay, slew, path))
        return {
            edge: max(every, key=lambda each: each.time, default=started)
            for edge, every in found.items()
        }

    def _ends(
        self, arrivals: dict[Any, Edges], *, registers: bool
    ) -> Iterator[tuple[float, tuple[str, ...]]]:
        nothing = dict.fromkeys(EDGES, NetArrival(0.0, FASTEST_SLEW))
        for bit in self.outputs:
            yield from ((each.time, each.path) for each in arrivals.get(bit, nothing).values())
        for name, (kind, bits) in self.cells.items():
            for pin, bit in bits.items():
                for arc in self.library[kind][pin].arcs:
                    if arc.kind != "setup_rising":
                        continue
                    for edge, came in arrivals.get(bit, nothing).items():
                        setup = arc.tables[f"{edge}_constraint"].at(came.slew, FASTEST_SLEW)
                        yield came.time + setup * registers, (*came.path, name)


def _causes(arc: Arc, edge: str) -> tuple[str, ...]:
    """The edges of an input that may cause one of the output."""
    other = "fall" if edge == "rise" else "rise"
    if arc.sense == "positive_unate":
        return (edge,)
    return (other,) if arc.sense == "negative_unate" else EDGES
