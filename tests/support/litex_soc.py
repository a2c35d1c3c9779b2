"""A SoC of LiteX without CPU, with a machine on its bus: run by the Python that has LiteX.

    python litex_soc.py BOARD STANDARD WIDTH BASE SIZE OUT

BOARD: the folder that `diastole board litex` wrote. STANDARD: wishbone, axi-lite or axi; WIDTH: of
the bus, in bits. Memory of SIZE bytes begins at BASE. OUT gets ``soc.v``, the list ``sources`` of
all Verilog, and ``soc.json``: where things are. The SoC's pins are a clock, and a Wishbone of 32
bits that is a master of its bus, as LiteX's own bridges are.
"""

import json
import re
import sys
from pathlib import Path

from litex.build.generic_platform import Pins
from litex.build.io import CRG
from litex.build.xilinx import XilinxPlatform
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import wishbone

REGISTERS = 0x9000_0000


class Soc(SoCMini):
    """``machine``: the class of the wrapper."""

    def __init__(self, machine, standard, width, base, size):
        platform = XilinxPlatform("xc7", [("clk", 0, Pins("A1"))])
        super().__init__(
            platform,
            clk_freq=100e6,
            bus_standard=standard,
            bus_data_width=width,
            ident="SoC for a test",
        )
        self.crg = CRG(platform.request("clk"))
        self.add_ram("memory", origin=base, size=size)
        machine.add_to(self, origin=REGISTERS)
        host = wishbone.Interface(data_width=32, address_width=32)
        platform.add_extension(host.get_ios("host"))
        self.comb += host.connect_to_pads(platform.request("host"), mode="slave")
        self.bus.add_master("host", master=host)


def main(board, standard, width, base, size, out):
    sys.path.insert(0, board)
    (wrapper,) = Path(board).glob("*_litex.py")
    name = re.search(r"^class (\w+)\(LiteXModule\)", wrapper.read_text(), re.MULTILINE)[1]
    machine = getattr(__import__(wrapper.stem), name)
    soc = Soc(machine, standard, int(width), int(base, 0), int(size, 0))
    soc.finalize()
    folder = Path(out)
    soc.platform.get_verilog(soc, name="soc").write(str(folder / "soc.v"))
    sources = [str(folder / "soc.v"), *(source[0] for source in soc.platform.sources)]
    (folder / "sources").write_text("\n".join(sources) + "\n")
    places = {
        "registers": soc.bus.regions["diastole"].origin,
        "csrs": {name: region.origin for name, region in soc.csr.regions.items()},
        "hash": soc.constants["DIASTOLE_CONFIG_HASH"],
    }
    (folder / "soc.json").write_text(json.dumps(places))


if __name__ == "__main__":
    main(*sys.argv[1:])
