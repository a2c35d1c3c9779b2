"""Describe a chain of the vector unit: a text, and names for streams and constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from diastole_sim.program.assembly import assemble
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.stream_table import ONCE_A_BLOCK, Kind, PanelOrder

LOSS_SCALE, INVERSE_LOSS_SCALE = 252, 253
"""Constants that the machine itself writes: 2^x and 2^-x of loss scaling, 1.0 while loss scaling is
off."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """Stream of a chain.

    - ``number``: number of the input s0 to s3, or of the output o0 to o3, in the text.
    - ``kinds``: accepted kinds, the usual kind first.
    - ``order``: order of the vectors if the stream is in the panel.
    """

    number: int
    kinds: tuple[Kind, ...]
    meaning: str
    order: PanelOrder = PanelOrder.BLOCK


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Program that the vector unit runs over every block of a tensor.

    - ``text``: text for :mod:`diastole_sim.program.assembly`.
    - ``inputs``, ``outputs``: streams by name. A stream with a name in both has one kind and is
      updated in place.
    - ``constants``: values of the constants by their names in the text, None if every use gives a
      value.
    - ``by_columns``: True if the walk goes by columns of blocks.
    """

    name: str
    text: str
    inputs: Mapping[str, Port] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[str, Port]
    constants: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    by_columns: bool = False

    def with_values(self, **values: float) -> "Chain":
        """Return the chain with values of constants."""
        return replace(self, constants={**self.constants, **values})

    def numbered(self, first: int = 0) -> dict[str, int]:
        """Return a number for each constant, from ``first`` on."""
        return {name: first + place for place, name in enumerate(self.constants)}

    def assembled(
        self,
        block: int,
        numbers: Mapping[str, int] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> tuple[Instruction, ...]:
        """Return the instructions for B = ``block``.

        - ``numbers``: numbers of the constants by name; None for numbers from 0 on.
        - ``kinds``: kinds of streams by name, where a stream does not have the usual kind.

        AssemblyError if the program with these kinds breaks a rule. ValueError for a kind that a
        stream does not accept, and for an unknown name of a stream.
        """
        kinds_by_name = self.kinds(kinds or {})
        return assemble(
            self.text,
            self.numbered() if numbers is None else numbers,
            block=block,
            panels=[
                port.number
                for name, port in self.inputs.items()
                if kinds_by_name[name] == Kind.PANEL
            ],
            always_written=[
                port.number
                for name, port in self.outputs.items()
                if kinds_by_name[name] in ONCE_A_BLOCK
            ],
        )

    def kinds(self, others: Mapping[str, Kind]) -> dict[str, Kind]:
        """Return the kind of every stream by name. ``others``: kinds that differ from the usual
        kind."""
        ports = {**self.outputs, **self.inputs}
        for name, kind in others.items():
            if name not in ports:
                raise ValueError(f"{self.name} has no stream {name}, only {', '.join(ports)}")
            if kind not in ports[name].kinds:
                raise ValueError(
                    f"{name} of {self.name} cannot have the kind {kind.name.lower()}, only "
                    f"{', '.join(each.name.lower() for each in ports[name].kinds)}"
                )
        return {name: others.get(name, port.kinds[0]) for name, port in ports.items()}


def register_holds_output(text: str, register: str, output: str) -> bool:
    """Return whether a register, at the end of a text, holds the value that was written to an
    output."""
    matches = False
    for line in text.splitlines():
        words = line.partition("#")[0].replace("->", " -> ").split()
        moved = words[:2] == ["mov", register]
        if words[:2] == [register, "="]:
            matches = words[-2:] == ["->", output]
        elif words[-2:] == ["->", output]:
            matches = moved
    return matches


def lines(*parts: str) -> str:
    """Return a text of all parts that are not empty, without indentation."""
    stripped = [line.strip() for part in parts for line in part.splitlines()]
    return "".join(f"{line}\n" for line in stripped if line)
