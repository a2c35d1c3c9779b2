"""What the tests of the command line share: what a run of it did, and devices to run it on."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from diastole_sim.golden.numpy_device import NumpyDevice


class Result:
    """What one run of the command line did: exit code, output, lines on standard error."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err.splitlines()

    @property
    def json(self):
        return json.loads(self.out)


def error(text):
    """The lines of one mistake."""
    return [f"diastole: error: {text}"]


class Faulty(NumpyDevice):
    """A device whose forward product has one wrong bit, in Y[1, 2]."""

    def forward(self, x, w, **options):
        result = super().forward(x, w, **options)
        result.y.view(np.uint32)[1, 2] ^= 1
        return result


REPORTS = {
    "nan": lambda value: not value,
    "inf": lambda value: not value,
    "saturated": lambda value: value + 1,
    "underflowed": lambda value: value + 1,
    "amax": lambda value: value ^ 1,
    "tensor_exponent": lambda value: 3 if value is None else value + 1,
    "exact": lambda value: not value,
    "overflow": lambda value: not value,
}
"""What a device reports, and how it lies about it."""


def lying(report, of):
    """A device that reports something wrong of one class of tensors, or of one operation."""

    def changed(held):
        return replace(held, **{report: REPORTS[report](getattr(held, report))})

    class Lying(NumpyDevice):
        def convert(self, array, tensor_class, **options):
            tensor = super().convert(array, tensor_class, **options)
            return changed(tensor) if tensor_class == of else tensor

        def _multiply(self, operation, *given):
            result = super()._multiply(operation, *given)
            return changed(result) if operation.name == of else result

    return Lying


def pretend(monkeypatch, module, device_class):
    """Lets ``device_class`` be the hardware of a command."""

    @contextmanager
    def make_device(execution, config, **_):
        kind = NumpyDevice if execution.backend == "golden" else device_class
        device = kind(config.numerics, execution.seed)
        yield device
        if not isinstance(device, NumpyDevice):
            device.close()  # what is read of it from then on is an error, as of a real one

    monkeypatch.setattr(module, "make_device", make_device)
