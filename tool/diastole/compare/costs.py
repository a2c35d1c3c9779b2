"""Costs of a configuration on a task: area, bits, passes, cycles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer
from diastole.layers.cell_areas import cell_area
from diastole.layers.layer_costs import CONVERT, layer_costs
from diastole.layers.modelled_step import STEP, modelled_step
from diastole_sim.codes.survey import stored_bits
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.program.program import TrainingProgram
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERAND_BY_CLASS
from diastole_sim.spec.sizes.uses import Widths as TensorWidths
from diastole_sim.train.network import LayerShape
from diastole_sim.train.precision import HIGH, LOW

Widths = Mapping[str, float]
"""Mean bits of the magnitudes by tensor ("layer0.X"), for classes with chosen widths."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a training step.

    - ``area_per_mac_nand2``: area of a cell per multiplier, None if no similar cell was measured.
    - ``bits_per_element``: stored bits in all copies with scales, as a mean over the ``elements``
      of the tensors that a step converts.
    - ``passes``: mean passes of a product, weighted by MACs. A step has ``macs`` MACs.
    - ``cycles_per_step``: cycles by the model of the machine. All cycles of a step where the
      machine does whole steps, otherwise the cycles of products and conversions one after the
      other. None where the model does not support the machine.
    """

    area_per_mac_nand2: float | None
    bits_per_element: float
    elements: int
    passes: float
    macs: int
    cycles_per_step: int | None

    @property
    def area_passes(self) -> float | None:
        """Area times time of a product, per MAC."""
        area = self.area_per_mac_nand2
        return None if area is None else area * self.passes

    @property
    def area_time(self) -> float | None:
        """Area times time of a step. Networks of different sizes differ in this product too."""
        return None if self.area_passes is None else self.area_passes * self.macs

    @property
    def bits(self) -> float:
        """Stored bits of all tensors that a step converts."""
        return self.bits_per_element * self.elements

    def record(self) -> dict[str, float | None]:
        """Return the record for ``--json``."""
        return {name: getattr(self, attribute) for name, attribute in PRICES.items()}


PRICES = {
    "area_per_mac_nand2": "area_per_mac_nand2",
    "area_passes": "area_passes",
    "bits_per_element": "bits_per_element",
    "passes": "passes",
    "macs_per_step": "macs",
    "cycles_per_step": "cycles_per_step",
}
"""Keys of a record, with the attribute of the cost for every key."""


def cost_of(
    config: Config,
    shapes: Sequence[LayerShape],
    *,
    passes: float,
    widths: Widths,
    program: TrainingProgram | None = None,
) -> Cost:
    """Return the cost of a step with linear layers of these shapes. ``program`` is the program of a
    machine that does whole steps, or None."""
    numerics = config.numerics
    cycles = (
        step_cycles(config, shapes, widths)
        if program is None
        else program_cycles(config, program, passes)
    )
    return Cost(
        area_per_mac_nand2=cell_area(numerics),
        bits_per_element=moved_bits(numerics, shapes, widths),
        elements=sum(sum(_elements(shape).values()) for shape in shapes),
        passes=passes,
        macs=sum(each.m * each.k * each.n * (2 + each.input_gradient) for each in shapes),
        cycles_per_step=cycles,
    )


def _elements(shape: LayerShape) -> dict[str, int]:
    """Return the number of elements of X, W and dY, by class."""
    return {"x": shape.m * shape.k, "w": shape.k * shape.n, "dy": shape.m * shape.n}


def program_cycles(config: Config, program: TrainingProgram, passes: float) -> int:
    """Return the cycles of a step that the machine does alone. With chosen widths, interpolate
    between a step of the narrowest and a step of the widest products by the mean ``passes`` of the
    products."""
    narrow, wide = (
        modelled_step(config, program, class_bits=bits).step(program.training, step=STEP).cycles
        for bits in (LOW, HIGH)
    )
    max_passes = (HIGH // PLANE_BITS) ** 2
    return round(narrow + (wide - narrow) * (passes - 1) / (max_passes - 1))


def moved_bits(numerics: Numerics, shapes: Sequence[LayerShape], widths: Widths) -> float:
    """Return the mean bits of an element of X, W and dY, in all copies, with a share of the
    exponents."""
    elements, bits = 0, 0.0
    for layer, shape in enumerate(shapes):
        counts = _elements(shape)
        for name in CLASS_NAMES:
            width = widths.get(f"layer{layer}.{OPERAND_BY_CLASS[name].name}")
            elements += counts[name]
            bits += counts[name] * element_bits(numerics, name, width)
    return bits / elements


def element_bits(numerics: Numerics, name: str, width: float | None) -> float:
    """Return the bits of an element of a class, in all copies. In a format of planes, the mean
    ``width`` decides the number of planes, and every plane has its own exponents."""
    storage = numerics.tensor_class(name)
    if not storage.format.planes:
        return stored_bits(storage, numerics.block)[1]
    plane = stored_bits(numerics.converted_class(name, numerics.widths[0]), numerics.block)[1]
    planes = (numerics.widths[-1] if width is None else width) / PLANE_BITS
    return plane * planes / (numerics.widths[0] / PLANE_BITS)


def step_cycles(
    config: Config, shapes: Sequence[LayerShape], widths: Widths = MappingProxyType({})
) -> int | None:
    """Return the cycles of all products and conversions of a step. None where the model does not
    support the machine.

    With chosen widths, return the mean over the widths, as if the widths of tensors were
    independent.
    """
    cycles = 0.0
    try:
        for number, shape in enumerate(shapes):
            layer = NamedLayer(name=f"layer{number}", m=shape.m, k=shape.k, n=shape.n)
            phases = ("forward", "backward" if shape.input_gradient else "dw", CONVERT)
            for shared_numerics, share in _shares(config.numerics, number, widths):
                costs = layer_costs(config, [layer], phases, LATENCY, widths=shared_numerics)
                cycles += share * sum(cost.cycles for cost in costs)
    except (BadInput, ValueError):
        return None
    return round(cycles)


def _shares(numerics: Numerics, layer: int, widths: Widths) -> Iterator[tuple[TensorWidths, float]]:
    """Yield the widths that X, W and dY of a layer may have together, and the share of every
    combination."""
    x, w, dy = (_class_shares(numerics, name, layer, widths) for name in CLASS_NAMES)
    for (of_x, a), (of_w, b), (of_dy, c) in product(x.items(), w.items(), dy.items()):
        if a * b * c:
            yield (of_x, of_w, of_dy), a * b * c


def _class_shares(
    numerics: Numerics, name: str, layer: int, widths: Widths
) -> dict[int | None, float]:
    mean = widths.get(f"layer{layer}.{OPERAND_BY_CLASS[name].name}")
    if mean is None or not numerics.tensor_class(name).format.planes:
        return {None: 1.0}
    wide = (mean - LOW) / (HIGH - LOW)
    return {LOW: 1 - wide, HIGH: wide}
