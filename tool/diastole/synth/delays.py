"""Find the clock of a machine in standard cells from the delays of the cell library. Paths are
reported in names of the machine's own components and signals.

Every component is mapped alone and sized for a period. The components are then joined without
changes and timed as a whole. Wires are not modelled. Memories with a clocked read accept and return
words at a clock edge in no time. Paths through memories that are read within the cycle count like
all remaining paths.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from diastole.errors import BadInput
from diastole.synth.delay_tables import DelayLibrary, LibertyError, read_delays
from diastole.synth.liberty import Library
from diastole.synth.path_delay import Buffer, PathEnd, Timing
from diastole.synth.paths import LongestPath, PathPoint, longest_path
from diastole.synth.tree import scope_of

_HIDDEN = re.compile(r"\.?\$.*")
USUAL_MHZ = 400.0
"""Clock in MHz for which cells are sized unless a caller gives another clock."""


@dataclass(frozen=True, kw_only=True)
class ComponentDelay:
    """Longest path that ends in registers of a component, over all instances of the component."""

    component: str
    ns: float
    begin: PathPoint
    end: PathPoint

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "component": self.component,
            "ns": round(self.ns, 3),
            "from": asdict(self.begin),
            "to": asdict(self.end),
        }


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Longest path of a machine, and longest paths of all components, the longest path first."""

    requested_mhz: float
    ns: float
    path: LongestPath
    components: tuple[ComponentDelay, ...]

    @property
    def mhz(self) -> float:
        return 1000 / self.ns

    @property
    def met(self) -> bool:
        return self.mhz >= self.requested_mhz

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "wires": "none",
            "mhz": round(self.mhz, 1),
            "requested_mhz": self.requested_mhz,
            "met": self.met,
            "longest_path": self.path.record(),
            "components": [each.record() for each in self.components],
        }


def buffer_of(library: Library, delays: DelayLibrary) -> Buffer | None:
    """Return the library's buffer, with half of the largest load that the buffer may drive. None if
    the library names no buffer, or does not limit the load of the buffer's output."""
    if library.buffer is None:
        return None
    (source,) = library.cells[library.buffer].inputs
    for name, pin in delays[library.buffer].items():
        if pin.output and pin.max_load is not None and len(pin.arcs) == 1:
            return Buffer(cell=library.buffer, source=source, output=name, load=pin.max_load / 2)
    return None


def find_delays(
    library: Library, netlist: Mapping[str, Any], top: str, *, requested_mhz: float, prefix: str
) -> Delays:
    """Return the delays of a flattened design from the netlist of ``write_json``. Memories with a
    clocked read are black boxes in the netlist.

    BadInput if the library gives no delays that this module understands.
    """
    read = delays_of(library)
    try:
        return _delays(library, read, netlist, top, requested_mhz, prefix)
    except LibertyError as error:
        raise BadInput(f"{library.path}: {error}") from error
    except (IndexError, KeyError, ValueError, ZeroDivisionError) as error:
        raise BadInput(f"{library.path}: its delays are not understood: {error}") from error


def delays_of(library: Library) -> tuple[DelayLibrary, float]:
    """Return the delays in a library, and the length of the library's unit of time in nanoseconds.
    BadInput with the line and the wrong attribute."""
    try:
        return read_delays(library.path)
    except LibertyError as error:
        raise BadInput(f"{library.path}: {error}") from error


def _delays(
    library: Library,
    read: tuple[DelayLibrary, float],
    netlist: Mapping[str, Any],
    top: str,
    requested_mhz: float,
    prefix: str,
) -> Delays:
    cells, unit = read
    modules: Mapping[str, Any] = netlist["modules"]
    flat = dict(modules[top])
    scopes = {
        name: cell["attributes"]["module"]
        for name, cell in flat["cells"].items()
        if cell["type"] == "$scopeinfo" and "module" in cell["attributes"]
    }
    flat["cells"] = {
        name: cell for name, cell in flat["cells"].items() if cell["type"] != "$scopeinfo"
    }
    timing = Timing(cells, flat, black_boxes=set(modules) - {top}, buffer=buffer_of(library, cells))
    names = CellNames(flat, scopes, timing)
    worst: dict[str, PathEnd] = {}
    for end in timing.ends(registers=True):
        module = scopes.get(names.scope(end.cell), top).removeprefix(prefix)
        if module not in worst or end.time > worst[module].time:
            worst[module] = end
    order = sorted(worst.items(), key=lambda each: (-each[1].time, each[0]))
    paths = {module: _path(end, unit, names) for module, end in order if end.path}
    return Delays(
        requested_mhz=requested_mhz,
        ns=order[0][1].time * unit,
        path=paths[order[0][0]],
        components=tuple(
            ComponentDelay(
                component=module,
                ns=worst[module].time * unit,
                begin=path.begin,
                end=path.end,
            )
            for module, path in paths.items()
        ),
    )


class CellNames:
    """Names for the cells of a flat netlist: names of the nets that the cells drive, if the nets
    have names from the source.

    A name that Yosys made tells at most the instance of a cell.
    """

    def __init__(self, flat: Mapping[str, Any], scopes: Mapping[str, str], timing: Timing):
        self.scopes = scopes
        self._numbers = {cell: number for number, cell in enumerate(flat["cells"])}
        self._driven: dict[str, list[Any]] = {}
        for bit, (cell, _) in timing.drivers.items():
            self._driven.setdefault(cell, []).append(bit)
        self._nets: dict[Any, list[str]] = {}
        for name, net in flat.get("netnames", {}).items():
            if net["hide_name"]:
                continue
            several = len(net["bits"]) > 1
            for place, bit in enumerate(net["bits"]):
                self._nets.setdefault(bit, []).append(f"{name}[{place}]" if several else name)

    def scope(self, cell: str) -> str:
        """Return the path of the instance that contains a cell."""
        return scope_of(self._module_names(cell), self.scopes)

    def name(self, cell: str) -> str:
        """Return the name of a signal that the cell drives, in the instance of the cell. Without a
        named signal, return a name with ``$``; only tools give such names."""
        scope = self.scope(cell)
        nets = [net for bit in self._driven.get(cell, []) for net in self._nets.get(bit, [])]
        inside = [net for net in nets if scope_of(net, self.scopes) == scope]
        unnamed = f"{scope}.${self._numbers.get(cell, 0)}"
        return min(inside, key=lambda net: (len(net), net), default=unnamed)

    def _module_names(self, cell: str) -> str:
        return _HIDDEN.sub("", cell.removeprefix("$flatten").replace("\\", ""))


def _path(end: PathEnd, unit: float, names: CellNames) -> LongestPath:
    steps = [
        {**step, **{place: {"cell": names.name(step[place]["cell"])} for place in ("from", "to")}}
        for step in _steps(end, unit)
    ]
    longest = longest_path([{"from": "", "to": "", "path": steps}], names.scopes)
    assert longest is not None
    return longest


def _steps(end: PathEnd, unit: float) -> Iterator[dict[str, Any]]:
    """Yield steps in the form of a report of place and route: delays of the cells, and the set-up
    time at the end."""
    before = None
    for cell, delay in end.came.path:
        yield {
            "type": "logic",
            "from": {"cell": before or cell},
            "to": {"cell": cell},
            "delay": delay * unit,
        }
        before = cell
    if end.cell:
        setup = (end.time - end.came.time) * unit
        place = {"from": {"cell": before or end.cell}, "to": {"cell": end.cell}}
        yield {"type": "setup", "delay": setup, **place}
