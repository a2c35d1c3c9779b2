"""Maps machines with Yosys: a component once, then multiplied by its instances; or flat."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diastole.synth.harness import harness_text
from diastole.synth.programs import run
from diastole.synth.targets import Cells, Target
from diastole.synth.tree import Component, from_cells, from_modules
from diastole_sim.rtl.programs import Program

Said = Callable[[str], None]
"""Told in words how far the work is."""
MODULE = re.compile(r"^module (\S+?)\s*\(", re.MULTILINE)
NETLIST = "netlist.json"
_READ = ("verilog", "memory")
"""Kinds of files of a product that are mapped."""
# What is printed once for every module that is mapped: for LUTs, for cells.
_MAPPED = re.compile(r"(Executing ABC9\.|Extracting gate netlist of module)")
# With the line if it has nothing else; no string of a product has two slashes.
_COMMENT = re.compile(r"^[ \t]*(?://.*)?\n|[ \t]*//.*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Design:
    """Verilog to be mapped: its top, all but memories, memories, and the ports of the top, each
    with ``name``, ``direction`` and ``width``."""

    top: str
    machine: str
    memories: str
    ports: tuple[Mapping[str, Any], ...]
    memory_bits: int

    @classmethod
    def of_contents(cls, contents: Mapping[str, str], manifest: Mapping[str, Any]) -> "Design":
        """Of a product's files, by their paths, and its manifest."""
        text = dict.fromkeys(_READ, "")
        for file in manifest["files"]:
            if file["kind"] in text:
                text[file["kind"]] += contents[file["path"]]
        return cls(
            top=manifest["top"],
            machine=text["verilog"],
            memories=text["memory"],
            ports=tuple(manifest["ports"]),
            memory_bits=sum(
                each["width"] * each["depth"] * each["instances"] for each in manifest["memories"]
            ),
        )

    @classmethod
    def of_product(cls, folder: Path) -> "Design":
        """Of a product's folder."""
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        files = [file["path"] for file in manifest["files"] if file["kind"] in _READ]
        contents = {path: (folder / path).read_text(encoding="utf-8") for path in files}
        return cls.of_contents(contents, manifest)

    @property
    def prefix(self) -> str:
        """Of the names of all modules but the top."""
        return f"{self.top}_"

    def in_harness(self) -> "Design":
        """The same behind four pins, see :mod:`diastole.synth.harness`."""
        text = harness_text(self.top, self.ports)
        return Design(
            top=f"{self.top}_harness",
            machine=self.machine + text,
            memories=self.memories,
            ports=(),
            memory_bits=self.memory_bits,
        )


@dataclass(frozen=True, kw_only=True)
class MappedDesign:
    """A design after mapping: the tree of its components, and by path the module of each instance
    (of a flat one; else empty)."""

    tree: Component
    scopes: Mapping[str, str]


@contextmanager
def working_folder() -> Generator[Path]:
    """A temporary folder, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="diastole-synth-") as name:
        yield Path(name)


def map_design(
    yosys: Program,
    design: Design,
    target: Target,
    folder: Path,
    *,
    device: str = "",
    flat: bool = False,
    prefix: str | None = None,
    sized_mhz: float | None = None,
    said: Said | None = None,
) -> MappedDesign:
    """Maps ``design`` in ``folder``; CheckFailed if Yosys cannot. ``prefix``: of modules' names,
    left out in those of components; that of the design where it is None. ``device``: of an FPGA.

    ``sized_mhz``: of standard cells, the clock that they are sized for. A flat design's netlist is
    left there as ``netlist.json``, for place and route, and flattened that of one that is sized.
    """
    prefix = design.prefix if prefix is None else prefix
    _write_inputs(folder, design, target, device, flat, sized_mhz)
    mapped = design.machine if isinstance(target, Cells) else design.machine + design.memories
    count = 1 if flat else len(MODULE.findall(mapped))
    heard = None if said is None else _progress(said, count)
    run(yosys, ["-q", "-l", "map.log", "map.ys"], folder, heard, log="map.log")
    if flat:
        return _read_flat(folder / NETLIST, design.top, target, prefix)
    modules = {
        name.removeprefix("\\"): found["num_cells_by_type"]
        for name, found in json.loads((folder / "stat.json").read_text())["modules"].items()
    }
    return MappedDesign(
        tree=from_modules(modules, design.top, target.counted, prefix=prefix), scopes={}
    )


def without_comments(text: str) -> str:
    """Verilog of a product without its comments and empty lines. Yosys names what it makes after
    lines: so words that explain a machine change nothing in its netlist, nor in what a router makes
    of that."""
    return _COMMENT.sub("", text)


def _write_inputs(
    folder: Path,
    design: Design,
    target: Target,
    device: str,
    flat: bool,
    sized_mhz: float | None,
) -> None:
    (folder / "machine.v").write_text(without_comments(design.machine))
    (folder / "memories.v").write_text(without_comments(design.memories))
    top = design.top
    black_boxes = isinstance(target, Cells)
    read = "read_verilog -lib memories.v\n" if black_boxes else "read_verilog memories.v\n"
    if isinstance(target, Cells):
        shutil.copyfile(target.library.path, folder / "cells.lib")
        (folder / "cells.constr").write_text(target.constraints)
        commands = target.script(top, flat=flat, sized_mhz=sized_mhz)
    else:
        commands = target.script(top, device, flat=flat)
    # cells are told apart by their names: those of some flows have none of ours
    netlist = f"autoname\nwrite_json {NETLIST}"
    report = netlist if flat else "tee -q -o stat.json stat -json"
    if sized_mhz is not None and not flat:
        report += f"\nflatten\nwrite_json {NETLIST}"
    (folder / "map.ys").write_text(f"{read}read_verilog machine.v\n{commands}{report}\n")


def _progress(said: Said, count: int) -> Callable[[str], None]:
    """Says every tenth of the modules that are mapped."""
    done = told = 0

    def heard(line: str) -> None:
        nonlocal done, told
        done += _MAPPED.search(line) is not None
        if count and done * 10 // count > told and done < count:
            told = done * 10 // count
            said(f"mapped {done} of {count} components")

    return heard


def _read_flat(netlist: Path, top: str, target: Target, prefix: str) -> MappedDesign:
    found = json.loads(netlist.read_text())["modules"][top]["cells"]
    scopes = {
        name: cell["attributes"]["module"]
        for name, cell in found.items()
        if cell["type"] == "$scopeinfo" and "module" in cell["attributes"]
    }
    cells = ((name, cell["type"]) for name, cell in found.items())
    tree = from_cells(cells, scopes, top, target.counted, prefix=prefix)
    return MappedDesign(tree=tree, scopes=scopes)
