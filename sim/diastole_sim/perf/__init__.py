"""Time and traffic of a product command, counted without a simulation of the hardware."""

from diastole_sim.perf.estimate import Estimate, estimate
from diastole_sim.perf.machine import Machine, Memory

__all__ = ["Estimate", "Machine", "Memory", "estimate"]
