"""List all operations by name."""

from collections.abc import Mapping

from diastole_sim.graph.operations import activations as act
from diastole_sim.graph.operations import losses
from diastole_sim.graph.operations.dropout import Dropout
from diastole_sim.graph.operations.elementwise import Add, Mul, MulScalar
from diastole_sim.graph.operations.linear import Linear
from diastole_sim.graph.operations.operation import Operation
from diastole_sim.graph.operations.reshape import Flatten

LOSSES: Mapping[str, Operation] = {
    each.name: each
    for each in (
        losses.CrossEntropy(),
        losses.MseLoss(),
        losses.L1Loss(),
        losses.SmoothL1Loss(),
    )
}
OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        Linear(),
        Add(),
        Mul(),
        MulScalar(),
        act.Relu(),
        act.LeakyRelu(),
        act.Gelu(),
        act.Silu(),
        act.Sigmoid(),
        act.Tanh(),
        Flatten(),
        Dropout(),
        *LOSSES.values(),
    )
}
