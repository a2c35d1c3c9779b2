"""`formats --data` with products: what a user types, and what is said to mistakes."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from command_line import error
from diastole.config.presets import PRESETS

ROOT = Path(__file__).parents[4]
NEEDED = "products need two of X (M x K), W (K x N) and dY (M x N), but the file has"
FEW = ("--formats", "bfp4,mxint8")


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "a.npz", **arrays)

    return save


def ones(*shape):
    return np.ones(shape, dtype=np.float32)


def test_products_and_verdict(diastole, npz):
    result = diastole("formats", "--data", "a.npz", *FEW, "--least-db", 15)
    assert (result.code, result.err) == (0, [])
    lines = result.out.splitlines()
    (products,) = [place for place, line in enumerate(lines) if "dW dB" in line]
    assert [line.split()[0] for line in lines[products : products + 3]] == [
        "format", "bfp4", "mxint8",
    ]  # fmt: skip
    (ranking,) = [place for place, line in enumerate(lines) if line.endswith("15 dB")]
    assert [line.split()[0] for line in lines[ranking + 1 : ranking + 3]] == ["bfp4", "mxint8"]
    assert lines[-1].startswith("  next: diastole init my.toml; diastole check my.toml --set ")
    assert max(map(len, lines[:-1])) <= 100


def test_json_has_everything(diastole, npz):
    result = diastole("formats", "--data", "a.npz", *FEW, "--dy", "bf16,fp8_e5m2", "--json")
    assert result.code == 0
    found = result.json
    assert list(found) == ["data", "block", "tensors", "mixtures", "verdict"]
    names = [
        "bfp4", "mxint8",
        "bfp4/bfp4/bf16", "mxint8/mxint8/bf16", "bfp4/bfp4/fp8_e5m2", "mxint8/mxint8/fp8_e5m2",
    ]  # fmt: skip
    assert [each["name"] for each in found["mixtures"]] == names
    assert list(found["mixtures"][0]["products"]) == ["Y", "dX", "dW"]
    assert [each["format"] for each in found["tensors"][0]["formats"]] == names[:2]
    assert sorted(found["verdict"].pop("ranking")) == sorted(names)
    assert found["verdict"] == dict.fromkeys(("least_db", "smallest", "smallest_cell", "nearest"))
    assert {each["reaches"] for each in found["mixtures"]} == {None}


def test_no_verdict_without_a_figure(diastole, npz):
    """Noise does not tell what trains: no format is recommended, and no column says yes or no."""
    result = diastole("formats", "--data", "a.npz", *FEW)
    assert (result.code, result.err) == (0, [])
    lines = result.out.splitlines()
    (ranking,) = [line for line in lines if "NAND2/MAC" in line and line.startswith("format")]
    assert ranking.endswith("where")
    assert lines[-3].startswith("no format is recommended: ")
    assert "--set format" not in result.out
    assert not {"yes", "no"} & {
        line.split()[-1] for line in lines if line.startswith(("bfp", "mx"))
    }


def test_the_command_that_is_named_can_be_typed(diastole, npz, monkeypatch):
    """As far as its options are read."""
    tried = []
    monkeypatch.setattr("diastole.commands.compare.execute", lambda given: tried.append(given) or 0)
    out = diastole("formats", "--data", "a.npz", *FEW).out
    command = re.search(r"next: diastole (.*) trains in them", out)[1]
    assert diastole(*shlex.split(command)).code == 0
    assert tried[0].task == "digits"


@pytest.mark.parametrize(
    "names, products", [("X W", ["Y"]), ("W dY", ["dX"]), ("X dY", ["dW"])], ids=str
)
def test_any_two(diastole, npz, save, names, products):
    save(**{name: npz[name] for name in names.split()})
    (found,) = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--json").json[
        "mixtures"
    ]
    assert list(found["products"]) == products


def test_settings_reach_the_machine(diastole, npz):
    options = ("--grouping", "1x16", "--rounding", "dy=stochastic-c", "--scale", "x=even,w=ceil")
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4,bf16", *options, "--json")
    (found,) = result.json["mixtures"]
    assert found["groups"] == dict.fromkeys(("x", "w", "dy"), "1x16")
    assert found["rounding"] == {"x": "nearest", "w": "nearest", "dy": "stochastic-c"}
    assert found["scale"] == {"x": "even", "w": "ceil", "dy": "floor"}
    assert result.json["tensors"][0]["formats"][0]["grouping"] == "1x16"
    (left_out,) = result.err
    assert left_out.startswith('diastole: left out: bf16: block.x must be "tensor" where format.x')
    assert "; scale.x must be left out where format.x is bf16" in left_out


def test_a_block_of_its_own(diastole, npz):
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--block", 2, "--json")
    (found,) = result.json["mixtures"]
    assert (found["groups"]["x"], found["bits"], found["area_per_mac_nand2"]) == ("2x2", 7, None)


def test_what_is_next_can_be_typed(diastole, npz, tmp_path):
    options = ("--rounding", "dy=nearest", "--least-db", 20)
    out = diastole("formats", "--data", "a.npz", *FEW, *options).out
    commands = out.splitlines()[-1].partition("next: ")[2].split("; ")
    for command in commands:
        assert diastole(*shlex.split(command)[1:]).code == 0, command


def test_names_in_small_letters(diastole, npz, save):
    save(x=npz["X"], w=npz["W"], DY=npz["dY"])
    found = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--json").json
    assert list(found["mixtures"][0]["products"]) == ["Y", "dX", "dW"]


@pytest.mark.parametrize(
    "names, text",
    [
        ("X A", "X, A"),
        ("A B", "A, B"),
        ("X weights", "X, weights; did you mean W for weights?"),
        ("x_in dY_2", "x_in, dY_2; did you mean X for x_in, dY for dY_2?"),
    ],
)
def test_files_without_a_product(diastole, save, names, text):
    """Nothing is wrong with them; but what was asked about products cannot be."""
    save(**dict.fromkeys(names.split(), ones(2, 2)))
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4")
    assert (result.code, result.err) == (0, [])
    assert result.out.splitlines()[-1] == f"no products: {NEEDED} {text}"
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--json")
    assert (result.json["mixtures"], result.json["verdict"]) == ([], None)
    for option in (("--least-db", 3), ("--dy", "bf16")):
        result = diastole("formats", "--data", "a.npz", *option)
        assert (result.code, result.out, result.err) == (2, "", error(f"a.npz: {NEEDED} {text}"))


def test_nan_is_warned_of_and_does_not_count(diastole, save):
    x = ones(2, 2)
    x[0, 0] = np.nan
    save(X=x, W=ones(2, 2))
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--json")
    assert result.err == ["diastole: warning: X holds NaN (1 of 4 elements), which become +0"]
    assert result.json["mixtures"][0]["products"]["Y"]["snr_db"] is None


# What docs/formats.md says.

SECTION = (ROOT / "docs" / "formats.md").read_text().partition("## Your own tensors")[2]
SECTION = SECTION.partition("\n## ")[0]
CODE = [line.removeprefix("    ") for line in SECTION.splitlines() if line.startswith("    ")]
COMMANDS = [shlex.split(line) for line in CODE if line.startswith("diastole ")]
PYTHON = "\n".join(line for line in CODE if not line.startswith("diastole "))
ROWS = {"bfp6": "bfp6 in squares", "mxfp8_e4m3": "MXFP8 E4M3"}


def table_row(title):
    """The numbers of a row of the table."""
    (line,) = [each for each in SECTION.splitlines() if each.startswith(f"| {title} |")]
    return [float(cell) for cell in line.strip("| ").split("|")[1:]]


def test_the_documents_example(diastole):
    """Its commands run, and its table is what the first of them prints."""
    exec(PYTHON, {})
    assert len(COMMANDS) == 2
    assert diastole(*COMMANDS[1][1:]).code == 0
    found = diastole(*COMMANDS[0][1:], "--json").json
    (x,) = [each for each in found["tensors"] if each["name"] == "X"]
    for survey, mixture in zip(x["formats"], found["mixtures"], strict=True):
        dw = mixture["products"]["dW"]
        numbers = [survey["snr_db"], dw["snr_db"]]
        numbers += [dw[place]["snr_db"] for place in ("worst_row", "worst_column")]
        assert [round(number, 1) for number in numbers] == table_row(ROWS[mixture["name"]])
    assert [each["reaches"] for each in found["mixtures"]] == [False, True]


def test_the_document_names_every_key(diastole, npz):
    found = diastole("formats", "--data", "a.npz", *FEW, "--json").json
    mixture = found["mixtures"][0]
    parts = [found["tensors"][0], found["tensors"][0]["formats"][0], mixture, mixture["worst"]]
    parts += [mixture["products"]["Y"], mixture["products"]["Y"]["worst_row"], found["verdict"]]
    keys = {key for part in parts for key in part} | {"tensors", "mixtures", "verdict"}
    assert sorted(key for key in keys if f"`{key}`" not in SECTION) == []


def test_the_presets_formats_are_what_the_default_rounding_is_of():
    """`formats --data` rounds as a configuration does that says nothing; the presets say that."""
    for preset in PRESETS.values():
        assert (preset.rounding.x, preset.rounding.w) == ("nearest", "nearest")
        assert preset.rounding.dy == "stochastic-b"


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300], ids=str)
def test_what_has_no_number_is_not_exact(diastole, save, value):
    """1e300 is Inf in float32. A tensor and the product of tensors, in the table and in JSON."""
    save(X=np.full((8, 8), value), W=ones(8, 8))
    command = ("formats", "--data", "a.npz", "--formats", "bfp4")
    out = diastole(*command).out
    assert "exact" not in out.partition("W (")[0]
    assert re.search(r"^bfp4 +8x8 +- ", out, re.MULTILINE)
    assert re.search(r"^bfp4 +- +- +-$", out, re.MULTILINE), "Y"
    assert re.search(r"^bfp4 +5.125 .* - +-$", out, re.MULTILINE), "the ranking"
    found = diastole(*command, "--json").json
    assert [each["formats"][0]["counted"] for each in found["tensors"]] == [0, 64]
    assert found["mixtures"][0]["products"]["Y"]["counted"] == 0


def test_a_verdict_says_what_it_leaves_out(diastole, save):
    x = ones(8, 8)
    x[3, 4] = np.nan
    save(X=x, W=ones(8, 8))
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--least-db", 20)
    assert result.err[-1] == (
        "diastole: warning: --least-db judges 56 of 64 elements of Y: NaN or Inf reach all others"
    )
    assert result.code == 0
