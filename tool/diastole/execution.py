"""Describe where a command runs: in simulation, on the golden model, or on a board."""

from dataclasses import dataclass
from pathlib import Path

from diastole.errors import BadInput
from diastole_sim.machines.verilator.simulation import WAVES, Simulation
from diastole_sim.spec.require import require_choice, require_int

BACKENDS = ("rtl", "golden", "board")
"""The Verilog in Verilator, the numpy model, and a machine behind a serial line."""
NO_WAVES = {"golden": "the golden model has no waves", "board": "a board records no waves"}
SUFFIXES = tuple(f".{name}" for name in WAVES)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A backend, the seed of all random bits, and the options of the backend.

    - ``stalls`` (``rtl``): seed of delays on every handshake.
    - ``latency`` (``rtl``): latency of the memory in cycles.
    - ``trace``, ``trace_depth`` (``rtl``): file of waves, and levels of modules in the waves.
    - ``product`` (``rtl``): folder of a product that exists already.
    - ``port``, ``baud`` (``board``): serial port and bits per second.

    None stands for the default of an option. BadInput, in the words of the command line, for
    options that contradict each other.
    """

    backend: str = "rtl"
    seed: int = 0
    stalls: int | None = None
    latency: int | None = None
    trace: Path | None = None
    trace_depth: int | None = None
    port: str | None = None
    baud: int | None = None
    product: Path | None = None

    def __post_init__(self) -> None:
        require_choice("backend", self.backend, BACKENDS)
        require_int("seed", self.seed, 0, 2**32 - 1)
        self._check_port()
        self._check_waves()

    def _check_port(self) -> None:
        if self.backend == "board":
            if self.port is None:
                raise BadInput(
                    "--backend board needs --port, the serial port of the board, such as "
                    "/dev/ttyUSB0"
                )
            return
        for name, value in (("port", self.port), ("baud", self.baud)):
            if value is not None:
                raise BadInput(
                    f"--{name} works only with --backend board, not with {self.backend}: leave "
                    f"--{name} out"
                )

    def _check_waves(self) -> None:
        if self.trace is None:
            if self.trace_depth is not None:
                raise BadInput("--trace-depth needs --trace, the file of the waves")
        elif self.backend in NO_WAVES:
            raise BadInput(f"--trace needs --backend rtl: {NO_WAVES[self.backend]}")
        elif self.trace.suffix.lower() not in SUFFIXES:
            raise BadInput(f"--trace must end in {' or '.join(SUFFIXES)}, not {self.trace}")

    def simulation(self, **memory: int) -> Simulation:
        """Return the surroundings of a product in Verilator. ``memory`` sets size and place of the
        memory, if not the usual values."""
        names = () if self.latency is None else ("read_latency", "write_latency")
        return Simulation(
            stalls=self.stalls,
            trace=self.trace,
            trace_depth=self.trace_depth or 0,
            **dict.fromkeys(names, self.latency or 0),
            **memory,
        )
