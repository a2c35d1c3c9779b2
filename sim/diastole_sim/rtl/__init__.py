"""Runs a generated product in Verilator: its Verilog, a memory and a host, from Python.

:class:`Device` takes tensors; :class:`~diastole_sim.rtl.machine.Machine` below it takes registers
and bytes. Both start from a product directory, never from a Python object of the generator.
"""

from diastole_sim.rtl.device import Device
from diastole_sim.rtl.errors import (
    BuildError,
    CommandError,
    HardwareError,
    HardwareHang,
    ProductError,
    ProtocolError,
)
from diastole_sim.rtl.programs import ToolMissing
from diastole_sim.rtl.tensor import DeviceTensor

__all__ = [
    "BuildError",
    "CommandError",
    "Device",
    "DeviceTensor",
    "HardwareError",
    "HardwareHang",
    "ProductError",
    "ProtocolError",
    "ToolMissing",
]
