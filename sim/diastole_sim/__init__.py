"""Numbers and time of Diastole: formats, the golden model, memory image, timing; no hardware."""

from diastole_sim.rtl.device import Device

__all__ = ["Device"]
