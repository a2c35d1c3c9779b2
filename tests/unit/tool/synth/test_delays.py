"""Delays of a small product in real cells, in names of its components."""

import json

import pytest

from diastole.errors import BadInput
from diastole.synth.delay_tables import read_library
from diastole.synth.delays import buffer_of, find_delays
from diastole.synth.flow import Request, Tools, synthesise
from diastole.synth.liberty import Library
from diastole.synth.targets import PDK, sg13g2
from support.small_product import DESIGN


@pytest.mark.parametrize("flat", [False, True], ids=["by component", "flat"])
def test_a_small_product(flat):
    """Its longest path is an addition; the words of its memory are there at once."""
    request = Request(target=sg13g2(), delays=True, flat=flat, requested_mhz=200)
    found = synthesise(request, DESIGN, Tools.find(request))
    delays = found.delays
    assert {each.component for each in delays.components} >= {"adds", "t"}
    assert delays.components[0].component == "adds"
    assert 0.5 < delays.ns < 5
    assert delays.path.ns == pytest.approx(delays.ns)
    assert delays.path.routing_ns == 0
    assert sum(each.cells for each in delays.path.stretches) > 3
    assert delays.path.end.component in ("s", "s2")
    assert delays.path.end.signal.startswith("o")
    record = json.loads(json.dumps(found.record()))["delays"]
    assert (record["wires"], record["met"], record["requested_mhz"]) == ("none", True, 200)
    assert record["mhz"] == pytest.approx(1000 / delays.ns, abs=0.1)
    longest = [each["ns"] for each in record["components"]]
    assert longest == sorted(longest, reverse=True)


def test_areas_are_as_without_delays_where_nothing_is_sized():
    request = Request(target=sg13g2())
    found = synthesise(request, DESIGN, Tools.find(request))
    assert found.delays is None
    assert "delays" not in found.record()


def test_the_usual_buffer():
    buffer = buffer_of(Library.read(PDK), read_library(PDK))
    assert (buffer.cell, buffer.source, buffer.output) == ("sg13g2_buf_2", "A", "X")
    assert buffer.load == 0.3


def test_a_library_that_says_nothing_of_delays(tmp_path):
    path = tmp_path / "bare.lib"
    path.write_text(
        "library (bare) { cell (NAND) { area : 1; pin (A) { direction : input; } "
        'pin (B) { direction : input; } pin (Y) { direction : output; function : "!(A*B)"; } } }'
    )
    netlist = {"modules": {"t": {"ports": {}, "cells": {}}}}
    with pytest.raises(BadInput, match=r"bare.lib: its delays are not understood"):
        find_delays(Library.read(path), netlist, "t", requested_mhz=1, prefix="")
