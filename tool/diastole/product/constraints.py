"""Write the timing constraints of a product: SDC for synthesis, XDC for Vivado out of context."""

from typing import Any

from diastole.product.facts import ProductFacts
from diastole_hw.plan_limits import RESET_CYCLES

CLOCK, RESET = "aclk", "aresetn"
PERIOD_NS = 10.0
"""Clock period in ns, until the user sets another period."""
OUTSIDE = 0.3
"""Fraction of the clock period that logic outside takes before an input and after an output."""


def sdc(facts: ProductFacts) -> str:
    """Return the SDC file: the clock, input and output delays, and the requirements of the
    reset."""
    ports = [port for port in facts.ports if port["name"] != CLOCK]
    return (
        facts.heading("#")
        + f"""
# The design has one clock. Set the target period of the clock, in ns.
set period {PERIOD_NS:.3f}
create_clock -name {CLOCK} -period $period [get_ports {CLOCK}]

# Delay of the logic outside the ports, as a part of the period: the delay before an input and after
# an output. Most outputs are registers. Ready outputs to memory pass one gate.
set outside [expr {{{OUTSIDE} * $period}}]

# {RESET} is an ordinary input: the clock samples the reset, which must be low for at least
# {RESET_CYCLES} rising edges. Synchronise a reset from outside with two registers of this clock.
# The reset reaches every register that needs a value at power-up: let the tool build a tree for the
# reset, or replicate the register that drives the reset. The reset is no false path, because all
# registers must leave the reset in the same cycle.
set_input_delay -clock {CLOCK} $outside [get_ports {{
{_patterns(ports, "input")}}}]
set_output_delay -clock {CLOCK} $outside [get_ports {{
{_patterns(ports, "output")}}}]
"""
    )


def xdc(facts: ProductFacts) -> str:
    """Return the XDC file of a synthesis out of context. The file defines the clock alone, because
    the connections of the ports are unknown."""
    return (
        facts.heading("#")
        + f"""
# For synthesis out of context (synth_design -mode out_of_context). Do not use this file in a whole
# design, in which another file defines the clock, and the ports are not pins.
create_clock -name {CLOCK} -period {PERIOD_NS:.3f} [get_ports {CLOCK}]
# To estimate the clock skew, set the location of the clock buffer, for example:
# set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports {CLOCK}]
"""
    )


def _patterns(ports: list[dict[str, Any]], direction: str) -> str:
    """Return a line for every port of ``direction``: the name of the port, or a pattern for the
    names of the port's bits."""
    return "".join(
        f"  {port['name']}{'[*]' if port['width'] > 1 else ''}\n"
        for port in ports
        if port["direction"] == direction
    )
