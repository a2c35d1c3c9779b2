"""Faults put into the emitted Verilog, to see whether a short check of a product notices them.

All faults are planted in one copy of a product, so that it is compiled once: each replaced
expression becomes ``number == its own ? faulty : as emitted``. The number is the top byte of the
seed register, which the golden model gets too; with 0 the machine is as it was emitted.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diastole.config import AccumulatorConfig, ArrayConfig, BusConfig, Config, FormatConfig
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.program.command import ErrorCode
from diastole_sim.rtl import CommandError, Device, HardwareError
from support import products as p
from support.scenario import Scenario

# One cell of four multipliers; mantissas so long that sums are rounded when they become floats.
CONFIG = Config(
    name="faulty",
    array=ArrayConfig(rows=1, cols=1, block=2),
    format=FormatConfig(x="bfp8", w="bfp7", dy="bfp8"),
    accumulator=AccumulatorConfig(fraction=12, headroom=8),
    bus=BusConfig(data_width=32),
)
ELEMENT_BITS = 9  # the widest
SEED = 5
NUMBER_SHIFT = 24


@dataclass(frozen=True)
class Fault:
    """``faulty`` instead of what group 1 of ``pattern`` finds in a module; {} is what it found.

    ``module`` without the product's name. ``every``: at all places, not at the only one.
    """

    name: str
    module: str
    pattern: str
    faulty: str
    every: bool = False


FAULTS = [
    # The cell.
    Fault("sign ignored", "block_sum", r"negative_0 = vector\[\d+\] \^ (held\[\d+\]);", "1'h0"),
    Fault("product's top bit lost", "block_sum", r"magnitude_1 = (.+);", "({}) & 16'h7fff"),
    Fault("shift drops its rounding bit", "align_add", r"\{ psum, (1'h1) \}", "1'h0"),
    Fault(
        "held block's deficit ignored",
        "cell",
        r"= vector\[\d+:\d+\] \+ (_\d+_);",
        "{} & 1'h0",
    ),
    Fault("shift not clamped", "cell", r"= (deficit\[\d+\]) \| _\d+_;", "1'h0", every=True),
    Fault("inexact never seen", "cell", r"= before_\[\d+\] \| (stage_\d\[\d+\]);", "1'h0"),
    Fault(
        "second row never swapped", "hold", r"if \(swap\) begin\s+_\d+_ = (shadow_1);", "active_1"
    ),
    # Around the array.
    Fault(
        "one lane's sums start anew in every chunk",
        "accumulators",
        r"= (adding_0\[\d+\]) \? \d+'[hd]0+ : _\d+_\[\d+:0\];",
        "1'h1",
    ),
    Fault(
        "input never turned",
        f"turn_width{ELEMENT_BITS}",
        r"= (~ rightwards);",
        "rightwards",
    ),
    Fault("dX never turned", "turn_width32", r"= (~ rightwards);", "rightwards"),
    Fault(
        "last tile dropped", "tile_walk", r"<= \$signed\((\{ 1'h0, t_step \})\)", "{{t_step, 1'h0}}"
    ),
    Fault("fused pass beyond its limits", "setup", r"fits = (.+);", "1'h1"),
    # Results.
    Fault("result not rounded", "to_float", r"\bup = (_\d+_);", "1'h0"),
    Fault("overflow is a number", "to_float", r"\{ fine\[0\], (31'h7f800000) \}", "31'h7f7fffff"),
    Fault(
        "small results not flushed",
        "to_float",
        r"(\$signed\(exponent\) <= \$signed\(1'h0\))",
        "1'h0",
        every=True,
    ),
    # The converter.
    Fault("no saturation", "lane_quantiser", r"= full \| (_\d+_);", "1'h0", every=True),
    Fault("ties away from zero", "lane_quantiser", r"= _\d+_ \| (fixed\[\d+\]);", "1'h1", True),
    Fault("random bit stuck", "lane_quantiser", r"\{ (random_\d+), 1'h1 \}", "{} | 8'h08"),
    Fault("NaN not flagged", "lane_quantiser", r"_ = (nan_\d+);", "1'h0"),
    Fault("row maximum of the last group", "row_maxima", r"_ = (joined);", "8'h00"),
    Fault(
        "column maximum of the last row",
        "column_maxima",
        r"= (first_row) \? exponents\[7:0\] :",
        "1'h1",
    ),
    # Bad input.
    Fault("windows ignored", "burst_splitter", r"inside_ = (.+);", "1'h1"),
    Fault("errors of writes ignored", "axi_writer", r"= answered & (axi__bresp\[1\]);", "1'h0"),
    Fault("errors of reads ignored", "axi_reader", r"= moved & (axi__rresp\[1\]);", "1'h0"),
    Fault("any version accepted", "decoder", r"\bbad_version = (_\d+_);", "1'h0", every=True),
]
NUMBERS = {fault.name: number for number, fault in enumerate(FAULTS, 1)}


def plant(product: Path, directory: Path) -> Path:
    """A copy of ``product``, made from ``CONFIG``, with all of ``FAULTS`` in it."""
    shutil.copytree(product, directory)
    source = directory / "rtl" / f"{CONFIG.name}.v"
    text = source.read_text()
    for fault in FAULTS:
        text = _change(text, f"{CONFIG.name}_{fault.module}", lambda m, f=fault: _plant(m, f))
    source.write_text(_change(text, CONFIG.name, _add_number))
    return directory


def _change(text: str, module: str, change) -> str:
    """``text`` with one module changed."""
    found = re.search(rf"^module {module}\s*\(.*?^endmodule$", text, re.M | re.S)
    assert found, f"there is no module {module}"
    return text[: found.start()] + change(found[0]) + text[found.end() :]


def _plant(module: str, fault: Fault) -> str:
    places = [match.span(1) for match in re.finditer(fault.pattern, module)]
    assert places and (fault.every or len(places) == 1), f"{fault.name}: at {len(places)} places"
    for start, end in reversed(places):
        good = module[start:end]
        chosen = f"{CONFIG.name}.fault_number == 8'd{NUMBERS[fault.name]}"
        faulty = fault.faulty.format(good)
        module = f"{module[:start]}({chosen} ? {faulty} : {good}){module[end:]}"
    return module


def _add_number(top: str) -> str:
    number = f"  wire [7:0] fault_number = registers_seed[{NUMBER_SHIFT + 7}:{NUMBER_SHIFT}];\n"
    return top.removesuffix("endmodule") + number + "endmodule"


def open_mutant(directory: Path, number: int) -> Device:
    return Device(
        directory,
        seed=number << NUMBER_SHIFT | SEED,
        memory_bytes=1 << 24,
        watchdog_cycles=20_000,
    )


def check(device: Device) -> None:
    """A short test of the whole machine; AssertionError or HardwareError if it is not right."""
    golden = GoldenDevice(CONFIG.numerics, seed=device.seed)
    rng = np.random.default_rng(0)
    for kind in ("plain", "ties", "wide", "long", "special", "huge", "tiny"):
        p.check_against_golden(device, golden, p.tensors(rng, (31, 37, 23), kind))
    p.check_against_golden(device, golden, p.tensors(rng, (130, 20, 5), "plain"))
    scenario = Scenario(device, golden, rng)
    result = scenario.ranges("forward")[0]
    expect_error(scenario, ErrorCode.BAD_VERSION, scenario.changed("forward", version=2))
    expect_error(scenario, ErrorCode.WINDOW, writes=[(result[0], result[1] - 4)])
    scenario.machine.fail_writes(result)
    expect_error(scenario, ErrorCode.WRITE_RESPONSE)
    scenario.machine.fail_writes()
    scenario.machine.fail_reads(scenario.operands["X"].images[0].range)
    expect_error(scenario, ErrorCode.READ_RESPONSE)


def expect_error(scenario: Scenario, code: ErrorCode, command=None, **options) -> None:
    try:
        scenario.run([command or scenario.commands["forward"]], **options)
    except CommandError as error:
        assert error.code == code, error.message
    else:
        raise AssertionError(f"no error instead of {code.name}")


def survives(directory: Path, number: int) -> bool:
    """Whether the check does not notice this fault; 0 is none."""
    with open_mutant(directory, number) as device:
        try:
            check(device)
        except (AssertionError, HardwareError):
            return False
    return True
