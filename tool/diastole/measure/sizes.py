"""How busy presets of every size are, in their generated Verilog: `server` takes minutes to
compile and to run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole.backend import cached_product
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.measure.figure import Figure, at_least
from diastole.measure.utilisation import (
    convert,
    memories,
    multiply_held,
    normal_operands,
    same_bits,
    used,
)
from diastole_sim.device.interface import ProductResult
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.operations import OPERATIONS

SEPARATE = ("forward", "dx", "dw")


@dataclass(frozen=True, kw_only=True)
class Cube:
    """Products of side x side x side: the least utilisation of each, and of ``flying`` products
    one after the other, two of them in flight; 0: none."""

    side: int
    least: float
    ops: tuple[str, ...] = SEPARATE
    flying: int = 0
    least_flying: float = 0.0


CASES = {
    "edge": (
        Cube(side=512, least=0.91),
        Cube(side=768, least=0.98),
        Cube(side=2048, least=0.975, ops=("forward",)),
    ),
    "server": (
        Cube(side=512, least=0.83, flying=6, least_flying=0.94),
        Cube(side=1024, least=0.95),
        Cube(side=2048, least=0.985, ops=("forward",)),
    ),
}
"""By preset what is asked; a shape that tiles do not fit bounds `edge` to 94.0, 100 and 98.5 %."""
FAR = {"nano": Cube(side=64, least=0.68), "server": Cube(side=1024, least=0.94, ops=("forward",))}
"""The same with a memory of :data:`FAR_LATENCY` cycles."""
FAR_LATENCY = 100
FAR_AWAY = f", latency {FAR_LATENCY}"
"""What figures of it say."""


def larger() -> Iterator[Figure]:
    """Of :data:`CASES`, and the memories of those presets."""
    for name, cases in CASES.items():
        with Device(cached_product(PRODUCTS_ONLY[name])) as device:
            yield memories(name, device)
            for case in cases:
                yield from cube_products(name, PRODUCTS_ONLY[name], device, case)


def far() -> Iterator[Figure]:
    """Of :data:`FAR`."""
    latency = FAR_LATENCY
    for name, case in FAR.items():
        config, where = PRODUCTS_ONLY[name], f", latency {latency}"
        with Device(cached_product(config), read_latency=latency, write_latency=latency) as device:
            yield from cube_products(name, config, device, case, where=where)


def cube_products(
    name: str, config: Config, device: Device, cube: Cube, *, where: str = ""
) -> Iterator[Figure]:
    """Of one cube, and whether the bits of its first product are right; ``where``: said beside."""
    tensors = normal_operands(cube.side)
    held = convert(device, tensors)
    what = f"{name}, {cube.side}^3{where}"
    for op in cube.ops:
        result = multiply_held(device, op, held)
        share = used(config, result, cube.side)
        yield at_least(f"utilisation of {what}, {op}", share, cube.least, "{:.2%}")
        if op == cube.ops[0]:
            same = is_golden(config, tensors, op, result)
            yield Figure(what=f"bits of {what}, {op}", asked="same", measured=str(same), met=same)
    if cube.flying:
        operands = [held[name] for name in OPERATIONS["forward"].operand_names]
        together = device.multiply_together([("forward", operands)] * cube.flying)
        counters = together[0].counters
        assert counters is not None
        share = cube.side**3 * cube.flying / counters.cycles / config.macs
        flying = f"utilisation of {what}, {cube.flying} in flight"
        yield at_least(flying, share, cube.least_flying, "{:.2%}")


def is_golden(
    config: Config, tensors: Mapping[str, NDArray[np.float32]], op: str, result: ProductResult
) -> bool:
    """Whether a product has the bits of the golden model."""
    golden = GoldenDevice(config.numerics)
    names = list(tensors)
    operands = (
        golden.convert(tensors[name], name.lower(), tag=names.index(name))
        for name in OPERATIONS[op].operand_names
    )
    wanted: ProductResult = getattr(golden, op)(*operands)
    return all(same_bits(values, wanted.values[name]) for name, values in result.values.items())
