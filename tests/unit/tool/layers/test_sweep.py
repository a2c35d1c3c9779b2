"""The same layers on many machines."""

import pytest

from diastole.config.file import from_document
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer
from diastole.layers import sweep
from diastole.layers.costs import layer_costs, total
from diastole.layers.sizes import MachineSize
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


@pytest.mark.parametrize("text", ["", "a", "=1,2", "a=", "a=1,", "a=1,,2"])
def test_texts_that_name_none(text):
    with pytest.raises(BadInput, match=r"--over must be KEY=VALUE,VALUE,\.\.\., not"):
        every_choice([text])


@pytest.mark.parametrize(
    "values, said",
    [("2,2", "2 twice"), ("1,2, 1", "1 twice"), ("2,0x2", "2 and 0x2"), ('bfp4,"bfp4"', None)],
)
def test_a_value_twice_is_no_sweep(values, said):
    """TOML has other spellings of a value."""
    with pytest.raises(BadInput) as caught:
        every_choice([f"array.rows={values}"])
    said = said or 'bfp4 and "bfp4"'
    assert caught.value.problems == (f"--over: array.rows has {said}: give each value once",)
    assert len(every_choice(["a=1,1.0,true"])) == 3, "other types are other values"


def test_too_many():
    many = ",".join(map(str, range(101)))
    with pytest.raises(BadInput, match="10201 machines are more than 10000"):
        every_choice([f"a={many}", f"b={many}"])


def test_machines_that_are_none_are_kept_beside_those_that_are():
    (first, good), (second, bad) = configurations(["array.block=8,3"], read)
    assert (first, second) == (("array.block=8",), ("array.block=3",))
    assert good.numerics.block == 8
    assert isinstance(bad, BadInput)


def test_if_none_is_one_it_is_an_error():
    with pytest.raises(BadInput) as caught:
        configurations(["array.row=1,2"], read)
    assert caught.value.problems == (
        "--over: array.row is an unknown key; the nearest is array.rows",
    )


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
