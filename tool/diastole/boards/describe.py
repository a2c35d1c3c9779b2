"""Describe the supported boards, and the settings of a board."""

import re
from dataclasses import dataclass
from pathlib import Path

from diastole.config.clock import CLOCK_KEYS, clock_keys
from diastole.config.keys import Config
from diastole.config.presets import BOARD_MACHINES
from diastole.errors import BadInput

TEXTS = Path(__file__).parent / "texts"
"""Folder of templates, with ``@NAME@`` as placeholders."""
MACHINES = {name: f"boards/{name}/machine.toml" for name in BOARD_MACHINES}
"""File of a fitting machine, by board, in the sources."""
BLOCK_DESIGN = "two SmartConnects and a reset block"


@dataclass(frozen=True, kw_only=True)
class BoardKind:
    """A kind of board.

    - ``about``: one line for people.
    - ``part``: name of the chip in the form of the vendor.
    - ``family``, ``device``: name of the chip in the form of ``diastole synth``, empty if the chip
      is not known.
    - ``serial``: True if the board has no processor. A host then reaches the machine over a serial
      line, and the memory of the machine is on the chip, of ``memory_kib`` by default.
    - ``clock_mhz``: default clock of the machine.
    - ``plain_mhz``: clock that place and route reached for the board's machine without
      :data:`CLOCK_KEYS`, None if no clock was measured.
    - ``added``: logic that a flow adds to the machine, and that the check of the chip does not
      count.
    """

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
        """Text for people with a machine that fits: file in the sources, and preset. KeyError if
        the board has no machine."""
        return f"a machine that fits: {MACHINES[self.name]} (--preset {self.name})"

    def lacking_keys(self, config: Config, clock_mhz: float) -> dict[str, str | bool]:
        """Return the clock keys that a machine lacks for a clock. Empty up to the clock known
        without the keys, and for a board with an unknown chip."""
        if not self.device or (self.plain_mhz is not None and clock_mhz <= self.plain_mhz):
            return {}
        keys = clock_keys(config)
        return {key: value for key, value in CLOCK_KEYS.items() if keys[key] != value}


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
            plain_mhz=44.2,
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
    """Return the template of this name in :data:`TEXTS`, with every ``@NAME@`` replaced. KeyError
    for a placeholder without a value."""
    text = (TEXTS / template).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    if left := re.findall(r"@([A-Z_]+)@", text):
        raise KeyError(f"{template} needs a value of {', '.join(left)}")
    return text


@dataclass(frozen=True, kw_only=True)
class SerialSettings:
    """Settings of a board with a serial line: ``clock_hz`` of the machine, ``baud`` of the line,
    ``memory_bytes`` on the chip. ``divisor`` raises BadInput if clock and baud rate contradict each
    other."""

    clock_hz: int
    baud: int
    memory_bytes: int

    @property
    def divisor(self) -> int:
        # Imported in the property: only work on hardware needs Amaranth.
        from diastole_hw.serial.uart import divisor_of

        try:
            return divisor_of(self.clock_hz, self.baud)
        except ValueError as error:
            raise BadInput(f"--{error}") from error
