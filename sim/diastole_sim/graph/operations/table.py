"""List all operations by name."""

from collections.abc import Mapping

from diastole_sim.graph.operations import activations as act
from diastole_sim.graph.operations import losses
from diastole_sim.graph.operations.dropout import DropoutOp
from diastole_sim.graph.operations.elementwise import MulOp, MulScalarOp, SumOp
from diastole_sim.graph.operations.linear import LinearOp
from diastole_sim.graph.operations.operation import GraphOperation
from diastole_sim.graph.operations.own import OwnActivationOp, OwnLossOp
from diastole_sim.graph.operations.reshape import FlattenOp

OPERATIONS: Mapping[str, GraphOperation] = {
    each.name: each
    for each in (
        LinearOp(),
        SumOp(),
        MulOp(),
        MulScalarOp(),
        act.ReluOp(),
        act.LeakyReluOp(),
        act.GeluOp(),
        act.SiluOp(),
        act.SigmoidOp(),
        act.TanhOp(),
        OwnActivationOp(),
        FlattenOp(),
        DropoutOp(),
        losses.CrossEntropyOp(),
        losses.MseLossOp(),
        losses.L1LossOp(),
        losses.SmoothL1LossOp(),
        OwnLossOp(),
    )
}
