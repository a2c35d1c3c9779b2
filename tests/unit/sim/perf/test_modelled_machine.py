"""The memory behind a modelled machine."""

from diastole_sim.perf.modelled_machine import Memory


def test_an_axi_memory():
    """Registers on the way: 5 cycles with a read, 3 with a response."""
    assert Memory.axi(20) == Memory(
        read_cycles=25, write_gap_cycles=0, response_cycles=23, outstanding=32
    )
    assert Memory.axi(1, 4).outstanding == 4
