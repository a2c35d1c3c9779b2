"""Constraints name every port once, with the direction that it has."""

import re

import pytest

from diastole.product.constraints import OUTSIDE, sdc, xdc
from support.product_facts import facts_of, little_config

TWO_PORTS = little_config(
    "two", array={"rows": 2, "cols": 2, "block": 4}, bus={"data_width": 64, "ports": 2}
)


def constrained(text: str, command: str) -> list[str]:
    (names,) = re.findall(rf"^{command} [^\n]*get_ports \{{(.*?)\}}\]", text, re.M | re.S)
    return names.split()


@pytest.mark.parametrize("config", [little_config(), TWO_PORTS], ids=["one port", "two ports"])
def test_every_port_but_the_clock_has_a_delay(config):
    facts = facts_of(config)
    text = sdc(facts)
    for command, direction in (("set_input_delay", "input"), ("set_output_delay", "output")):
        expected = [
            port["name"] + "[*]" * (port["width"] > 1)
            for port in facts.ports
            if port["direction"] == direction and port["name"] != "aclk"
        ]
        assert constrained(text, command) == expected
    assert "aresetn" in constrained(text, "set_input_delay")
    assert len(facts.ports) > 40


def test_delays_are_a_part_of_the_period():
    text = sdc(facts_of(little_config()))
    assert re.findall(r"^set .*$", text, re.MULTILINE) == [
        "set period 10.000",
        f"set outside [expr {{{OUTSIDE} * $period}}]",
    ]
    assert re.findall(r"^create_clock .*$", text, re.MULTILINE) == [
        "create_clock -name aclk -period $period [get_ports aclk]"
    ]
    assert text.count("-clock aclk $outside") == 2


def test_out_of_context():
    lines = [line for line in xdc(facts_of(little_config())).splitlines() if line[:1] != "#"]
    assert list(filter(None, lines)) == [
        "create_clock -name aclk -period 10.000 [get_ports aclk]",
    ]
