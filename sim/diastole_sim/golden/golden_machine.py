"""Execute commands on memory, tables and registers, to the bit: the golden machine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats
from diastole_sim.golden.areas import Area, MachineView, written_areas
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.drain_order import order_of
from diastole_sim.golden.images import Images
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.golden.matrix_product import ResultTensor, matrix_product
from diastole_sim.golden.memory import Bytes, GoldenMemory, OutsideError
from diastole_sim.golden.tables import Tables
from diastole_sim.golden.vector.chain_run import ChainRun, Input, run_chain
from diastole_sim.golden.vector.order import Order
from diastole_sim.golden.vector.streams import drawn_numbers, read_stream, write_stream
from diastole_sim.spec.chains import chain_faults, named_streams
from diastole_sim.spec.command import Command, scale_exponent
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import PRECEDENCE, ErrorCode, MalformedCommandError
from diastole_sim.spec.command_table import (
    CHAINED,
    CHAINS,
    COMMAND_BYTES,
    MULTIPLYING,
    PRODUCTS,
    SLOT_FIELDS,
    WIDTH_FIELDS,
    Opcode,
)
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.image import FloatLayout, round_up
from diastole_sim.spec.limits import Limits, VectorTable
from diastole_sim.spec.micro import FLOOR, INPUTS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.operations import MatrixProduct, Operation, Tensor
from diastole_sim.spec.require import require_int
from diastole_sim.spec.scales import amax_exponent, delayed_exponent
from diastole_sim.spec.stream_table import GATHERED, IN_MEMORY, Descriptor, Kind

ONE_BITS = 0x3F800000
"""Bits of 1.0, the largest magnitude that a scale slot without earlier steps gives."""


class StoppedError(Exception):
    """Report that a command is refused, or stopped the machine. ``code``: error code that the
    hardware reports."""

    def __init__(self, code: ErrorCode):
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """End of a run. ``error``: error code, NONE without an error. ``index``: number of the command
    that failed. ``done``: number of commands done."""

    error: ErrorCode = ErrorCode.NONE
    index: int = 0
    done: int = 0


@dataclass(kw_only=True)
class StatusRegisters:
    """Registers about conversions and products since the last clear. ``flags``: names of
    :data:`diastole_sim.spec.registers.FLAG_BITS` that are set. ``amax``: largest magnitude of the
    last conversion."""

    flags: set[str] = field(default_factory=set[str])
    saturated: int = 0
    underflowed: int = 0
    amax: int = 0


PRODUCT_CYCLES, ALL_CYCLES = "cycles_products", "cycles_with_conversions"
"""Counters of an engine with a clock: cycles of the products, and of all work."""


class Engine(Protocol):
    """Part of a machine that converts tensors and multiplies them."""

    def convert(self, values: Floats, request: Conversion) -> Quantised:
        """Return the converted tensor. ``request.scale`` is the exponent of the tensor's scale;
        None if the scale follows from the numbers."""
        ...

    def multiply(self, product: MatrixProduct, operands: Mapping[str, Quantised]) -> ResultTensor:
        """Return a product of operands by name."""
        ...

    def cycles(self) -> Counter[str]:
        """Return :data:`PRODUCT_CYCLES` and :data:`ALL_CYCLES` so far, nothing without a clock."""
        ...


@dataclass(frozen=True)
class GoldenEngine:
    """Conversions and products by the golden code. ``seed``: seed of all random bits."""

    numerics: Numerics
    seed: int

    def convert(self, values: Floats, request: Conversion) -> Quantised:
        """Return the converted tensor."""
        return quantise(values, request, self.numerics, seed=self.seed)

    def multiply(self, product: MatrixProduct, operands: Mapping[str, Quantised]) -> ResultTensor:
        """Return a product of operands by name."""
        return matrix_product(product, operands, self.numerics)

    def cycles(self) -> Counter[str]:
        """Return no cycles."""
        return Counter()


class StoreRounding(Protocol):
    """Rounding of the numbers of a tensor in a step. ``watched``: True if a NaN or an Inf is an
    overflow of the step."""

    @property
    def watched(self) -> bool: ...
    def __call__(self, values: Floats, step: int) -> Floats: ...


class GoldenMachine:
    """Machine with a vector unit, with memory, and with registers as attributes.

    - ``numerics``: parameters that decide the bits.
    - ``limits``: limits of accepted commands.
    - ``memory_bytes``: bytes of memory from address 0 on; no other address may be read or written.
    - ``seed``: seed of all random bits.
    - ``engine``: converts and multiplies; None for the golden code. With the hardware of a machine
      without a vector unit as engine, the golden code does the rest of a program.
    - ``roundings``: by address of a tensor, rounding of what commands write there. No vector unit
      rounds so.

    ``step``, ``step_end``, ``command_first``: registers. ``loss``: registers of the loss scale.
    ``overflow``: overflow bit of the step. Tables and memory begin as zeros.
    """

    def __init__(
        self,
        numerics: Numerics,
        limits: Limits,
        *,
        memory_bytes: int,
        seed: int = 0,
        engine: Engine | None = None,
        roundings: Mapping[int, StoreRounding] | None = None,
    ):
        if limits.vector is None or limits.nests is None:
            raise ValueError("limits must belong to a machine with a vector unit and nests")
        self.numerics, self.limits = numerics, limits
        self.seed = require_int("seed", seed, 0, 2**32 - 1)
        self.engine = GoldenEngine(numerics, self.seed) if engine is None else engine
        self.roundings = roundings or {}
        self.memory = GoldenMemory(memory_bytes)
        self.images = Images(memory=self.memory, numerics=numerics, data_width=limits.data_width)
        self.tables = Tables(
            block=limits.block,
            panel_vectors=limits.vector.panel_vectors,
            slot_words=limits.slot_words,
        )
        self.loss = LossScale()
        self.step = self.step_end = self.command_first = 0
        self.overflow = False
        self.status = StatusRegisters()
        self._cycles: Counter[str] = Counter()
        self._decoded: dict[bytes, Command] = {}
        self._checked_chains: dict[Command, int] = {}

    # Interface for a host.

    def read_rows(self, address: int, count: int, pitch: int, length: int) -> Bytes:
        """Return a view of ``count`` runs of ``length`` bytes of memory, ``pitch`` apart."""
        return self.memory.rows(address, count, pitch, length)

    def write(self, address: int, data: Bytes) -> None:
        """Write bytes to memory."""
        self.memory.write(address, data)

    def counters(self) -> dict[str, int]:
        """Return the cycles of the engine in the last run, nothing without a clock."""
        return dict(self._cycles)

    def reported(self) -> dict[str, int]:
        """Return how many elements saturated, and how many became zeros, in the conversions of the
        last run."""
        return {"saturated": self.status.saturated, "underflowed": self.status.underflowed}

    def run_at(self, address: int, count: int) -> Outcome:
        """Run the ``count`` commands of the array at an address, as register ``start`` does. Flags
        and counters are cleared first."""
        self.status, before = StatusRegisters(), self.engine.cycles()
        self._cycles = Counter()
        try:
            data = self.memory.read(address, count * COMMAND_BYTES).tobytes()
        except OutsideError:
            return Outcome(error=ErrorCode.WINDOW)
        starts = range(0, len(data), COMMAND_BYTES)
        outcome = self.run([data[start : start + COMMAND_BYTES] for start in starts])
        self._cycles = self.engine.cycles() - before
        return outcome

    def run(self, commands: Iterable[bytes | Command]) -> Outcome:
        """Run commands from number ``command_first`` on, until a command fails or the list ends."""
        table = list(commands)
        index, done = self.command_first, 0
        while self.command_first <= index < len(table):
            command = table[index]
            try:
                self.execute(command)
            except StoppedError as stopped:
                return Outcome(error=stopped.code, index=index, done=done)
            index, done = self._after(index, command), done + 1
        return Outcome(done=done)

    def execute(self, encoded: bytes | Command) -> None:
        """Execute one command. After the command ``next`` the caller must find the following
        command itself. StoppedError if the command is refused, and then has no effect, or if the
        command stops the machine."""
        command = self._checked(encoded)
        try:
            self._execute(command)
        except OutsideError:
            raise StoppedError(ErrorCode.WINDOW) from None

    def written_areas(self, encoded: bytes | Command) -> list[Area]:
        """Return the areas that a command is about to write. StoppedError if the command is
        refused."""
        view = MachineView(
            images=self.images,
            tables=self.tables,
            limits=self.limits,
            step=self.step,
        )
        return written_areas(self._checked(encoded), view)

    def contents(self, area: Area) -> Bytes:
        """Return the present contents of an area, side by side."""
        if area.table is None:
            return self.memory.rows(area.first, area.count, area.pitch, area.length).reshape(-1)
        return self.tables.bytes_of(area.table, area.first, area.length)

    def _after(self, index: int, encoded: bytes | Command) -> int:
        """Return the number of the next command."""
        command = self._checked(encoded)
        if command.opcode == Opcode.NEXT and self.step < self.step_end:
            return command.target
        return index + 1

    # Checks.

    def _checked(self, encoded: bytes | Command) -> Command:
        """Return the decoded command; StoppedError if the machine refuses it. A command that passed
        the check stays valid as long as the tables that it names stay the same."""
        data = encoded.encode() if isinstance(encoded, Command) else encoded
        command = self._decoded.get(data)
        if command is None:
            try:
                command = self._decoded[data] = decode(data, self.limits)
            except MalformedCommandError as error:
                raise StoppedError(error.code) from None
        tables = self.tables
        if command.opcode in CHAINS and self._checked_chains.get(command) != tables.edition:
            codes = chain_faults(command, tables.descriptors, tables.instructions, self.limits)
            for code in PRECEDENCE:
                if code in codes:
                    raise StoppedError(code)
            self._checked_chains[command] = tables.edition
        return command

    # Commands.

    def _execute(self, command: Command) -> None:
        opcode = Opcode(command.opcode)
        if opcode == Opcode.CONVERT:
            self._convert(command)
        elif opcode in PRODUCTS:
            self._product(command, PRODUCTS[opcode])
        elif opcode in CHAINS:
            if not (command.skip and self.overflow):
                self._chain(command)
        elif opcode == Opcode.LOAD:
            length = command.count * self.tables.entry_bytes(command.which)
            data = self.memory.read(self._transfer_address(command), length)
            self.tables.load(command.which, command.first, data)
            if command.which == VectorTable.CONSTANTS and _fills_entry(command, FLOOR):
                self.loss.set_floor(self.tables.constants[FLOOR])
        elif opcode == Opcode.STORE:
            self.loss.put(self.tables.constants)
            data = self.tables.store(command.which, command.first, command.count)
            self.memory.write(self._transfer_address(command), data)
        else:
            self.loss.next(self.overflow)
            self.overflow = False
            self.step = (self.step + 1) % 2**32

    def _transfer_address(self, command: Command) -> int:
        return command.address_x + self.step * command.advance

    def _convert(self, command: Command) -> None:
        name = CLASS_NAMES[command.class_x]
        layout = FloatLayout(rows=command.m, cols=command.n, data_width=self.limits.data_width)
        values = layout.unpack(self.memory.read(command.address_x, layout.total_bytes))
        planes_less_1 = (
            self.tables.next_planes(command.slot - 1) if command.by_slot else command.width
        )
        width = self._width(name, planes_less_1)
        storage = self.numerics.converted_class(name, width)
        step = (command.step + self.step) % 2**32
        scale = None
        if storage.has_tensor_scale:
            scale = scale_exponent(command.scale, storage.format)
        if command.slot:
            scale = self._slot_exponent(command.slot - 1, storage, step)
        request = Conversion(name, tag=command.tag, step=step, scale=scale, width=width)
        tensor = self.engine.convert(values, request)
        self._note_conversion(tensor, command.slot)
        self._update_widths(tensor, command)
        self.images.write(tensor, (command.address_w, command.address_dy))

    def _width(self, name: str, planes_less_1: int) -> int | None:
        """Return the bits of a magnitude for a field of a command; None for a format without
        planes."""
        planes = self.numerics.tensor_class(name).format.planes
        return PLANE_BITS * (planes_less_1 + 1) if planes else None

    def _slot_exponent(self, slot: int, storage: TensorClass, step: int) -> int | None:
        """Return the exponent of a tensor's scale from the conversions of earlier steps; None if
        the class has no tensor scale."""
        if not self.numerics.has_tensor_scales:
            return None
        before = self.tables.magnitudes_before(slot, step)
        if not storage.has_tensor_scale:
            return None
        largest = max(before) or ONE_BITS
        return delayed_exponent([largest], storage, self.numerics.margin)

    def _update_widths(self, tensor: Quantised, writer: Command | Descriptor) -> None:
        """Update the slot of a conversion with the widths of its last and its next tensor."""
        slot_plus_1 = writer.slot if isinstance(writer, Command) else writer.aux
        if writer.by_slot or writer.decides:
            improvement = tensor.improvement if writer.decides else None
            self.tables.update_widths(
                slot_plus_1 - 1, by_slot=bool(writer.by_slot), improvement=improvement
            )

    def _note_conversion(self, tensor: Quantised, slot_plus_1: int) -> None:
        """Record the flags and counts of a conversion."""
        name, status = tensor.tensor_class, self.status
        status.flags |= {f"{name}_{kind}" for kind in ("nan", "inf") if getattr(tensor, kind)}
        status.saturated += tensor.saturated
        status.underflowed += tensor.underflowed
        status.amax = tensor.amax
        if slot_plus_1:
            self.tables.note_magnitude(slot_plus_1 - 1, tensor.amax)
        if name == "dy" and (tensor.nan or tensor.inf):
            self.overflow = True

    def _multiply(self, command: Command, operation: Operation) -> dict[str, ResultTensor]:
        """Return the results of a command's products, by name."""
        results: dict[str, ResultTensor] = {}
        for product in operation.products:
            operands = {
                tensor.name: self._operand(command, operation, product, tensor)
                for tensor in product.factors
            }
            result = self.engine.multiply(product, operands)
            results[product.result.name] = result
            if not result.exact:
                self.status.flags.add("inexact")
            if result.overflow:
                self.status.flags.add("overflow")
                self.overflow = True
        return results

    def _operand(
        self, command: Command, operation: Operation, product: MatrixProduct, tensor: Tensor
    ) -> Quantised:
        """Return a factor, read from the image in memory."""
        name, copy = tensor.tensor_class, product.copy(tensor)
        field_width, slot = (getattr(command, each[name]) for each in (WIDTH_FIELDS, SLOT_FIELDS))
        width = self._width(name, self.tables.last_planes(slot - 1) if slot else field_width)
        two_copies = self.numerics.tensor_class(name).two_copies
        fields = [
            read.field
            for read in operation.reads
            if read.operand == tensor and (read.copy == copy or not (two_copies or read.second))
        ]
        return self.images.read(
            getattr(command, fields[0]),
            name,
            (getattr(command, tensor.rows), getattr(command, tensor.columns)),
            copy=copy,
            width=width,
        )

    def _product(self, command: Command, operation: Operation) -> None:
        results = self._multiply(command, operation)
        for product, address in zip(operation.products, operation.result_fields, strict=True):
            values = results[product.result.name].values
            place = getattr(command, address)
            self._store_result(place, self._rounded(place, values))

    def _rounded(self, address: int, values: Floats) -> Floats:
        """Return numbers as commands write them at an address."""
        rounding = self.roundings.get(address)
        if rounding is None:
            return values
        rounded = rounding(values, self.step)
        self.overflow |= rounding.watched and not np.isfinite(rounded).all()
        return rounded

    def _store_result(self, address: int, values: Floats) -> None:
        """Write the rows of a product's result. The rest of a row's last vector, or beat if a beat
        is shorter, is zeros."""
        rows, cols = values.shape
        layout = FloatLayout(rows=rows, cols=cols, data_width=self.limits.data_width)
        unit = min(self.limits.data_width // 8, 4 * self.limits.block)
        padded = np.zeros((rows, round_up(4 * cols, unit) // 4), dtype=np.float32)
        padded[:, :cols] = values
        self.memory.write_rows(address, layout.pitch_bytes, padded.view(np.uint8))

    # Chains.

    def _chain(self, command: Command) -> None:
        product: Floats | None = None
        if command.opcode in CHAINED:
            results = self._multiply(command, MULTIPLYING[Opcode(command.opcode)])
            (product,) = (result.values for result in results.values())
        tables = self.tables
        order = order_of(command, self.limits)
        program = tables.instructions[command.program : command.program + command.program_length]
        inputs, outputs = named_streams(program)
        writes = {n: tables.descriptors[command.streams + INPUTS + n] for n in outputs}
        self.loss.put(tables.constants)
        chain = ChainRun(
            program=tuple(program),
            order=order,
            inputs={
                n: self._input(tables.descriptors[command.streams + n], order, product)
                for n in inputs
            },
            outputs=writes,
            panel=tables.panel,
            constants=tables.constants.copy(),
        )
        result = run_chain(chain)
        self._write_outputs(writes, result.values, order)
        watched = {n for n in result.not_finite if writes[n].watch}
        if any(writes[n].kind == Kind.CONSTANT for n in watched):
            raise StoppedError(ErrorCode.NOT_FINITE)
        self.overflow |= bool(watched)

    def _input(self, stream: Descriptor, order: Order, product: Floats | None) -> Input:
        if stream.kind == Kind.PANEL:
            return stream
        if stream.kind == Kind.PRODUCT:
            assert product is not None
            return product
        if stream.kind == Kind.DRAWS:
            return drawn_numbers(order, seed=self.seed, tag=stream.pitch, step=self.step)
        listed = self.tables.descriptors[stream.aux] if stream.kind in GATHERED else None
        return read_stream(stream, self.memory, order, self.step, listed)

    def _write_outputs(
        self, writes: Mapping[int, Descriptor], results: Mapping[int, Floats], order: Order
    ) -> None:
        """Write the outputs of a chain, except outputs to the panel."""
        for number, output in results.items():
            stream = writes[number]
            if stream.kind == Kind.CONSTANT:
                self.tables.constants[stream.address] = output
            elif stream.kind == Kind.IMAGE:
                self._write_image(stream, output)
            else:
                assert stream.kind in IN_MEMORY
                values = self._rounded(stream.address, output)
                write_stream(stream, self.memory, order, self.step, values)

    def _write_image(self, stream: Descriptor, values: Floats) -> None:
        """Write an image through the converter. The converter measures no scale for a chain: an
        image without a slot has a scale of 1."""
        name = CLASS_NAMES[stream.tensor_class]
        width = None
        if stream.by_slot:
            width = self._width(name, self.tables.next_planes(stream.aux - 1))
        storage = self.numerics.converted_class(name, width)
        scale = amax_exponent(0, storage) if storage.has_tensor_scale else None
        if stream.aux:
            scale = self._slot_exponent(stream.aux - 1, storage, self.step)
        request = Conversion(name, tag=stream.pitch, step=self.step, scale=scale, width=width)
        tensor = self.engine.convert(values, request)
        self._note_conversion(tensor, stream.aux)
        self._update_widths(tensor, stream)
        self.images.write(tensor, (stream.address, stream.address + stream.offset))


def _fills_entry(command: Command, entry: int) -> bool:
    """Return whether an entry of a table is among the entries that ``load`` fills."""
    return command.first <= entry < command.first + command.count
