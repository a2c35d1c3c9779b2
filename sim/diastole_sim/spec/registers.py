"""Register map of the machine as the host sees it: words of 32 bits behind AXI4-Lite.

The table is the only description of the registers. The hardware, the driver, the C header and the
documentation are made from the table. A register of more than 32 bits takes two words, the lower
first. The value may change between the reads of both halves while the machine is busy.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.micro import FLOOR

MAGIC = int.from_bytes(b"DIAS", "little")
VERSION = 0x0001_0000
"""Major and minor version of the register map, 16 bits each."""

CONSTANT, STATUS, SETTING, STATE, SPECIAL = "constant", "status", "setting", "state", "special"
"""Kinds of register. A *constant* and a *status*, which the machine drives, are read only. The host
reads and writes a *setting*, which is locked while the machine is busy. A *state* is a setting that
the machine changes too. The table of a *special* register gives the meaning of each bit."""


@dataclass(frozen=True, kw_only=True)
class Bit:
    """One bit of a register. ``access`` is r (read), rw, w (write 1 to act; reads 0), w1c (read;
    write 1 to clear)."""

    name: str
    low: int
    access: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Register:
    """Register of ``bits`` bits (1 to 64) from byte ``offset`` on, little-endian."""

    name: str
    offset: int
    bits: int
    kind: str
    meaning: str
    layout: tuple[Bit, ...] = ()

    @property
    def of_planes(self) -> bool:
        """True for a register of machines with the format ``fast`` only."""
        return self.name in PLANES

    @property
    def of_vector(self) -> bool:
        """True for a register of machines with a vector unit only."""
        return self.name in VECTOR

    @property
    def words(self) -> int:
        return -(-self.bits // 32)

    def bit(self, name: str) -> int:
        """Return the position of a bit by its name. KeyError if the register has no bit of the
        name."""
        return {bit.name: bit.low for bit in self.layout}[name]


def _register(name: str, offset: int, bits: int, kind: str, meaning: str, *layout: Bit) -> Register:
    return Register(name=name, offset=offset, bits=bits, kind=kind, meaning=meaning, layout=layout)


def _bit(low: int, name: str, access: str, meaning: str) -> Bit:
    return Bit(name=name, low=low, access=access, meaning=meaning)


FLAG_BITS = tuple(
    _bit(low, name, "w1c", meaning)
    for low, (name, meaning) in enumerate(
        (
            ("x_nan", "NaN in an activation tensor"),
            ("x_inf", "Inf in an activation tensor"),
            ("w_nan", "NaN in a weight tensor"),
            ("w_inf", "Inf in a weight tensor"),
            ("dy_nan", "NaN in a gradient tensor"),
            ("dy_inf", "Inf in a gradient tensor"),
            ("overflow", "a result was too large and is Inf"),
            (
                "inexact",
                (
                    "a result may be inexact: the deficit of a group exceeded the fraction bits F, "
                    "or a term lay beyond the window"
                ),
            ),
        )
    )
)
"""Bits of the register ``flags``, from the lowest on."""

_WAITS = {
    "vector": (
        0xC8,
        "a bank for the drain, while the vector unit or the converter did not accept results",
    ),
    "store": (0xD0, "a bank for the drain, while memory did not accept results"),
    "load": (0xD8, "operands"),
    "update": (0xE0, "a chain that updates parameters"),
    "chain": (0xE8, "a chain that updates no parameters"),
    "convert": (0xF0, "a conversion"),
    "command": (0xF8, "a command"),
}
"""Offset of the counter and meaning of each cause. The order is the priority, so ``command``, which
always holds, is last. A new cause takes a new offset; published offsets do not move."""
WAIT_CAUSES = tuple(_WAITS)
"""Causes of a cycle of a run in which no slot of the array is valid. The first cause that holds
counts. A register of :data:`WAIT_REGISTERS` counts the cycles of a cause."""
VECTOR_WAIT_CAUSES = ("vector", "update", "chain")
"""Causes that never hold in a machine without a vector unit."""
WAIT_REGISTERS = {cause: f"wait_{cause}" for cause in WAIT_CAUSES}
"""Names of the registers by cause."""

_CHAIN_REGISTERS = (
    _register("step", 0xB0, 32, STATE, "the training step that runs"),
    _register("step_end", 0xB4, 32, SETTING, "the first step that does not run"),
    _register("command_first", 0xB8, 32, SETTING, "number of the first command of a run"),
    _register(
        "loss_scale",
        0xBC,
        32,
        STATE,
        "the loss scale 2^x: bits 7:0 are x, bits 15:8 the smallest x, bits 23:16 the largest x, "
        f"each a byte in two's complement; a load of constant {FLOOR} sets the smallest x",
        _bit(31, "on", "rw", "the loss has a scale; 0: the scale is 1.0"),
    ),
    _register(
        "loss_window", 0xC0, 32, SETTING, "steps in a row without overflow, after which x grows"
    ),
    _register("loss_clean", 0xC4, 32, STATE, "steps without overflow since x changed"),
)

REGISTERS = (
    _register("magic", 0x00, 32, CONSTANT, 'the letters "DIAS"'),
    _register(
        "version", 0x04, 32, CONSTANT, "version of this register map: major, minor, 16 bits each"
    ),
    _register("config_hash", 0x08, 32, CONSTANT, "first 4 bytes of the configuration's SHA-256"),
    _register(
        "control",
        0x0C,
        32,
        SPECIAL,
        "requests of the host",
        _bit(0, "start", "w", "run the commands; ignored while busy or after an error"),
        _bit(1, "reset", "w", "stop, and clear the error and the status; settings stay"),
        _bit(2, "clear", "w", "set all counters and flags to 0"),
        _bit(8, "irq_enable", "rw", "interrupt on done and on error"),
    ),
    _register(
        "status",
        0x10,
        32,
        SPECIAL,
        "state of the machine",
        _bit(0, "busy", "r", "commands run, or a reset runs"),
        _bit(1, "done", "w1c", "all commands are done; start and reset clear this bit too"),
        _bit(2, "error", "r", "an error stopped the machine; reset clears this bit"),
    ),
    _register("error_code", 0x14, 8, STATUS, "code of the error, 0 without an error"),
    _register("error_index", 0x18, 32, STATUS, "number of the command that failed, from 0"),
    _register("command_count", 0x1C, 32, SETTING, "number of the command before which a run stops"),
    _register(
        "command_address", 0x20, ADDRESS_BITS, SETTING, "address of command 0, a multiple of a beat"
    ),
    _register("seed", 0x28, 32, SETTING, "seed of all random bits"),
    _register("read_base", 0x30, ADDRESS_BITS, SETTING, "first byte that may be read"),
    _register(
        "read_limit", 0x38, ADDRESS_BITS, SETTING, "address after the last byte that may be read"
    ),
    _register("write_base", 0x40, ADDRESS_BITS, SETTING, "first byte that may be written"),
    _register(
        "write_limit",
        0x48,
        ADDRESS_BITS,
        SETTING,
        "address after the last byte that may be written",
    ),
    _register(
        "flags",
        0x50,
        len(FLAG_BITS),
        SPECIAL,
        "events since the flags were cleared",
        *FLAG_BITS,
    ),
    _register("saturated", 0x54, 32, STATUS, "converted elements that saturated"),
    _register("underflowed", 0x58, 32, STATUS, "converted elements that became zeros"),
    _register(
        "amax",
        0x5C,
        32,
        STATUS,
        "largest finite magnitude of the last converted tensor, as binary32",
    ),
    _register("cycles", 0x60, 64, STATUS, "cycles of products, up to the last write response"),
    _register(
        "convert_cycles", 0x68, 64, STATUS, "cycles of conversions, up to the last write response"
    ),
    _register("read_beats", 0x70, 64, STATUS, "beats that products read"),
    _register("write_beats", 0x78, 64, STATUS, "beats that products wrote"),
    _register("cycles_total", 0xA0, 64, STATUS, "cycles in which any command runs"),
    _register(
        "improvement_num",
        0xA8,
        32,
        STATUS,
        "machines with the format fast: sum of |k4 - 4 k2| over the last converted tensor; all "
        "ones if the sum is larger",
    ),
    _register(
        "improvement_den",
        0xAC,
        32,
        STATUS,
        "machines with the format fast: sum of k2 over the last converted tensor",
    ),
    *_CHAIN_REGISTERS,
    *(
        _register(
            WAIT_REGISTERS[cause],
            offset,
            64,
            STATUS,
            f"cycles of waiting for {meaning}",
        )
        for cause, (offset, meaning) in _WAITS.items()
    ),
    _register("busy_slots", 0x100, 64, STATUS, "cycles in which a slot of the array was valid"),
)
COUNTED = (
    "saturated",
    "underflowed",
    "cycles",
    "convert_cycles",
    "read_beats",
    "write_beats",
    "cycles_total",
    *WAIT_REGISTERS.values(),
    "busy_slots",
)
"""Registers that count until the counters are cleared."""
PLANES = ("improvement_num", "improvement_den")
"""Registers of the precision monitor."""


VECTOR = tuple(register.name for register in _CHAIN_REGISTERS)
"""Registers of steps and of the scale of the loss."""


def registers_of(*, planes: bool, vector: bool = False) -> tuple[Register, ...]:
    """Return the registers of a machine. ``planes``: the machine has the format ``fast``.
    ``vector``: the machine has a vector unit."""
    return tuple(
        each
        for each in REGISTERS
        if (planes or not each.of_planes) and (vector or not each.of_vector)
    )


def require_apart(registers: Iterable[Register]) -> None:
    """ValueError if two registers share a word."""
    ordered = sorted(registers, key=lambda register: register.offset)
    for before, each in pairwise(ordered):
        if each.offset < before.offset + 4 * before.words:
            raise ValueError(f"{each.name} at {each.offset:#x} must not overlap {before.name}")


require_apart(REGISTERS)
BY_NAME = {register.name: register for register in REGISTERS}
END = max(register.offset + 4 * register.words for register in REGISTERS)
"""Offset of the first byte behind the last register."""
ADDRESS_SPACE_BITS = 12
"""Bits of the AXI4-Lite address. Offsets without a register answer DECERR."""
