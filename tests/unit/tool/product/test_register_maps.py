"""What a product says of its registers and commands is what the contract has."""

from diastole.product.ipxact import ipxact
from diastole.product.register_maps import (
    commands,
    errors,
    programs,
    programs_path,
    register_maps,
    registers,
)
from diastole_sim.spec.reference import command_tables, error_table, register_table
from diastole_sim.spec.systemrdl import systemrdl
from support.product_facts import facts_of, little_config

FACTS = facts_of(little_config())
WITH_UNIT = facts_of(little_config("unit", vector={"enable": True}))


def test_maps_are_those_of_the_machine():
    for facts in (FACTS, WITH_UNIT):
        files = register_maps(facts)
        paths = {f"regs/{facts.name}.rdl", f"regs/{facts.name}.md", "regs/component.xml"}
        paths |= {programs_path(facts)} if facts.vector else set()
        assert set(files) == paths
        assert files["regs/component.xml"] == ("registers", ipxact(facts))
        rdl, text = (files[f"regs/{facts.name}.{end}"][1] for end in ("rdl", "md"))
        assert rdl == facts.heading("//") + systemrdl(facts.name, facts.machines)
        for section, table in (
            (registers, register_table),
            (commands, command_tables),
            (errors, error_table),
        ):
            lines = section(facts)
            assert lines[-3:] == table(facts.machines)[-3:]
            assert "\n".join(lines) in text
    assert "forward_chain" in text
    assert "forward_chain" not in register_maps(FACTS)["regs/little.md"][1]


def test_identification_is_that_of_the_configuration():
    _, text = register_maps(FACTS)["regs/little.md"]
    assert f"| 0x08 | 32 | CONFIG_HASH | constant | 0x{FACTS.config.identification:X} |" in text


def test_programs_are_those_of_the_machine():
    text = programs(WITH_UNIT)
    assert "# Programs of the vector unit of unit" in text
    panel = WITH_UNIT.config.plan.vector.panel_vectors
    assert f"| 3 | panel | {panel} | 4 | yes |" in text
    assert programs_path(WITH_UNIT) == "regs/unit_programs.md"
