"""Where work is done: what does not go together, and what a simulation is told."""

from pathlib import Path

import pytest

from diastole.errors import BadInput
from diastole.execution import Execution
from diastole_sim.machines.verilator.simulation import Simulation
from support.texts import exactly

WAVES = Path("a.vcd")


@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"backend": "golden", "trace": WAVES},
            "--trace needs --backend rtl: the golden model has no waves",
        ),
        (
            {"backend": "board", "port": "COM1", "trace": WAVES},
            "--trace needs --backend rtl: a board records no waves",
        ),
        ({"trace": Path("b/a.lxt")}, "--trace must end in .vcd or .fst, not b/a.lxt"),
        ({"trace_depth": 3}, "--trace-depth needs --trace, the file of the waves"),
        (
            {"backend": "board"},
            "--backend board needs --port, the serial port of the board, such as /dev/ttyUSB0",
        ),
        (
            {"port": "COM1"},
            "--port works only with --backend board, not with rtl: leave --port out",
        ),
        (
            {"backend": "golden", "baud": 9600},
            "--baud works only with --backend board, not with golden: leave --baud out",
        ),
    ],
)
def test_what_does_not_go_together(given, message):
    with pytest.raises(BadInput, match=exactly(message)):
        Execution(**given)


@pytest.mark.parametrize("given", [{"backend": "verilog"}, {"seed": -1}, {"seed": 2**32}])
def test_what_the_command_line_never_asks(given):
    (name,) = given
    with pytest.raises(ValueError, match=f"^{name} must be "):
        Execution(**given)


def test_a_simulation():
    assert Execution(seed=3).simulation() == Simulation()
    asked = Execution(stalls=3, latency=50, trace=WAVES, trace_depth=2)
    assert asked.simulation(memory_base=0, memory_bytes=4096) == Simulation(
        stalls=3, read_latency=50, write_latency=50, trace=WAVES, trace_depth=2,
        memory_base=0, memory_bytes=4096,
    )  # fmt: skip
    assert asked.simulation().memory_bytes == Simulation().memory_bytes
