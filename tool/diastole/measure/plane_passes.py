"""Cycles of products whose operands have several planes, beside those of one plane."""

from collections.abc import Iterator, Mapping

from diastole.backend import cached_product
from diastole.devices import Device
from diastole.measure.figure import Figure, near
from diastole.measure.model_error import machine_of
from diastole.measure.utilisation import multiply_held, normal_operands
from diastole_sim.spec.formats import FAST, PLANE_BITS
from diastole_sim.spec.operations import OPERANDS, OPERATIONS

PRESET, ONE_PLANE = "nano", "bfp2"
SIDE, FUSED_SIDE = 512, 256
"""Of products, and of fused passes, whose planes must all stay."""
WITHIN = 0.01
"""Of the passes, that cycles over those of one plane may be off."""
WIDTHS = ((2, 2, 2), (4, 2, 2), (2, 4, 4), (4, 4, 4))
"""Of X, W and dY: every product with 1, 2 and 4 passes."""


def figures() -> Iterator[Figure]:
    """Of the same machine in both formats, run in Verilator."""
    with Device(cached_product(machine_of(PRESET, ONE_PLANE))) as device:
        alone = {op: cycles_of(device, op, {}) for op in OPERATIONS}
    with Device(cached_product(machine_of(PRESET, FAST.name))) as device:
        yield from over_one_plane(device, alone)


def over_one_plane(device: Device, alone: Mapping[str, int]) -> Iterator[Figure]:
    """Of a device in ``fast``; ``alone``: cycles of each operation in one plane."""
    for chosen in WIDTHS:
        widths = dict(zip((tensor.name for tensor in OPERANDS), chosen, strict=True))
        for op, cycles in alone.items():
            passes = passes_of(op, widths)
            ratio = cycles_of(device, op, widths) / cycles
            bits = ", ".join(f"{name} in {widths[name]}" for name in OPERATIONS[op].operand_names)
            what = f"cycles of {op} over {ONE_PLANE}, {side_of(op)}^3, {bits} bits"
            yield near(what, ratio, passes, WITHIN * passes, "{:.4f}")


def passes_of(op: str, widths: Mapping[str, int]) -> float:
    """Pairs of planes for each multiplication, in the mean of an operation's products."""
    counts = [
        (widths[a.name] // PLANE_BITS) * (widths[b.name] // PLANE_BITS)
        for a, b in (product.factors for product in OPERATIONS[op].products)
    ]
    return sum(counts) / len(counts)


def side_of(op: str) -> int:
    return FUSED_SIDE if op == "backward" else SIDE


def cycles_of(device: Device, op: str, widths: Mapping[str, int]) -> int:
    """Of one command; ``widths`` of the operands by name, where there is a choice."""
    held = {
        name: device.convert(array, name.lower(), tag=tag, width=widths.get(name))
        for tag, (name, array) in enumerate(normal_operands(side_of(op)).items())
    }
    counters = multiply_held(device, op, held).counters
    assert counters is not None
    return counters.cycles
