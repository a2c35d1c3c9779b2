"""What a chain of the vector unit is to people: a text, and names for its streams and constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from diastole_sim.program.assembly import assemble
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.stream_table import ONCE_A_BLOCK, Kind, PanelOrder

LOSS_SCALE, INVERSE_LOSS_SCALE = 252, 253
"""Constants that the machine itself writes: 2^x and 2^-x of loss scaling, 1.0 while it is off."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """A stream of a chain. ``number``: of the input s0 to s3, or output o0 to o3, that it is in
    the text. ``kinds``: those that it may be, the usual one first. ``order``: which vectors it is
    where it is in the panel."""

    number: int
    kinds: tuple[Kind, ...]
    meaning: str
    order: PanelOrder = PanelOrder.BLOCK


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One program that is run over every block of a tensor.

    ``text``: as :mod:`diastole_sim.program.assembly` reads it. ``inputs``, ``outputs``: by name;
    what is in both is of one kind and written in place. ``constants``: by the name that the text
    has for it, its value, or None where each use gives one. ``by_columns``: how it walks.
    """

    name: str
    text: str
    inputs: Mapping[str, Port] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[str, Port]
    constants: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    by_columns: bool = False

    def numbered(self, first: int = 0) -> dict[str, int]:
        """A number for each constant, from ``first`` on."""
        return {name: first + place for place, name in enumerate(self.constants)}

    def assembled(
        self,
        block: int,
        numbers: Mapping[str, int] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> tuple[Instruction, ...]:
        """Its instructions for B = ``block``.

        ``numbers``: of its constants by name, from 0 on if None. ``kinds``: of streams by name,
        where they are not the usual. AssemblyError if the program then breaks a rule; ValueError
        for a kind that a stream cannot be, and a name that none has.
        """
        chosen = self.kinds(kinds or {})
        return assemble(
            self.text,
            self.numbered() if numbers is None else numbers,
            block=block,
            panels=[
                port.number for name, port in self.inputs.items() if chosen[name] == Kind.PANEL
            ],
            always_written=[
                port.number for name, port in self.outputs.items() if chosen[name] in ONCE_A_BLOCK
            ],
        )

    def kinds(self, others: Mapping[str, Kind]) -> dict[str, Kind]:
        """By name of its streams what each is; ``others``: where that is not the usual one."""
        ports = {**self.outputs, **self.inputs}
        for name, kind in others.items():
            if name not in ports:
                raise ValueError(f"{self.name} has no stream {name}, only {', '.join(ports)}")
            if kind not in ports[name].kinds:
                raise ValueError(f"{name} of {self.name} is never {kind.name.lower()}")
        return {name: others.get(name, port.kinds[0]) for name, port in ports.items()}


def holds_what_is_written(text: str, register: str, output: str) -> bool:
    """Return whether a register has at the end of a text what is written to an output."""
    found = False
    for line in text.splitlines():
        words = line.partition("#")[0].replace("->", " -> ").split()
        moved = words[:2] == ["mov", register]
        if words[:2] == [register, "="]:
            found = words[-2:] == ["->", output]
        elif words[-2:] == ["->", output]:
            found = moved
    return found


def lines(*parts: str) -> str:
    """A text of those parts that are not empty, without the margin of this file's lines."""
    found = [line.strip() for part in parts for line in part.splitlines()]
    return "".join(f"{line}\n" for line in found if line)
