"""Figures beside what was asked, and the bench that prints, keeps and judges them."""

import json

import pytest

from diastole.errors import BadInput
from diastole.measure.figure import (
    Figure,
    at_least,
    at_most,
    bench,
    choose,
    near,
    shown,
    write_json,
)

MET = at_least("much", 0.951, 0.95)
MISSED = at_most("little", 421, 420, "{:.0f}")
SHOWN = shown("anything", 3.14159, "{:.2f}")


def test_words_of_a_figure():
    assert Figure(what="much", asked="at least 95.0%", measured="95.1%", met=True) == MET
    assert Figure(what="little", asked="at most 420", measured="421", met=False) == MISSED
    assert Figure(what="anything", asked="", measured="3.14", met=None) == SHOWN


@pytest.mark.parametrize("value, met", [(0.5, True), (1.5, True), (0.49, False), (1.51, False)])
def test_near(value, met):
    figure = near("it", value, 1.0, 0.5, "{:.2f}")
    assert (figure.asked, figure.measured) == ("1.00, within 0.50", f"{value:.2f}")
    assert figure.met is met
    assert near("it", float("nan"), 1.0, 0.5).met is False


@pytest.mark.parametrize("function, met", [(at_least, True), (at_most, True)])
def test_the_bound_itself_will_do(function, met):
    assert function("a", 2, 2).met is met


@pytest.mark.parametrize("function", [at_least, at_most])
def test_what_is_no_number_meets_nothing(function):
    assert function("a", float("nan"), 2).met is False


def one():
    yield MET
    yield SHOWN


def other():
    yield MISSED


def test_choose():
    known = {"one": one, "other": other}
    assert choose(known, []) == [one, other]
    assert choose(known, ["other"]) == [other]
    with pytest.raises(BadInput) as caught:
        choose(known, ["a", "one", "b"])
    assert caught.value.problems == (
        "no measurement a: one, other",
        "no measurement b: one, other",
    )


@pytest.mark.parametrize(
    "measurements, require, code",
    [([one], True, 0), ([one, other], False, 0), ([one, other], True, 1)],
    ids=["all met", "not required", "required"],
)
def test_bench(tmp_path, capsys, measurements, require, code):
    output = tmp_path / "new" / "bench.json"
    assert bench(measurements, output, require=require) == code
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["what", "asked", "measured", "met"]
    assert lines[1] == ["much", "at", "least", "95.0%", "95.1%", "yes"]
    assert lines[2] == ["anything", "3.14"]
    assert lines[-1] == ["see", str(output)]
    if other in measurements:
        assert lines[3] == ["little", "at", "most", "420", "421", "NO"]
    rows = json.loads(output.read_text())["rows"]
    assert [row["met"] for row in rows] == [True, None, False][: len(rows)]
    assert rows[0] == {
        "what": "much",
        "asked": "at least 95.0%",
        "measured": "95.1%",
        "met": True,
    }
    missed = "diastole: error: little is 421, asked: at most 420\n"
    assert err == (missed if code else "")


def test_bench_refuses_its_output_before_any_work(tmp_path):
    def never():
        raise AssertionError("measured")

    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="is a directory"):
        bench([never], tmp_path / "folder", require=True)


def test_write_json(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    1\n  ]\n}\n'
