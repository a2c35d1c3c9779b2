"""Plans and options: which configurations they name, and what is wrong with others."""

from pathlib import Path

import pytest

from diastole.compare.study import (
    Named,
    overrides_of,
    parse_configuration,
    read_plan,
    short_name,
    unique,
    with_axes,
)
from diastole.config.file import from_document


def test_keys_of_all_classes_are_those_of_each():
    settings = {
        "format": "bfp4", "rounding.bits": "4", "special": "poison", "precision": "low",
        "preset": "pico", "block": "1x16", "scale.source": "host",
    }  # fmt: skip
    assert overrides_of(settings, ["precision"]) == [
        "format.x=bfp4", "format.w=bfp4", "format.dy=bfp4", "rounding.bits=4", "special=poison",
        "block.x=1x16", "block.w=1x16", "block.dy=1x16", "scale.source=host",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, name, settings",
    [
        ("format=bfp4", "bfp4", {"format": "bfp4"}),
        ("format=bfp4 block=1x16", "bfp4 1x16", {"format": "bfp4", "block": "1x16"}),
        ("plain one: format=bfp4", "plain one", {"format": "bfp4"}),
        ("plain:", "plain", {}),
        ("rounding.bits=4 alpha=.5", "bits=4 alpha=.5", {"rounding.bits": "4", "alpha": ".5"}),
        ("fast.widths=[2,4]", "widths=[2,4]", {"fast.widths": "[2,4]"}),
    ],
)
def test_configurations_of_options(text, name, settings):
    assert parse_configuration(text) == Named(name=name, settings=settings)


def test_axes_go_with_every_configuration():
    axes = ["format=bfp2,bfp4", "rounding.bits=4,8"]
    alone = with_axes([], axes)
    assert [each.name for each in alone] == [
        "bfp2 bits=4", "bfp2 bits=8", "bfp4 bits=4", "bfp4 bits=8"
    ]  # fmt: skip
    assert alone[1].settings == {"format": "bfp2", "rounding.bits": "8"}
    base = Named(name="poison", settings={"special": "poison"})
    both = with_axes([base], ["format=bfp4,bfp5"])
    assert both == [
        Named(name=f"poison {f}", settings={"special": "poison", "format": f}, of_axes=True)
        for f in ("bfp4", "bfp5")
    ]
    assert with_axes([base], []) == [base]


def test_short_names_of_typed_values():
    assert short_name({"format.x": '"bfp4"', "a.b": "true", "c": "3"}) == "bfp4 b=true c=3"


def test_names_are_different():
    one = Named(name="one", settings={})
    assert unique([one]) == [one]


PLAN = """
data = "mine.npz"
steps = 20
seeds = [3, 1]
machine = "my.toml"
set = { array.block = 4, special = "poison" }

[over]
rounding.dy = ["stochastic-a", "stochastic-b"]

[[configuration]]
name = "plain"
format = "bfp4"
accumulator.fraction = 20

[[configuration]]
set = { format = "fast" }
precision = "fast"
alpha = 0.4
fast.widths = [2, 4]
over = { beta = [0.1, 0.3] }
"""


def test_values_with_commas_in_a_plan(tmp_path):
    """Of one option: a text or a list is a value, not several."""
    path = tmp_path / "plan.toml"
    path.write_text('[over]\nhidden = ["32,32", 64, [8, 4]]\nfast.widths = [[2, 4], [2]]\n')
    found = [each.settings for each in read_plan(path).configurations]
    assert [(each["hidden"], each["fast.widths"]) for each in found] == [
        (hidden, widths) for hidden in ('"32,32"', "64", "[8, 4]") for widths in ("[2, 4]", "[2]")
    ]


@pytest.mark.parametrize("axes", [["format=bfp5"], ["format.x=bfp5", "format=bfp6"]])
def test_axes_of_the_command_go_before_axes_of_the_plan(tmp_path, axes):
    """Of the plan and of its configurations, and of a table before its keys."""
    path = tmp_path / "plan.toml"
    path.write_text(
        "[over]\nformat = ['bfp2', 'bfp3']\nrounding.bits = [4, 5]\n"
        "[[configuration]]\nname = 'one'\nover = {format.x = ['bfp2'], alpha = [0.5]}\n"
    )
    found = read_plan(path, axes).configurations
    assert [each.name for each in found] == ["one alpha=0.5 bits=4", "one alpha=0.5 bits=5"]
    assert len(read_plan(path, ["beta=1"]).configurations) == 4
    assert len(with_axes(found, axes)) == 2


def test_a_plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    plan = read_plan(path)
    assert (plan.task, plan.data, plan.machine) == (
        None, str(tmp_path / "mine.npz"), tmp_path / "my.toml"
    )  # fmt: skip
    assert (plan.steps, plan.seeds, plan.preset) == (20, (3, 1), None)
    assert plan.settings == {"array.block": "4", "special": "poison"}
    assert [each.name for each in plan.configurations] == [
        *(f"plain stochastic-{rule}" for rule in "ab"),
        *(
            f"fast fast alpha=0.4 widths=[2, 4] beta={beta} stochastic-{rule}"
            for beta in ("0.1", "0.3")
            for rule in "ab"
        ),
    ]
    assert plan.configurations[1].settings == {
        "format": "bfp4", "accumulator.fraction": "20", "rounding.dy": "stochastic-b"
    }  # fmt: skip
    assert plan.configurations[-1].settings == {
        "format": "fast", "precision": "fast", "alpha": "0.4", "fast.widths": "[2, 4]",
        "beta": "0.3", "rounding.dy": "stochastic-b",
    }  # fmt: skip


@pytest.mark.parametrize("name, count", [("digits", 12), ("text", 5)])
def test_plans_of_the_documents(name, count):
    """What docs/compare.md has tables of: machines, all of them."""
    plan = read_plan(Path(__file__).parents[4] / "docs" / f"{name}.toml")
    assert (plan.task, plan.seeds, plan.preset) == (name, (0, 1, 2), "nano")
    assert len(unique(plan.configurations)) == count
    options = ["precision", "alpha", "switch"]
    for each in plan.configurations:
        from_document({}, overrides_of(each.settings, options))


def test_a_class_goes_before_its_table():
    """Whichever comes first: format is of all classes, format.x of one."""
    wanted = {"format.x=bfp4", "format.w=bfp2", "format.dy=bfp2"}
    for text in ("format=bfp2 format.x=bfp4", "format.x=bfp4 format=bfp2"):
        assert set(overrides_of(parse_configuration(text).settings, [])) == wanted
