"""Order of the elements of a flattened tensor."""

import numpy as np

from diastole_sim.graph.operations.operation import OperationUse
from diastole_sim.graph.operations.reshape import FlattenOp


def test_values():
    x = np.arange(24).reshape(2, 3, 4)
    use = OperationUse(attributes={"start_dim": 1, "end_dim": -1}, tag=3, draws=None)
    made, kept = FlattenOp().value([x], use)
    assert made.tolist() == [list(range(12)), list(range(12, 24))]
    (back,) = FlattenOp().gradient(made, kept, use)
    assert np.array_equal(back, x)
