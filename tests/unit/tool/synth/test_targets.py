"""Families, devices and which of their cells counts as what."""

import pytest

from diastole.errors import BadInput
from diastole.synth.targets import (
    ECP5,
    FPGAS,
    GOWIN,
    ICE40,
    XILINX,
    Cells,
    read_target,
    sg13g2,
)


@pytest.mark.parametrize(
    "target, kind, resources",
    [
        (ECP5, "LUT4", {"luts": 1, "sites": 1}),
        (ECP5, "CCU2C", {"carry": 1, "sites": 2}),
        (ECP5, "TRELLIS_DPR16X4", {"lut_ram": 1, "sites": 6}),
        (ECP5, "TRELLIS_FF", {"registers": 1}),
        (ECP5, "DP16KD", {"block_rams": 1}),
        (ECP5, "PFUMX", {}),
        (ECP5, "LUT4X", {}),
        (ICE40, "SB_DFFESR", {"registers": 1}),
        (ICE40, "SB_CARRY", {"carry": 1}),
        (ICE40, "SB_RAM40_4KNR", {"block_rams": 1}),
        (GOWIN, "ALU", {"carry": 1, "sites": 1}),
        (GOWIN, "DFFRE", {"registers": 1}),
        (GOWIN, "SDPX9B", {"block_rams": 1}),
        (GOWIN, "MUX2_LUT5", {}),
        (XILINX, "RAMB36E1", {"block_rams": 2}),
        (XILINX, "LUT6", {"luts": 1, "sites": 1}),
        (XILINX, "RAM32M", {"lut_ram": 1, "sites": 4}),
        (XILINX, "RAM64X1S", {"lut_ram": 1, "sites": 1}),
        (XILINX, "RAM64X1D", {"lut_ram": 1, "sites": 2}),
        (XILINX, "RAM128X1D", {"lut_ram": 1, "sites": 4}),
        (XILINX, "RAM32M16", {"lut_ram": 1, "sites": 8}),
        (XILINX, "FDRE", {"registers": 1}),
    ],
)
def test_cells_of_fpgas(target, kind, resources):
    assert target.counted(kind) == resources


def test_cells_of_a_library():
    cells = sg13g2()
    assert cells.counted("sg13g2_nand2_1") == {"nand2": 1}
    assert cells.counted("sg13g2_dfrbpq_1") == {"nand2": pytest.approx(6.75), "registers": 1}
    assert cells.counted("sg13g2_dlhq_1") == {"nand2": pytest.approx(4.25), "latches": 1}
    assert cells.counted("another_module") == {}


@pytest.mark.parametrize("target", FPGAS.values(), ids=lambda each: each.name)
def test_every_device_says_what_it_holds(target):
    for name, device in target.devices.items():
        assert target.device(name) == name
        assert {"sites", "registers", "block_rams", "dsps"} == set(device.holds)
        assert (device.route is not None) == (target.router is not None)


def test_the_usual_device_and_one_that_is_unknown():
    assert ECP5.device(None) == "85k"
    with pytest.raises(BadInput, match="--device must be one of 85k, 45k, 25k, 12k for ecp5, not"):
        ECP5.device("up5k")


def test_scripts():
    assert ECP5.script("top", "85k", flat=False) == "synth_ecp5 -noflatten -top top\n"
    assert ECP5.script("top", "85k", flat=True) == "synth_ecp5 -top top\n"
    assert ICE40.script("a", "up5k", flat=True) == "synth_ice40 -device u -dsp -top a\n"
    assert XILINX.script("a", "k26", flat=True) == "synth_xilinx -family xcup -flatten -top a\n"
    lines = sg13g2().script("top", flat=True).splitlines()
    assert lines[0] == "synth -flatten -top top"
    assert sg13g2().script("top", flat=False).startswith("synth -top top\n")
    sized = sg13g2().script("top", flat=False, sized_mhz=400).splitlines()
    assert sized[-1] == "abc -liberty cells.lib -D 2500 -constr cells.constr"
    assert sg13g2().constraints == "set_driving_cell sg13g2_buf_2\nset_load 10.0\n"


def test_names(tmp_path):
    assert read_target("gowin") is GOWIN
    assert read_target("sg13g2").name == "sg13g2"
    own = tmp_path / "own.lib"
    own.write_text(sg13g2().library.path.read_text())
    found = read_target(str(own))
    assert isinstance(found, Cells)
    assert (found.name, found.library.nand2_area) == ("own.lib", 7.2576)
    with pytest.raises(BadInput, match="--target must be one of ecp5, ice40, gowin, xilinx, sg13"):
        read_target("virtex")
