"""What the tests of the command line share: what a run of it did, and devices to run it on."""

import json
from contextlib import contextmanager

import numpy as np

from diastole_sim.golden.machine import GoldenDevice


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


class Faulty(GoldenDevice):
    """A device whose forward product has one wrong bit, in Y[1, 2]."""

    def forward(self, x, w, **options):
        result = super().forward(x, w, **options)
        result.y.view(np.uint32)[1, 2] ^= 1
        return result


def pretend(monkeypatch, module, device_class):
    """Lets ``device_class`` be the hardware of a command."""

    @contextmanager
    def make_device(name, config, *, seed, stalls=None, trace=None):
        yield (GoldenDevice if name == "golden" else device_class)(config.numerics, seed)

    monkeypatch.setattr(module, "make_device", make_device)
