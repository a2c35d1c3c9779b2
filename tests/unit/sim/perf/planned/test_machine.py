"""What the planned machine has beside today's."""

import pytest

from diastole_sim.perf import ModelledMachine
from diastole_sim.perf.planned.machine import PlannedMachine


def machine_of(data_width, ports=1, bits=5, block=8):
    today = ModelledMachine(
        rows=2, cols=2, block=block, element_bits=(bits,) * 3, data_width=min(data_width, 512)
    )
    return PlannedMachine.after(today, ports=ports)


@pytest.mark.parametrize(
    "data_width, bits, block, vectors",
    [
        (32, 5, 8, 1), (64, 5, 8, 2), (128, 5, 8, 4), (512, 5, 8, 8), (128, 8, 8, 2),
        (512, 5, 2, 2), (64, 9, 32, 1),
    ],
)  # fmt: skip
def test_vectors_that_a_loader_writes(data_width, bits, block, vectors):
    assert machine_of(data_width, bits=bits, block=block).vectors_per_cycle(0) == vectors


@pytest.mark.parametrize(
    "data_width, ports, vectors", [(64, 1, 1), (256, 1, 1), (512, 1, 2), (512, 2, 4)]
)
def test_vectors_that_the_drain_reads(data_width, ports, vectors):
    assert machine_of(data_width, ports).drain_vectors == vectors


def test_the_rest_is_todays():
    today = ModelledMachine(
        rows=4, cols=2, block=4, element_bits=(5, 4, 3), data_width=64, vectors=(16, None, None)
    )
    after = PlannedMachine.after(today, data_width=256, ports=2)
    assert (after.rows, after.cols, after.block, after.vectors) == (4, 2, 4, (16, None, None))
    assert (after.data_width, after.ports, after.sum_units) == (256, 2, 4)
    assert after.memory == today.memory


def test_errors():
    with pytest.raises(ValueError, match=r"ports must be an integer in 1\.\.2, not 3"):
        machine_of(64, ports=3)
    nano = ModelledMachine(
        rows=2, cols=2, block=8, element_bits=(3, 3, 3), data_width=64, widths=((2, 4), None, None)
    )
    with pytest.raises(ValueError, match=r"^the planned machine has formats of one width: none "):
        PlannedMachine.after(nano)
