"""Registers in cells and behind memories in Verilator: they change no bit, and cost each pass
their cycles."""

import pytest

from diastole.backend import cached_product
from diastole.devices import Device
from diastole_sim.perf import Memory, ModelledMachine, estimate
from support import products as p
from support.sweep import sweep

MACHINES = [name if name == "quick" else sweep(name) for name in p.PIPELINE_MACHINES]
SHARE, WORST = 0.02, 0.15
"""Of the cycles, by which the model may be wrong, and for one of the cases: where a tile's rows and
the next sums in their memory come within a few cycles of each other, either may be first."""
COUNTED = (
    ("forward", (40, 33, 64)), ("forward", (9, 40, 30)), ("dx", (24, 20, 31)), ("dx", (17, 25, 20)),
    ("dw", (31, 18, 40)), ("dw", (50, 12, 24)),
)  # fmt: skip
"""Operations, and M, K and N."""


@pytest.mark.parametrize("kind", ["plain", "wide", "special", "ties"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (31, 33, 17)], ids=str)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.sampled(2)
def test_every_pipeline_has_the_bits(name, sizes, kind, devices, goldens, np_rng):
    data = p.tensors(np_rng, sizes, kind)
    p.check_against_golden(devices(name), goldens(name), data)


@pytest.mark.parametrize("name", MACHINES)
def test_pipelines_that_are_stalled(name, devices, goldens, np_rng):
    """Of several tiles, back to back."""
    data = p.tensors(np_rng, (70, 40, 70), "wide")
    p.check_against_golden(devices(name, 5), goldens(name), data)


@pytest.mark.parametrize("name", MACHINES)
def test_the_model_knows_the_pipeline(name, np_rng):
    config, latency = p.MACHINES[name], 20
    memory = Memory.axi(latency)
    model = ModelledMachine.of(config.numerics, memory=memory, **config.modelled_sizes)
    assert model.cell_cycles > 2
    product, size = cached_product(config), 1 << 24
    with Device(product, read_latency=latency, write_latency=latency, memory_bytes=size) as device:
        errors: dict[str, float] = {}
        for op, (m, k, n) in COUNTED:
            operands = p.convert(device, p.tensors(np_rng, (m, k, n), "plain"))
            counted = p.multiply(device, op, operands).counters
            guess = estimate(model, op, m, n, k, device.loops.of(op, m=m, n=n, k=k))
            errors[f"{op} {m} {k} {n}"] = abs(guess.cycles / counted.cycles - 1)
    *others, worst = sorted(errors.values())
    assert max(others) <= SHARE, errors
    assert worst <= WORST, errors
