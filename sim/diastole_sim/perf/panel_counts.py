"""Model how long a machine counts the blocks that a loop nest keeps on chip, before a command
begins."""

from diastole_sim.perf.chunk_walk import Loops
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.spec.integers import ceil_div

EACH = 2
"""Cycles of a length; every unit of the length adds a cycle."""
BEGINS = 3
"""Cycles of a count without the cycles of its lengths."""


def counting_cycles(machine: ModelledMachine, loops: Loops) -> int:
    """Return the cycles that the loops of a product add to the fetch of its command; 0 if nothing
    is kept.

    The kept part of an operand is a product of lengths: slices of a chunk, blocks or groups of a
    tile, chunks, the number of tiles if all tiles stay, and in a machine with planes the number of
    planes.
    """
    all_tiles = loops.outer == "l"
    groups = ceil_div(loops.lengths[1], loops.lanes_side)
    slices = ceil_div(loops.lengths[2], loops.chunk_side)
    chunks = ceil_div(loops.blocks[2], loops.lengths[2])
    has_planes = machine.planar
    counted: list[int] = []
    for operand, length, whole in ((0, loops.lengths[0], all_tiles), (1, groups, not all_tiles)):
        if loops.keeps[operand]:
            steps = ceil_div(loops.blocks[operand], loops.lengths[operand]) if whole else 1
            planes = [loops.planes[operand]] if has_planes else []
            counted += [slices, length, chunks, steps, *planes]
    return BEGINS + sum(counted) + EACH * len(counted) if counted else 0
