"""Define the targets of mapping: families of FPGAs with devices, and libraries of cells."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from diastole.errors import BadInput
from diastole.nearest import suggestion
from diastole.synth.liberty import Library
from diastole.synth.sites import (
    SITE,
    Added,
    ecp5_chains,
    gowin_chains,
    ice40_alone,
    xilinx_carries,
)

LUTS, CARRY, LUT_RAM, REGISTERS, LATCHES, DSPS, BLOCK_RAMS, NAND2 = (
    "luts", "carry", "lut_ram", "registers", "latches", "dsps", "block_rams", "nand2",
)  # fmt: skip
"""Resources, as reports name them: cells of a kind. ``block_rams`` are counted as the family counts
block RAMs."""
SITES = "sites"
"""Places of the size of a LUT that LUTs, carry and distributed RAM take together."""
PDK = Path(__file__).parent / "pdk" / "sg13g2_stdcell_typ_1p20V_25C.lib"
"""Standard cells of IHP's SG13G2, typical corner."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """Device of an FPGA family: options for synthesis, options for place and route, and resources
    that the device holds. ``pins``: positions of the four pins of a harness, if the router needs
    positions."""

    synthesis: str = ""
    route: str | None = None
    pins: str | None = None
    holds: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Fpga:
    """Family of FPGAs: the commands of Yosys, the resources of cells, and the devices.

    ``cells``: resource, amount of the resource and number of sites of a cell, by a pattern of whole
    cell names. Cells without a pattern cost nothing, for example multiplexers that stand behind
    LUTs. ``added``: rule for the cells that place and route adds. ``block_ram``: size of a block
    RAM. ``router``: program that places and routes, None without a program. ``bitstream``: ending
    of the name of a bitstream. The first device is the default.
    """

    name: str
    title: str
    command: str
    hierarchical: str
    flat: str = ""
    cells: Mapping[str, tuple[str, int, int]]
    added: Added
    block_ram: str
    devices: Mapping[str, Chip]
    router: str | None = None
    packer: str | None = None
    bitstream: str | None = None
    main: str = field(default=SITES, init=False)

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources in reports, in the order of the columns."""
        return (SITES, LUTS, CARRY, LUT_RAM, REGISTERS, DSPS, BLOCK_RAMS)

    def device(self, name: str | None) -> str:
        """Return the name of a device; for None, the name of the default device. BadInput for an
        unknown device."""
        if name is None:
            return next(iter(self.devices))
        if name not in self.devices:
            choices, near = ", ".join(self.devices), suggestion(name, self.devices)
            raise BadInput(f"--device must be one of {choices} for {self.name}, not {name}{near}")
        return name

    def script(self, top: str, device: str, *, flat: bool) -> str:
        """Return the Yosys commands that map module ``top`` of the source."""
        words = [self.command, self.devices[device].synthesis]
        words += [self.flat if flat else self.hierarchical, f"-top {top}"]
        return " ".join(word for word in words if word) + "\n"

    def counted(self, kind: str) -> Mapping[str, float]:
        """Return the resources of a cell of type ``kind``."""
        if kind == SITE:
            return {SITES: 1}
        for pattern, (resource, number, sites) in _patterns(self):
            if pattern.fullmatch(kind):
                return {resource: number, SITES: sites} if sites else {resource: number}
        return {}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _patterns(target: Fpga) -> list[tuple[re.Pattern[str], tuple[str, int, int]]]:
    return [(_compiled(pattern), means) for pattern, means in target.cells.items()]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Library of standard cells. Memories with a clocked read are left out, because a flow has
    macros for them. Memories that are read within the cycle are cells like everything else."""

    name: str
    library: Library
    title: str
    main: str = field(default=NAND2, init=False)

    @property
    def resources(self) -> tuple[str, ...]:
        return (NAND2, REGISTERS, LATCHES)

    @property
    def constraints(self) -> str:
        """Yosys constraints for sizing: the cell that drives inputs, and the load of outputs in
        fF."""
        buffer = self.library.buffer
        return "" if buffer is None else f"set_driving_cell {buffer}\nset_load 10.0\n"

    def script(self, top: str, *, flat: bool, sized_mhz: float | None = None) -> str:
        """Return the Yosys commands for mapping with the library as ``cells.lib``. ``sized_mhz``:
        size the cells for this clock and buffer the nets, with ``cells.constr``."""
        clock = "" if sized_mhz is None else f" -D {1e6 / sized_mhz:.0f} -constr cells.constr"
        return (
            f"synth {'-flatten ' if flat else ''}-top {top}\n"
            "dfflibmap -liberty cells.lib\n"
            f"abc -liberty cells.lib{clock}\n"
        )

    def counted(self, kind: str) -> Mapping[str, float]:
        """Return the NAND2 equivalents of a cell of type ``kind``, and a register or latch if the
        cell is sequential."""
        cell = self.library.cells.get(kind)
        if cell is None:
            return {}
        area = {NAND2: cell.area / self.library.nand2_area}
        if not cell.sequential:
            return area
        return area | {LATCHES if cell.latch else REGISTERS: 1}


def _ecp5(luts: int, rams: int, dsps: int, route: str) -> Chip:
    holds = {SITES: luts, REGISTERS: luts, BLOCK_RAMS: rams, DSPS: dsps}
    return Chip(route=route, holds=holds)


ECP5 = Fpga(
    name="ecp5",
    title="Lattice ECP5",
    command="synth_ecp5",
    hierarchical="-noflatten",
    cells={
        "LUT4": (LUTS, 1, 1),
        "CCU2C": (CARRY, 1, 2),
        "TRELLIS_DPR16X4": (LUT_RAM, 1, 6),  # 4 hold the words, 2 write
        "TRELLIS_FF": (REGISTERS, 1, 0),
        r"MULT18X18D|MULT9X9D": (DSPS, 1, 0),
        r"DP16KD|PDPW16KD": (BLOCK_RAMS, 1, 0),
    },
    added=ecp5_chains,
    block_ram="18 kbit",
    devices={
        "85k": _ecp5(83_640, 208, 156, "--85k --package CABGA381 --speed 6"),
        "45k": _ecp5(43_848, 108, 72, "--45k --package CABGA381 --speed 6"),
        "25k": _ecp5(24_288, 56, 28, "--25k --package CABGA381 --speed 6"),
        "12k": _ecp5(24_288, 56, 28, "--12k --package CABGA381 --speed 6"),
    },
    router="nextpnr-ecp5",
    packer="ecppack",
    bitstream=".bit",
)
ICE40 = Fpga(
    name="ice40",
    title="Lattice iCE40",
    command="synth_ice40",
    hierarchical="-noflatten",
    cells={
        "SB_LUT4": (LUTS, 1, 1),
        "SB_CARRY": (CARRY, 1, 0),  # in the cell of the LUT that reads the carry
        r"SB_DFF\w*": (REGISTERS, 1, 0),
        "SB_MAC16": (DSPS, 1, 0),
        r"SB_RAM40_4K\w*": (BLOCK_RAMS, 1, 0),
    },
    added=ice40_alone,
    block_ram="4 kbit",
    devices={
        "up5k": Chip(
            synthesis="-device u -dsp",
            route="--up5k --package sg48",
            holds={SITES: 5_280, REGISTERS: 5_280, BLOCK_RAMS: 30, DSPS: 8},
        ),
        "hx8k": Chip(
            route="--hx8k --package ct256",
            holds={SITES: 7_680, REGISTERS: 7_680, BLOCK_RAMS: 32, DSPS: 0},
        ),
        "hx1k": Chip(
            route="--hx1k --package tq144",
            holds={SITES: 1_280, REGISTERS: 1_280, BLOCK_RAMS: 16, DSPS: 0},
        ),
    },
    router="nextpnr-ice40",
    packer="icepack",
    bitstream=".bin",
)


def _gowin_pins(*places: str) -> str:
    """Return the pins of a harness, because this router does not place the pins."""
    names = ("aclk", "aresetn", "shifted", "folded")
    pairs = zip(names, places, strict=True)
    return "".join(f'IO_LOC "{name}" {place};\n' for name, place in pairs)


GOWIN = Fpga(
    name="gowin",
    title="Gowin",
    command="synth_gowin",
    hierarchical="-noflatten -noiopads",
    cells={
        r"LUT[1-4]": (LUTS, 1, 1),
        "ALU": (CARRY, 1, 1),
        r"RAM16S\w*": (LUT_RAM, 1, 8),  # occupies a whole block of slices
        r"DFF\w*": (REGISTERS, 1, 0),
        r"MULT\w*": (DSPS, 1, 0),
        r"SP|SPX9|SDP|SDPB|SDPX9B?|DPB?|DPX9B?|pROM|pROMX9": (BLOCK_RAMS, 1, 0),
    },
    added=gowin_chains,
    block_ram="18 kbit",
    devices={
        "gw1n-9": Chip(
            synthesis="-family gw1n",
            route="--device GW1NR-LV9QN88PC6/I5 --vopt family=GW1N-9C",
            pins=_gowin_pins("52", "4", "3", "10"),
            holds={SITES: 8_640, REGISTERS: 6_480, BLOCK_RAMS: 26, DSPS: 20},
        ),
        "gw2a-18": Chip(
            synthesis="-family gw2a",
            route="--device GW2A-LV18PG256C8/I7 --vopt family=GW2A-18",
            pins=_gowin_pins("H11", "T10", "T3", "L16"),
            holds={SITES: 20_736, REGISTERS: 15_552, BLOCK_RAMS: 46, DSPS: 48},
        ),
    },
    router="nextpnr-himbaechel",
    packer="gowin_pack",
    bitstream=".fs",
)
XILINX = Fpga(
    name="xilinx",
    title="Xilinx",
    command="synth_xilinx",
    hierarchical="-noiopad -noclkbuf",
    flat="-flatten",
    cells={
        r"LUT[1-6]": (LUTS, 1, 1),
        "CARRY[48]": (CARRY, 1, 0),  # behind LUTs, takes no place of a LUT
        # UG474, table 2-3
        r"RAM(32|64)X1S": (LUT_RAM, 1, 1),
        r"RAM((32|64)X1D|128X1S|32X2S)": (LUT_RAM, 1, 2),
        r"RAM(32M|64M|128X1D|256X1S)": (LUT_RAM, 1, 4),
        r"RAM(32M16|64M8|512X1S|256X1D)": (LUT_RAM, 1, 8),
        r"SRL\w*": (LUT_RAM, 1, 1),
        r"FD[RSCP]E(_1)?": (REGISTERS, 1, 0),
        r"DSP48E[12]": (DSPS, 1, 0),
        r"RAMB18E[12]": (BLOCK_RAMS, 1, 0),
        r"RAMB36E[12]": (BLOCK_RAMS, 2, 0),
    },
    added=xilinx_carries,
    block_ram="18 kbit",
    devices={
        "7z020": Chip(
            synthesis="-family xc7",
            holds={SITES: 53_200, REGISTERS: 106_400, BLOCK_RAMS: 280, DSPS: 220},
        ),
        "k26": Chip(
            synthesis="-family xcup",
            holds={SITES: 117_120, REGISTERS: 234_240, BLOCK_RAMS: 288, DSPS: 1_248},
        ),
    },
)
FPGAS = {target.name: target for target in (ECP5, ICE40, GOWIN, XILINX)}
SG13G2 = "sg13g2"

Target = Fpga | Cells


def read_target(name: str) -> Target:
    """Return a family of FPGAs, our library, or the library of a Liberty file. BadInput for any
    other name."""
    if name in FPGAS:
        return FPGAS[name]
    if name == SG13G2:
        return sg13g2()
    path = Path(name)
    if path.suffix != ".lib":
        choices, near = ", ".join([*FPGAS, SG13G2]), suggestion(name, [*FPGAS, SG13G2])
        raise BadInput(
            f"--target must be one of {choices}, or a Liberty file .lib, not {name}{near}"
        )
    return Cells(name=path.name, library=Library.read(path), title=f"the cells of {path.name}")


def sg13g2() -> Cells:
    """Return IHP's 130 nm cells, typical corner."""
    return Cells(name=SG13G2, library=Library.read(PDK), title="IHP SG13G2, 130 nm, typical")
