"""The table of operations against linear algebra, and against the commands' fields as drivers
write them."""

import numpy as np
import pytest

from diastole_sim.spec.command_table import FIELDS, NEST_FIELDS, Opcode, fields_of
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import (
    CLASSES,
    OPERAND_BY_CLASS,
    OPERANDS,
    OPERATIONS,
    PRODUCTS,
    summed_inside,
)
from support.numerics import make_numerics

SIZES = {"m": 2, "n": 3, "k": 5}
SHAPES = {"X": (2, 5), "W": (5, 3), "dY": (2, 3), "Y": (2, 3), "dX": (2, 5), "dW": (5, 3)}
EQUATIONS = {
    "Y": lambda x, w, dy: x @ w,
    "dX": lambda x, w, dy: dy @ w.T,
    "dW": lambda x, w, dy: x.T @ dy,
}
READS = {
    "forward": [("X", 0, "address_x"), ("W", 1, "address_w")],
    "dx": [("W", 0, "address_w"), ("dY", 0, "address_dy")],
    "dw": [("X", 1, "address_x"), ("dY", 1, "address_dy")],
    "backward": [
        ("X", 1, "address_x"),
        ("W", 0, "address_w"),
        ("dY", 0, "address_dy"),
        ("dY", 1, "address_dy_m"),
    ],
}
WRITES = {
    "forward": {"Y": "out_a"},
    "dx": {"dX": "out_a"},
    "dw": {"dW": "out_a"},
    "backward": {"dX": "out_b", "dW": "out_a"},
}


def test_tensors_have_the_shapes_of_the_equations():
    tensors = {tensor.name: tensor for tensor in OPERANDS}
    tensors |= {name: product.result for name, product in PRODUCTS.items()}
    assert {name: (SIZES[t.rows], SIZES[t.columns]) for name, t in tensors.items()} == SHAPES


def test_classes_are_numbered_as_everywhere():
    assert CLASSES == {"X": "x", "W": "w", "dY": "dy"}
    assert [tensor.number for tensor in OPERANDS] == [0, 1, 2]
    assert [OPERAND_BY_CLASS[name].name for name in CLASS_NAMES] == ["X", "W", "dY"]
    with pytest.raises(ValueError, match="not in tuple"):
        assert PRODUCTS["Y"].result.number


@pytest.mark.parametrize("name", EQUATIONS)
def test_contracting_the_said_axes_gives_the_equation(name, np_rng):
    product = PRODUCTS[name]
    data = [np_rng.integers(-9, 10, SHAPES[tensor.name]) for tensor in OPERANDS]
    given = dict(zip(CLASSES, data, strict=True))
    a, b, c = ("".join(tensor.axes) for tensor in (*product.factors, product.result))
    got = np.einsum(f"{a},{b}->{c}", *(given[tensor.name] for tensor in product.factors))
    np.testing.assert_array_equal(got, EQUATIONS[name](*data))
    axis = product.contraction
    assert axis in product.streaming.axes
    assert axis in product.stationary.axes
    assert axis not in product.result.axes
    assert product.result.rows in product.streaming.axes  # t streams, the lanes are held
    assert product.result.columns in product.stationary.axes


def test_the_copy_that_is_read_has_its_groups_along_the_contraction():
    for product in PRODUCTS.values():
        for operand in product.factors:
            copy, shape = product.copy(operand), SHAPES[operand.name]
            assert (shape[1], shape[0])[copy] == SIZES[product.contraction]
            assert operand.copy_names[copy] == product.contraction
    names = {tensor.name: tensor.copy_names for tensor in OPERANDS}
    assert names == {"X": ("k", "m"), "W": ("n", "k"), "dY": ("n", "m")}


@pytest.mark.parametrize("name", READS)
def test_what_an_operation_reads_and_writes(name):
    operation = OPERATIONS[name]
    reads = [(read.operand.name, read.copy, read.field) for read in operation.reads]
    assert reads == READS[name]
    assert [read.second for read in operation.reads] == [f == "address_dy_m" for *_, f in reads]
    assert operation.operand_names == tuple(dict.fromkeys(tensor for tensor, *_ in reads))
    assert dict(zip(operation.result_names, operation.result_fields, strict=True)) == WRITES[name]


def test_what_an_operation_sums_over():
    summed = {name: operation.contracted for name, operation in OPERATIONS.items()}
    assert summed == {"forward": ("k",), "dx": ("n",), "dw": ("m",), "backward": ("m", "n")}


@pytest.mark.parametrize("name", READS)
def test_a_command_has_the_fields_of_its_operation(name):
    used = {field.name for field in fields_of(Opcode[name.upper()])}
    addresses = {field for field in used if field.startswith(("address_", "out_"))}
    assert addresses == set(OPERATIONS[name].fields)
    classes = {f"class_{CLASSES[tensor]}" for tensor, *_ in READS[name]}
    assert {field for field in used if field.startswith("class_")} == classes
    nests = {field for field in used if field.startswith("nest_")}
    loops = {*NEST_FIELDS.values(), "nest_outer", "nest_keep"}
    assert nests == (set() if name == "backward" else loops)
    widths = {f"width_{CLASSES[tensor]}" for tensor, *_ in READS[name]}
    assert {field for field in used if field.startswith("width")} == widths
    slots = {f"slot_{CLASSES[tensor]}" for tensor, *_ in READS[name]}
    assert {field for field in used if field.startswith("slot")} == slots
    assert used - addresses - classes - nests - widths - slots == {
        "opcode",
        "version",
        "ahead",
        "m",
        "n",
        "k",
    }
    assert set(OPERATIONS[name].fields) <= {field.name for field in FIELDS}


@pytest.mark.parametrize(
    "groupings, in_place, want",
    [
        (None, True, {"east": 12, "north": 8}),
        (None, False, {"east": 12}),
        ((None, "1x4", None), True, {"east": 12, "north": 8}),
        ((None, "1x4", "1x4"), True, {"north": 8}),
    ],
)
def test_what_is_summed_inside(groupings, in_place, want):
    """Where W and dY are in vector groups, every product goes north."""
    numerics = make_numerics(block=4, groupings=groupings)
    assert summed_inside(numerics, rows=2, cols=3, in_place=in_place) == want
