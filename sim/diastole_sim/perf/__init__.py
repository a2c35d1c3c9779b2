"""Time and traffic of a product command, counted without a simulation of the hardware."""

from diastole_sim.perf.machine import Machine, Memory
from diastole_sim.perf.product import Estimate, estimate

__all__ = ["Estimate", "Machine", "Memory", "estimate"]
