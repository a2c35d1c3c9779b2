"""Faults at random places of emitted Verilog, the same for the same seed.

Every statement has one fault, drawn by a hash of its own text; those with the lowest hashes are
taken. So a change of the sources renames and replaces no fault but those in what it changed, and a
module has as many faults as its share of all statements.

A fault is of one of these kinds: another *operator*, another *constant*, an inverted *condition*,
swapped *arms* of a choice, a *dropped* assignment, a *stuck* bit, a *swapped* signal. None makes a
combinational loop: a swapped signal comes from a register or from what the place depends on anyway.
"""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mutation.plant import Planted, Rewrite
from mutation.verilog import NAME, Source, Statement, base, tokens

SEED = 1
"""Of those that ``make mutate`` tries."""
OPERATORS = {
    "+": "-",
    "-": "+",
    "*": "+",
    "&": "|",
    "|": "&",
    "^": "&",
    "==": "!=",
    "!=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "<<": ">>",
    ">>": "<<",
    ">>>": "<<<",
}
CLOCKS = ("clk", "rst", "aclk", "core_clk", "core_rst", "time_zero")
DATA = re.compile(r"(\w*payload|word\d+|cell_\w+|axi__(ar|aw)(addr|len)|axi__w(data|strb)) next")
"""Registers that nobody reads before a valid bit, or a queue's level, says that they are written:
what a reset makes of them is no fault, so none is drawn there."""
_CONSTANT = re.compile(r"(\d+)'h([0-9a-f]+)")


@dataclass(frozen=True)
class Change:
    """``kind`` and what is meant, in words that stay; ``faulty`` as in :class:`Rewrite`."""

    kind: str
    detail: str
    faulty: str | None


def draw(seed: int, *words: object) -> int:
    """A number that only these words decide."""
    text = "\0".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def random_faults(sources: Mapping[str, Source], *, seed: int, count: int) -> list[Planted]:
    """``count`` faults, or as many as there are statements."""
    found = [
        (draw(seed, fault.name, "order"), fault)
        for module, source in sources.items()
        for fault in _one_each(module, source, seed)
    ]
    return [fault for _, fault in sorted(found, key=lambda entry: entry[0])[:count]]


def _one_each(module: str, source: Source, seed: int) -> Iterator[Planted]:
    seen: dict[str, int] = {}
    for statement in source.statements:
        if statement.to and base(statement.to) not in source.live:
            continue  # names of ports of other modules, which nothing reads
        if _resets_data(source, statement):
            continue
        text = _described(source, statement)
        seen[text] = seen.get(text, 0) + 1
        again = f" (the {seen[text]}th)" if seen[text] > 1 else ""
        chosen = functools.partial(draw, seed, module, text + again)
        changes = list(_changes(source, statement, chosen))
        kinds = sorted({change.kind for change in changes})
        if not kinds:
            continue
        kind = kinds[draw(seed, module, text, again, "kind") % len(kinds)]
        those = [change for change in changes if change.kind == kind]
        change = those[draw(seed, module, text, again, "which") % len(those)]
        name = f"{module}: {text}{again}: {change.kind}: {change.detail}"
        yield Planted(name, module, (Rewrite(statement, change.faulty),))


def _resets_data(source: Source, s: Statement) -> bool:
    return source.guard(s) == "rst" and DATA.fullmatch(source.described(s.to)) is not None


def _described(source: Source, statement: Statement) -> str:
    value = source.described(statement.value)
    if statement.form == "condition":
        return f"if ({value}) {source.described(source.guarded(statement))} ..."
    if statement.form == "case":
        return f"casez ({value}) {source.described(source.guarded(statement))} ..."
    guard = source.described(source.guard(statement)) if statement.nested else ""
    sign = "<=" if statement.form == "clocked" else "="
    return f"{source.described(statement.to)} {sign} {value}" + (f" if {guard}" if guard else "")


