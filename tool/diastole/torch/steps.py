"""Numbers of layers and of steps, by which the draws of stochastic roundings are named."""

from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from diastole import devices
from diastole.torch.exact import TorchGoldenDevice
from diastole_sim.device.interface import DeviceProtocol
from diastole_sim.golden import numpy_device as golden
from diastole_sim.spec.require import require_int

MAX_STEP = 2**32 - 1
METHODS = ("convert", "forward", "dx", "dw", "backward")
"""What a device has."""
PLAIN = (golden.NumpyDevice, devices.GoldenDevice)
"""Models whose products nobody has changed."""


class Steps:
    """The step of a device: ``number``, from 0 on, 32 bits; set it where training is resumed.

    It grows by one in the first forward pass after a backward pass, of whatever layers. Forward
    passes inside a backward pass, as gradient checkpointing has them, do not count.

    Where scales are ``delayed``, these are the steps whose magnitudes count. Where gradients are
    accumulated over n backward passes, a ``scale.history`` of n reaches back one optimiser's step.
    """

    def __init__(self) -> None:
        self._number = 0
        self._ended = False

    def __repr__(self) -> str:
        return f"Steps(number={self._number})"

    @property
    def number(self) -> int:
        """Of the draws of the next forward pass, or of the next but one."""
        return self._number

    @number.setter
    def number(self, value: int) -> None:
        self._number = require_int("step", value, 0, MAX_STEP)
        self._ended = False

    def enter(self) -> int:
        """The step of a forward pass that begins now."""
        if self._ended and not in_backward():
            self._number = (self._number + 1) % (MAX_STEP + 1)
            self._ended = False
        return self._number

    def end(self) -> None:
        """A backward pass has been there."""
        self._ended = True


def in_backward() -> bool:
    """Whether autograd is computing gradients in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


@dataclass(kw_only=True, eq=False)
class Uses:
    """What is kept of a device: how many layers it has, its steps, and the device that stands in
    for a numpy model, with exact products in torch. ``lock``: of whoever computes, since replicas
    of a model and autograd have threads of their own."""

    layers: int = 0
    lock: Any = field(default_factory=RLock)
    steps: Steps = field(default_factory=Steps)
    stand_in: TorchGoldenDevice | None = None

    def number(self, count: int = 1) -> int:
        """That of the next layer, of so many."""
        self.layers += count
        return self.layers - count


_uses: WeakKeyDictionary[Any, Uses] = WeakKeyDictionary()


def uses_of(device: DeviceProtocol) -> Uses:
    """What is kept of it. TypeError if it is no device."""
    if isinstance(device, type) or not all(hasattr(device, name) for name in METHODS):
        raise TypeError(
            f"device must be a diastole.GoldenDevice or a diastole.Device, not {device!r:.60}"
        )
    if device not in _uses:
        found = Uses()
        if isinstance(device, golden.NumpyDevice) and type(device) in PLAIN:
            found.stand_in = TorchGoldenDevice.like(device)
        _uses[device] = found
    return _uses[device]


def restored_uses(device: DeviceProtocol, layers: int, steps: Steps) -> None:
    """Keep of a device that was pickled what was kept of it before; once, by the first who asks."""
    if device not in _uses:
        uses = uses_of(device)
        uses.layers, uses.steps = layers, steps


def steps(device: DeviceProtocol) -> Steps:
    """The steps of a device: one count for all its layers. TypeError if it is no device."""
    return uses_of(device).steps
