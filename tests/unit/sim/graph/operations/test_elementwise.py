"""Values of sums and products, by hand."""

import numpy as np

from diastole_sim.graph.operations.elementwise import MulOp, MulScalarOp, SumOp
from diastole_sim.graph.operations.operation import OperationUse

ONE, OTHER = np.array([[1.0, -2]]), np.array([[3.0, 5]])


def test_values():
    assert SumOp().value([ONE, OTHER], use=None)[0].tolist() == [[4, 3]]
    assert MulOp().value([ONE, OTHER], use=None)[0].tolist() == [[3, -10]]
    use = OperationUse(attributes={"other": -3.0}, tag=3, draws=None)
    assert MulScalarOp().value([ONE], use)[0].tolist() == [[-3, 6]]
