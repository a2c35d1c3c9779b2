"""The four products over a device that only notes what it is asked."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from diastole_sim.device.arrays import RoundedWarning
from diastole_sim.device.interface import CommandCounters
from diastole_sim.device.products import Products
from diastole_sim.device.stack import Stack
from diastole_sim.spec.operations import OPERATIONS
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


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a product is asked; its values are the number of the product."""

    operands: dict
    sizes: dict
    converted: list
    values: dict
    exact: bool = True
    overflow: bool = False
    counters: object = None
    notes: tuple = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """A tensor of ``owner``."""

    shape: tuple
    tensor_class: str
    owner: object
    tag: int | None = None
    array: object = field(default=None, repr=False)

    def copy_values(self):
        return {"": self.array}


class Device(Products):
    """``log``: calls in their order; ``refused``: what it says of any sizes; ``results``: by number
    of the product, what is changed of it."""

    def __init__(self):
        self.log = []
        self.refused = None
        self.over_time = False
        self.results = {}
        self.done = []

    def _tags_over_time(self):
        return self.over_time

    def _convert(self, array, asked):
        assert array.dtype == np.float32
        assert len(array.shape) == 2
        name, tag = asked.tensor_class, asked.tag
        self.log.append(("convert", name, tag, asked.step))
        if asked.scale is not None:
            self.log.append(("scale", asked.scale))
        return Held(shape=array.shape, tensor_class=name, owner=self, tag=tag, array=array)

    def _device_tensor(self, operand):
        return operand if getattr(operand, "owner", None) is self else None

    def _multiply(self, operation, operands, sizes, converted):
        self.log.append(("multiply", operation.name))
        number = len(self.done)
        values = {
            name: np.full((1, 2), number, np.float32)
            for name in OPERATIONS[operation.name].result_names
        }
        changes = self.results.get(number, {})
        self.done.append(
            Result(
                operands=operands, sizes=sizes, converted=list(converted), values=values, **changes
            )
        )
        return self.done[-1]

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
    return Held(shape=SHAPES[name], tensor_class=tensor_class or CLASSES[name], owner=device)


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
            "W must be an array or a tensor of this device, not a tensor of another device",
        ),
        (
            lambda device: (array("X"), held(device, "W", "x")),
            "W must be a tensor of class w, not x",
        ),
        (
            lambda device: (np.ones((2, 3), complex), array("W")),
            "X must hold real numbers, not complex128",
        ),
        (
            lambda device: (array("X"), np.ones(4)),
            (
                "W must be a matrix or a stack of matrices, and no axis may have the length "
                "0; the shape is 4"
            ),
        ),
        (
            lambda device: (np.ones((2, 2, 3)), np.ones((3, 3, 4))),
            (
                "the axes in front of rows and columns must broadcast as in numpy.matmul, "
                "but the axes in front are (2,) of X, (3,) of W"
            ),
        ),
        (
            lambda device: (array("X"), Stack(leading=(1,), tensors=(held(None, "W"),))),
            "W must be an array or a tensor of this device, not a tensor of another device",
        ),
        (
            lambda device: (array("X"), Stack(leading=(1,), tensors=(held(device, "W", "dy"),))),
            "W must be a tensor of class w, not dy",
        ),
        (
            lambda device: (array("dY"), array("W")),
            (
                "the number of columns of X is 4, but the number of rows of W is 3; "
                "the two numbers must be equal"
            ),
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


# What arrays are taken as.


def test_other_types_become_float32_and_that_is_said(device):
    given = np.full((2, 3), 0.1), np.ones((3, 4), np.float16)
    with pytest.warns(RoundedWarning, match="^X is rounded from float64 to float32, ") as caught:
        result = device.forward(*given)
    assert [warning.filename for warning in caught] == [__file__]
    assert result.notes == (
        "X was converted from float64 to float32, which rounded 6 of 6 elements",
        "W was converted from float16 to float32, exactly",
    )
    assert device.forward(array("X"), array("W")).notes == ()


def test_conversions_alone(device):
    tensor = device.convert([[1, 2]], "w", tag=9, step=3, scale=4)
    assert tensor.array.tolist() == [[1, 2]]
    assert device.log == [("convert", "w", 9, 3), ("scale", 4)]
    with pytest.raises(ValueError, match=exactly("dY must hold real numbers, not None")):
        device.convert(None, "dy")
    text = "W must be a matrix with at least one row and one column; the shape is 1 x 1 x 2"
    with pytest.raises(ValueError, match=exactly(text)):
        device.convert(np.ones((1, 1, 2)), "w")
    with pytest.raises(ValueError, match=exactly("tensor class must be one of x, w, dy, not 'W'")):
        device.convert([[1]], "W")


# Tags.


def conversions(device):
    return [entry[1:3] for entry in device.log if entry[0] == "convert"]


def test_tags_are_numbered_by_layers(device):
    """Each product that converts is a layer, each conversion alone, and nothing else."""
    device.forward(array("X"), array("W"))
    x = device.convert(array("X"), "x")
    device.convert(array("dY"), "dy", tag=7)
    device.forward(x, array("W"), tags=(50, 51))
    device.dx(array("W"), array("dY"))
    device.forward(x, held(device, "W"))
    with pytest.raises(ValueError, match="must be equal"):
        device.forward(array("X"), array("X"))
    device.dw(x, array("dY"))
    assert conversions(device) == [
        *(("x", 0), ("w", 1), ("x", 4), ("dy", 7), ("w", 51)),
        *(("w", 9), ("dy", 10), ("dy", 14)),
    ]


def test_tags_begin_anew_before_those_of_second_copies(device):
    device._layers = 2**29 - 1
    device.forward(array("X"), array("W"))
    device.forward(array("X"), array("W"))
    assert conversions(device) == [("x", 2**31 - 4), ("w", 2**31 - 3), ("x", 0), ("w", 1)]


def test_tags_that_name_tensors_over_time_stay(device):
    device.over_time = True
    for _ in range(2):
        device.forward(array("X"), array("W"))
        device.convert(array("dY"), "dy")
    assert conversions(device) == [("x", 0), ("w", 1), ("dy", 2)] * 2


@pytest.mark.parametrize(
    "tags, message",
    [
        ((1,), "tags must be 2 integers, for X and W, not (1,)"),
        ((1, 2, 3), "tags must be 2 integers, for X and W, not (1, 2, 3)"),
        ((1, 2**32), "tag must be an integer in 0..4294967295, not 4294967296"),
        ((None, 1), "tag must be an integer in 0..4294967295, not None"),
    ],
)
def test_tags_that_are_none(tags, message, device):
    with pytest.raises(ValueError, match=exactly(message)):
        device.forward(array("X"), array("W"), tags=tags)
    assert not conversions(device)


def test_tags_of_three(device):
    with pytest.raises(
        ValueError, match=r"^tags must be 3 integers, for X, W and dY, not \(0, 1\)$"
    ):
        device.backward(array("X"), array("W"), array("dY"), tags=(0, 1))


# Stacks.


def stack(name, *leading):
    count = int(np.prod(leading))
    values = np.arange(count, dtype=np.float32).reshape(*leading, 1, 1)
    return values + np.zeros(SHAPES[name], np.float32)


def read(device):
    """By product, the first element and the tag of each operand."""
    return [
        {name: (tensor.array[0, 0], tensor.tag) for name, tensor in result.operands.items()}
        for result in device.done
    ]


@pytest.mark.parametrize("tags", [None, (30, 31)])
def test_a_stack_is_the_loop(tags, device):
    loop = Device()
    x, w = stack("X", 2, 3), stack("W", 2, 3)
    for each in (device, loop):
        each.dw(array("X"), array("dY"))
        each.done.clear()
    result = device.forward(x, w, tags=tags, step=5)
    for number, place in enumerate(np.ndindex(2, 3)):
        own = tags and tuple(tag + 4 * number for tag in tags)
        loop.forward(x[place], w[place], tags=own, step=5)
    assert read(device) == read(loop)
    assert {entry[-1] for entry in device.log[4:] if entry[0] == "convert"} == {5}
    assert [each.sizes for each in device.done] == [SIZES] * 6
    assert result.op == "forward"
    assert result.y.shape == (2, 3, 1, 2)
    assert result.y[..., 0, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert {name: tensor.shape for name, tensor in result.operands.items()} == {
        "X": (2, 3, 2, 3),
        "W": (2, 3, 3, 4),
    }
    assert [tensor.tag for tensor in result.operands["W"].tensors] == [
        (31 if tags else 5) + 4 * number for number in range(6)
    ]
    assert conversions(loop)[-1] == conversions(device)[-1]
    device.convert(array("X"), "x")
    assert conversions(device)[-1] == ("x", 4 if tags else 28)


def test_what_broadcasts_is_converted_once(device):
    """With the tag of the first product that takes it."""
    result = device.backward(stack("X", 2, 1), array("W"), stack("dY", 3))
    assert read(device) == [
        {"X": (i, 12 * i), "W": (1, 1), "dY": (j, 4 * j + 2)} for i in range(2) for j in range(3)
    ]
    assert len(conversions(device)) == 6
    assert isinstance(result.operands["W"], Held)
    assert result.operands["X"].shape == (2, 1, 2, 3)
    assert set(result.values) == {"dX", "dW"}
    fresh = [[tensor.tag for tensor in each.converted] for each in device.done]
    assert fresh == [[0, 1, 2], [6], [10], [12], [], []]


def test_a_stack_of_one_keeps_its_axes(device):
    assert device.forward(stack("X", 1, 1), array("W")).y.shape == (1, 1, 1, 2)


def test_a_converted_stack(device):
    w = device.convert_stack(stack("W", 2), "w", step=3, scale=2)
    assert (w.shape, w.leading) == ((2, 3, 4), (2,))
    assert device.log == [
        ("convert", "w", 1, 3),
        ("scale", 2),
        ("convert", "w", 5, 3),
        ("scale", 2),
    ]
    result = device.forward(array("X"), w)
    assert read(device) == [{"X": (1, 8), "W": (0, 1)}, {"X": (1, 8), "W": (1, 5)}]
    assert result.operands["W"].tensors == w.tensors
    assert ("stored", "W") in device.log
    device.log.clear()
    alone = device.convert_stack(array("X"), "x", tag=3)
    assert (alone.shape, conversions(device)) == ((2, 3), [("x", 3)])


def test_tags_of_a_stack_that_are_too_high(device):
    text = "the last tag of the stack must be an integer in 0..4294967295, not 4294967298"
    with pytest.raises(ValueError, match=exactly(text)):
        device.convert_stack(stack("X", 2), "x", tag=2**32 - 2)


def test_what_is_said_of_a_stack(device):
    counters = CommandCounters(
        cycles=1,
        total_cycles=2,
        convert_cycles=3,
        read_bytes=4,
        write_bytes=5,
        busy_slots=6,
        waits={},
    )
    for number, changes in enumerate(({}, {"exact": False}, {"overflow": True}, {})):
        device.results[number] = {"counters": counters} | changes
    x = stack("X", 2).astype(np.float64)
    found = [device.forward(x, array("W")) for _ in range(2)]
    assert [(each.exact, each.overflow) for each in found] == [(False, False), (True, True)]
    assert found[0].counters.read_bytes == 8
    assert found[0].notes == ("X was converted from float64 to float32, exactly",)


def test_nothing_of_a_stack_begins_with_sizes_that_the_device_refuses(device):
    device.refused = "too long"
    with pytest.raises(ValueError, match="too long"):
        device.forward(stack("X", 2), array("W"))
    assert device.log == [("sizes", SIZES)]
