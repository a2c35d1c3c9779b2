"""What a configuration costs on a task: area, bits, passes, cycles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer
from diastole.layers.cell_areas import cell_area
from diastole.layers.costs import CONVERT, layer_costs
from diastole_sim.codes.survey import stored_bits
from diastole_sim.perf.machine import LATENCY
from diastole_sim.perf.machine import Widths as TensorWidths
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERAND_OF
from diastole_sim.train.network import LayerShape
from diastole_sim.train.precision import HIGH, LOW

Widths = Mapping[str, float]
"""By tensor ("layer0.X") the mean bits of its magnitudes, of classes whose width is chosen."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """``area_per_mac_nand2``: of a cell, None if none like it was measured. ``bits_per_element``:
    stored in all copies, scales included, mean over the tensors that a step converts. ``passes`` of
    a product by MACs. ``cycles_per_step``: products and conversions one after the other, by the
    model of the machine; None where that has no such machine."""

    area_per_mac_nand2: float | None
    bits_per_element: float
    passes: float
    cycles_per_step: int | None

    @property
    def area_passes(self) -> float | None:
        """Area times time of a product, per MAC."""
        area = self.area_per_mac_nand2
        return None if area is None else area * self.passes


def cost_of(config: Config, shapes: Sequence[LayerShape], *, passes: float, widths: Widths) -> Cost:
    """Of a step with linear layers of these shapes."""
    numerics = config.numerics
    return Cost(
        area_per_mac_nand2=cell_area(numerics),
        bits_per_element=moved_bits(numerics, shapes, widths),
        passes=passes,
        cycles_per_step=cycles_of_step(config, shapes, widths),
    )


def moved_bits(numerics: Numerics, shapes: Sequence[LayerShape], widths: Widths) -> float:
    """Of an element of X, W and dY, in all copies, with its share of the exponents."""
    elements, bits = 0, 0.0
    for layer, shape in enumerate(shapes):
        counts = {"x": shape.m * shape.k, "w": shape.k * shape.n, "dy": shape.m * shape.n}
        for name in CLASS_NAMES:
            width = widths.get(f"layer{layer}.{OPERAND_OF[name].name}")
            elements += counts[name]
            bits += counts[name] * element_bits(numerics, name, width)
    return bits / elements


def element_bits(numerics: Numerics, name: str, width: float | None) -> float:
    """Of a class, in all copies; of planes as many as the mean ``width`` has, each with its own
    exponents."""
    chosen = numerics.tensor_class(name)
    if not chosen.format.planes:
        return stored_bits(chosen, numerics.block)[1]
    plane = stored_bits(numerics.converted_class(name, numerics.widths[0]), numerics.block)[1]
    planes = (numerics.widths[-1] if width is None else width) / PLANE_BITS
    return plane * planes / (numerics.widths[0] / PLANE_BITS)


def cycles_of_step(
    config: Config, shapes: Sequence[LayerShape], widths: Widths = MappingProxyType({})
) -> int | None:
    """Of all products and conversions of a step; None where the model has no such machine. Where
    widths are chosen, the mean of those with each, as if tensors had theirs independently."""
    cycles = 0.0
    try:
        for number, shape in enumerate(shapes):
            layer = NamedLayer(name=f"layer{number}", m=shape.m, k=shape.k, n=shape.n)
            asked = ("forward", "backward" if shape.input_gradient else "dw", CONVERT)
            for chosen, share in _shares(config.numerics, number, widths):
                found = layer_costs(config, [layer], asked, LATENCY, widths=chosen)
                cycles += share * sum(cost.cycles for cost in found)
    except (BadInput, ValueError):
        return None
    return round(cycles)


def _shares(numerics: Numerics, layer: int, widths: Widths) -> Iterator[tuple[TensorWidths, float]]:
    """The widths that a layer's X, W and dY may have together, and how often they have them."""
    x, w, dy = (_own_shares(numerics, name, layer, widths) for name in CLASS_NAMES)
    for (of_x, a), (of_w, b), (of_dy, c) in product(x.items(), w.items(), dy.items()):
        if a * b * c:
            yield (of_x, of_w, of_dy), a * b * c


def _own_shares(
    numerics: Numerics, name: str, layer: int, widths: Widths
) -> dict[int | None, float]:
    mean = widths.get(f"layer{layer}.{OPERAND_OF[name].name}")
    if mean is None or not numerics.tensor_class(name).format.planes:
        return {None: 1.0}
    wide = (mean - LOW) / (HIGH - LOW)
    return {LOW: 1 - wide, HIGH: wide}
