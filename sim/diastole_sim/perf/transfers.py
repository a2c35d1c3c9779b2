"""Model the commands load and store, which move entries of tables between memory and a vector
unit."""

from diastole_sim.perf.chain_times import ChainTimes
from diastole_sim.perf.modelled_vector import ModelledVector
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.limits import VectorTable, entry_words

REQUEST_CYCLES = 3
"""Cycles from a command to the first request; every bit of the step adds a cycle."""
SHARED_TABLES = (VectorTable.AMAX, VectorTable.WIDTHS)
"""Tables that conversions use too."""
STORE_CYCLES = 6
"""Cycles of a store without the cycles of its chunks."""


def estimate_transfer(
    vector: ModelledVector, command: Command, *, step: int = 0, now: int = 0
) -> ChainTimes:
    """Return the times of a ``load`` or ``store`` that arrives in cycle ``now``. An entry, or a
    beat of an entry, moves in one cycle. A store of :data:`SHARED_TABLES` tables takes two cycles
    for every entry or beat."""
    table = VectorTable(command.which)
    bits = 32 * entry_words(table, vector.block)
    chunks = command.count * ceil_div(bits, vector.data_width)
    beats = ceil_div(command.count * bits, vector.data_width)
    request = now + REQUEST_CYCLES + step.bit_length()
    if command.opcode == Opcode.LOAD:
        done = request + vector.memory.read_cycles + chunks
        return ChainTimes(done=done, last_response=0, read_beats=beats, write_beats=0)
    done = now + STORE_CYCLES + chunks * (2 if table in SHARED_TABLES else 1)
    done = max(done, request + beats + 2)
    last_response = done + vector.memory.response_cycles
    return ChainTimes(done=done, last_response=last_response, read_beats=0, write_beats=beats)
