"""Puts faults into the Verilog of a product, all into one copy of it, so that it is compiled once.

A fault is there while the environment's variable ``DIASTOLE_FAULT`` has its number at the machine's
start; without it the machine is as it was emitted. Every changed place asks for the number, so a
machine takes as many faults as one cares to compile.
"""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutation.verilog import Source, Statement, modules

VARIABLE = "DIASTOLE_FAULT"
NUMBER_BITS = 16
NUMBER = f"""\
  reg [{NUMBER_BITS - 1}:0] fault_number;
  initial fault_number =
    $c32("(getenv(\\"{VARIABLE}\\") ? atoi(getenv(\\"{VARIABLE}\\")) : 0)");
"""


@dataclass(frozen=True)
class Inline:
    """``faulty`` instead of an expression, which stands from ``start`` to ``end`` in a module."""

    start: int
    end: int
    faulty: str


@dataclass(frozen=True)
class Rewrite:
    """``faulty`` instead of the value of a statement; None: nothing is assigned."""

    statement: Statement
    faulty: str | None


Edit = Inline | Rewrite


@dataclass(frozen=True)
class Planted:
    """Edits of a fault in the sources of a product. ``name`` is unique among the faults of a
    machine; ``module`` without the product's name."""

    name: str
    module: str
    edits: tuple[Edit, ...]


def read(product: Path) -> tuple[str, str, dict[str, Source]]:
    """Name and Verilog of a product, and its modules by their names without the product's.

    The top is ``top``.
    """
    (source,) = [path for path in (product / "rtl").glob("*.v") if "_mem_" not in path.name]
    name, text = source.stem, source.read_text()
    found = {
        "top" if full == name else full.removeprefix(f"{name}_"): module
        for full, module in modules(text).items()
    }
    return name, text, found


def plant(product: Path, faults: Sequence[Planted], directory: Path) -> Path:
    """A copy of ``product`` with all these faults in it, numbered from 1 in their order."""
    assert len(faults) < 1 << NUMBER_BITS, "more faults than numbers"
    name, text, sources = read(product)
    shutil.copytree(product, directory)
    edits: dict[str, list[tuple[int, Edit]]] = {module: [] for module in sources}
    for number, fault in enumerate(faults, 1):
        edits[fault.module] += [(number, edit) for edit in fault.edits]
    for module, source in sources.items():
        changed = changed_module(source, edits[module], f"{name}.fault_number")
        if module == "top":
            changed = changed.removesuffix("endmodule") + NUMBER + "endmodule"
        text = text.replace(source.text, changed)
    (directory / "rtl" / f"{name}.v").write_text(text)
    return directory


def alone(source: Source, fault: Planted) -> str:
    """The text of a module with this fault, always there."""
    return changed_module(source, [(1, edit) for edit in fault.edits], None)


def changed_module(source: Source, edits: Iterable[tuple[int, Edit]], number: str | None) -> str:
    """The module with edits that ask for their numbers; ``number`` None: with them in any case."""
    inline = [(n, edit) for n, edit in edits if isinstance(edit, Inline)]
    rewrites: dict[Statement, list[tuple[int, str | None]]] = {}
    for n, edit in edits:
        if isinstance(edit, Rewrite):
            rewrites.setdefault(edit.statement, []).append((n, edit.faulty))
    pieces, place = [], 0
    top = [(s.start, s.end, s) for s in rewrites]
    for edit in _outermost(inline):
        if not any(start <= edit.start < end for start, end, _ in top):
            top.append((edit.start, edit.end, None))
    for start, end, statement in sorted(top, key=lambda entry: entry[0]):
        pieces.append(source.text[place:start])
        if statement is None:
            pieces.append(_inlined(source.text, start, end, inline, number))
        else:
            at = statement.at
            good = _inlined(source.text, at, at + len(statement.value), inline, number)
            pieces.append(_rewritten(source, statement, good, rewrites[statement], number))
        place = end
    return "".join([*pieces, source.text[place:]])


