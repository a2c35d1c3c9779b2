"""Find the addresses in the memory of a program, so that a host can move the program.

A program is written for memory from address 0 on. Memory of a host begins elsewhere. The host adds
the first address of its memory to every address in the commands, and in the descriptors that the
commands load.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from diastole_sim.golden.memory import Bytes
from diastole_sim.program.program import EVALUATION, TRAINING, TrainingProgram
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import ADDRESS_BITS, COMMAND_BYTES, Field, Opcode, fields_of
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, OFFSET_KINDS, Descriptor

SECOND_COPIES = ((Opcode.CONVERT, "address_dy"), (Opcode.BACKWARD, "address_dy_m"))
"""Fields with the address of a second copy."""


def memory_image(program: TrainingProgram) -> Bytes:
    """Return the bytes of memory from address 0 on, as a host fills the memory before the first
    run."""
    image = np.zeros(program.memory_bytes, np.uint8)
    for name, data in program.initial.items():
        first = program.areas[name].address
        image[first : first + len(data)] = np.frombuffer(data, np.uint8)
    return image


def address_places(program: TrainingProgram) -> tuple[int, ...]:
    """Return the places of all addresses in the memory image, in ascending order. A place is the
    number of the lowest byte."""
    image = memory_image(program)
    places: set[int] = set()
    for name, commands in ((TRAINING, program.training), (EVALUATION, program.evaluation)):
        places.update(_in_commands(program.areas[name].address, commands))
        for command in commands:
            if command.opcode == Opcode.LOAD and command.which == VectorTable.DESCRIPTORS:
                places.update(_in_descriptors(image, command))
    return tuple(sorted(places))


def address_fields(command: Command) -> Iterator[Field]:
    """Yield the fields of a command that hold an address. The address of a second copy is 0 if the
    class of the tensor has one copy, and is then no address: a second copy lies behind the first
    copy, never at 0."""
    opcode = Opcode(command.opcode)
    for field in fields_of(opcode):
        second = (opcode, field.name) in SECOND_COPIES
        if field.bits == ADDRESS_BITS and not (second and getattr(command, field.name) == 0):
            yield field


def _in_commands(first: int, commands: Sequence[Command]) -> Iterator[int]:
    for number, command in enumerate(commands):
        for field in address_fields(command):
            yield first + number * COMMAND_BYTES + field.low // 8


def _in_descriptors(image: Bytes, load: Command) -> Iterator[int]:
    for number in range(load.count):
        place = load.address_x + number * DESCRIPTOR_BYTES
        entry = Descriptor.decode(image[place : place + DESCRIPTOR_BYTES].tobytes())
        if entry.kind in OFFSET_KINDS:
            yield place
