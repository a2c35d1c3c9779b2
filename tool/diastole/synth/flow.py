"""Make a report of a product: mapping, and place and route if requested."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diastole.errors import BadInput
from diastole.synth.delays import USUAL_MHZ, Delays, find_delays
from diastole.synth.mapper import NETLIST, Design, MapRequest, map_design, working_folder
from diastole.synth.route import Routed, Routing, pack, place_and_route_fastest
from diastole.synth.targets import (
    BLOCK_RAMS,
    FPGAS,
    LATCHES,
    LUT_RAM,
    REGISTERS,
    Cells,
    Fpga,
    Target,
)
from diastole.synth.tools import PACKERS, ROUTERS, YOSYS
from diastole.synth.tree import Component, amounts
from diastole_sim.system.programs import Program

Progress = Callable[[str], None]
STORING = (LATCHES, REGISTERS, LUT_RAM, BLOCK_RAMS)
"""Resources that hold words."""
DEFAULT_MHZ = 85.0
"""Clock in MHz for place and route, unless a caller requests another clock."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for a synthesis.

    ``device``: name of the device. ``flat``: map everything as a single module. ``route``: place
    and route at ``requested_mhz``. ``seed``, ``times``: first seed, and number of runs from
    consecutive seeds. ``placer``: placer of nextpnr. ``bitstream``: make a bitstream of the result.
    ``delays``: add up the delays of standard cells that are sized for ``requested_mhz``. None
    selects the default of a member.
    """

    target: Target
    device: str | None = None
    flat: bool = False
    route: bool = False
    bitstream: bool = False
    requested_mhz: float | None = None
    delays: bool = False
    seed: int = 1
    times: int = 1
    placer: str | None = None

    def __post_init__(self):
        if isinstance(self.target, Fpga):
            self.target.device(self.device)
        elif self.device is not None:
            raise BadInput(
                f"--device works only for FPGAs, and {self.target.name} is a library of cells: "
                "leave --device out"
            )
        if (self.route or self.bitstream) and self.router is None:
            routed = [name for name, each in FPGAS.items() if each.router is not None]
            raise BadInput(
                f"--pnr does not support {self.target.name}: Diastole has no router for "
                f"{self.target.name}; use {', '.join(routed[:-1])} or {routed[-1]}"
            )
        if self.delays and isinstance(self.target, Fpga):
            raise BadInput(
                f"--delays works only for libraries of cells, not for {self.target.name}: use --pnr"
            )

    @property
    def router(self) -> str | None:
        """Program that places and routes the target; None if no program does."""
        return self.target.router if isinstance(self.target, Fpga) else None

    @property
    def bitstream_ending(self) -> str | None:
        """Ending of the name of a bitstream; None if the target has no bitstream."""
        return self.target.bitstream if isinstance(self.target, Fpga) else None

    @property
    def mhz(self) -> float:
        """Requested clock in MHz."""
        usual = DEFAULT_MHZ if isinstance(self.target, Fpga) else USUAL_MHZ
        return usual if self.requested_mhz is None else self.requested_mhz

    @property
    def device_name(self) -> str:
        return self.target.device(self.device) if isinstance(self.target, Fpga) else ""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """Programs that a request needs."""

    yosys: Program
    router: Program | None = None
    packer: Program | None = None

    @classmethod
    def find(cls, request: Request) -> "Tools":
        """Find the programs. ToolMissing for the first missing program."""
        yosys = YOSYS.find()
        if not isinstance(request.target, Fpga) or not (request.route or request.bitstream):
            return cls(yosys=yosys)
        assert request.target.router is not None
        router = ROUTERS[request.target.router].find()
        if not request.bitstream:
            return cls(yosys=yosys, router=router)
        assert request.target.packer is not None
        return cls(yosys=yosys, router=router, packer=PACKERS[request.target.packer].find())

    @property
    def versions(self) -> dict[str, str]:
        programs = (self.yosys, self.router, self.packer)
        return {program.name: program.version for program in programs if program is not None}


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """Result of a synthesis: a ``design`` by component, with the results of place and route, or
    with the delays of cells. ``harness``: resources of the harness around the pins."""

    request: Request
    design: Design
    tree: Component
    harness: Mapping[str, float]
    versions: Mapping[str, str]
    routed: Routed | None
    bitstream: bytes | None
    delays: Delays | None = None

    @property
    def holds(self) -> Mapping[str, int]:
        """Numbers of the resources that the device has, by name; empty for a library."""
        target = self.request.target
        if not isinstance(target, Fpga):
            return {}
        return target.devices[self.request.device_name].holds

    @property
    def flat(self) -> bool:
        """True if everything was mapped as a single module."""
        return self.request.flat or self.routed is not None

    @property
    def within_cycle(self) -> dict[str, float]:
        """Resources of all memories that are read within the cycle. In a flat mapping, gates
        between a memory and the logic behind may count as a part of the memory."""
        counts: Counter[str] = Counter()
        for module in self.design.within_cycle.modules:
            for part in self.tree.everywhere(module.removeprefix(self.design.prefix)):
                counts.update(part.total)
        return dict(counts)

    @property
    def built_of(self) -> dict[str, int]:
        """Cells that hold the words of the memories read within the cycle: numbers by kind."""
        return {name: round(n) for name, n in self.within_cycle.items() if name in STORING and n}

    @property
    def per_mac(self) -> float | None:
        """Area or number of sites per multiplier; None if nothing is counted per MAC."""
        macs = self.design.macs
        return self.tree.total.get(self.request.target.main, 0) / macs if macs else None

    def record(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        target = self.request.target
        record: dict[str, Any] = {
            "target": target.name,
            "device": self.request.device_name or None,
            "mapping": "flat" if self.flat else "by component",
            "tools": dict(self.versions),
            "macs": self.design.macs,
            "per_mac": None
            if self.per_mac is None
            else amounts({target.main: self.per_mac}, (target.main,)),
            "memories": self._memories(),
            "holds": dict(self.holds),
            "tree": self.tree.record(target.resources),
        }
        if self.delays is not None:
            record["delays"] = self.delays.record()
        if self.routed is not None:
            record["seed"] = self.routed.seed
            record["placer"] = self.request.placer
            record["pins"] = "4, ports through chains of registers"
            record["harness"] = dict(self.harness)
            record["routed"] = self.routed.record()
        return record

    def _memories(self) -> dict[str, Any]:
        """Return records of the two kinds of memories, with a mark for memories that the tree
        counts. The block RAMs of an FPGA are counted."""
        target = self.request.target
        own = None if self.flat else amounts(self.within_cycle, target.resources)
        return {
            "within_cycle": self.design.within_cycle.record()
            | {"counted": True, "built_of": self.built_of, "total": own},
            "clocked": self.design.clocked.record() | {"counted": isinstance(target, Fpga)},
        }


def synthesise(
    request: Request, design: Design, tools: Tools, report: Progress | None = None
) -> Synthesis:
    """Map a design. On request, place and route the design behind four pins, or add up the delays
    of the cells.

    CheckFailed if a program refuses the design, for example because the design does not fit.
    """
    route = request.route or request.bitstream
    inner = design.in_harness() if route else design
    with working_folder() as folder:
        how = MapRequest(
            request.target,
            device=request.device_name,
            flat=request.flat or route,
            prefix=design.prefix,
            sized_mhz=request.mhz if request.delays else None,
        )
        mapped = map_design(tools.yosys, inner, how, folder, report=report)
        tree, routed, bitstream = mapped.tree, None, None
        delays = _delays(request, design, folder, report) if request.delays else None
        harness: Mapping[str, float] = {}
        if route:
            target = request.target
            assert isinstance(target, Fpga)
            assert tools.router is not None
            device = target.devices[request.device_name]
            harness = mapped.tree.local
            (tree,) = mapped.tree.parts
            routing = Routing(
                router=tools.router,
                target=target,
                device=device,
                top=inner.top,
                scopes=mapped.scopes,
                requested_mhz=request.mhz,
                placer=request.placer,
                pins=device.pins,
            )
            seeds = range(request.seed, request.seed + request.times)
            routed = place_and_route_fastest(routing, folder, seeds=seeds, report=report)
            if tools.packer is not None:
                bitstream = pack(tools.packer, device, folder).read_bytes()
    return Synthesis(
        request=request,
        design=design,
        tree=tree,
        harness=harness,
        versions=tools.versions,
        routed=routed,
        bitstream=bitstream,
        delays=delays,
    )


def _delays(request: Request, design: Design, folder: Path, report: Progress | None) -> Delays:
    assert isinstance(request.target, Cells)
    if report is not None:
        report("adding up delays")
    netlist = json.loads((folder / NETLIST).read_text())
    library = request.target.library
    return find_delays(
        library, netlist, design.top, requested_mhz=request.mhz, prefix=design.prefix
    )
