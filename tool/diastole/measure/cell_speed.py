"""Speed of the bare cell by its pipeline: the longest path through standard cells, without wires.

The Verilog is mapped as for areas, but with sizes of cells and buffers for a period (``abc -liberty
-constr -D``); delays and loads are the library's own tables, here, since abc within WebAssembly
does not show what it found. ``logic`` is what abc counts: between registers, nothing of them.
"""

# pyright: reportMissingTypeStubs=false
# Amaranth has no annotations.
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from amaranth.back import verilog

from diastole.measure.area import BareCell, Mapper
from diastole.measure.figure import Figure, at_least, at_most, shown
from diastole.synth.delay_tables import DelayLibrary, read_library
from diastole.synth.path_delay import Longest, Timing
from diastole.synth.programs import run
from diastole_hw.cell.shape import PIPELINES

LEAST_MHZ, MOST_PER_MAC = 400.0, 480.0
"""Asked of the full pipeline."""
PERIOD_PS = 2500
COMMANDS = f"""\
read_verilog cell.v
synth -flatten -top bare_cell
dfflibmap -liberty cells.lib
abc -liberty cells.lib -D {PERIOD_PS} -constr cells.constr
delete t:$scopeinfo
write_json cell.json
tee -o area.txt stat -liberty cells.lib
"""
CONSTRAINTS = "set_driving_cell sg13g2_buf_2\nset_load 10.0\n"
"""What drives inputs and registers' outputs, as abc sees it."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """NAND2 equivalents per MAC, and the longest path."""

    per_mac: float
    longest: Longest

    @property
    def mhz(self) -> float:
        return 1000 / self.longest.logic

    @property
    def mhz_with_registers(self) -> float:
        return 1000 / self.longest.whole


def speed(cell: BareCell, pipeline: str, mapper: Mapper) -> Speed:
    """Of a cell."""
    with tempfile.TemporaryDirectory() as name:
        return _speed(cell, pipeline, mapper, Path(name))


def _speed(cell: BareCell, pipeline: str, mapper: Mapper, folder: Path) -> Speed:
    convert = cast("Callable[..., str]", verilog.convert)  # pyright: ignore[reportUnknownMemberType] # Amaranth's
    text = convert(
        cell.component(pipeline=pipeline),
        name="bare_cell",
        emit_src=False,
        strip_internal_attrs=True,
    )
    (folder / "cell.v").write_text(text)
    (folder / "cell.ys").write_text(COMMANDS)
    (folder / "cells.constr").write_text(CONSTRAINTS)
    cells = mapper.cells.library
    shutil.copy(cells.path, folder / "cells.lib")
    run(mapper.yosys, ["-q", "cell.ys"], folder)
    report = (folder / "area.txt").read_text()
    [area] = re.findall(r"Chip area for (?:top )?module '\\bare_cell': ([\d.]+)", report)
    return Speed(
        per_mac=float(area) / cells.nand2_area / cell.block**2,
        longest=longest(folder / "cell.json", read_library(cells.path)),
    )


def longest(netlist: Path, library: DelayLibrary) -> Longest:
    """The longest path of a mapped cell."""
    return Timing(library, json.loads(netlist.read_text())["modules"]["bare_cell"]).longest()


def figures(mapper: Mapper) -> Iterator[Figure]:
    """Of the cell of `nano`, by its pipeline."""
    for name in PIPELINES:
        found = speed(BareCell(), name, mapper)
        clock, size = f"MHz of the cell, pipeline {name}", f"NAND2 per MAC, pipeline {name}"
        if name == "full":
            yield at_least(clock, found.mhz, LEAST_MHZ, "{:.0f}")
            yield at_most(size, found.per_mac, MOST_PER_MAC, "{:.1f}")
        else:
            yield shown(clock, found.mhz, "{:.0f}")
            yield shown(size, found.per_mac, "{:.1f}")
        yield shown(f"{clock}, with its registers", found.mhz_with_registers, "{:.0f}")
