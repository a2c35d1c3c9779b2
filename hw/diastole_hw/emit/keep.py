"""Registers that tools must not merge with others of the same value."""

import re

_KEPT = re.compile(
    r'^  \(\* keep = "true" \*\)\n  (?:output )?reg (?:\[\d+:\d+\] )?(\w+)', re.MULTILINE
)


def keep_registers(module: str) -> str:
    """The text of one module, in which processes of signals that are kept say so too. Vivado and
    its like look at the signal, Yosys gives a register the attributes of its process."""
    for name in _KEPT.findall(module):
        process = (
            rf"^(  always @\(posedge \w+\)\n(?:    .*\n)*?    +{name}(?:\[\d+(?::\d+)?\])? <= )"
        )
        module = re.sub(process, r"  (* keep *)\n\1", module, flags=re.MULTILINE)
    return module
