"""What the cycle-and-byte model says of a machine: utilisation, traffic, and what if."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from diastole_sim.perf import Estimate, Memory, ModelledMachine, estimate
from diastole_sim.perf.choose import choose_nest
from diastole_sim.spec.nest import Nest, ProductNests
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import AXES, OPERATIONS
from diastole_sim.spec.part import ProductPart, free_axes, unit_of

TENSORS = {"X": 0, "W": 1, "dY": 2}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "half of the accumulators": {"sum_units": 2},
    "loads not hidden": {"most_places": 1},
    "one vector filled per cycle": {"most_filled": 1},
    "memory of 100 cycles": {"memory": Memory.axi(100)},
}


def stored_bytes(machine: ModelledMachine, op: str, size: int) -> int:
    """Bytes of the images that ``op`` reads, each once."""
    images = (TENSORS[name] for name in OPERATIONS[op].operand_names)
    return machine.beat_bytes * sum(machine.stored_beats(image, size, size) for image in images)


def cycles_table(machine: ModelledMachine, size: int) -> Iterator[str]:
    """Every product of size x size x size, a line each."""
    yield f"{size} x {size} x {size}; cycles without work by what was awaited"
    heading = ("", "cycles", "utilisation", "read/stored", "load", "bank", "short", "tail")
    yield ("{:<9}" + "{:>12}" * 7).format(*heading)
    for op in OPERATIONS:
        found = estimate(machine, op, size, size, size)
        name = "fused" if found.fused else op
        ratio = found.read_bytes / stored_bytes(machine, op, size)
        yield (
            f"{name:<9}{found.cycles:>12}{found.utilisation:>11.2%} {ratio:>12.3f}"
            + "".join(f"{found.idle[key]:>12}" for key in ("load", "accumulator", "short", "tail"))
        )


def nests_table(machine: ModelledMachine, nests: ProductNests, size: int) -> Iterator[str]:
    """Every product of size x size x size in the loops that a host chooses."""
    yield f"{size} x {size} x {size}; in the nest that a host chooses"
    yield ("{:<9}" + "{:>12}" * 3 + "  {}").format("", "cycles", "utilisation", "MB read", "nest")
    for op in OPERATIONS:
        limits = nests.of(op)
        if limits is None:
            continue
        nest = choose_nest(machine, limits, op, size, size, size)
        found = estimate(machine, op, size, size, size, nest)
        yield (
            f"{op:<9}{found.cycles:>12}{found.utilisation:>11.2%} {found.read_bytes / 1e6:>12.3f}"
            f"  {nest}"
        )


def parts_table(
    machine: ModelledMachine, numerics: Numerics, nests: ProductNests, size: int, count: int
) -> Iterator[str]:
    """Every product of size x size x size shared by ``count`` machines, along each axis that may be
    parted: when the last is done, how much faster than one that is, and what all read. ValueError
    where it is too short for so many."""
    yield f"{size} x {size} x {size}, shared by {count} machines"
    yield ("{:<9}" + "{:>6}" + "{:>12}" * 3).format("", "axis", "cycles", "speed-up", "MB read")
    for op, operation in OPERATIONS.items():
        alone = _in_chosen_nest(machine, nests, op, size, size, size).cycles
        for axis in free_axes(operation):
            unit = unit_of(axis, operation.operands, numerics)
            cycles, read = 0, 0
            for index in range(count):
                first, last = ProductPart(axis=axis, index=index, count=count).bounds(size, unit)
                sizes = {name: last - first if name == axis else size for name in AXES}
                found = _in_chosen_nest(machine, nests, op, **sizes)
                cycles, read = max(cycles, found.cycles), read + found.read_bytes
            yield f"{op:<9}{axis:>6}{cycles:>12}{alone / cycles:>12.2f}{read / 1e6:>12.3f}"


def _in_chosen_nest(
    machine: ModelledMachine, nests: ProductNests, op: str, m: int, n: int, k: int
) -> Estimate:
    limits = nests.of(op)
    nest = Nest() if limits is None else choose_nest(machine, limits, op, m, n, k)
    return estimate(machine, op, m, n, k, nest)


def what_if(machine: ModelledMachine, size: int) -> Iterator[str]:
    """Utilisation of machines that differ in one thing."""
    yield ("{:<30}" + "{:>10}" * 4).format("utilisation", *OPERATIONS)
    for name, change in CHANGES.items():
        other = replace(machine, **change)
        values = (estimate(other, op, size, size, size).utilisation for op in OPERATIONS)
        yield f"{name:<30}" + "".join(f"{value:>10.1%}" for value in values)
