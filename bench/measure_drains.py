"""Cost of a layer's activation at the drain of its product, in the Verilog."""

import numpy as np

from bench.figure import figure
from diastole.backend import cached_product, program_limits
from diastole_sim.host.vector_machine import VectorMachine
from diastole_sim.lowering.schedule import PRODUCT
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.program.chains.activations import gelu, relu
from diastole_sim.program.chains.inputs import add_bias_alone
from diastole_sim.program.fusion import ChainPart, fused
from diastole_sim.program.memory_plan import MemoryPlan, stream_of
from diastole_sim.program.writer import ChainCall, ProductOf, Writer
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.image import round_up
from diastole_sim.spec.stream_table import Kind
from support.training_steps import step_config

CYCLES = 10_000_000
"""More than any of these commands takes."""


class DrainedLayer:
    """The commands of Y = X W through bias and ``activation``, in groups, and their memory."""

    def __init__(self, config, activation, m, n, k):
        limits = program_limits(config)
        self.plan = plan = MemoryPlan(
            numerics=config.numerics,
            data_width=limits.data_width,
            panel_vectors=limits.vector.panel_vectors,
        )
        self.initial = {}
        self.writer = writer = Writer(plan, limits)
        x = plan.image("x", "x", (m, k), tag=0, slot=None)
        w = plan.image("w", "w", (k, n), tag=1, slot=None)
        product = ProductOf(operation="forward", m=m, n=n, k=k, operands={"x": x, "w": w})
        following = plan.image("a", "x", (m, n), tag=4, slot=None)
        y = stream_of(plan.tensor("y", Kind.F32, m, n))
        kept = stream_of(plan.tensor("kept", activation.kept[0], m, n))
        pieces = [
            ChainPart(
                chain=add_bias_alone(),
                shape=(m, n),
                inputs={"y": PRODUCT, "b": stream_of(plan.vector("b", Kind.COLUMN, n))},
                outputs={"z": "z"},
            ),
            ChainPart(
                chain=activation.forward_chain(),
                shape=(m, n),
                inputs={"input": "z"},
                outputs={"value": following, "kept": kept},
            ),
        ]
        made = fused(pieces, {}, block=plan.block)
        use = ChainCall(chain=made.chain, shape=(m, n), inputs=made.inputs, outputs=made.outputs)
        convert = writer.segment(lambda: self._convert((x, w)))
        alone = writer.segment(lambda: writer.product(product, y))
        chained = writer.segment(lambda: writer.chain(use, product))
        self.before = [self._placed("conversions", convert)]
        loads, chained = writer.with_tables(chained, self.initial, "layer")
        self.before += [self._placed("loads", loads)]
        self.alone = self._placed("alone", alone)
        self.chained = self._placed("chained", chained)

    def _convert(self, images):
        rng = np.random.default_rng(0)
        for image in images:
            area = self.plan.tensor(f"{image.name} floats", Kind.F32, image.rows, image.cols)
            values = rng.standard_normal((image.rows, image.cols))
            self.initial[area.name] = values.astype("<f4").tobytes()
            self.writer.convert(stream_of(area), image)

    def _placed(self, name, commands):
        area, self.initial[name] = self.plan.commands(name, commands.commands())
        return area


def drain_cycles(config, activation, m, n, k):
    """Return cycles of the product alone, and with its chain and the conversion of the result."""
    made = DrainedLayer(config, activation, m, n, k)
    size = round_up(made.plan.end, 1 << 16)

    def run(area, count):
        outcome = machine.run_at(area.address, count, limit=CYCLES)
        assert outcome.error == ErrorCode.NONE, f"{area.name}: {outcome}"
        return machine.counters()["cycles_total"]

    running = VerilatorMachine(cached_product(config), Simulation(memory_base=0, memory_bytes=size))
    with VectorMachine(running, seed=0) as machine:
        for name, data in made.initial.items():
            machine.write(made.plan.areas[name].address, np.frombuffer(data, np.uint8))
        for area in made.before:
            run(area, area.length // COMMAND_BYTES)
        alone = run(made.alone, 1)
        return alone, run(made.chained, 1), run(made.chained, made.chained.length // COMMAND_BYTES)


@figure("use of nano, 512 cubed forward with bias, ReLU, mask and conversion", at_least=0.98)
def drain_use():
    config = step_config("nano")
    return 512**3 / config.macs / drain_cycles(config, relu(), 512, 512, 512)[2]


@figure(
    "cycles of 1024 x 512 x 128 with GELU over the product alone, {case}",
    at_most={"nano": 5, "nano with 4 special lanes": 4},
    form="{:.2f}",
)
def drained_gelu(case):
    alone, chain, _ = drain_cycles(step_config(case), gelu(), 1024, 512, 128)
    return chain / alone
