"""Map machines with Yosys: every component once, multiplied by the number of instances; or flat."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from diastole.synth.level_harness import harness_text
from diastole.synth.memories import Memories, is_clocked
from diastole.synth.targets import Cells, Target
from diastole.synth.tools import run
from diastole.synth.tree import Component, from_cells, from_modules
from diastole_sim.host.product import MANIFEST
from diastole_sim.system.programs import Program

Progress = Callable[[str], None]
"""Function that receives the progress of the work in words."""
MODULE = re.compile(r"^module (\S+?)\s*\(", re.MULTILINE)
NETLIST, STATISTICS = "netlist.json", "stat.json"
_READ = ("verilog", "memory")
"""Kinds of product files that are mapped."""
# Lines that Yosys prints once for every mapped module: for LUTs, for cells.
_MAPPED = re.compile(r"(Executing ABC9\.|Extracting gate netlist of module)")
# A line with nothing but a comment is removed whole. No string of a product has two slashes.
_COMMENT = re.compile(r"^[ \t]*(?://.*)?\n|[ \t]*//.*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Design:
    """Verilog to map: the top module, ``machine`` with everything but the memories, and
    ``memories``. ``clocked`` memories read at a clock edge, and memories ``within_cycle`` read in
    the cycle of the address. ``ports``: ports of the top, with ``name``, ``direction`` and
    ``width``. ``macs``: multipliers of a machine, 0 if nothing is counted per MAC."""

    top: str
    machine: str
    memories: str = ""
    ports: tuple[Mapping[str, Any], ...] = ()
    clocked: Memories = field(default_factory=Memories)
    within_cycle: Memories = field(default_factory=Memories)
    macs: int = 0

    @classmethod
    def of_contents(cls, contents: Mapping[str, str], manifest: Mapping[str, Any]) -> "Design":
        """Return the design of a product from the manifest and the contents of the files by
        path."""
        text = dict.fromkeys(_READ, "")
        for file in manifest["files"]:
            if file["kind"] in text:
                text[file["kind"]] += contents[file["path"]]
        entries = manifest["memories"]
        return cls(
            top=manifest["top"],
            machine=text["verilog"],
            memories=text["memory"],
            ports=tuple(manifest["ports"]),
            clocked=Memories.of([each for each in entries if is_clocked(each)]),
            within_cycle=Memories.of([each for each in entries if not is_clocked(each)]),
            macs=manifest["macs"],
        )

    @classmethod
    def of_product(cls, folder: Path) -> "Design":
        """Return the design in the folder of a product."""
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = [file["path"] for file in manifest["files"] if file["kind"] in _READ]
        contents = {path: (folder / path).read_text(encoding="utf-8") for path in files}
        return cls.of_contents(contents, manifest)

    @property
    def prefix(self) -> str:
        """Prefix of the names of all modules but the top."""
        return f"{self.top}_"

    def in_harness(self) -> "Design":
        """Return the design behind four pins, see :mod:`diastole.synth.level_harness`."""
        text = harness_text(self.top, self.ports)
        top = f"{self.top}_harness"
        return replace(self, top=top, machine=self.machine + text, ports=())

    def mapped_modules(self, target: Target) -> int:
        """Return the number of modules that become cells of a target. Standard cells leave memories
        with a clocked read out, as black boxes."""
        left_out = len(self.clocked.modules) if isinstance(target, Cells) else 0
        return len(MODULE.findall(self.machine + self.memories)) - left_out


@dataclass(frozen=True, kw_only=True)
class MappedDesign:
    """Design after mapping: the tree of components. ``scopes``: modules of the instances by path,
    empty unless the design is flat."""

    tree: Component
    scopes: Mapping[str, str]


@contextmanager
def working_folder() -> Generator[Path]:
    """Return a temporary folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="diastole-synth-") as name:
        yield Path(name)


@dataclass(frozen=True)
class MapRequest:
    """Settings of a mapping. ``prefix``: prefix of module names that component names leave out;
    None for the prefix of the design. ``device``: device of an FPGA. ``sized_mhz``: clock for which
    standard cells are sized."""

    target: Target
    _: KW_ONLY
    device: str = ""
    flat: bool = False
    prefix: str | None = None
    sized_mhz: float | None = None


