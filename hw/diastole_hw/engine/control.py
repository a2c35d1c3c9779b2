"""How a product engine is told what to do, and what it tells."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.uses import Mode
from diastole_hw.schedule.tokens import OPERANDS
from diastole_sim.spec.registers import STALL_CAUSES

STALLS = data.StructLayout(dict.fromkeys(STALL_CAUSES, 1))
"""By cause, whether the engine waits for it in a cycle."""


class ProductControl(wiring.Signature):
    """A product engine, seen from who starts it.

    Members
    -------
    start : Out(1)
        A pulse, only after the engine's last ``done``: run the product.
    mode : Out(Mode)
    operands : Out(OPERANDS)
        Stable from ``start`` to ``done``.
    fits : In(1)
        The fused pass has room for these operands; combinational from them.
    done : In(1)
        A pulse: the last byte of the result is in memory.
    overflow, inexact : In(1)
        Seen in this cycle: a result that is too large; groups that met beyond F or the window.
    stalls : In(STALLS)
    """

    def __init__(self):
        super().__init__(
            {
                "start": Out(1),
                "mode": Out(Mode),
                "operands": Out(OPERANDS),
                "fits": In(1),
                "done": In(1),
                "overflow": In(1),
                "inexact": In(1),
                "stalls": In(STALLS),
            }
        )
