"""Collect the vector unit's tables of a program: instructions, constants, descriptors."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from diastole_sim.program.chain import Chain
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.spec.command import ProgramPlace
from diastole_sim.spec.limits import INSTRUCTIONS, VectorTable
from diastole_sim.spec.micro import INPUTS, Instruction
from diastole_sim.spec.stream_table import GATHERED, SLOTS, STREAMS, Descriptor, Kind

OWN_CONSTANTS = 128
"""Number of constants of the program, K[0] to K[127]. The constants of a step follow."""
STEP_CONSTANTS = 64
FIRST_WRITTEN = OWN_CONSTANTS + STEP_CONSTANTS
"""Number of the first constant that chains write."""


class FullTableError(ValueError):
    """Report that chains need more entries of a table than the machine has. ``table``: the
    table."""

    def __init__(self, table: VectorTable, message: str):
        self.table = table
        super().__init__(message)


class ProgramTables:
    """Tables of everything that chains need, without duplicates.

    ``block``: B. ``before``: tables of earlier commands, with which the new tables have all
    constants in common. ``kept``: True if the instructions are common too.
    """

    def __init__(self, block: int, before: "ProgramTables | None" = None, *, kept: bool = True):
        self.block = block
        self._descriptors: dict[int, Descriptor] = {}
        self._constants: dict[bytes, int] = before._constants if before else {}
        self.instructions: list[Instruction] = before.instructions if before and kept else []
        self._programs: dict[tuple[Instruction, ...], int] = (
            before._programs if before and kept else {}
        )

    def constant(self, value: float) -> int:
        """Return the number of a constant, rounded to binary32. ValueError if the program has too
        many constants."""
        bits = np.float32(value).tobytes()
        number = self._constants.setdefault(bits, len(self._constants))
        if number >= OWN_CONSTANTS:
            raise ValueError(f"a program has at most {OWN_CONSTANTS} constants")
        return number

    def place(
        self,
        chain: Chain,
        inputs: Mapping[str, BoundStream],
        outputs: Mapping[str, BoundStream],
        *,
        values: Mapping[str, float],
        numbers: Mapping[str, int],
        row_list: BoundStream | None = None,
    ) -> ProgramPlace:
        """Add a chain to the tables and return its place.

        - ``inputs``, ``outputs``: streams of the chain by name.
        - ``values``, ``numbers``: values or numbers of the constants that have no value in the
          chain.
        - ``row_list``: list of the gathered rows.

        FullTableError if a table is full. ValueError if a constant has no value, or if the program
        has too many constants.
        """
        program = self.assembled(chain, inputs, outputs, values=values, numbers=numbers)
        streams: dict[int, Descriptor] = {}
        for name, port in chain.inputs.items():
            descriptor = inputs[name].descriptor
            if descriptor.kind in GATHERED:
                assert row_list is not None
                descriptor = replace(descriptor, aux=self._slots({0: row_list.descriptor}, 1))
            streams[port.number] = descriptor
        for name, port in chain.outputs.items():
            streams[INPUTS + port.number] = outputs[name].descriptor
        slot = self._slots(streams, STREAMS)
        if program not in self._programs:
            if len(self.instructions) + len(program) > INSTRUCTIONS:
                raise FullTableError(
                    VectorTable.INSTRUCTIONS,
                    f"the chains need more than {INSTRUCTIONS} instructions",
                )
            self._programs[program] = len(self.instructions)
            self.instructions += program
        first = self._programs[program]
        return ProgramPlace(first=first, length=len(program), streams=slot)

    def assembled(
        self,
        chain: Chain,
        inputs: Mapping[str, BoundStream],
        outputs: Mapping[str, BoundStream],
        *,
        values: Mapping[str, float],
        numbers: Mapping[str, int],
    ) -> tuple[Instruction, ...]:
        """Return the instructions of a chain with these streams and constants."""
        constants = dict(numbers)
        for name, value in chain.constants.items():
            if name not in constants:
                constants[name] = self.constant(
                    _value(chain, name, values) if value is None else value
                )
        streams = {**outputs, **inputs}
        kinds = {name: Kind(stream.descriptor.kind) for name, stream in streams.items()}
        return chain.assembled(self.block, constants, kinds)

    def _slots(self, streams: Mapping[int, Descriptor], count: int) -> int:
        """Fill slots S + number with the descriptors, and return the first S for which all slots
        are free or already hold the descriptors."""
        for first in range(SLOTS - count + 1):
            if all(
                self._descriptors.get(first + number, each) == each
                for number, each in streams.items()
            ):
                self._descriptors |= {first + number: each for number, each in streams.items()}
                return first
        raise FullTableError(
            VectorTable.DESCRIPTORS, f"the chains need more than {SLOTS} slots of streams"
        )

    # Tables in the format of memory.

    def contents(self, table: VectorTable) -> bytes:
        """Return the bytes of a table."""
        if table == VectorTable.INSTRUCTIONS:
            return b"".join(each.encode().to_bytes(8, "little") for each in self.instructions)
        if table == VectorTable.CONSTANTS:
            return b"".join(self._constants)
        return b"".join(each.encode() for each in self.descriptors())

    def count(self, table: VectorTable) -> int:
        """Return the number of entries of a table."""
        if table == VectorTable.INSTRUCTIONS:
            return len(self.instructions)
        return len(self._constants if table == VectorTable.CONSTANTS else self.descriptors())

    def descriptors(self) -> list[Descriptor]:
        """Return the descriptors from slot 0 on, with empty descriptors for unused slots."""
        last = max(self._descriptors, default=-1)
        return [self._descriptors.get(slot, Descriptor()) for slot in range(last + 1)]


def _value(chain: Chain, name: str, values: Mapping[str, float]) -> float:
    """Return the value of a constant; ValueError if the use of the chain gives no value."""
    if name not in values:
        names = ", ".join(values) or "none"
        raise ValueError(
            f"{chain.name} uses K[{name}], which has no value; the constants are {names}"
        )
    return values[name]
