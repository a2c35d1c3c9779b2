"""What a layer's activation costs at the drain of its product, beside the product alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from diastole.backend import cached_product, program_limits
from diastole.config.keys import Config
from diastole.measure.figure import Figure, at_least, at_most, shown
from diastole.measure.whole_steps import CASES, configured_step
from diastole_sim.golden.machine import Outcome
from diastole_sim.host.bell import BellMachine
from diastole_sim.machines.verilator.machine import Machine
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.program.chains.activations import Activation, gelu, relu
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.memory_plan import MemoryPlan, PlannedArea, PlannedImage, stream_of
from diastole_sim.program.perceptron_forward import PRODUCT
from diastole_sim.program.writer import ChainUse, ProductOf, Writer
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.image import round_up
from diastole_sim.spec.stream_table import Kind

PAGE_BYTES = 1 << 16
CYCLES = 10_000_000
"""More than any of these commands takes."""


@dataclass(frozen=True, kw_only=True)
class DrainedLayer:
    """Y = X W through bias and ``activation``, M = ``m`` and so on."""

    activation: Activation
    m: int
    n: int
    k: int


@dataclass(frozen=True, kw_only=True)
class DrainCycles:
    """Cycles of the product alone, of that with its chain, and of the ``conversion`` behind it,
    where the chain may not make the image itself."""

    alone: int
    chain: int
    conversion: int


def figures() -> Iterator[Figure]:
    """Of `nano` with a vector unit, and with four special lanes."""
    layer = DrainedLayer(activation=relu(), m=512, n=512, k=512)
    config = configured_step(CASES[0])
    found = drain_cycles(config, layer)
    slots = layer.m * layer.n * layer.k / config.macs
    name = "512^3 forward with bias, ReLU, mask"
    used = slots / (found.chain + found.conversion)
    yield at_least(f"utilisation, {name} and conversion", used, 0.98)
    yield shown("utilisation, 512^3 forward alone", slots / found.alone)
    layer = DrainedLayer(activation=gelu(), m=1024, n=512, k=128)
    for case, most in ((CASES[0], 5), (CASES[2], 4)):
        found = drain_cycles(configured_step(case), layer)
        what = f"forward of 1024 x 512 x 128 with GELU over it alone, {case.name}"
        yield at_most(what, found.chain / found.alone, most, "{:.2f}")


class _Layer:
    """The commands of a layer, in groups, and memory for them."""

    def __init__(self, config: Config, layer: DrainedLayer):
        limits = program_limits(config)
        assert limits.vector is not None
        self.plan = plan = MemoryPlan(
            numerics=config.numerics,
            data_width=limits.data_width,
            panel_vectors=limits.vector.panel_vectors,
        )
        self.initial: dict[str, bytes] = {}
        self.writer = writer = Writer(plan, limits)
        m, n, k = layer.m, layer.n, layer.k
        x = plan.image("x", "x", m, k, tag=0, slot=None)
        w = plan.image("w", "w", k, n, tag=1, slot=None)
        following = plan.image("a", "x", m, n, tag=4, slot=None)
        product = ProductOf(operation="forward", m=m, n=n, k=k, operands={"x": x, "w": w})
        y = stream_of(plan.tensor("y", Kind.F32, m, n))
        use = ChainUse(
            chain=layer.activation.forward_chain(),
            shape=(m, n),
            inputs={"y": PRODUCT, "b": stream_of(plan.vector("b", Kind.COLUMN, n))},
            outputs={
                "a": following,
                "kept": stream_of(plan.tensor("kept", layer.activation.kept[0], m, n)),
            },
        )
        rng = np.random.default_rng(0)
        convert = writer.segment(lambda: self._convert(rng, (x, w)))
        alone = writer.segment(lambda: writer.product(product, y))
        chained = writer.segment(lambda: writer.chain(use, product))
        self.before = [self._placed("conversions", convert)]
        self.before += [self._placed("loads", writer.load_tables(self.initial, "layer"))]
        self.alone = self._placed("alone", alone)
        self.chained = self._placed("chained", chained)

    def _convert(self, rng: np.random.Generator, images: Iterable[PlannedImage]) -> None:
        for image in images:
            area = self.plan.tensor(f"{image.name} floats", Kind.F32, image.rows, image.cols)
            values = rng.standard_normal((image.rows, image.cols))
            self.initial[area.name] = values.astype("<f4").tobytes()
            self.writer.convert(stream_of(area), image)

    def _placed(self, name: str, commands: CommandList) -> PlannedArea:
        area, self.initial[name] = self.plan.commands(name, commands.commands())
        return area


def drain_cycles(config: Config, layer: DrainedLayer) -> DrainCycles:
    """In the Verilog."""
    made = _Layer(config, layer)
    size = round_up(made.plan.end, PAGE_BYTES)
    simulation = Simulation(memory_base=0, memory_bytes=size)
    with BellMachine(Machine(cached_product(config), simulation)) as machine:
        for name, data in made.initial.items():
            machine.write(made.plan.areas[name].address, np.frombuffer(data, np.uint8))
        for area in made.before:
            _run(machine, area, area.length // COMMAND_BYTES)
        alone = _run(machine, made.alone, 1)
        chain = _run(machine, made.chained, 1)
        rest = made.chained.length // COMMAND_BYTES
        both = _run(machine, made.chained, rest) if rest > 1 else chain
    return DrainCycles(alone=alone, chain=chain, conversion=both - chain)


def _run(machine: BellMachine, area: PlannedArea, count: int) -> int:
    """Cycles of the first commands of an area."""
    outcome: Outcome = machine.run_at(area.address, count, limit=CYCLES)
    if outcome.error != ErrorCode.NONE:
        raise RuntimeError(f"{area.name}: {outcome}")
    return machine.counters()["cycles_total"]