def _changes(source: Source, s: Statement, chosen) -> Iterator[Change]:
    """Every change of a statement; ``chosen``: a number for some words."""
    if s.form == "clocked":
        if re.fullmatch(NAME, s.value) and s.to in source.widths:
            yield Change("dropped", "never", s.to)
            yield from _stuck(source, s, chosen)
        return
    yield from _operators(s.value)
    yield from _constants(s.value, chosen)
    yield from _arms(s.value)
    yield from _swaps(source, s, chosen)
    if s.form == "condition":
        yield Change("condition", "inverted", f"! ({s.value})")
    if s.form == "chosen" and s.nested:
        yield Change("dropped", "never", None)
    if s.form == "assign":
        yield from _stuck(source, s, chosen)


def _stuck(source: Source, s: Statement, chosen) -> Iterator[Change]:
    width = source.width(s.to)
    bit = chosen("stuck") % width
    for value in (0, 1):
        mask = 1 << bit if value else (1 << width) - 1 - (1 << bit)
        sign = "|" if value else "&"
        yield Change("stuck", f"bit {bit} at {value}", f"({s.value}) {sign} {width}'h{mask:x}")


def _operators(value: str) -> Iterator[Change]:
    words = tokens(value)
    for n, (word, at) in enumerate(words):
        operand_before = n > 0 and (re.search(r"[\w\])}]$", words[n - 1][0]) is not None)
        if operand_before and word in OPERATORS:
            other = OPERATORS[word]
            faulty = value[:at] + other + value[at + len(word) :]
            yield Change("operator", f"{other} instead of {word}, {_ordinal(words, n)}", faulty)
        elif word in ("~", "!") and not operand_before:
            # `! x` is 1 bit wide, whatever x is.
            faulty = value[:at] + ("| " if word == "!" else "  ") + value[at + 1 :]
            yield Change("operator", f"no {word}, {_ordinal(words, n)}", faulty)


def _ordinal(words, n: int) -> str:
    return f"number {sum(word == words[n][0] for word, _ in words[: n + 1])}"


def _constants(value: str, chosen) -> Iterator[Change]:
    for number, match in enumerate(_CONSTANT.finditer(value), 1):
        width, good = int(match[1]), int(match[2], 16)
        bit = chosen("constant", number) % width
        for what, bad in {
            f"bit {bit} flipped": good ^ 1 << bit,
            "one more": (good + 1) % (1 << width),
            "one less": (good - 1) % (1 << width),
        }.items():
            faulty = f"{value[: match.start()]}{width}'h{bad:x}{value[match.end() :]}"
            yield Change("constant", f"{what} in {match[0]}, number {number}", faulty)


def _arms(value: str) -> Iterator[Change]:
    depth, marks = 0, {}
    for word, at in tokens(value):
        depth += (word in "([{") - (word in ")]}")
        if depth == 0 and word in ("?", ":"):
            marks.setdefault(word, at)
    if len(marks) == 2:
        condition, yes, no = (
            value[: marks["?"]],
            value[marks["?"] + 1 : marks[":"]],
            value[marks[":"] + 1 :],
        )
        yield Change("arms", "swapped", f"{condition}? {no.strip()} : {yes.strip()}")


def _swaps(source: Source, s: Statement, chosen) -> Iterator[Change]:
    """Another signal of the same width in the place of one."""
    target = base(s.to) if s.to else source.guarded(s)
    if not target:
        return
    allowed = (source.registers | source.sources(target)) - {target} - set(CLOCKS)
    for number, (word, at) in enumerate(tokens(s.value), 1):
        if word not in source.widths or word in CLOCKS:
            continue
        others = sorted(
            (source.described(name), name)
            for name in allowed
            if source.widths.get(name) == source.widths[word]
            and source.described(name) != source.described(word)
        )
        if others:
            described, other = others[chosen("swap", number) % len(others)]
            faulty = s.value[:at] + other + s.value[at + len(word) :]
            yield Change(
                "swapped", f"{described} instead of {source.described(word)}, word {number}", faulty
            )
