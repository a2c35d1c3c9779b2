"""Sort the memories of a machine into two kinds: read by a clock, or read within the cycle.

No SRAM macro outputs a word without a clock. Memories that are read within the cycle therefore
become latches or registers of an ASIC, and every area counts these memories. Memories with a
clocked read may become macros. Areas of standard cells leave clocked memories out, and reports list
the shapes. The reports also name the clocked memories that are too small for a macro: their
registers come on top of the area.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

MACRO_WORDS, MACRO_BITS = 16, 2048
"""Fewest words, and fewest bits, of a memory that becomes a macro of an ASIC. Smaller memories are
registers."""


def has_macro(words: int, bits: int) -> bool:
    """Return whether a memory of ``words`` words of ``bits`` bits is large enough for a macro."""
    return words >= MACRO_WORDS and words * bits >= MACRO_BITS


@dataclass(frozen=True, kw_only=True)
class MemoryShape:
    """Shape of ``count`` memories of ``words`` words of ``bits`` bits, with the given ports."""

    words: int
    bits: int
    read_ports: int
    write_ports: int
    count: int

    @property
    def total_bits(self) -> int:
        return self.words * self.bits * self.count

    def __str__(self) -> str:
        count = f"{self.count} of " if self.count > 1 else ""
        plain = (self.read_ports, self.write_ports) == (1, 1)
        ports = "" if plain else f" ({self.read_ports} read ports, {self.write_ports} write ports)"
        return f"{count}{self.words} x {self.bits}{ports}"


@dataclass(frozen=True, kw_only=True)
class Memories:
    """Memories of a kind. ``shapes``: shapes, the shape with the most bits first. ``modules``:
    names of the modules."""

    shapes: tuple[MemoryShape, ...] = ()
    modules: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> "Memories":
        """Return the memories of entries of a manifest. Entries of equal shape are added up."""
        counts: Counter[tuple[int, int, int, int]] = Counter()
        for entry in entries:
            kinds = Counter(port["kind"] for port in entry["ports"])
            shape = (entry["depth"], entry["width"], kinds["read"], kinds["write"])
            counts[shape] += entry["instances"]
        shapes = [
            MemoryShape(words=words, bits=bits, read_ports=reads, write_ports=writes, count=count)
            for (words, bits, reads, writes), count in counts.items()
        ]
        shapes.sort(key=lambda each: (-each.total_bits, str(each)))
        return cls(shapes=tuple(shapes), modules=tuple(entry["module"] for entry in entries))

    @property
    def count(self) -> int:
        return sum(each.count for each in self.shapes)

    @property
    def bits(self) -> int:
        return sum(each.total_bits for each in self.shapes)

    @property
    def without_macros(self) -> "Memories":
        """Memories that are too small for a macro of an ASIC. The file lists of a product make
        these memories logic."""
        small = (each for each in self.shapes if not has_macro(each.words, each.bits))
        return Memories(shapes=tuple(small))

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        shapes = [asdict(each) for each in self.shapes]
        return {"count": self.count, "bits": self.bits, "shapes": shapes}


def is_clocked(entry: Mapping[str, Any]) -> bool:
    """Return whether a clock reads a memory of a manifest, at all read ports of the memory."""
    reads = [port for port in entry["ports"] if port["kind"] == "read"]
    return all(port["latency_cycles"] > 0 for port in reads)
