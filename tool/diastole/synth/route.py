"""Place and route with nextpnr: find the clock that a machine reaches, and the resources used."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from diastole.errors import CheckFailed
from diastole.synth.mapper import NETLIST, Progress
from diastole.synth.paths import LongestPath, longest_path
from diastole.synth.targets import Chip, Fpga
from diastole.synth.tools import run
from diastole_sim.system.programs import Program

REPORT, LAYOUT, BITSTREAM = "report.json", "layout.txt", "bitstream.bin"
FASTEST = "fastest.txt"
PLACERS = "heap", "static"
"""Placers of nextpnr. With `static`, the wires of `pico` are a quarter shorter. With `heap`, which
weighs delays more, the clock of `pico` is higher. With `heap`, `nano` has not been routed."""
# Options by program: file of the layout, and the option that accepts pins without positions.
_OPTIONS: Mapping[str, tuple[str, str]] = {
    "nextpnr-ecp5": (f"--textcfg {LAYOUT}", "--lpf-allow-unconstrained"),
    "nextpnr-ice40": (f"--asc {LAYOUT}", "--pcf-allow-unconstrained"),
    "nextpnr-himbaechel": (f"--write {LAYOUT}", ""),
}
_PINS: Mapping[str, str] = {
    "nextpnr-ecp5": "--lpf pins.txt",
    "nextpnr-ice40": "--pcf pins.txt",
    "nextpnr-himbaechel": "--vopt cst=pins.txt",
}
_PHASES = (
    (re.compile(r"Packing constants|Packing\b"), "packing"),
    (re.compile(r"Running main analytical placer|Creating initial"), "placing"),
    (re.compile(r"Routing\.\.|Routing globals|Setting up routing queue"), "routing"),
)


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Result of place and route. ``utilisation``: used and available amounts of all used resources,
    by the router's name of the resource. ``clocks``: MHz by seed, if several seeds were tried."""

    fmax_mhz: float
    requested_mhz: float
    path: LongestPath | None
    utilisation: Mapping[str, tuple[int, int]]
    seed: int = 0
    clocks: Mapping[int, float] = field(default_factory=dict[int, float])

    @property
    def met(self) -> bool:
        return self.fmax_mhz >= self.requested_mhz

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "fmax_mhz": round(self.fmax_mhz, 2),
            "by_seed": {str(seed): round(mhz, 2) for seed, mhz in self.clocks.items()},
            "requested_mhz": self.requested_mhz,
            "met": self.met,
            "longest_path": None if self.path is None else self.path.record(),
            "utilisation": {
                name: {"used": used, "available": there}
                for name, (used, there) in self.utilisation.items()
            },
        }


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Request to a router for a netlist with module ``top``.

    ``scopes``: see :class:`diastole.synth.mapper.MappedDesign`. ``pins``: text of the router's
    constraints; without constraints the router chooses the pins. ``placer``: a name of
    :data:`PLACERS`, None for the router's default.
    """

    router: Program
    target: Fpga
    device: Chip
    top: str
    scopes: Mapping[str, str]
    requested_mhz: float
    placer: str | None = None
    pins: str | None = None

    def words(self, seed: int) -> list[str]:
        """Return the arguments of the router."""
        assert self.target.router is not None
        assert self.device.route is not None
        layout, anywhere = _OPTIONS[self.target.router]
        words = [*self.device.route.split(), "--json", NETLIST, "--top", self.top]
        words += ["--report", REPORT, *layout.split(), "--seed", str(seed)]
        words += ["--freq", f"{self.requested_mhz:g}", "--timing-allow-fail"]
        if self.placer is not None:
            words += ["--placer", self.placer]
        return words + (anywhere if self.pins is None else _PINS[self.target.router]).split()


def place_and_route(
    routing: Routing, folder: Path, *, seed: int, report: Progress | None = None
) -> Routed:
    """Place and route the netlist that a flat mapping left in ``folder``, and write the layout to
    ``folder``.

    Equal netlists and seeds give equal results. CheckFailed if the netlist does not fit.
    """
    if routing.pins is not None:
        (folder / "pins.txt").write_text(routing.pins)
    run(routing.router, routing.words(seed), folder, None if report is None else _progress(report))
    return read_report(
        json.loads((folder / REPORT).read_text()), routing.scopes, routing.requested_mhz
    )


def place_and_route_fastest(
    routing: Routing, folder: Path, *, seeds: Sequence[int], report: Progress | None = None
) -> Routed:
    """Run :func:`place_and_route` from every seed of ``seeds``. Return the fastest result, or the
    first of equally fast results, and keep the layout of this result. Clocks differ by a tenth and
    more from seed to seed."""
    fastest, clocks = None, dict[int, float]()
    for seed in seeds:
        routed = place_and_route(routing, folder, seed=seed, report=report)
        clocks[seed] = routed.fmax_mhz
        if report is not None and len(seeds) > 1:
            report(f"seed {seed}: {routed.fmax_mhz:.2f} MHz")
        if fastest is None or routed.fmax_mhz > fastest.fmax_mhz:
            fastest = replace(routed, seed=seed)
            (folder / LAYOUT).replace(folder / FASTEST)
    assert fastest is not None
    (folder / FASTEST).replace(folder / LAYOUT)
    return replace(fastest, clocks=clocks)


def pack(packer: Program, device: Chip, folder: Path) -> Path:
    """Return the bitstream of the layout in ``folder``."""
    words = [LAYOUT, BITSTREAM]
    if packer.name == "gowin_pack":
        assert device.route is not None
        family = re.search(r"family=(\S+)", device.route)
        assert family is not None
        words = ["-d", family.group(1), "-o", BITSTREAM, LAYOUT]
    run(packer, words, folder)
    return folder / BITSTREAM


def read_report(
    report: Mapping[str, Any], scopes: Mapping[str, str], requested_mhz: float
) -> Routed:
    """Return the result in a report of nextpnr: the slowest clock of the report. CheckFailed if the
    report has no clock."""
    clocks = [clock["achieved"] for clock in report.get("fmax", {}).values()]
    if not clocks:
        raise CheckFailed("place and route found no path between registers")
    return Routed(
        fmax_mhz=min(clocks),
        requested_mhz=requested_mhz,
        path=longest_path(report["critical_paths"], scopes),
        utilisation={
            name: (each["used"], each["available"])
            for name, each in report["utilization"].items()
            if each["used"]
        },
    )


def _progress(report: Progress) -> Callable[[str], None]:
    """Return a function that reports every phase once, when the phase begins."""
    waiting = list(_PHASES)

    def heard(line: str) -> None:
        for phase in waiting:
            if phase[0].search(line):
                report(phase[1])
                waiting.remove(phase)
                break

    return heard
