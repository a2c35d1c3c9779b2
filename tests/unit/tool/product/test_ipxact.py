"""The registers as IP-XACT, read as any tool reads XML, are those of the table."""

from xml.etree import ElementTree

import pytest

import diastole
from diastole.product.ipxact import ipxact
from diastole_sim.spec.reference import locked
from diastole_sim.spec.registers import MAGIC
from support.product_facts import facts_of, little_config

NAMESPACE = {"": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
LITTLE = facts_of(little_config())
WITH_UNIT = facts_of(little_config("unit", vector={"enable": True}))
ACCESS = {
    "r": "read-only",
    "rw": "read-write",
    "w": "write-only",
    "w1c": "read-write",
}


def component(facts):
    return ElementTree.fromstring(ipxact(facts).encode())


def text(element, path):
    return element.findtext(path, namespaces=NAMESPACE)


def number(element, path):
    """Of the notation 'h1F, or decimal."""
    found = text(element, path)
    return int(found.removeprefix("'h"), 16) if found.startswith("'h") else int(found)


def test_identification():
    read = component(LITTLE)
    names = ("vendor", "library", "name", "version")
    assert [text(read, name) for name in names] == [
        *("diastole", "machines", "little", diastole.__version__)
    ]


def test_says_where_it_comes_from():
    lines = ipxact(LITTLE).splitlines()
    assert lines[0] == '<?xml version="1.0" encoding="UTF-8"?>'
    assert "\n".join([*lines[1:3], ""]) == LITTLE.heading("<!--", " -->")


@pytest.mark.parametrize("facts", [LITTLE, WITH_UNIT], ids=["little", "unit"])
def test_registers_are_words_of_the_bus(facts):
    (block,) = component(facts).iterfind(".//addressBlock", NAMESPACE)
    assert number(block, "width") == 32
    found = {number(each, "addressOffset"): each for each in block.iterfind("register", NAMESPACE)}
    assert all(number(each, "size") == 32 for each in found.values())
    for register in facts.machines.registers:
        for word in range(register.words):
            each = found.pop(register.offset + 4 * word)
            assert text(each, "name") == register.name + "_high" * word
            fields = {text(field, "name"): field for field in each.iterfind("field", NAMESPACE)}
            for bit in register.layout:
                field = fields.pop(bit.name)
                assert (number(field, "bitOffset"), number(field, "bitWidth")) == (bit.low, 1)
                assert text(field, "access") == ACCESS[bit.access]
                assert (text(field, "modifiedWriteValue") == "oneToClear") == (bit.access == "w1c")
            for field in fields.values():  # of a number
                assert text(field, "access") == ("read-write" if locked(register) else "read-only")
                assert number(field, "bitOffset") == 0
                if not register.layout:
                    assert number(field, "bitWidth") == min(32, register.bits - 32 * word)
    assert found == {}
    assert number(block, "range") >= facts.machines.registers[-1].offset + 4


def test_values_after_a_reset():
    (block,) = component(LITTLE).iterfind(".//addressBlock", NAMESPACE)
    resets = {
        text(each, "name"): number(each, "field/resets/reset/value")
        for each in block.iterfind("register", NAMESPACE)
        if each.find("field/resets/reset/value", NAMESPACE) is not None
    }
    assert resets["magic"] == MAGIC
    assert resets["config_hash"] == LITTLE.config.identification
    assert {resets[name] for name in resets if name not in ("magic", "version", "config_hash")} == {
        0
    }
