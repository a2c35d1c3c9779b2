"""Wrap a machine in a top module of four pins. A device then needs no pin for every port of the
machine.

Inputs come from a chain of registers. Outputs go to registers that are folded into a single
register. Every path of the machine begins and ends in a register, like the paths between a machine
and its bus in a chip.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CLOCK, RESET = "aclk", "aresetn"
MACHINE = "machine"
"""Name of the machine's instance in the top. The module of the top is named after the machine."""
FOLD = 4
"""Number of registers whose parity a register of the next level takes."""


def levels(width: int) -> list[int]:
    """Return the numbers of registers of all levels that fold ``width`` bits into a single bit."""
    widths = [width]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FOLD))
    return widths


def harness_text(top: str, ports: Sequence[Mapping[str, Any]]) -> str:
    """Return the Verilog of module TOP_harness around module ``top`` with the ``ports`` of a
    manifest.

    ValueError if the module has no output, or lacks the clock or the reset of the names above.
    """
    of_top = {port["name"] for port in ports}
    driven = [port for port in ports if port["name"] not in (CLOCK, RESET)]
    inputs = [port for port in driven if port["direction"] == "input"]
    outputs = [port for port in driven if port["direction"] == "output"]
    if not of_top >= {CLOCK, RESET} or not outputs:
        raise ValueError(f"{top} has no {CLOCK}, {RESET} or outputs")
    into, out_of = (sum(port["width"] for port in some) for some in (inputs, outputs))
    lines = [
        f"module {top}_harness(input {CLOCK}, input {RESET}, input shifted, output folded);",
        "  reg reset_n;",
        f"  always @(posedge {CLOCK}) reset_n <= {RESET};",
        *_chain(into),
        *_folds(out_of),
        f"  {top} {MACHINE} (",
        *_connections(inputs, "chain"),
        *_connections(outputs, "taken"),
        f"    .{CLOCK}({CLOCK}),",
        f"    .{RESET}(reset_n)",
        "  );",
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def _chain(width: int) -> Iterator[str]:
    if width:
        yield f"  reg [{width}:0] chain;"
        yield f"  always @(posedge {CLOCK}) chain <= {{chain[{width - 1}:0], shifted}};"


def _folds(width: int) -> Iterator[str]:
    yield f"  wire [{width - 1}:0] taken;"
    before = "taken"
    for number, count in enumerate(levels(width)):
        name = f"fold{number}"
        yield f"  reg [{count - 1}:0] {name};"
        yield f"  always @(posedge {CLOCK}) begin"
        if number == 0:
            yield f"    {name} <= {before};"
        else:
            last = levels(width)[number - 1]
            for bit in range(count):
                high, low = min((bit + 1) * FOLD, last) - 1, bit * FOLD
                yield f"    {name}[{bit}] <= ^{before}[{high}:{low}];"
        yield "  end"
        before = name
    yield f"  assign folded = {before};"


def _connections(ports: Sequence[Mapping[str, Any]], vector: str) -> Iterator[str]:
    at = 0
    for port in ports:
        width = port["width"]
        yield f"    .{port['name']}({vector}[{at + width - 1}:{at}]),"
        at += width
