"""Count the time and traffic of a product command without a simulation of the hardware.

Capacities of queues are in :mod:`diastole_sim.spec.sizes`, for the hardware too. Constants of the
modules are delays, measured in simulations of the hardware.
"""

from diastole_sim.perf.modelled_machine import Memory, ModelledMachine
from diastole_sim.perf.product_estimate import Estimate, estimate

__all__ = ["Estimate", "Memory", "ModelledMachine", "estimate"]