def map_design(
    yosys: Program, design: Design, how: MapRequest, folder: Path, *, report: Progress | None = None
) -> MappedDesign:
    """Map ``design`` in ``folder``. CheckFailed if Yosys cannot map the design.

    The netlist of a flat design remains as ``netlist.json`` in the folder, for place and route. The
    netlist of a sized design remains too, after flattening.
    """
    target = how.target
    prefix = design.prefix if how.prefix is None else how.prefix
    _write_inputs(folder, design, how)
    count = 1 if how.flat else design.mapped_modules(target)
    heard = None if report is None else _progress(report, count)
    run(yosys, ["-q", "-l", "map.log", "map.ys"], folder, heard, log="map.log")
    if how.flat:
        return _read_flat(folder / NETLIST, design.top, target, prefix)
    modules = _modules(folder, target)
    return MappedDesign(
        tree=from_modules(modules, design.top, target.counted, prefix=prefix), scopes={}
    )


def _modules(folder: Path, target: Target) -> dict[str, Mapping[str, int]]:
    """Return the numbers of cells by type for every module. The numbers include the cells that
    place and route adds."""
    if isinstance(target, Cells):
        modules: dict[str, Any] = json.loads((folder / STATISTICS).read_text())["modules"]
        return {name.removeprefix("\\"): of["num_cells_by_type"] for name, of in modules.items()}
    counts: dict[str, Mapping[str, int]] = {}
    for name, module in json.loads((folder / NETLIST).read_text())["modules"].items():
        if not {"blackbox", "whitebox"} & module["attributes"].keys():
            cells: dict[str, Any] = module["cells"]
            types = [cell["type"] for cell in cells.values()]
            counts[name] = Counter([*types, *(kind for _, kind in target.added(cells))])
    return counts


def without_comments(text: str) -> str:
    """Return the Verilog of a product without comments and empty lines. Yosys names new objects
    after line numbers. Explanations in the source therefore change neither the netlist nor the
    result of a router."""
    return _COMMENT.sub("", text)


def _write_inputs(folder: Path, design: Design, how: MapRequest) -> None:
    (folder / "machine.v").write_text(without_comments(design.machine))
    (folder / "memories.v").write_text(without_comments(design.memories))
    top, black_boxes, target = design.top, "", how.target
    if isinstance(target, Cells):
        shutil.copyfile(target.library.path, folder / "cells.lib")
        (folder / "cells.constr").write_text(target.constraints)
        commands = target.script(top, flat=how.flat, sized_mhz=how.sized_mhz)
        black_boxes = "".join(f"blackbox {module}\n" for module in design.clocked.modules)
    else:
        commands = target.script(top, how.device, flat=how.flat)
    # Cells are distinguished by name. Cells of some flows have no name from the source, hence
    # autoname.
    netlist = f"autoname\nwrite_json {NETLIST}"
    statistics = f"tee -q -o {STATISTICS} stat -json"
    report = statistics if isinstance(target, Cells) else f"write_json {NETLIST}"
    report = netlist if how.flat else report
    if how.sized_mhz is not None and not how.flat:
        report += f"\nflatten\nwrite_json {NETLIST}"
    read = f"read_verilog memories.v\nread_verilog machine.v\n{black_boxes}"
    (folder / "map.ys").write_text(f"{read}{commands}{report}\n")


def _progress(report: Progress, count: int) -> Callable[[str], None]:
    """Return a function that reports every tenth of the mapped modules."""
    done = tenths = 0

    def heard(line: str) -> None:
        nonlocal done, tenths
        done += _MAPPED.search(line) is not None
        if count and done * 10 // count > tenths and done < count:
            tenths = done * 10 // count
            report(f"mapped {done} of {count} components")

    return heard


def _read_flat(netlist: Path, top: str, target: Target, prefix: str) -> MappedDesign:
    cells_by_name = json.loads(netlist.read_text())["modules"][top]["cells"]
    scopes = {
        name: cell["attributes"]["module"]
        for name, cell in cells_by_name.items()
        if cell["type"] == "$scopeinfo" and "module" in cell["attributes"]
    }
    cells = [(name, cell["type"]) for name, cell in cells_by_name.items()]
    if not isinstance(target, Cells):
        cells += target.added(cells_by_name)
    tree = from_cells(cells, scopes, top, target.counted, prefix=prefix)
    return MappedDesign(tree=tree, scopes=scopes)
