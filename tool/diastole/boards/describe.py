"""What is known of the boards, and what is wanted of one."""

import re
from dataclasses import dataclass
from pathlib import Path

from diastole.config.clock import CLOCK_KEYS, clock_keys
from diastole.config.keys import Config
from diastole.config.presets import BOARD_MACHINES
from diastole.errors import BadInput

TEXTS = Path(__file__).parent / "texts"
"""Templates, with ``@NAME@`` where something goes."""
MACHINES = {name: f"boards/{name}/machine.toml" for name in BOARD_MACHINES}
"""By board, a machine that fits it, in the sources."""
BLOCK_DESIGN = "two SmartConnects and a reset block"


@dataclass(frozen=True, kw_only=True)
class BoardKind:
    """``about``: one line for people. ``part``: as vendors write it; ``family`` and ``device``: as
    ``diastole synth`` calls it, empty where the chip is not known. ``serial``: it has no processor;
    a host reaches the machine over a serial line, and its memory is on the chip, of ``memory_kib``
    unless told otherwise. ``clock_mhz``: of the machine, unless told otherwise. ``plain_mhz``: what
    place and route reached for the board's machine without :data:`CLOCK_KEYS`, None where no such
    clock was measured. ``added``: what a flow adds to the machine, of which the chip is not
    asked."""

    name: str
    about: str
    part: str
    family: str
    device: str
    serial: bool
    clock_mhz: int
    plain_mhz: float | None = None
    memory_kib: int = 0
    added: str = ""

    @property
    def advice(self) -> str:
        """Which machine fits, for people: its file in the sources, and its preset. KeyError where
        there is none."""
        return f"a machine that fits: {MACHINES[self.name]} (--preset {self.name})"

    def lacking_keys(self, config: Config, clock_mhz: float) -> dict[str, str | bool]:
        """Return the keys that a machine lacks for a clock: none up to the clock that is known
        without them, and none where the chip is not known."""
        if not self.device or (self.plain_mhz is not None and clock_mhz <= self.plain_mhz):
            return {}
        there = clock_keys(config)
        return {key: value for key, value in CLOCK_KEYS.items() if there[key] != value}


BOARDS = {
    kind.name: kind
    for kind in (
        BoardKind(
            name="ulx3s",
            about="ULX3S with an ECP5-85F, over its USB serial port; bitstream by open tools",
            part="LFE5U-85F-6BG381C",
            family="ecp5",
            device="85k",
            serial=True,
            clock_mhz=25,
            plain_mhz=44.8,
            memory_kib=256,
        ),
        BoardKind(
            name="pynq-z2",
            about="PYNQ-Z2 with a Zynq 7020: block design for Vivado, host for Linux",
            part="xc7z020clg400-1",
            family="xilinx",
            device="7z020",
            serial=False,
            clock_mhz=50,
            added=BLOCK_DESIGN,
        ),
        BoardKind(
            name="kv260",
            about="KV260 with a K26 (Zynq UltraScale+): block design for Vivado, host for Linux",
            part="xck26-sfvc784-2LV-c",
            family="xilinx",
            device="k26",
            serial=False,
            clock_mhz=100,
            added=BLOCK_DESIGN,
        ),
        BoardKind(
            name="litex",
            about="any board of LiteX: a wrapper with its buses for a SoC of your own",
            part="",
            family="",
            device="",
            serial=False,
            clock_mhz=50,
        ),
    )
}


def board_text(template: str, **values: object) -> str:
    """The text of that name in :data:`TEXTS`, each ``@NAME@`` replaced. KeyError for a name that
    the template has and nobody gives."""
    text = (TEXTS / template).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    if left := re.findall(r"@([A-Z_]+)@", text):
        raise KeyError(f"{template}: nothing for {', '.join(left)}")
    return text


@dataclass(frozen=True, kw_only=True)
class SerialSettings:
    """Of a board with a serial line: ``clock_hz`` of the machine, ``baud`` of the line,
    ``memory_bytes`` on the chip. BadInput where they do not go together."""

    clock_hz: int
    baud: int
    memory_bytes: int

    @property
    def divisor(self) -> int:
        # Amaranth: only where hardware is meant.
        from diastole_hw.serial.uart import divisor_of

        try:
            return divisor_of(self.clock_hz, self.baud)
        except ValueError as error:
            raise BadInput(f"--{error}") from error
