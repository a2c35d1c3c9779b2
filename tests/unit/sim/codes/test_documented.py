"""Defaults that the docstring of `quantise` and the table of docs/formats.md state, against those
that the formats have."""

import inspect
import re

import pytest

from diastole_sim.codes.api import DEFAULT_BLOCK, quantise
from diastole_sim.spec.formats import FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.rounding import default_random_bits
from support.sources import ROOT

DOC = " ".join(inspect.getdoc(quantise).replace("``", "").split())
GENERIC = ("e2m1", "e3m4", "e5m2", "e4m3")
FAMILIES = ("bfp", "fp8", "bf16", "mx", "nvfp4", "e<E>m<M>")


def family(name):
    """The word of the docstring that means a format."""
    return next((each for each in FAMILIES if name.startswith(each)), "e<E>m<M>")


def words(text):
    """Of "a, b and c"."""
    return [word for word in re.split(r", | and ", text) if word]


@pytest.mark.parametrize("name", [*FORMAT_NAMES, *GENERIC])
def test_scales_and_groups_of_the_docstring(name):
    """Each rule names the formats whose default it is; each format, its groups."""
    stated = {
        each: rule for rule, of in re.findall(r"([\w-]+) \(default of ([^)]*)\)", DOC)
        for each in words(of)
    } | {"bf16": "fixed"}  # fmt: skip
    assert set(stated) == set(FAMILIES)
    chosen = parse_format(name)
    numerics = Numerics.from_dict(
        {key: {"format": name, "rounding": "nearest"} for key in ("x", "w", "dy")}
        | {"block": 8, "random_bits": 8, "fraction": 0, "headroom": 1}
    )
    assert numerics.tensor_class("x").scale == stated[family(name)]
    (groups,) = re.findall(r"Default: (bfp .*?)\.", DOC)
    stated = {
        each: part.rpartition(" ")[2]
        for part in re.findall(r"(?:[^ ,]+, )*(?:[^ ,]+ and )?[^ ,]+ (?:[0-9x]+|tensor)", groups)
        for each in words(part.rpartition(" ")[0])
    }
    assert set(stated) == set(FAMILIES)
    assert str(chosen.default_grouping(DEFAULT_BLOCK, "x")) == stated[family(name)]


def test_other_defaults_of_the_docstring():
    defaults = {name: each.default for name, each in inspect.signature(quantise).parameters.items()}
    assert "rounding : str nearest (ties to even)" in DOC
    assert "counter, lfsr" in DOC
    assert "saturate, the largest element; or specification" in DOC
    assert "0 and the largest element (flag)" in DOC
    firsts = ("nearest", "counter", "saturate", "flag")
    names = ("rounding", "rounding_kind", "overflow", "special")
    assert tuple(defaults[name] for name in names) == firsts, "the first that is named"
    assert "1 to 16, 24 of lfsr, 12 of data; 3 of lfsr3, its default; else 8" in DOC
    assert {kind: default_random_bits(kind) for kind in ("counter", "lfsr", "lfsr3", "data")} == {
        "counter": 8, "lfsr": 8, "lfsr3": 3, "data": 8,
    }  # fmt: skip


def rows():
    """The table of formats: names, p, D, largest, specials, groups, scale."""
    text = (ROOT / "docs" / "formats.md").read_text()
    table = text[text.index("| format | p | D |") :].split("\n\n")[0].splitlines()[2:]
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall("`([^`]+)`", cells[0])
        if "bfp8" in names:
            names = [f"bfp{bits}" for bits in range(1, 9)]
        for place, name in enumerate(names):
            yield name, place, cells


def one_of(cell, place):
    """Of "4, 3" the one at a place; the only one for all."""
    parts = cell.split(", ")
    return parts[place] if len(parts) > 1 else parts[0]


@pytest.mark.parametrize("name, place, cells", [pytest.param(*row, id=row[0]) for row in rows()])
def test_the_table_of_the_document(name, place, cells):
    for each in GENERIC if "<" in name else [name]:
        chosen = parse_format(each)
        numerics = Numerics.from_dict(
            {key: {"format": each, "rounding": "nearest"} for key in ("x", "w", "dy")}
            | {"block": 8, "random_bits": 8, "fraction": 0, "headroom": 1}
        )
        rules = re.findall("`([a-z-]+)`", cells[6])
        assert [numerics.tensor_class("x").scale] == (rules or ["fixed"])
        groups = cells[5].strip("`").replace("B x B", "8x8").split(", W ")
        assert [str(chosen.default_grouping(8, of)) for of in ("x", "w")] == [groups[0], groups[-1]]
        if name.startswith(("bfp", "e<")):
            letters = {"M": chosen.fraction_bits, "E": chosen.exponent_bits}
            precision, depth = (cell.replace("^", "**") for cell in cells[1:3])
            assert chosen.precision == eval(precision, {}, letters)
            assert chosen.depth == eval(depth, {}, letters)
        else:
            assert chosen.precision == int(one_of(cells[1], place))
            assert chosen.depth == int(one_of(cells[2], place))


def test_every_format_is_in_the_table():
    assert [name for name, *_ in rows()][:-1] == list(FORMAT_NAMES)
