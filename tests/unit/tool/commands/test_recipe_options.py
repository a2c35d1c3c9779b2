"""Options of recipes: groups of parameters, and the factor of trust ratios."""

import pytest

from support.own_networks import NUMBERS, write_networks


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks and data of a user."""
    write_networks(tmp_path)
    return diastole


def test_groups_of_parameters(files):
    words = (*NUMBERS, "--weight-decay", "0.5", "--json")
    plain = files(*words).json
    grouped = files(*words, "--group", "*.bias:weight-decay=0", "--group", "0.*:rate=0.1").json
    assert plain["groups"] == []
    assert grouped["groups"] == [
        {"pattern": "*.bias", "rate": None, "weight_decay": 0.0},
        {"pattern": "0.*", "rate": 0.1, "weight_decay": None},
    ]
    assert grouped["weights_sha256"] != plain["weights_sha256"]
    assert abs(grouped["float_loss"] / grouped["loss"] - 1) < 0.3
    everything = files(*words, "--group", "*:weight-decay=0.5,rate=0.01").json
    assert everything["weights_sha256"] == plain["weights_sha256"]


@pytest.mark.parametrize(
    "group, said",
    [
        (
            "x*:rate=1",
            "--group: no trained parameter belongs to the group x*: the trained parameters are ",
        ),
        ("*:momentum=0", "--group must be PATTERN:NAME=VALUE,NAME=VALUE with the names rate, "),
        ("*.bias", "--group must be PATTERN:NAME=VALUE,NAME=VALUE with the names rate, "),
        ("*:rate=-1", "--group: rate of * must be a number above 0 and at most 1000, not -1"),
        ("*:rate=1,rate=2", "--group must be PATTERN:"),
    ],
)
def test_mistakes_in_a_group(files, group, said):
    result = files(*NUMBERS, "--group", group)
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: {said}")


def test_trust_ratios(files):
    lars = [word if word != "adam" else "lars" for word in NUMBERS]
    usual = files(*lars, "--json").json
    assert usual["trust"] == 0.001
    same = files(*lars, "--trust", "0.001", "--json").json
    assert same["weights_sha256"] == usual["weights_sha256"]
    other = files(*lars, "--trust", "0.01", "--json").json
    assert other["weights_sha256"] != usual["weights_sha256"]
    assert files(*NUMBERS, "--json").json["trust"] is None
    result = files(*NUMBERS, "--trust", "0.01")
    said = "--trust is an option of --optimizer lars, not of adam: leave --trust out"
    assert (result.code, result.err) == (2, [f"diastole: error: {said}"])
    result = files(*lars, "--trust", "0")
    assert result.err[0].startswith("diastole: error: --trust must be a number above 0 and at most")
