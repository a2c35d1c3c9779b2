"""What a vector unit is told, and tells."""

from amaranth.lib import wiring

from diastole_hw.vector.vector_control import VectorControl, requested_of_vector
from diastole_sim.spec.limits import MAX_ENTRIES, VectorTable


def test_every_table_and_every_entry_can_be_named():
    asked = requested_of_vector()
    assert (1 << asked["which"].width) - 1 >= max(VectorTable)
    assert (1 << asked["count"].width) - 1 >= MAX_ENTRIES


def test_directions():
    flows = {name: member.flow for name, member in VectorControl().members.items()}
    assert {name for name, flow in flows.items() if flow == wiring.Out} == {"command", "step"}
