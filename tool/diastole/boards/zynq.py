"""Boards with a Zynq: a block design for Vivado and an example for Linux, as text."""

from dataclasses import dataclass

from diastole.boards.describe import BOARDS, board_text
from diastole_sim.rtl.product import Product
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS, BY_NAME, MAGIC

MEMORY_BYTES = 16 << 20
"""That Linux sets aside, in the example."""
EXAMPLE_REGISTERS = (
    "magic", "config_hash", "control", "status", "command_count", "command_address", "read_base",
    "read_limit", "write_base", "write_limit",
)  # fmt: skip
EXAMPLE_BITS = (
    ("control", "start"),
    ("control", "reset"),
    ("control", "irq_enable"),
    ("status", "busy"),
    ("status", "error"),
)


@dataclass(frozen=True, kw_only=True)
class Processor:
    """Of a Zynq, as its block calls it. ``registers``: where the machine's are. ``master``,
    ``slave``: its ports to registers, and to memory of ``memory_bits``; ``slave_clocks``: of both.
    ``interrupt``: its number behind 32 in the device tree. ``properties``: of the block, with
    ``{mhz}``."""

    ip: str
    board_part: str
    preset: str
    clock: str
    reset: str
    irq: str
    master: str
    slave: str
    slave_clocks: tuple[str, ...]
    registers: int
    interrupt: int
    gic: str
    address_cells: int
    properties: tuple[tuple[str, str], ...]


ZYNQ_7000 = Processor(
    ip="processing_system7",
    board_part="*:pynq-z2:*",
    preset='make_external "FIXED_IO, DDR" apply_board_preset "1"',
    clock="FCLK_CLK0",
    reset="FCLK_RESET0_N",
    irq="IRQ_F2P",
    master="M_AXI_GP0",
    slave="S_AXI_HP0",
    slave_clocks=("M_AXI_GP0_ACLK", "S_AXI_HP0_ACLK"),
    registers=0x43C0_0000,
    interrupt=29,
    gic="intc",
    address_cells=1,
    properties=(
        ("PCW_USE_M_AXI_GP0", "1"),
        ("PCW_USE_S_AXI_HP0", "1"),
        ("PCW_S_AXI_HP0_DATA_WIDTH", "64"),
        ("PCW_EN_CLK0_PORT", "1"),
        ("PCW_EN_RST0_PORT", "1"),
        ("PCW_FPGA0_PERIPHERAL_FREQMHZ", "{mhz}"),
        ("PCW_USE_FABRIC_INTERRUPT", "1"),
        ("PCW_IRQ_F2P_INTR", "1"),
    ),
)
ZYNQ_ULTRASCALE = Processor(
    ip="zynq_ultra_ps_e",
    board_part="*:kv260_som:*",
    preset='apply_board_preset "1"',
    clock="pl_clk0",
    reset="pl_resetn0",
    irq="pl_ps_irq0",
    master="M_AXI_HPM0_FPD",
    slave="S_AXI_HP0_FPD",
    slave_clocks=("maxihpm0_fpd_aclk", "saxihp0_fpd_aclk"),
    registers=0xA000_0000,
    interrupt=89,
    gic="gic",
    address_cells=2,
    properties=(
        ("PSU__USE__M_AXI_GP0", "1"),
        ("PSU__USE__M_AXI_GP1", "0"),
        ("PSU__USE__M_AXI_GP2", "0"),
        ("PSU__USE__S_AXI_GP2", "1"),
        ("PSU__SAXIGP2__DATA_WIDTH", "128"),
        ("PSU__FPGA_PL0_ENABLE", "1"),
        ("PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ", "{mhz}"),
        ("PSU__USE__IRQ0", "1"),
    ),
)
PROCESSORS = {"pynq-z2": ZYNQ_7000, "kv260": ZYNQ_ULTRASCALE}
"""By the board's name."""


def zynq_files(board: str, product: Product, *, clock_mhz: int) -> dict[str, str]:
    """Relative path to text, of all but the product's own files, which are in ``product``."""
    processor, name = PROCESSORS[board], product.name
    common = {"name": name, "board": board}
    range_bytes = 1 << ADDRESS_SPACE_BITS
    address = f"0x{processor.registers:08X}"
    cells = [*[0] * (processor.address_cells - 1)]
    reg = " ".join(f"{each:#x}" for each in (*cells, processor.registers, *cells, range_bytes))
    tcl = board_text(
        "zynq.tcl",
        **common,
        part=BOARDS[board].part,
        top=product.top,
        ports=product.memory_ports,
        sources="\n".join(f"  product/{_relative(product, path)}" for path in product.sources),
        registers=address,
        registers_range=f"{range_bytes // 1024}K",
        memory_port=processor.slave,
        memory_nets="\n".join(_memory_nets(product)),
        irq_number=processor.interrupt,
        board_part=processor.board_part,
        ps_ip=processor.ip,
        ps_preset=processor.preset,
        ps_properties="\n".join(
            f"  CONFIG.{key} {value.format(mhz=clock_mhz)}" for key, value in processor.properties
        ),
        ps_clock=processor.clock,
        ps_bus_clocks=" \\\n".join(f"  [get_bd_pins ps/{pin}]" for pin in processor.slave_clocks),
        ps_reset=processor.reset,
        ps_master=processor.master,
        ps_slave=processor.slave,
        ps_irq=processor.irq,
    )
    return {
        "build.tcl": tcl,
        f"{name}.xdc": board_text("zynq.xdc", **common, clock_mhz=clock_mhz),
        f"{name}.dtsi": board_text(
            "zynq.dtsi",
            unit=f"{processor.registers:x}",
            reg=reg,
            gic=processor.gic,
            spi=processor.interrupt,
            memory_bytes=f"{MEMORY_BYTES:#x}",
        ),
        "host.c": board_text("zynq_host.c", **common, **_host(product)),
        "README.md": board_text(
            "zynq.md",
            **common,
            part=BOARDS[board].part,
            registers=address,
            memory_port=processor.slave,
            clock_mhz=clock_mhz,
        ),
    }


def _relative(product: Product, path: object) -> str:
    return str(path).removeprefix(f"{product.directory}/")


def _memory_nets(product: Product) -> list[str]:
    names = ["m_axi", *(f"m_axi{port}" for port in range(1, product.memory_ports))]
    return [
        f"connect_bd_intf_net [get_bd_intf_pins machine/{name}] "
        f"[get_bd_intf_pins memory/S{number:02}_AXI]"
        for number, name in enumerate(names)
    ]


def _host(product: Product) -> dict[str, str]:
    lines = [f"  {name} = {BY_NAME[name].offset:#04x}," for name in EXAMPLE_REGISTERS]
    lines += [
        f"  {name.upper()}_{bit.upper()} = 1 << {BY_NAME[name].bit(bit)},"
        for name, bit in EXAMPLE_BITS
    ]
    return {
        "registers": "\n".join(lines),
        "register_bytes": str(1 << ADDRESS_SPACE_BITS),
        "config_hash": product.manifest["config_sha256"][:8],
        "magic": f"{MAGIC:08x}",
        "memory_bytes": str(MEMORY_BYTES),
    }
