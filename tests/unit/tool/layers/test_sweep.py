"""The same layers on many machines."""

import pytest

from diastole.config.file import from_document
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer
from diastole.layers import sweep
from diastole.layers.layer_costs import layer_costs, total
from diastole.layers.machine_size import MachineSize
from diastole.layers.sweep import (
    Front,
    SweptMachine,
    configurations,
    every_choice,
    on_all_cores,
    swept,
)
from support.sweep import sweep as a_sweep

LAYERS = [NamedLayer(name="a", m=33, k=20, n=40, repeats=2)]


def read(overrides):
    return from_document({}, overrides)


def test_every_combination_in_the_order_of_a_book():
    assert every_choice(["a=1, 2", "b.c=x,y"]) == [
        ("a=1", "b.c=x"), ("a=1", "b.c=y"), ("a=2", "b.c=x"), ("a=2", "b.c=y"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, values",
    [
        ("[2,4],[2, 8]", ["[2,4]", "[2, 8]"]),
        ('"32,32",64', ['"32,32"', "64"]),
        ("'a,b', {c = 1, d = [2,3]},e", ["'a,b'", "{c = 1, d = [2,3]}", "e"]),
        ("a],b", ["a]", "b"]),
        ('"a,b', ['"a,b']),
    ],
)
def test_values_with_commas_of_their_own(text, values):
    assert every_choice([f"k={text}"]) == [(f"k={value}",) for value in values]


def test_values_of_other_types_are_other_values():
    assert len(every_choice(["a=1,1.0,true"])) == 3


def test_machines_that_are_none_are_kept_beside_those_that_are():
    (first, good), (second, bad) = configurations(["array.block=8,3"], read)
    assert (first, second) == (("array.block=8",), ("array.block=3",))
    assert good.numerics.block == 8
    assert isinstance(bad, BadInput)


@pytest.mark.parametrize("cores", [a_sweep(1), 2])
def test_what_they_cost(monkeypatch, cores):
    """In one process or in several, in the order in which they were named."""
    monkeypatch.setattr(sweep.os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    machines = configurations(["array.rows=2,1", "array.block=4,3"], read)
    found = list(swept(machines, LAYERS, ("forward", "backward"), 30))
    assert [each.overrides for each in found] == [overrides for overrides, _ in machines]
    for each, (_, config) in zip(found, machines, strict=True):
        if isinstance(config, BadInput):
            assert each.refused == ("array.block must be one of 1, 2, 4, 8, 16, 32, not 3",)
            assert (each.size, each.total) == (None, None)
        else:
            costs = layer_costs(config, LAYERS, ("forward", "backward"), 30)
            assert each.total == total(costs, config.macs)
            assert each.record()["cycles"] == each.total["cycles"]
            assert each.record()["set"] == dict(text.split("=") for text in each.overrides)


def test_one_core_needs_no_other_process(monkeypatch):
    monkeypatch.setattr(sweep, "usable_cores", lambda: 1)
    with on_all_cores() as mapped:
        assert mapped is map


def test_the_front_of_any_machines(rng):
    """No machine has both fewer cycles and no more area than one of the front; every other has an
    equal or a better one on it."""
    for _ in range(50):
        machines = [
            SweptMachine(
                overrides=(f"a={number}",),
                size=MachineSize(
                    multipliers=rng.randint(1, 9), scratchpad_kib=rng.randint(1, 3), sum_kib=1,
                    area_per_mac_nand2=rng.choice((2.0, 2.0, None)),
                ),
                total={"cycles": rng.randint(1, 9)},
            )
            for number in range(8)
        ]  # fmt: skip
        front = Front.of(machines)
        known = [each for each in machines if front.area(each) is not None]
        assert front.unknown == len(machines) - len(known)
        points = [(front.area(each), each.total["cycles"]) for each in known]
        chosen = [(front.area(each), each.total["cycles"]) for each in front.machines]
        assert chosen == sorted(chosen)
        for area, cycles in chosen:
            assert not any(a <= area and c < cycles for a, c in points)
            assert not any(a < area and c <= cycles for a, c in points)
        for area, cycles in points:
            assert any(a <= area and c <= cycles for a, c in chosen)
