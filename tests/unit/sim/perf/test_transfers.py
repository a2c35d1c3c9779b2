"""Loads to the cycle, as `nano` counted them; stores by their chunks."""

import pytest

from diastole_sim.perf.transfers import estimate_transfer
from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import VectorTable
from support.vector_model import modelled_vector


@pytest.mark.parametrize(
    "table, count, step, width, counted",
    [
        (VectorTable.INSTRUCTIONS, 1, 0, 128, 29),
        (VectorTable.INSTRUCTIONS, 54, 0, 128, 82),
        (VectorTable.DESCRIPTORS, 63, 0, 128, 91),
        (VectorTable.DESCRIPTORS, 63, 0, 64, 154),
        (VectorTable.CONSTANTS, 1, 1, 128, 30),
        (VectorTable.CONSTANTS, 1, 3, 64, 31),
    ],
)
def test_a_chunk_a_cycle(table, count, step, width, counted):
    command = Command.load(table, address=0, first=0, count=count)
    times = estimate_transfer(modelled_vector(data_width=width), command, step=step)
    assert times.done == counted
    assert times.write_beats == 0


@pytest.mark.parametrize("of_slots", [VectorTable.AMAX, VectorTable.WIDTHS])
def test_scales_are_stored_every_second_cycle(of_slots):
    vector = modelled_vector()
    scales, constants = (
        estimate_transfer(vector, Command.store(table, address=0, first=0, count=100))
        for table in (of_slots, VectorTable.CONSTANTS)
    )
    assert scales.done - constants.done == 100
    assert scales.write_beats == constants.write_beats == 25
    assert scales.last_response > scales.done
