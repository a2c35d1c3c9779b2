"""Area and clock of the cell, in NAND2 equivalents per MAC and MHz.

The cell that is emitted: B = 8, partial sums of a 2 x 2 array, F = 18 unless said. With
``--results``, areas of formats go to tool/diastole/layers/areas.json, too.
"""

import json
import re
import shutil
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace

import pytest

from bench.figure import figure
from bench.float_mac import FloatCell
from bench.mapping import area, verilog_of
from diastole.layers.cell_areas import AREAS
from diastole.synth.delay_tables import read_library
from diastole.synth.path_delay import Timing
from diastole.synth.targets import sg13g2
from diastole.synth.tools import YOSYS, run
from diastole_hw.cell.cell import Cell
from diastole_hw.cell.cell_shape import PIPELINES, CellShape, Element
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.formats import FAST
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.sizes.tiling import default_tiling

BLOCK, SIDE = 8, 2
VARIANTS = {
    "in place": {},
    "edge": {"directions": ("east",)},
    "in place, product registers": {"pipeline": "products"},
    "edge, product registers": {"directions": ("east",), "pipeline": "products"},
    "in place, full pipeline": {"pipeline": "full"},
    "edge, full pipeline": {"directions": ("east",), "pipeline": "full"},
}


def bare_cell(**options):
    """Return a cell of bfp4."""
    element = Element(significand_bits=4)
    shape = CellShape(
        rows=SIDE,
        block=BLOCK,
        south=element,
        west=element,
        stationary=element,
        sum_bits=8 + BLOCK.bit_length(),
        fraction=18,
        **options,
    )
    return of_shape(shape)


def of_shape(shape):
    growth = (SIDE - 1).bit_length()
    return Cell(shape=shape, psum_bits=shape.sum_bits + shape.fraction + growth)


@figure(
    "area of the cell per MAC, {variant}",
    at_most=dict.fromkeys(VARIANTS) | {"in place": 420},
    form="{:.1f}",
)
def cell_variants(variant):
    return area(bare_cell(**VARIANTS[variant])) / BLOCK**2


@dataclass(frozen=True, kw_only=True)
class FormatCell:
    """Cell of one format, by the differences from the defaults. ``directions``: directions in place
    of the generator's choice. ``target``: the largest accepted area."""

    label: str
    format: str
    target: float | None = None
    grouping: str | None = None
    window: int | None = None
    fraction: int = 18
    in_place: bool = True
    directions: tuple[str, ...] | None = None

    def component(self):
        """Return the cell that ``diastole generate`` emits for such a configuration."""
        chosen = {"format": self.format, "rounding": "nearest"}
        if self.grouping:
            chosen["grouping"] = self.grouping
        numerics = Numerics.from_dict(
            dict.fromkeys(CLASS_NAMES, chosen)
            | {"block": BLOCK, "random_bits": 8, "fraction": self.fraction}
            | {"headroom": 8, "window": self.window}
        )
        sizes = {"rows": SIDE, "cols": SIDE, "numerics": numerics, "data_width": 64}
        shape = Plan(**sizes, in_place=self.in_place, tiling=default_tiling(**sizes)).shape
        return of_shape(replace(shape, directions=self.directions or shape.directions))


def one(name, label, target=None, *, title=None, **keys):
    return {title or name: FormatCell(format=name, label=label, target=target, **keys)}


def vectors(title, name, grouping, target=None, fraction=18):
    """Return vector groups as they are generated, and in a cell of both directions, of which as
    much is asked but in `fast`."""
    cell = FormatCell(
        format=name, grouping=grouping, label=grouping, target=target, fraction=fraction
    )
    both = replace(
        cell,
        label=f"{grouping}, both directions",
        target=None if name == FAST.name else target,
        directions=("east", "north"),
    )
    return {title: cell, f"{title}, in place": both}


FORMATS = {
    **one("bfp1", "8x8"),
    **one("bfp2", "8x8", 235),
    **one("bfp3", "8x8", 315),
    **one("bfp4", "8x8", 420),
    **one("bfp5", "8x8", 545),
    **one("bfp6", "8x8"),
    **one("bfp7", "8x8", 840),
    **one("bfp8", "8x8", 1005),
    **one("bfp4", "8x8, one direction", title="bfp4, edge", in_place=False),
    **vectors("bfp2 1x16", "bfp2", "1x16", 275),
    **vectors("bfp4 1x16", "bfp4", "1x16", 460),
    **one("fast", "8x8, F = 22", 225, fraction=22),
    **vectors("fast 1x16", "fast", "1x16", 228, fraction=22),
    **vectors("mxint8", "mxint8", "1x32", 885),
    **one("fp8_e4m3", "tensor, w = 16", 750),
    **one("fp8_e4m3", "tensor", 800, title="fp8_e4m3, w = 20", window=20),
    **one(
        "fp8_e4m3", "tensor, w = 36, F = 0", 1100, title="fp8_e4m3, exact", window=0, fraction=0
    ),
    **vectors("mxfp8_e4m3", "mxfp8_e4m3", "1x32", 785),
    **one("mxfp8_e4m3", "1x32", 845, title="mxfp8_e4m3, w = 20", window=20),
    **one("fp8_e5m2", "tensor, F = 14", 680, title="fp8_e5m2, w = 16", window=16, fraction=14),
    **one("fp8_e5m2", "tensor, w = 24", 835),
    **one("mxfp8_e5m2", "1x32, w = 24"),
    **one("e3m2", "8x8", 670, grouping="8x8"),
    **vectors("mxfp6_e3m2", "mxfp6_e3m2", "1x32", 710),
    **one("e2m3", "8x8", 605, grouping="8x8"),
    **vectors("mxfp6_e2m3", "mxfp6_e2m3", "1x32"),
    **one("e2m1", "8x8", 385, grouping="8x8"),
    **vectors("mxfp4_e2m1", "mxfp4_e2m1", "1x32", 420),
    **one("nvfp4", "16x16", 565, title="nvfp4, squares", grouping="16x16"),
    **one("nvfp4", "1x16", 645, title="nvfp4, vectors", grouping="1x16"),
    **one("nvfp4", "1x16, W 16x16", 645),
    **one("bf16", "w = 24"),
}  # fmt: skip
MULTIPLY_ADD = "bf16 multiply-add"
LABEL = "one bfloat16 multiply-add into binary32, one direction, with its registers"


