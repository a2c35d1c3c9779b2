"""What a configuration costs on a task: area, bits, passes, cycles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer
from diastole.layers.cell_areas import cell_area
from diastole.layers.costs import CONVERT, layer_costs
from diastole_sim.codes.survey import stored_bits
from diastole_sim.perf.machine import LATENCY
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERAND_OF
from diastole_sim.train.network import LayerShape

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
        cycles_per_step=cycles_of_step(config, shapes),
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


def cycles_of_step(config: Config, shapes: Sequence[LayerShape]) -> int | None:
    """Of all products and conversions of a step; None where the model has no such machine."""
    phases = {True: ("forward", "backward", CONVERT), False: ("forward", "dw", CONVERT)}
    cycles = 0
    try:
        for gradient, asked in phases.items():
            layers = [
                NamedLayer(name=f"layer{number}", m=shape.m, k=shape.k, n=shape.n)
                for number, shape in enumerate(shapes)
                if shape.input_gradient == gradient
            ]
            cycles += sum(cost.cycles for cost in layer_costs(config, layers, asked, LATENCY))
    except (BadInput, ValueError):
        return None
    return cycles
