"""The picture of a machine: written whole, the same twice."""

import pytest

from diastole.report.synth_picture import write_synthesis
from diastole.synth.flow import Request, Synthesis
from diastole.synth.mapper import Design
from diastole.synth.targets import ECP5
from diastole.synth.tree import Component

RAM = Component(name="ram_of_a_name_that_fits_nowhere", instances=1, local={"sites": 3}, parts=())
LARGE = Component(name="large", instances=2, local={"sites": 60}, parts=(RAM,))
DUST = Component(name="dust", instances=2, local={"sites": 0.1}, parts=())
TREE = Component(name="m$m", instances=1, local={"sites": 37}, parts=(LARGE, DUST))


def found():
    return Synthesis(
        request=Request(target=ECP5),
        tree=TREE,
        harness={},
        design=Design(top="t", machine=""),
        versions={},
        routed=None,
        bitstream=None,
    )


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    write_synthesis(found(), path, "m on $x$")
    first = path.read_bytes()
    assert first[:5] == (b"<?xml" if kind == "svg" else b"\x89PNG\r")
    write_synthesis(found(), path, "m on $x$")
    assert path.read_bytes() == first
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_names_that_fit(tmp_path):
    path = tmp_path / "a.svg"
    write_synthesis(found(), path, "title")
    text = path.read_text()
    assert "<!-- large x2 -->" in text
    assert "dust" not in text
    assert "ram_of" not in text
