"""Number layers and steps. The numbers determine the random bits of stochastic roundings."""

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
"""Methods that a device must have."""
PLAIN = (golden.NumpyDevice, devices.GoldenDevice)
"""Device classes whose products nobody has changed."""


class Steps:
    """Step of a device. ``number``: number of the step, from 0, 32 bits. Set ``number`` to resume a
    training.

    The number grows by 1 in the first forward pass after a backward pass, in any layer. Forward
    passes inside a backward pass, as in gradient checkpointing, do not count.

    With ``delayed`` scales, the history of magnitudes counts these steps. If gradients are
    accumulated over n backward passes, a ``scale.history`` of n reaches back by a single step of
    the optimiser.
    """

    def __init__(self) -> None:
        self._number = 0
        self._ended = False

    def __repr__(self) -> str:
        return f"Steps(number={self._number})"

    @property
    def number(self) -> int:
        """Step of the next forward pass; after a backward pass, the next forward pass adds 1."""
        return self._number

    @number.setter
    def number(self, value: int) -> None:
        self._number = require_int("step", value, 0, MAX_STEP)
        self._ended = False

    def enter(self) -> int:
        """Begin the next step if a backward pass has ended the step, and return the step of the
        forward pass that begins now."""
        if self._ended and not in_backward():
            self._number = (self._number + 1) % (MAX_STEP + 1)
            self._ended = False
        return self._number

    def end(self) -> None:
        """Record that a backward pass ends the step."""
        self._ended = True


def in_backward() -> bool:
    """Return whether autograd is computing gradients in the current thread."""
    return bool(torch._C._current_graph_task_id() != -1)


@dataclass(kw_only=True, eq=False)
class Uses:
    """State that is kept for a device. ``layers``: number of layers. ``lock``: lock of all
    computations, because replicas of a model and autograd have threads of their own. ``steps``:
    steps of the device. ``stand_in``: replacement of a numpy model with exact products in torch, or
    None."""

    layers: int = 0
    lock: Any = field(default_factory=RLock)
    steps: Steps = field(default_factory=Steps)
    stand_in: TorchGoldenDevice | None = None

    def number(self, count: int = 1) -> int:
        """Reserve ``count`` layer numbers, and return the first number."""
        self.layers += count
        return self.layers - count


_uses: WeakKeyDictionary[Any, Uses] = WeakKeyDictionary()


def uses_of(device: DeviceProtocol) -> Uses:
    """Return the state that is kept for a device. TypeError if ``device`` is no device."""
    if isinstance(device, type) or not all(hasattr(device, name) for name in METHODS):
        raise TypeError(
            f"device must be a diastole.GoldenDevice or a diastole.Device, not {device!r:.60}"
        )
    if device not in _uses:
        uses = Uses()
        if isinstance(device, golden.NumpyDevice) and type(device) in PLAIN:
            uses.stand_in = TorchGoldenDevice.like(device)
        _uses[device] = uses
    return _uses[device]


def restored_uses(device: DeviceProtocol, layers: int, steps: Steps) -> None:
    """Restore the kept state of an unpickled device. Only the first call has an effect."""
    if device not in _uses:
        uses = uses_of(device)
        uses.layers, uses.steps = layers, steps


def steps(device: DeviceProtocol) -> Steps:
    """Return the steps of a device: a common count for all layers. TypeError if ``device`` is no
    device."""
    return uses_of(device).steps