@cache
def format_area(name):
    """Return NAND2 equivalents per MAC."""
    if name == MULTIPLY_ADD:
        return area(FloatCell())
    return area(FORMATS[name].component()) / BLOCK**2


@figure(
    "area of the cell per MAC, {name}",
    at_most={name: cell.target for name, cell in FORMATS.items()} | {MULTIPLY_ADD: None},
    form="{:.1f}",
)
def format_cells(name, request):
    cell_area = format_area(name)
    if request.config.getoption("--results"):
        keep(name, cell_area)
    return cell_area


def keep(name, cell_area):
    """Write an area to where ``diastole formats`` reads it, in the order of :data:`FORMATS`."""
    document = json.loads(AREAS.read_text())
    label = LABEL if name == MULTIPLY_ADD else FORMATS[name].label
    document["formats"][name] = {"label": label, "area_per_mac_nand2": round(cell_area, 1)}
    document["formats"] = {
        each: document["formats"][each]
        for each in (*FORMATS, MULTIPLY_ADD)
        if each in document["formats"]
    }
    AREAS.write_text(json.dumps(document, indent=2) + "\n")


@figure("area of the cell of fast times its passes, over bfp4", form="{:.2f}")
def plane_areas():
    for passes in (1, 2, 4):
        yield f"{passes} passes", passes * format_area("fast") / format_area("bfp4")


@figure("passes at which fast and bfp4 have the same area times passes", form="{:.2f}")
def plane_balance():
    return format_area("bfp4") / format_area("fast")


COMMANDS = """\
read_verilog cell.v
synth -flatten -top bare_cell
dfflibmap -liberty cells.lib
abc -liberty cells.lib -D 2500 -constr cells.constr
delete t:$scopeinfo
write_json cell.json
tee -o area.txt stat -liberty cells.lib
"""
"""With sizes of cells and buffers for a period of 2500 ps."""
CONSTRAINTS = "set_driving_cell sg13g2_buf_2\nset_load 10.0\n"
"""What drives inputs and registers' outputs, as abc sees it."""


@pytest.fixture(scope="module")
def sized(tmp_path_factory):
    """Return the longest path through the cell of a pipeline, without wires, and its area per MAC.

    Delays and loads are the library's own tables, here, since abc within WebAssembly does not show
    what it found. ``logic`` is what abc counts: between registers, nothing of them.
    """

    @cache
    def map_cell(pipeline):
        folder, cells = tmp_path_factory.mktemp("cell"), sg13g2().library
        (folder / "cell.v").write_text(verilog_of(bare_cell(pipeline=pipeline)))
        (folder / "cell.ys").write_text(COMMANDS)
        (folder / "cells.constr").write_text(CONSTRAINTS)
        shutil.copy(cells.path, folder / "cells.lib")
        run(YOSYS.of_wheel(), ["-q", "cell.ys"], folder)
        report = (folder / "area.txt").read_text()
        [total] = re.findall(r"Chip area for (?:top )?module '\\bare_cell': ([\d.]+)", report)
        netlist = json.loads((folder / "cell.json").read_text())["modules"]["bare_cell"]
        longest = Timing(read_library(cells.path), netlist).longest()
        return SimpleNamespace(
            per_mac=float(total) / cells.nand2_area / BLOCK**2,
            mhz=1000 / longest.logic,
            with_registers=1000 / longest.whole,
        )

    return map_cell


ALL = dict.fromkeys(PIPELINES)


@figure("clock of the cell, pipeline {name}", at_least=ALL | {"full": 400}, form="{:.0f} MHz")
def cell_clock(name, sized):
    return sized(name).mhz


@figure("the same with its registers, pipeline {name}", at_least=ALL, form="{:.0f} MHz")
def register_clock(name, sized):
    return sized(name).with_registers


@figure(
    "area per MAC of the cell sized for it, pipeline {name}",
    at_most=ALL | {"full": 480},
    form="{:.1f}",
)
def sized_cells(name, sized):
    return sized(name).per_mac
