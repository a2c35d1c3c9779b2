"""`formats`: the table of all formats, and what they make of the user's tensors."""

import json
from itertools import product

import numpy as np
import pytest

from command_line import error
from diastole.config.file import from_document
from diastole.errors import BadInput
from diastole.layers import cell_areas
from diastole.report.format_table import COMBINATIONS
from diastole_sim.codes.survey import survey
from diastole_sim.spec.formats import FORMAT_NAMES


@pytest.fixture
def tensors(tmp_path):
    """A file with what can be surveyed, and with what cannot."""
    data = {
        "X": np.array([[1, -0.25], [0.125, 3]], dtype=np.float32),
        "W": np.full((2, 40), 2, dtype=np.float64),
        "bias": np.ones(7, dtype=np.float32),
        "empty": np.ones((0, 4), dtype=np.float32),
        "ids": np.ones((3, 3), dtype=np.int64),
        "names": np.array([["a"]], dtype=object),
    }
    np.savez(tmp_path / "a.npz", **data)
    return data


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Areas of two cells, as a bench would leave them."""
    path = tmp_path / "areas.json"
    cells = {
        "bfp4": {"label": "squares", "area_per_mac_nand2": 393.4},
        "nvfp4": {"label": "1x16", "area_per_mac_nand2": 609},
    }
    path.write_text(json.dumps({"formats": cells, "command": "pytest bench -k format_cells"}))
    monkeypatch.setattr(cell_areas, "AREAS", path)


@pytest.fixture
def unmeasured(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_areas, "AREAS", tmp_path / "absent.json")


def line(out, start):
    """The cells of the first line that begins with ``start``."""
    return next(each for each in out.splitlines() if each.startswith(f"{start} ")).split()


def test_every_format_has_a_line(diastole, unmeasured):
    result = diastole("formats")
    assert (result.code, result.err) == (0, [])
    lines = result.out.splitlines()
    assert [each.split()[0] for each in lines[: len(FORMAT_NAMES) + 1]] == ["format", *FORMAT_NAMES]
    assert lines[len(FORMAT_NAMES) + 1] == ""
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    "name, cells",
    [
        ("bfp1", "8x8 2.125 2.125 1 1 1 0 2 exact -"),
        ("bfp4", "8x8 5.125 5.125 1.875 2^-3 2^-3 0 8 exact -"),
        ("fp8_e4m3", "tensor 8.125 8.125 448 2^-9 2^-3 14 16 of 36 -"),
        ("fp8_e5m2", "tensor 8.125 8.125 57344 2^-16 2^-2 29 24 of 64 -"),
        ("bf16", "tensor 16.125 16.125 3.38953e+38 2^-133 2^-7 253 24 of 522 -"),
        ("mxint8", "1x32 8.25 16.5 1.98438 2^-6 2^-6 0 14 exact -"),
        ("mxfp6_e3m2", "1x32 6.25 12.5 28 2^-4 2^-2 6 18 exact -"),
        ("nvfp4", "1x16 (W 16x16) 4.5 9 6 2^-1 2^-1 2 8 exact -"),
        ("e2m5", "tensor 8.125 8.125 7.875 2^-5 2^-5 2 16 exact -"),
    ],
)
def test_a_line_of_the_table(diastole, unmeasured, name, cells):
    result = diastole("formats", "--formats", name)
    assert line(result.out, name)[1:] == cells.split()


def test_the_table_by_block(diastole, unmeasured):
    result = diastole("formats", "--formats", "bfp4,nvfp4", "--block", 32)
    assert line(result.out, "bfp4")[1:3] == ["32x32", "5.0078"]
    assert line(result.out, "nvfp4")[1:6] == ["1x32", "(W", "32x32)", "4.25", "8.5"]
    assert "with array.block = 32" in result.out


def test_areas_as_measured(diastole, measured):
    result = diastole("formats")
    areas = {name: line(result.out, name)[-1] for name in FORMAT_NAMES}
    assert areas == dict.fromkeys(FORMAT_NAMES, "-") | {"bfp4": "393", "nvfp4": "609"}
    assert "NAND2/MAC: area of a cell, by pytest bench -k format_cells" in result.out.splitlines()


def test_areas_that_were_not_measured(diastole, unmeasured):
    result = diastole("formats")
    assert "NAND2/MAC: area of a cell; not measured here" in result.out.splitlines()


def test_json(diastole, measured):
    result = diastole("formats", "--formats", "nvfp4,bfp4", "--json")
    assert (result.code, result.err) == (0, [])
    assert list(result.json) == ["block", "formats", "combinations", "area_command"]
    assert (result.json["block"], result.json["area_command"]) == (
        8,
        "pytest bench -k format_cells",
    )
    nvfp4, bfp4 = result.json["formats"]
    assert nvfp4 == {
        "name": "nvfp4",
        "groups": {"x": "1x16", "w": "16x16", "dy": "1x16"},
        "element_bits": 4,
        "bits": 4.5,
        "bits_both": 9,
        "largest": 6,
        "smallest": 0.5,
        "ulp": 0.5,
        "depth": 2,
        "window": 8,
        "exact_window": 8,
        "cell": "1x16",
        "area_per_mac_nand2": 609,
    }
    assert bfp4["area_per_mac_nand2"] == 393.4
    assert result.json["combinations"][1] == {
        "x": "nvfp4",
        "w": "nvfp4",
        "dy": "nvfp4",
        "remark": "all three or none: the scales are not powers of two",
    }


def test_what_goes_together_is_shown(diastole):
    lines = diastole("formats").out.splitlines()
    place = next(place for place, each in enumerate(lines) if each.split()[:2] == ["X", "W"])
    shown = [" ".join(each.split()) for each in lines[place + 1 : -1]]
    assert shown == [f"{each.x} {each.w} {each.dy} {each.remark}" for each in COMBINATIONS]


def test_what_goes_together_is_what_check_accepts():
    """One format of each kind, in all combinations."""
    kinds = ("bfp4", "fp8_e5m2", "bf16", "mxint8", "e3m2", "nvfp4")
    for chosen in product(kinds, repeat=3):
        formats = dict(zip(("x", "w", "dy"), chosen, strict=True))
        try:
            from_document({"format": formats})
            taken = True
        except BadInput:
            taken = False
        assert taken == (chosen.count("nvfp4") in (0, 3)), chosen


@pytest.mark.parametrize("dy, fused", [("8x8", True), ("tensor", True), ("1x16", False)])
def test_gradients_in_one_pass(dy, fused):
    config = from_document({"format": {"dy": "fp8_e5m2"}, "block": {"dy": dy}})
    assert config.numerics.fused is fused


# With data.


def test_data(diastole, tensors):
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp2,mxint8", "--block", 2)
    assert result.code == 0
    assert result.err == [
        "diastole: W was converted from float64 to float32",
        "diastole: bias was left out: the shape (7,) is not the shape of a matrix",
        "diastole: empty was left out: the shape (0, 4) is not the shape of a matrix",
        "diastole: ids was left out: the array holds int64, not floats",
        "diastole: names was left out: the array holds Python objects",
    ]
    assert result.out.splitlines()[:9] == [
        "X (2 x 2)",
        "format  groups  SNR dB  saturated  underflowed  spread  rows  columns",
        "bfp2    2x2       21.1     0.000%      50.000%    4  4  0  0     0  0",
        "mxint8  1x32     exact     0.000%       0.000%    4  4  0  0     0  0",
        "",
        "W (2 x 40)",
        "format  groups  SNR dB  saturated  underflowed  spread  rows  columns",
        "bfp2    2x2      exact     0.000%       0.000%    0  0  0  0     0  0",
        "mxint8  1x32     exact     0.000%       0.000%    0  0  0  0     0  0",
    ]


def test_data_as_json(diastole, tensors):
    result = diastole("formats", "--data", "a.npz", "--formats", "nvfp4", "--json")
    assert result.code == 0
    assert list(result.json) == ["data", "block", "tensors", "mixtures", "verdict"]
    assert (result.json["data"], result.json["block"]) == ("a.npz", 8)
    x, w = result.json["tensors"]
    assert (x["name"], x["class"], x["shape"]) == ("X", "x", [2, 2])
    assert (w["name"], w["class"], w["shape"]) == ("W", "w", [2, 40])
    assert [each["formats"][0]["grouping"] for each in (x, w)] == ["1x16", "16x16"]
    expected = survey(tensors["X"], "nvfp4", block=8)
    assert x["formats"] == [
        {
            "format": "nvfp4",
            "grouping": "1x16",
            "copies": 2,
            "counted": 4,
            "snr_db": expected.snr_db,
            "saturated": 0,
            "underflowed": expected.underflowed,
            "spread": {"largest": 4, "usual": 4},
            "row_deficit": {"largest": 0, "usual": 0},
            "column_deficit": {"largest": 0, "usual": 0},
        }
    ]


def test_every_format_by_default(diastole, tensors):
    result = diastole("formats", "--data", "a.npz", "--json")
    for tensor in result.json["tensors"]:
        assert [each["format"] for each in tensor["formats"]] == list(FORMAT_NAMES)


def test_data_with_nan_is_warned_of(diastole, tmp_path):
    np.savez(tmp_path / "a.npz", A=np.array([[np.nan, np.inf, 1, 2]], dtype=np.float32))
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4")
    assert result.err == [
        "diastole: warning: A holds NaN (1 of 4 elements), which become +0",
        (
            "diastole: warning: A holds Inf (1 of 4 elements), which become the largest "
            "magnitude of the group (0 in a group of zeros with a scale of its own)"
        ),
    ]
    assert line(result.out, "bfp4")[2:5] == ["exact", "0.000%", "0.000%"]


def test_data_without_a_group(diastole, tmp_path):
    np.savez(tmp_path / "a.npz", zeros=np.zeros((2, 2), dtype=np.float32))
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--out", "a.svg")
    assert line(result.out, "bfp4")[2:] == ["exact", "0.000%", "0.000%", "-", "-", "-"]
    assert (result.code, (tmp_path / "a.svg").exists()) == (0, True)


@pytest.mark.parametrize(
    "name, start", [("a.png", b"\x89PNG\r\n\x1a\n"), ("a.SVG", b"<?xml version"), ("a.svg", b"<?")]
)
@pytest.mark.sampled(2)
def test_picture(diastole, tensors, tmp_path, name, start):
    (tmp_path / name).write_text("an older one")
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4,mxint8", "--out", name)
    assert result.code == 0
    assert result.out.splitlines()[-1] == f"wrote {name}"
    assert (tmp_path / name).read_bytes().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.npz", name, "nano.toml"])


def test_what_the_picture_says(diastole, tensors, tmp_path, monkeypatch):
    """Text in an SVG is text if it is not drawn as paths."""
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    diastole("formats", "--data", "a.npz", "--formats", "bfp2,nvfp4", "--out", "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for words in ("signal to noise, dB", "a.npz, blocks of 8 x 8", ">X<", ">W<", ">bfp2<", ">50<"):
        assert words in text, words


def test_no_picture_if_not_asked(diastole, tensors, tmp_path):
    assert diastole("formats", "--data", "a.npz", "--formats", "bfp4").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "nano.toml"]


def test_a_picture_that_fails_leaves_the_old_one(diastole, tensors, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "a.png")

    (tmp_path / "a.png").write_text("precious")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    result = diastole("formats", "--data", "a.npz", "--formats", "bfp4", "--out", "a.png")
    assert (result.code, result.err[-1:]) == (2, error("a.png: No space left on device"))
    assert (tmp_path / "a.png").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.png", "nano.toml"]


def test_a_picture_needs_matplotlib(diastole, tensors, monkeypatch):
    monkeypatch.setattr("diastole.install.importlib.util.find_spec", lambda name: None)
    result = diastole("formats", "--data", "a.npz", "--out", "a.png")
    assert (result.code, result.out) == (3, "")
    assert len(result.err) == 1
    assert result.err[0].startswith("diastole: error: matplotlib is missing; ")
