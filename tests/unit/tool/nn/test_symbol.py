"""Symbols: what stands for a tensor while a network is traced."""

import pytest

from diastole import nn
from diastole.nn.symbol import Symbol


def test_operations_of_symbols():
    recorded = []

    def record(operation, operands, attributes):
        recorded.append((operation, [each.name for each in operands], attributes))
        return Symbol(f"r{len(recorded)}", (2, 3), record)

    x, y = Symbol("x", (2, 3), record), Symbol("y", (2, 3), record)
    made = 2 * (x + y) * x * 3
    assert made.name == "r4"
    assert recorded == [
        ("add", ["x", "y"], {}),
        ("mul_scalar", ["r1"], {"other": 2.0}),
        ("mul", ["r2", "x"], {}),
        ("mul_scalar", ["r3"], {"other": 3.0}),
    ]


@pytest.mark.parametrize("name", ["view", "reshape"])
def test_absent_methods_of_symbols(name):
    with pytest.raises(AttributeError, match=f"has no {name}: use .* diastole.nn.functional$"):
        getattr(Symbol("x", (2, 3), None), name)


def test_absent_layers():
    with pytest.raises(
        AttributeError, match=r"has no Conv2d; the layers are GELU, .*Linear.*Tanh$"
    ):
        _ = nn.Conv2d
