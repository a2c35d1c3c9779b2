"""Follow the tables of a vector unit through a list of commands."""

from collections.abc import Callable
from dataclasses import dataclass, field

from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, Descriptor

INSTRUCTION_BYTES = 8
Read = Callable[[int, int], bytes]
"""Function that reads memory, from an address and a length to bytes."""


@dataclass
class LoadedTables:
    """Instructions and descriptors of a vector unit by number, as commands have loaded them."""

    instructions: dict[int, Instruction] = field(default_factory=dict[int, Instruction])
    descriptors: dict[int, Descriptor] = field(default_factory=dict[int, Descriptor])

    def load(self, command: Command, read: Read) -> None:
        """Apply a command ``load`` to the tables."""
        if command.which == VectorTable.INSTRUCTIONS:
            size = INSTRUCTION_BYTES
            data = read(command.address_x, size * command.count)
            for number in range(command.count):
                word = int.from_bytes(data[size * number : size * (number + 1)], "little")
                self.instructions[command.first + number] = Instruction.decode(word)
        elif command.which == VectorTable.DESCRIPTORS:
            size = DESCRIPTOR_BYTES
            data = read(command.address_x, size * command.count)
            for number in range(command.count):
                entry = data[size * number : size * (number + 1)]
                self.descriptors[command.first + number] = Descriptor.decode(entry)
