"""Place and route: what is asked of nextpnr, what is read back; for real where it is installed."""

import json
import sys

import pytest

from diastole.errors import CheckFailed
from diastole.synth.mapper import MapRequest, map_design, working_folder
from diastole.synth.route import (
    PLACERS,
    Routed,
    Routing,
    pack,
    place_and_route,
    place_and_route_fastest,
    read_report,
)
from diastole.synth.targets import ECP5, GOWIN, ICE40
from diastole.synth.tools import PACKERS, ROUTERS, YOSYS
from diastole_sim.system.programs import Program, ToolMissing
from support.small_product import DESIGN
from support.sweep import sweep

REPORT = {
    "fmax": {"aclk": {"achieved": 81.5, "constraint": 85}},
    "critical_paths": [],
    "utilization": {
        "TRELLIS_COMB": {"used": 36, "available": 83640},
        "DP16KD": {"used": 0, "available": 208},
    },
}


def test_a_report():
    found = read_report(REPORT, {}, 85)
    assert found == Routed(
        fmax_mhz=81.5, requested_mhz=85, path=None, utilisation={"TRELLIS_COMB": (36, 83640)}
    )
    assert not found.met
    assert read_report(REPORT, {}, 81.5).met
    assert found.record() == {
        "fmax_mhz": 81.5,
        "requested_mhz": 85,
        "by_seed": {},
        "met": False,
        "longest_path": None,
        "utilisation": {"TRELLIS_COMB": {"used": 36, "available": 83640}},
    }
    with pytest.raises(CheckFailed, match="found no path between registers"):
        read_report({**REPORT, "fmax": {}}, {}, 85)


FAKE = """#!{python}
import json, sys
from pathlib import Path
Path("words.json").write_text(json.dumps(sys.argv[1:]))
print("Info: Packing constants..")
print("Info: Packing LUTs..")
print("Info: Routing..")
Path("report.json").write_text({report!r})
"""
ASKED = {
    "ecp5": "--85k --package CABGA381 --speed 6 --json netlist.json --top m --report report.json "
    "--textcfg layout.txt --seed 7 --freq 85.5 --timing-allow-fail",
    "ice40": "--up5k --package sg48 --json netlist.json --top m --report report.json "
    "--asc layout.txt --seed 7 --freq 85.5 --timing-allow-fail",
    "gowin": "--device GW1NR-LV9QN88PC6/I5 --vopt family=GW1N-9C --json netlist.json --top m "
    "--report report.json --write layout.txt --seed 7 --freq 85.5 --timing-allow-fail",
}
ANYWHERE = {"ecp5": "--lpf-allow-unconstrained", "ice40": "--pcf-allow-unconstrained", "gowin": ""}
PINS = {"ecp5": "--lpf pins.txt", "ice40": "--pcf pins.txt", "gowin": "--vopt cst=pins.txt"}


@pytest.mark.parametrize("placer", [None, *PLACERS])
@pytest.mark.parametrize("pins", [None, "here"])
@pytest.mark.parametrize("target", [ECP5, ICE40, GOWIN], ids=lambda each: each.name)
def test_what_nextpnr_is_asked(tmp_path, target, pins, placer):
    fake = tmp_path / "nextpnr"
    fake.write_text(FAKE.format(python=sys.executable, report=json.dumps(REPORT)))
    fake.chmod(0o755)
    said = []
    found = place_and_route(
        Routing(
            router=Program(name=target.router, path=fake, version="0.9"),
            target=target,
            device=target.devices[target.device(None)],
            top="m",
            scopes={},
            requested_mhz=85.5,
            placer=placer,
            pins=pins,
        ),
        tmp_path,
        seed=7,
        report=said.append,
    )
    assert found.fmax_mhz == 81.5
    assert said == ["packing", "routing"]
    last = ANYWHERE[target.name] if pins is None else PINS[target.name]
    words = json.loads((tmp_path / "words.json").read_text())
    placed = "" if placer is None else f"--placer {placer}"
    assert words == f"{ASKED[target.name]} {placed} {last}".split()
    assert (tmp_path / "pins.txt").exists() == (pins is not None)


