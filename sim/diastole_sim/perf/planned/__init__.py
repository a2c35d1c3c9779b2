"""Time and traffic of the machine that is to come: passes that follow the loader, and two ports.

Loops as data, rings, operands that stay, units of sums and wide loaders are built since this was
written; those two are not. What the hardware does today is in :mod:`diastole_sim.perf`; the same
questions can be asked of both, so that a step of the work has its figure before it is built.
"""

from diastole_sim.perf.planned.choose import best, best_backward, fitting
from diastole_sim.perf.planned.machine import PlannedMachine
from diastole_sim.perf.planned.nest import PlannedNest
from diastole_sim.perf.planned.product import Forecast, forecast

__all__ = [
    "Forecast",
    "PlannedMachine",
    "PlannedNest",
    "best",
    "best_backward",
    "fitting",
    "forecast",
]
