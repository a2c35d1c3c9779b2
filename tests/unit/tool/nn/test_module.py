"""Modules and parameters by dotted names."""

import pytest

from diastole import nn
from diastole.nn.module import Module, Parameter
from diastole_sim.graph.graph import GraphError


class Pair(Module):
    def __init__(self):
        self.first = nn.Linear(2, 3)
        self.rest = [nn.Linear(3, 3, bias=False), self.first, nn.ReLU()]
        self.scale = Parameter((3, 3))


def test_names():
    pair = nn.Sequential(Pair(), nn.Linear(3, 1))
    assert [name for name, _ in pair.named_modules()] == [
        "",
        "0",
        "0.first",
        "0.rest.0",
        "0.rest.2",
        "1",
    ]
    names = ["0.scale", "0.first.weight", "0.first.bias", "0.rest.0.weight", "1.weight", "1.bias"]
    assert [name for name, _ in pair.named_parameters()] == names


def test_a_shared_parameter_has_one_name():
    pair = Pair()
    pair.rest[0].weight = pair.scale
    names = ["scale", "first.weight", "first.bias"]
    assert [name for name, _ in pair.named_parameters()] == names


def test_frozen_modules():
    pair = Pair()
    assert pair.rest[0].requires_grad_(False) is pair.rest[0]
    assert {name: p.requires_grad for name, p in pair.named_parameters()} == {
        "scale": True,
        "first.weight": True,
        "first.bias": True,
        "rest.0.weight": False,
    }


def test_refused_calls():
    with pytest.raises(GraphError) as raised:
        nn.Linear(3, 3)(None)
    assert str(raised.value) == (
        "Linear was called outside of diastole.nn.trace: a module has no numbers, so pass the "
        "network to trace"
    )
    with pytest.raises(NotImplementedError, match=r"^Module needs a method forward$"):
        nn.trace(Module(), (3,), batch=2)
    with pytest.raises(ValueError, match=r"^a side of a parameter must be an integer in 1\.\."):
        Parameter((3, 0))
