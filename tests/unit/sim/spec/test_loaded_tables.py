"""Tables as commands load them: in parts, over each other, and other tables left alone."""

from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.loaded_tables import LoadedTables
from diastole_sim.spec.micro import Instruction, MicroOp
from diastole_sim.spec.stream_table import Descriptor, Kind


def memory_of(entries, address):
    data = b"".join(entries)

    def read(first, length):
        assert address <= first
        assert first + length <= address + len(data)
        return data[first - address : first - address + length]

    return read


def test_parts_of_two_tables():
    tables = LoadedTables()
    instructions = [Instruction(op=MicroOp.MOV, a=number, d=number) for number in range(5)]
    words = [each.encode().to_bytes(8, "little") for each in instructions]
    read = memory_of(words, 64)
    load = Command.load(VectorTable.INSTRUCTIONS, address=64, first=3, count=4)
    tables.load(load, read)
    assert tables.instructions == {3 + number: instructions[number] for number in range(4)}
    tables.load(Command.load(VectorTable.INSTRUCTIONS, address=96, first=4, count=1), read)
    assert tables.instructions[4] == instructions[4]
    assert not tables.descriptors

    streams = [Descriptor(kind=Kind.F32, address=64 * number, pitch=8) for number in range(3)]
    read = memory_of([each.encode() for each in streams], 128)
    tables.load(Command.load(VectorTable.DESCRIPTORS, address=144, first=9, count=2), read)
    assert tables.descriptors == {9: streams[1], 10: streams[2]}
    tables.load(Command.load(VectorTable.CONSTANTS, address=0, first=0, count=1), read)
    assert len(tables.instructions) == 4
