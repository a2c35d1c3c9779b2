"""The four products over a device that only notes what it is asked."""

from types import SimpleNamespace

import numpy as np
import pytest

from diastole_sim.device.products import Products
from support.texts import exactly

SHAPES = {"X": (2, 3), "W": (3, 4), "dY": (2, 4)}
CLASSES = {"X": "x", "W": "w", "dY": "dy"}
OPERANDS = {
    "forward": ("X", "W"),
    "dx": ("W", "dY"),
    "dw": ("X", "dY"),
    "backward": ("X", "W", "dY"),
}
TAGS = {"X": 0, "W": 1, "dY": 2}
SIZES = {"m": 2, "k": 3, "n": 4}


class Device(Products):
    """``log``: calls in their order; ``refused``: what it says of any sizes."""

    def __init__(self):
        self.log = []
        self.refused = None

    def convert(self, array, tensor_class, *, tag, step=0, scale=None):
        assert scale is None
        self.log.append(("convert", tensor_class, tag, step))
        return SimpleNamespace(shape=array.shape, tensor_class=tensor_class, owner=self)

    def _own(self, operand):
        return operand if getattr(operand, "owner", None) is self else None

    def _multiply(self, operation, operands, sizes, converted):
        self.log.append(("multiply", operation.name))
        return SimpleNamespace(operands=operands, sizes=sizes, converted=list(converted))

    def _check_sizes(self, operation, sizes):
        self.log.append(("sizes", dict(sizes)))
        if self.refused:
            raise ValueError(self.refused)

    def _check_stored(self, name, operand):
        self.log.append(("stored", name))


def array(name):
    return np.ones(SHAPES[name], np.float32)


@pytest.fixture
def device():
    return Device()


def held(device, name, tensor_class=None):
    return SimpleNamespace(
        shape=SHAPES[name], tensor_class=tensor_class or CLASSES[name], owner=device
    )


@pytest.mark.parametrize("op", OPERANDS)
def test_arrays_are_converted_in_order(op, device):
    result = getattr(device, op)(*map(array, OPERANDS[op]))
    conversions = [("convert", CLASSES[name], TAGS[name], 0) for name in OPERANDS[op]]
    assert device.log == [("sizes", SIZES), *conversions, ("multiply", op)]
    assert tuple(result.operands) == OPERANDS[op]
    assert result.converted == list(result.operands.values())
    assert result.sizes == SIZES


@pytest.mark.parametrize("op", OPERANDS)
def test_tags_and_steps(op, device):
    names = OPERANDS[op]
    tags = tuple(range(40, 40 + len(names)))
    getattr(device, op)(*map(array, names), tags=tags, step=6)
    conversions = [entry for entry in device.log if entry[0] == "convert"]
    assert conversions == [
        ("convert", CLASSES[name], tag, 6) for name, tag in zip(names, tags, strict=True)
    ]


@pytest.mark.parametrize("op", OPERANDS)
def test_tensors_of_the_device_are_taken_as_they_are(op, device):
    given = [held(device, name) for name in OPERANDS[op]]
    result = getattr(device, op)(*given)
    stored = [("stored", name) for name in OPERANDS[op]]
    assert device.log == [*stored, ("sizes", SIZES), ("multiply", op)]
    assert all(got is want for got, want in zip(result.operands.values(), given, strict=True))
    assert result.converted == []


def test_arrays_beside_tensors_have_their_own_tags(device):
    w = held(device, "W")
    result = device.backward(array("X"), w, array("dY"))
    assert device.log[2:4] == [("convert", "x", 0, 0), ("convert", "dy", 2, 0)]
    assert result.operands["W"] is w
    assert result.converted == [result.operands["X"], result.operands["dY"]]


@pytest.mark.parametrize(
    "given, message",
    [
        (
            lambda device: (array("X"), held(None, "W")),
            "W must be a float32 array or a tensor of this device",
        ),
        (
            lambda device: (array("X"), held(device, "W", "x")),
            "W must be a tensor of class w, not x",
        ),
        (
            lambda device: (np.ones((2, 3)), array("W")),
            "a tensor must be a float32 array, not float64",
        ),
        (
            lambda device: (array("dY"), array("W")),
            "the columns of X are 4, but the rows of W are 3; they must be equal",
        ),
    ],
)
def test_nothing_begins_with_a_bad_operand(given, message, device):
    with pytest.raises(ValueError, match=exactly(message)):
        device.forward(*given(device))
    assert device.log == []


def test_nothing_begins_with_sizes_that_the_device_refuses(device):
    device.refused = "too long"
    with pytest.raises(ValueError, match="too long"):
        device.forward(array("X"), array("W"))
    assert device.log == [("sizes", SIZES)]
