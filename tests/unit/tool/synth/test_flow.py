"""Requests that make sense, and reports of a small product."""

import json

import pytest

from diastole.errors import BadInput
from diastole.synth.flow import Request, Tools, synthesise
from diastole.synth.mapper import MappedDesign
from diastole.synth.route import Routed
from diastole.synth.targets import ECP5, XILINX, sg13g2
from diastole.synth.tree import Component
from diastole_sim.system.programs import Program, ToolMissing
from support.small_product import DESIGN, QUEUE_BITS, REGISTERS


@pytest.mark.parametrize(
    "options, words",
    [
        (
            {"target": XILINX, "route": True},
            (
                "--pnr does not support xilinx: Diastole has no router for xilinx; "
                "use ecp5, ice40 or gowin"
            ),
        ),
        (
            {"target": sg13g2(), "route": True},
            (
                "--pnr does not support sg13g2: Diastole has no router for sg13g2; "
                "use ecp5, ice40 or gowin"
            ),
        ),
        (
            {"target": sg13g2(), "device": "85k"},
            "--device works only for FPGAs, and sg13g2 is a library of cells: leave",
        ),
        ({"target": ECP5, "device": "99k"}, "--device must be one of 85k, 45k, 25k, 12k for ecp5"),
    ],
)
def test_requests_that_are_refused(options, words):
    with pytest.raises(BadInput, match=f"(?i)^{words}"):
        Request(**options)


def test_a_report_of_a_mapping():
    request = Request(target=ECP5, device="25k")
    found = synthesise(request, DESIGN, Tools.find(request))
    record = json.loads(json.dumps(found.record()))
    assert (record["target"], record["device"], record["mapping"]) == (
        "ecp5",
        "25k",
        "by component",
    )
    assert (record["macs"], record["holds"]["sites"]) == (4, 24_288)
    assert record["per_mac"] == {
        "sites": pytest.approx(record["tree"]["total"]["sites"] / 4, abs=0.06)
    }
    clocked, within = record["memories"]["clocked"], record["memories"]["within_cycle"]
    assert (clocked["bits"], clocked["counted"]) == (2048, True)
    assert (within["bits"], within["counted"]) == (QUEUE_BITS, True)
    assert set(record["tools"]) == {"yosys"}
    assert record["tree"]["component"] == "t"
    assert "routed" not in record
    assert record["tree"]["total"]["registers"] >= REGISTERS


def test_tools_that_are_missing(monkeypatch):
    def missing(tool):
        if tool.name == "yosys":
            return Program(name="yosys", path=None, version="0.70")
        raise ToolMissing(tool.name, "pip install it")

    monkeypatch.setattr("diastole.synth.tools.Tool.find", missing)
    assert Tools.find(Request(target=ECP5)).versions == {"yosys": "0.70"}
    with pytest.raises(ToolMissing, match="nextpnr-ecp5 is missing; install it with: pip install"):
        Tools.find(Request(target=ECP5, route=True))


def test_place_and_route_is_of_the_machine_in_its_harness(monkeypatch):
    """Fake programs print their arguments."""
    asked = {}
    machine = Component(name="t", instances=1, local={"luts": 5}, parts=())
    harness = Component(name="harness", instances=1, local={"registers": 9}, parts=(machine,))

    def map_design(yosys, design, how, folder, *, report):
        asked.update(vars(how), top=design.top)
        (folder / "bits").write_bytes(b"bits")
        return MappedDesign(tree=harness, scopes={"machine": "t"})

    def fastest(routing, folder, *, seeds, report):
        asked.update({f"route_{name}": value for name, value in vars(routing).items()}, seeds=seeds)
        return Routed(
            fmax_mhz=50, requested_mhz=routing.requested_mhz, path=None, utilisation={}, seed=5
        )

    monkeypatch.setattr("diastole.synth.flow.map_design", map_design)
    monkeypatch.setattr("diastole.synth.flow.place_and_route_fastest", fastest)
    monkeypatch.setattr("diastole.synth.flow.pack", lambda packer, device, folder: folder / "bits")
    program = Program(name="any", path=None, version="1")
    request = Request(
        target=ECP5, route=True, bitstream=True, requested_mhz=60, seed=4, times=2, placer="static"
    )
    found = synthesise(request, DESIGN, Tools(yosys=program, router=program, packer=program))
    assert (asked["top"], asked["route_top"]) == ("t_harness", "t_harness")
    assert (asked["flat"], asked["prefix"], asked["device"]) == (True, "t_", "85k")
    assert (list(asked["seeds"]), asked["route_requested_mhz"]) == ([4, 5], 60)
    assert asked["route_placer"] == "static"
    assert asked["route_scopes"] == {"machine": "t"}
    assert (found.tree, found.harness, found.bitstream) == (machine, {"registers": 9}, b"bits")
    record = found.record()
    assert (record["mapping"], record["seed"], record["placer"]) == ("flat", 5, "static")
    assert record["harness"] == {"registers": 9}
    assert record["routed"]["fmax_mhz"] == 50
