"""Write the files of the ULX3S: a top with a clock, pins, and the commands of an open flow."""

from diastole.boards.describe import BOARDS, SerialSettings, board_text
from diastole.errors import BadInput
from diastole_hw.emit.verilog import emit
from diastole_hw.serial.serial_board import SerialBoard, odd_ports
from diastole_sim.host.product import Product

PIN_MHZ = 25
SLOWEST_PHASE_MHZ, MIN_VCO_MHZ, MAX_VCO_MHZ = 10, 400, 800
"""Limits of the PLL: least frequency of the phase detector, and range of the oscillator.

Source: Lattice FPGA-DS-02012.
"""
MAX_DIVISOR = 128


def pll_divisors(clock_mhz: int) -> tuple[int, int, int]:
    """Return CLKI_DIV, CLKFB_DIV and CLKOP_DIV for a clock from the pin's clock. BadInput if no
    divisors exist.

    The clock is the pin's clock times CLKFB_DIV / CLKI_DIV. The oscillator runs at the clock times
    CLKOP_DIV.
    """
    for clki in range(1, PIN_MHZ // SLOWEST_PHASE_MHZ + 1):
        clkfb, rest = divmod(clock_mhz * clki, PIN_MHZ)
        if rest or not 1 <= clkfb <= MAX_DIVISOR:
            continue
        middle = (MIN_VCO_MHZ + MAX_VCO_MHZ) // 2
        clkop = min(max(middle // clock_mhz, 1), MAX_DIVISOR)
        if MIN_VCO_MHZ <= clkop * clock_mhz <= MAX_VCO_MHZ:
            return clki, clkfb, clkop
    raise BadInput(
        f"--clock of ulx3s must be a frequency that the PLL makes from {PIN_MHZ} MHz, such "
        f"as 25, 50 or 75, not {clock_mhz}"
    )


def ulx3s_files(product: Product, settings: SerialSettings) -> dict[str, str]:
    """Return the files by relative path, without the files of the product, which are in
    ``product``.

    BadInput for settings that do not fit, and for a machine with two ports to memory.
    """
    clock_mhz = settings.clock_hz // 1_000_000
    clki, clkfb, clkop = pll_divisors(clock_mhz)
    if product.memory_ports != 1:
        raise BadInput(
            f"{product.name} has {product.memory_ports} ports to memory, but ulx3s has a "
            f"single port: give --set bus.ports=1, or {BOARDS['ulx3s'].advice}"
        )
    if odd := odd_ports(product.ports, product.data_width):
        raise BadInput(
            f"{product.name} cannot go on a board, because these ports do not belong to a "
            f"machine: {', '.join(odd)}"
        )
    board = SerialBoard(
        top=product.top,
        product_ports=product.ports,
        data_width=product.data_width,
        divisor=settings.divisor,
        memory_bytes=settings.memory_bytes,
        clock_hz=settings.clock_hz,
    )
    name = f"{product.name}_board"
    emitted = emit(board, name=name, ports=board.ports)
    files = {f"rtl/{name}.v": emitted.verilog}
    files |= {f"rtl/{memory.module}.v": memory.verilog for memory in emitted.memories}
    files["rtl/ulx3s.v"] = board_text(
        "ulx3s.v",
        board=name,
        clock_mhz=clock_mhz,
        pin_mhz=PIN_MHZ,
        clki_div=clki,
        clkfb_div=clkfb,
        clkop_div=clkop,
        phase=clkop // 2 - 1,
    )
    files["ulx3s.lpf"] = board_text("ulx3s.lpf", pin_mhz=PIN_MHZ)
    sources = [*(f"product/{path.relative_to(product.directory)}" for path in product.sources)]
    sources += [path for path in files if path.endswith(".v")]
    files["Makefile"] = board_text("ulx3s.mk", sources=" \\\n  ".join(sources))
    files["README.md"] = board_text(
        "ulx3s.md",
        name=product.name,
        part=BOARDS["ulx3s"].part,
        clock_mhz=clock_mhz,
        baud=settings.baud,
        memory_kib=settings.memory_bytes // 1024,
    )
    return files
