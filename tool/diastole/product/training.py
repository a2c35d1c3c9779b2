"""Compute the training of the C host with the golden model: the losses that the host must find.

A layer Y = X W learns targets T. In every step dY = Y - T, the loss is the sum of the squares of
dY, and W = W - rate dW. A machine with a vector unit computes a whole step with two programs.
Without a vector unit, the machine converts and multiplies, and the host computes the rest of the
step.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diastole.product.host_view import HostView
from diastole.product.scene import SEED, STEP, Floats
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import CHAINED, PRODUCTS, Opcode
from diastole_sim.spec.image import FloatLayout, image_layouts, round_up
from diastole_sim.spec.limits import VectorLimits, VectorTable
from diastole_sim.spec.micro import INPUTS, Instruction, MicroOp, Source, When
from diastole_sim.spec.operations import OPERANDS, Operation
from diastole_sim.spec.stream_table import STREAMS, Descriptor, Kind

STEPS = 10
SLOWER = 4
"""Number of rates that are tried. Every rate is half of the previous rate."""
_MEMORY_BYTES = 1 << 20
_OPERANDS = {tensor.name: tensor for tensor in OPERANDS}


@dataclass(frozen=True, kw_only=True)
class Training:
    """Result of a training. ``targets``: T. ``rate``: learning rate, a power of two, which makes
    the product with dW exact. ``losses``: loss of every step before the update of the step, rounded
    to binary32."""

    targets: Floats
    rate: float
    losses: Floats


def train_layer(view: HostView, floats: dict[str, Floats], scales: dict[str, int]) -> Training:
    """Train the layer on a golden model of the machine and return the result.

    ``floats``: X, the initial W, and the targets as dY. ``scales``: scale fields of the first
    conversions. The rate is the largest of :data:`SLOWER` rates with which the loss falls below
    half, or the rate with the smallest last loss.
    """
    targets = floats["dY"]
    steepest = float(np.linalg.norm(floats["X"].astype(np.float64), 2)) ** 2
    first = -int(np.ceil(np.log2(steepest)))
    tried: list[Training] = []
    for exponent in range(first, first - SLOWER, -1):
        rate = 2.0**exponent
        losses = _Run(view, floats, scales, rate).losses()
        tried.append(Training(targets=targets, rate=rate, losses=losses))
        if losses[-1] < losses[0] / 2:
            return tried[-1]
    return min(tried, key=lambda each: np.nan_to_num(float(each.losses[-1]), nan=np.inf))


class _Run:
    """Training run with a fixed rate, in the memory of a golden machine."""

    def __init__(
        self, view: HostView, floats: dict[str, Floats], scales: dict[str, int], rate: float
    ):
        limits = view.limits
        if limits.vector is None:  # the golden machine always has a vector unit
            limits = replace(limits, vector=VectorLimits(panel_vectors=2))
        self.view, self.rate = view, np.float32(rate)
        self.machine = GoldenMachine(view.numerics, limits, memory_bytes=_MEMORY_BYTES, seed=SEED)
        self.end = 0
        self.targets, self.weights = floats["dY"], floats["W"]
        self.sizes = dict(zip("mk", floats["X"].shape, strict=True)) | {"n": self.weights.shape[1]}
        self.floats = {name: self._place(values) for name, values in floats.items()}
        self.images = {name: self._images(name, values) for name, values in floats.items()}
        self.results = {"y": self._place(self.targets), "dw": self._place(self.weights)}
        self._do(self._convert("X", STEP, scales["X"]))

    def losses(self) -> Floats:
        """Return the losses of all steps."""
        step = self._chain_step if self.view.limits.has_vector else self._product_step
        if self.view.limits.has_vector:
            self._load_tables()
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([np.float32(step(number)) for number in range(STEPS)])

    def _product_step(self, step: int) -> float:
        self._do(self._convert("W", step), self._product(Opcode.FORWARD, self.results["y"]))
        off = self._read(self.results["y"], self.targets) - self.targets
        self._write(self.floats["dY"], off)
        self._do(self._convert("dY", step), self._product(Opcode.DW, self.results["dw"]))
        moved = self.rate * self._read(self.results["dw"], self.weights)
        self.weights = (self.weights - moved).astype(np.float32)
        self._write(self.floats["W"], self.weights)
        return float(np.cumsum(off.astype(np.float64).reshape(-1) ** 2)[-1])

    def _load_tables(self) -> None:
        """Load the tables of the vector unit: two programs, a constant, and the streams of both
        programs."""
        block, tables = self.view.block, self.machine.tables
        amounts = range(1, block.bit_length())
        gradient = [
            Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.S1, negate_c=1, d=0, o=0),
            Instruction(op=MicroOp.MAD, a=0, b=0, c=1, d=1, fresh=1, keep=1),
            *(
                Instruction(op=MicroOp.ADD, a=1, c=1, d=1, turn_lanes=amount, when=When.LAST)
                for amount in amounts
            ),
            Instruction(op=MicroOp.MOV, a=1, o=1, when=When.LAST),
        ]
        update = Instruction(
            op=MicroOp.MAD, a=Source.S0, b=Source.CONSTANT, negate_b=1, c=Source.S1, o=0
        )
        self.programs = [
            ProgramPlace(first=0, length=len(gradient), streams=0),
            ProgramPlace(first=len(gradient), length=1, streams=STREAMS),
        ]
        self.sums = self._take(4 * self.sizes["m"])
        targets = self._place(self.targets)
        pitch = self._layout(self.targets).pitch_bytes
        rows = {
            name: Descriptor(kind=Kind.F32, address=at, pitch=pitch)
            for name, at in {"T": targets, **self.floats}.items()
        }
        product = Descriptor(kind=Kind.PRODUCT)
        sums = Descriptor(kind=Kind.ROW, address=self.sums)
        streams = {0: product, 1: rows["T"], INPUTS: rows["dY"], INPUTS + 1: sums}
        streams |= {STREAMS: product, STREAMS + 1: rows["W"], STREAMS + INPUTS: rows["W"]}
        words = b"".join(each.encode().to_bytes(8, "little") for each in [*gradient, update])
        tables.load(VectorTable.INSTRUCTIONS, 0, np.frombuffer(words, np.uint8))
        tables.load(VectorTable.CONSTANTS, 0, np.array([self.rate], "<f4").view(np.uint8))
        for slot, stream in streams.items():
            data = np.frombuffer(stream.encode(), np.uint8)
            tables.load(VectorTable.DESCRIPTORS, slot, data)

    def _chain_step(self, step: int) -> float:
        gradient, update = self.programs
        self._do(
            self._convert("W", step),
            self._chained(Opcode.FORWARD_CHAIN, gradient),
            self._convert("dY", step),
            self._chained(Opcode.DW_CHAIN, update),
        )
        rows = self.machine.memory.read(self.sums, 4 * self.sizes["m"]).view("<f4")
        return float(np.cumsum(rows.astype(np.float64))[-1])

    # Places in memory.

    def _take(self, length: int) -> int:
        at, self.end = self.end, round_up(self.end + length, self.view.beat_bytes)
        return at

    def _layout(self, values: Floats) -> FloatLayout:
        rows, cols = values.shape
        return FloatLayout(rows=rows, cols=cols, data_width=self.view.limits.data_width)

    def _place(self, values: Floats) -> int:
        at = self._take(self._layout(values).total_bytes)
        self._write(at, values)
        return at

    def _write(self, at: int, values: Floats) -> None:
        self.machine.memory.write(at, self._layout(values).pack(values))

    def _read(self, at: int, like: Floats) -> Floats:
        layout = self._layout(like)
        return layout.unpack(self.machine.memory.read(at, layout.total_bytes))

    def _images(self, name: str, values: Floats) -> list[int]:
        view, storage = self.view, self.view.tensor_class(_OPERANDS[name].tensor_class)
        sizes = {"block": view.block, "data_width": view.limits.data_width}
        layouts = image_layouts(storage, values.shape, **sizes)
        return [self._take(self._planes(name) * each.total_bytes) for each in layouts]

    def _planes(self, name: str) -> int:
        return max(self.view.numerics.planes_of(_OPERANDS[name].tensor_class))

    # Commands.

    def _convert(self, name: str, step: int, scale: int = 0) -> Command:
        sizes, tensor, images = self.sizes, _OPERANDS[name], self.images[name]
        return Command.convert(
            tensor.tensor_class,
            rows=sizes[tensor.rows],
            cols=sizes[tensor.columns],
            source=self.floats[name],
            destination=images[0],
            second=images[1] if len(images) > 1 else 0,
            tag=tensor.number,
            step=step,
            scale=scale,
            planes=self._planes(name),
        )

    def _operands(self, operation: Operation) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the addresses of the operation's images by field, and the numbers of planes by
        class."""
        addresses: dict[str, Any] = {}
        for read in operation.reads:
            images = self.images[read.operand.name]
            addresses[read.field] = images[min(read.copy, len(images) - 1)]
        return addresses, {
            each.tensor_class: self._planes(each.name) for each in operation.operands
        }

    def _product(self, opcode: Opcode, result: int) -> Command:
        addresses, planes = self._operands(PRODUCTS[opcode])
        m, n, k = (self.sizes[axis] for axis in "mnk")
        addresses["out_a"] = result
        return Command.product(opcode, m=m, n=n, k=k, planes=planes, **addresses)

    def _chained(self, opcode: Opcode, program: ProgramPlace) -> Command:
        addresses, planes = self._operands(CHAINED[opcode])
        m, n, k = (self.sizes[axis] for axis in "mnk")
        return Command.chained(opcode, program, m=m, n=n, k=k, planes=planes, **addresses)

    def _do(self, *commands: Command) -> None:
        outcome = self.machine.run(commands)
        assert outcome.error == ErrorCode.NONE, (outcome, commands[outcome.index])
