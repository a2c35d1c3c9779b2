"""Define the control interface of the product engine."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import OPERANDS, operands_layout

STALLS = data.StructLayout(dict.fromkeys(("load", "store", "accumulator"), 1))
"""Causes for which the engine waits in a cycle: for operands, for the bus that writes results, or
for a free place for sums."""


def product_control(plan: Plan) -> "ProductControl":
    """Return the control interface of the machine's product engine."""
    return ProductControl(operands_layout(plan))


class ProductControl(wiring.Signature):
    """Product engine, seen from the unit that starts products.

    Parameters: ``operands``, layout of a product in a command, by default ``OPERANDS``.

    Members
    -------
    start : Out(1)
        Pulse, only while ``ready``: run the product.
    mode, operands, command : Out(Mode), Out(operands), Out(1)
        Product to run, and the number of its command among the two commands in flight; read in the
        cycle of ``start``.
    ready : In(1)
        The engine can accept a product: at most one product is in progress, and its set-up is
        complete.
    fits : In(1)
        The operands of the cycle before fit in the fused pass.
    done, done_command : In(1), In(1)
        Pulse for every product, in order: the whole result has been passed to the writer or to the
        chain. ``done_command`` is the number of the product's command.
    overflow, inexact : In(1)
        Events in this cycle: a result is too large; a result may be inexact, because groups met
        beyond F or terms beyond the window.
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
