"""What a simulation is asked, and what is refused before anything is compiled."""

import pytest

from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.perf.modelled_machine import Memory


@pytest.mark.parametrize(
    "given, message",
    [
        ({"memory_bytes": 0}, "memory_bytes must be an integer in 1..18446744073709551615, not 0"),
        ({"memory_base": -1}, "memory_base must be an integer in 0..18446744073709551615, not -1"),
        ({"read_latency": 0}, "read_latency must be an integer in 1..10000, not 0"),
        ({"write_latency": 10001}, "write_latency must be an integer in 1..10000, not 10001"),
        ({"outstanding": 65}, "outstanding must be an integer in 1..64, not 65"),
        ({"write_pause": -1}, "write_pause must be an integer in 0..4294967295, not -1"),
        ({"stalls": -1}, "stalls must be an integer in 0..18446744073709551615, not -1"),
        ({"watchdog_cycles": 0}, "watchdog_cycles must be an integer in 1..1844674407370955"),
        ({"trace_depth": -1}, "trace_depth must be an integer in 0..99, not -1"),
        ({"trace_depth": 100}, "trace_depth must be an integer in 0..99, not 100"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        Simulation(**given)


@pytest.mark.parametrize(
    "trace, waves",
    [(None, None), ("a.vcd", "vcd"), ("a.fst", "fst"), ("a.FST", "fst"), ("a.fst.vcd", "vcd")],
)
def test_waves_by_the_name_of_their_file(trace, waves):
    assert Simulation(trace=trace).waves == waves


def test_what_a_host_is_told_of_it():
    plain = Simulation()
    assert (plain.memory_model, plain.patience) == (Memory.axi(), 1)
    slow = Simulation(read_latency=90, write_latency=30, outstanding=4, stalls=0)
    assert slow.memory_model == Memory.axi(90, 4, write_latency=30)
    assert slow.patience == 20