def _outermost(inline) -> list[Inline]:
    found: list[Inline] = []
    for _, edit in sorted(inline, key=lambda entry: (entry[1].start, -entry[1].end)):
        if not found or edit.start >= found[-1].end:
            found.append(edit)
        assert edit.end <= found[-1].end, "two faults overlap"
    return found


def _inlined(text: str, start: int, end: int, inline, number: str | None) -> str:
    """Return an expression with the faults of its parts inside, and the faults of the whole
    expression around."""
    inner = [
        (n, edit)
        for n, edit in inline
        if start <= edit.start and edit.end <= end and (edit.start, edit.end) != (start, end)
    ]
    pieces, place = [], start
    for edit in _outermost(inner):
        pieces += [text[place : edit.start], _inlined(text, edit.start, edit.end, inner, number)]
        place = edit.end
    good = "".join([*pieces, text[place:end]])
    for n, edit in inline:
        if (edit.start, edit.end) == (start, end):
            good = (
                edit.faulty
                if number is None
                else f"({_active(number, n)} ? {edit.faulty} : {good})"
            )
    return good


def _active(number: str, n: int) -> str:
    return f"{number} == {NUMBER_BITS}'d{n}"


def _rewritten(source: Source, s: Statement, good: str, faulty, number: str | None) -> str:
    """Return a statement that assigns the faulty value of the fault that is switched on."""
    line = source.text[s.start : s.end]
    head, tail = line[: s.at - s.start], line[s.at - s.start + len(s.value) :]
    if number is None:
        ((_, bad),) = faulty
        return head + bad + tail if bad is not None else "begin end"
    if s.form == "assign":
        return _rewritten_assign(source.width(s.to), s, good, faulty, number)
    if s.form == "chosen":
        branches = [
            f"if ({_active(number, n)}) begin {'' if bad is None else f'{s.to} = {bad};'} end else "
            for n, bad in faulty
        ]
        return "".join(branches) + f"begin {s.to} = {good}; end"
    # Braces: every expression has its own width, as it had where it stood alone.
    chain = "".join(f"{_active(number, n)} ? {{ {bad} }} : " for n, bad in faulty)
    return f"{head}{chain}{{ {good} }}{tail}"


def _rewritten_assign(width: int, s: Statement, good: str, faulty, number: str) -> str:
    """Each value has a wire of the target's width: widths and signs are as they were."""
    lines, chosen = [], ""
    for n, bad in [*faulty, (0, good)]:
        wire = f"value_{n}_{s.start}"
        lines += [f"  wire [{width - 1}:0] {wire};", f"  assign {wire} = {bad};"]
        chosen += f"{_active(number, n)} ? {wire} : " if n else wire
    return "\n".join([*lines, f"  assign {s.to} = {chosen};"])


@dataclass(frozen=True)
class Fault:
    """A fault placed by hand: ``faulty`` instead of what group 1 of ``pattern`` finds in a module,
    an expression.

    In ``faulty`` {} is what was found. ``module`` without the product's name. ``every``: at all
    places, not at the only one.
    """

    name: str
    module: str
    pattern: str
    faulty: str
    every: bool = False

    def placed(self, sources: Mapping[str, Source]) -> Planted:
        """AssertionError unless the pattern finds its place."""
        assert self.module in sources, f"{self.name}: there is no module {self.module}"
        text = sources[self.module].text
        found = list(re.finditer(self.pattern, text))
        assert found, f"{self.name}: no such place in {self.module}"
        assert self.every or len(found) == 1, f"{self.name}: at {len(found)} places"
        statements = [match[1] for match in found if re.search(r"[;\n]", match[1])]
        assert not statements, f"{self.name}: more than an expression in {self.module}"
        lines = [text[text.rfind("\n", 0, match.start(1)) + 1 : match.start(1)] for match in found]
        initial = [line for line in lines if re.match(r" *(output )?reg [^;]*= $", line)]
        assert not initial, f"{self.name}: a register's initial value in {self.module}"
        edits = [Inline(*match.span(1), self.faulty.format(match[1])) for match in found]
        return Planted(self.name, self.module, tuple(edits))
