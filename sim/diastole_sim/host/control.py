"""Run commands on a machine: settings, start, interrupt, and errors in words."""

from collections.abc import Sequence

from diastole_sim.host.errors import CommandError, HardwareError, HardwareHang, ProtocolError
from diastole_sim.host.running import AddressRange, RunningMachine
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import first_refused
from diastole_sim.spec.command_errors import ERROR_MEANINGS, PRECEDENCE, ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.registers import BY_NAME, registers_of

WORD_BITS = 32
RESET_CYCLES = 100_000  # a reset that is still busy after as many cycles counts as hung


def control_bit(name: str) -> int:
    """Return the mask of a bit of the register ``control``."""
    return 1 << BY_NAME["control"].bit(name)


class Control:
    """Access the registers of a machine by name, and run commands.

    ``limits``: limits of the machine. If given, every refusal of the machine is compared with the
    limits.
    """

    def __init__(self, machine: RunningMachine, limits: Limits | None = None):
        self.machine, self.limits = machine, limits
        self._settings: dict[str, int] = {}

    def read(self, name: str) -> int:
        """Read a register by name; a wide register with both halves."""
        register = BY_NAME[name]
        words = [self.machine.read(register.offset + 4 * n) for n in range(register.words)]
        return sum(word << WORD_BITS * n for n, word in enumerate(words))

    def write(self, name: str, value: int) -> None:
        """Write a register by name; a wide register with both halves."""
        register = BY_NAME[name]
        for n in range(register.words):
            self.machine.write(register.offset + 4 * n, value >> WORD_BITS * n & 0xFFFF_FFFF)

    def set(self, name: str, value: int) -> None:
        """Write a setting unless the setting has this value already."""
        if self._settings.get(name) != value:
            self.write(name, value)
            self._settings[name] = value

    def status(self, name: str) -> bool:
        """Return a bit of the register ``status``."""
        return bool(self.read("status") >> BY_NAME["status"].bit(name) & 1)

    def execute(
        self,
        commands: Sequence[Command | bytes],
        *,
        at: int,
        reads: AddressRange,
        writes: Sequence[AddressRange],
        limit: int | None = None,
    ) -> int:
        """Clear counters and flags, run the commands, and return the cycles until the interrupt.

        ``at``: address for the commands in memory. ``reads`` becomes the read window, widened to
        include the commands. The hull of ``writes`` becomes the write window, and the memory itself
        checks that every write is inside ``writes``. HardwareHang after ``limit`` cycles.

        CommandError if the machine stops with an error. The machine is then reset, and ready again.
        ProtocolError if the error is not the error of
        :func:`diastole_sim.spec.command_check.decode`, or if the machine accepts a command that
        ``decode`` refuses. HardwareHang and ProtocolError carry all registers in their report.
        """
        every = [c.encode() if isinstance(c, Command) else c for c in commands]
        encoded = b"".join(every)
        if any(len(each) != COMMAND_BYTES for each in every):
            raise ValueError(f"every command must have {COMMAND_BYTES} bytes")
        self.machine.bytes_at(at, len(encoded))[:] = bytearray(encoded)
        window = min(reads[0], at), max(reads[1], at + len(encoded))
        self.set("command_count", len(commands))
        self.set("command_address", at)
        self.set_windows(window, (min(w[0] for w in writes), max(w[1] for w in writes)))
        try:
            cycles = self.start(writes, limit=limit)
        except CommandError as error:
            self._require_refusal(every, error)
            raise
        self._require_refusal(every, None)
        return cycles

    def _require_refusal(self, commands: Sequence[bytes], error: CommandError | None) -> None:
        """Raise ProtocolError unless the machine refused the right command, for the right
        reason."""
        if self.limits is None or not commands:
            return
        expected = first_refused(commands, self.limits)
        reported = None if error is None else (error.index, error.code)
        if error is not None and error.code not in PRECEDENCE:  # by the bus, while a command ran
            wrong = expected is not None and expected[0] < error.index
        else:
            wrong = reported != expected
        if wrong:
            raise ProtocolError(
                f"{_refusal(reported)}; by the table of commands, {_refusal(expected)}",
                self.report() if error is None else error.report,
            )

    def set_windows(self, reads: AddressRange, writes: AddressRange) -> None:
        """Set the address ranges for reads and writes of the machine."""
        self.set("read_base", reads[0])
        self.set("read_limit", reads[1])
        self.set("write_base", writes[0])
        self.set("write_limit", writes[1])

    def start(self, writes: Sequence[AddressRange], *, limit: int | None = None) -> int:
        """Run the commands named by the registers. Errors and result as in :meth:`execute`."""
        self.machine.traffic(clear=True)
        self.machine.allow_writes(*writes)
        try:
            self.write("control", control_bit("clear") | control_bit("irq_enable"))
            self.write("control", control_bit("start") | control_bit("irq_enable"))
            cycles = self.machine.run(limit)
        except HardwareError as error:
            raise type(error)(error.message, f"{error.report}\n{self.report()}") from error
        self._check()
        self.write("status", 1 << BY_NAME["status"].bit("done"))
        return cycles

    def _check(self) -> None:
        traffic = self.machine.traffic()
        if traffic.strays:
            raise ProtocolError(
                f"{traffic.strays} beats were written outside of the results, "
                f"the first at {traffic.first_stray:#x}",
                self.report(),
            )
        if not self.status("error"):
            return
        code, index, report = self.read("error_code"), self.read("error_index"), self.report()
        registers = {name: self.read(name) for name in self.names()}
        self.reset()
        raise CommandError(
            _refusal((index, code)),
            code=code,
            index=index,
            report=report,
            registers=registers,
        )

    def reset(self) -> None:
        """Set the machine's reset bit, and wait until the machine is ready again."""
        self.write("control", control_bit("reset") | control_bit("irq_enable"))
        waited = self.machine.cycle + RESET_CYCLES
        while self.status("busy"):
            if self.machine.cycle > waited:
                raise HardwareHang(
                    f"the machine is still busy {RESET_CYCLES} cycles after a reset", self.report()
                )
            self.machine.idle(100)

    def names(self) -> list[str]:
        """Return the names of the machine's registers."""
        limits = self.limits
        planes = limits is None or limits.has_planes
        vector = limits is not None and limits.has_vector
        return [register.name for register in registers_of(planes=planes, vector=vector)]

    def report(self) -> str:
        """Return all registers, a line each, for people."""
        lines: list[str] = []
        for name in self.names():
            try:
                lines.append(f"{name} = {self.read(name):#x}")
            except HardwareError as error:
                return "\n".join([*lines, f"{name} cannot be read: {error.message}"])
        return "\n".join(lines)


def _refusal(error: tuple[int, int] | None) -> str:
    if error is None:
        return "no command was refused"
    index, code = error
    named = code in tuple(ErrorCode)
    meaning = ERROR_MEANINGS[ErrorCode(code)] if named else "an unknown error"
    return f"command {index} was refused with error {code}: {meaning}"
