"""How a product engine is told what to do, and what it tells."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import OPERANDS, operands_layout

STALLS = data.StructLayout(dict.fromkeys(("load", "store", "accumulator"), 1))
"""By cause, whether the engine waits for it in a cycle: operands, the bus for results, or a place
for sums."""


def product_control(plan: Plan) -> "ProductControl":
    """That of a machine's product engine."""
    return ProductControl(operands_layout(plan))


class ProductControl(wiring.Signature):
    """A product engine, seen from who starts it.

    Parameters: ``operands``, what a command says of a product, ``OPERANDS`` if nothing is said.

    Members
    -------
    start : Out(1)
        A pulse, only while ``ready``: run the product.
    mode, operands, command : Out(Mode), Out(operands), Out(1)
        What to do, and which of the two commands in flight it is of; looked at with ``start``.
    ready : In(1)
        The engine can take a product: it has at most one under way, which it has set up.
    fits : In(1)
        The fused pass has room for the operands of the cycle before.
    done, done_command : In(1), In(1)
        A pulse for each product, in their order: all of its result has been given to the writer,
        or to its chain. And which command it was of.
    overflow, inexact : In(1)
        Seen in this cycle: a result that is too large; groups that met beyond F or the window.
    stalls : In(STALLS)
    slot : In(1)
        A vector enters the array.
    """

    def __init__(self, operands: data.StructLayout = OPERANDS):
        super().__init__(
            {
                "start": Out(1),
                "mode": Out(Mode),
                "operands": Out(operands),
                "command": Out(1),
                "ready": In(1),
                "fits": In(1),
                "done": In(1),
                "done_command": In(1),
                "overflow": In(1),
                "inexact": In(1),
                "stalls": In(STALLS),
                "slot": In(1),
            }
        )