SEEDED = """#!{python}
import json, sys
seed = int(sys.argv[sys.argv.index("--seed") + 1])
open("layout.txt", "w").write(f"layout of {{seed}}")
report = json.loads({report!r})
report["fmax"]["aclk"]["achieved"] = {clocks}[seed]
json.dump(report, open("report.json", "w"))
"""


def test_the_fastest_of_several_seeds(tmp_path):
    """Its report and its layout; of equal ones the first."""
    fake = tmp_path / "nextpnr"
    clocks = {4: 61.0, 5: 70.5, 6: 66.0, 7: 70.5}
    fake.write_text(SEEDED.format(python=sys.executable, report=json.dumps(REPORT), clocks=clocks))
    fake.chmod(0o755)
    said = []
    asked = Routing(
        router=Program(name=ECP5.router, path=fake, version="0.9"), target=ECP5,
        device=ECP5.devices["85k"], top="m", scopes={}, requested_mhz=85,
    )  # fmt: skip
    found = place_and_route_fastest(asked, tmp_path, seeds=range(4, 8), report=said.append)
    assert (found.fmax_mhz, found.seed, found.clocks) == (70.5, 5, clocks)
    assert (tmp_path / "layout.txt").read_text() == "layout of 5"
    assert said == [f"seed {seed}: {mhz:.2f} MHz" for seed, mhz in clocks.items()]
    assert found.record()["by_seed"] == {"4": 61.0, "5": 70.5, "6": 66.0, "7": 70.5}


def test_pins_of_a_harness_where_nothing_else_places_them():
    for device in GOWIN.devices.values():
        lines = device.pins.splitlines()
        assert [line.split()[1] for line in lines] == [
            f'"{name}"' for name in ("aclk", "aresetn", "shifted", "folded")
        ]
        assert len({line.split()[2] for line in lines}) == 4


COUNTED_SITES = {
    ECP5.name: (("TRELLIS_COMB",), 0),
    ICE40.name: (("ICESTORM_LC",), 0.1),
    GOWIN.name: (("LUT4",), 0),
}
"""By family what nextpnr calls the sites that it takes, and how far our count may be off."""
ROUTED = [(target, name) for target in (ECP5, ICE40, GOWIN) for name in target.devices]
USUAL = {(target.name, target.device(None)) for target in (ECP5, ICE40, GOWIN)}


@pytest.mark.parametrize(
    "target, name",
    [each if (each[0].name, each[1]) in USUAL else sweep(*each) for each in ROUTED],
    ids=[f"{target.name}-{name}" for target, name in ROUTED],
)
def test_for_real(target, name):
    try:
        router, packer = ROUTERS[target.router].find(), PACKERS[target.packer].find()
    except ToolMissing as error:
        pytest.skip(str(error))
    design = DESIGN.in_harness()
    device = target.devices[name]
    found = []
    for _ in range(2):
        with working_folder() as folder:
            flow = MapRequest(target, device=name, flat=True)
            mapped = map_design(YOSYS.find(), design, flow, folder)
            asked = Routing(
                router=router, target=target, device=device, top=design.top, scopes=mapped.scopes,
                requested_mhz=50, pins=device.pins,
            )  # fmt: skip
            routed = place_and_route(asked, folder, seed=3)
            found.append((routed, pack(packer, device, folder).read_bytes()))
    assert found[0] == found[1]
    routed, bitstream = found[0]
    assert 20 < routed.fmax_mhz < 2000
    assert routed.path is not None
    assert routed.path.ns > 0
    assert len(bitstream) > 1000
    names, more = COUNTED_SITES[target.name]
    used = sum(routed.utilisation[each][0] for each in names)
    assert abs(used - mapped.tree.total["sites"]) <= more * used + 2  # constants are cells too
