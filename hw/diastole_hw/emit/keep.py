"""Mark registers that tools must not merge with registers of equal value."""

import re

_KEPT = re.compile(
    r'^  \(\* keep = "true" \*\)\n  (?:output )?reg (?:\[\d+:\d+\] )?(\w+)', re.MULTILINE
)


def keep_registers(module: str) -> str:
    """Return the text of a module in which the processes of kept signals have the attribute
    ``keep`` too. Vivado and similar tools read the attribute of the signal. Yosys gives a register
    the attributes of its process."""
    for name in _KEPT.findall(module):
        process = (
            rf"^(  always @\(posedge \w+\)\n(?:    .*\n)*?    +{name}(?:\[\d+(?::\d+)?\])? <= )"
        )
        module = re.sub(process, r"  (* keep *)\n\1", module, flags=re.MULTILINE)
    return module
