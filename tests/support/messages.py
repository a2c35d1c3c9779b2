"""Rules for error messages: a message is a sentence about a key, a file or an option."""

import re
from collections.abc import Iterable
from pathlib import Path

from support.prose import Figures, long_sentences, vague_rate
from support.sources import ROOT
from support.transcripts import refusals

TABLES = tuple(sorted((ROOT / "tests" / "unit").glob("*/refusals/*.txt")))
"""Transcripts of all refusals."""
VERBS = frozenset(
    """
    is are was were has have had must may can cannot does do need needs work works takes gives give
    hold holds keeps lies uses reads writes makes sums accepts accept exclude exceeds exists
    includes belongs stores broadcast judge judges begins
    """.split()
)
"""Words that make a message a sentence."""
DANGLING = frozenset("it its them they that this these those so too".split())
"""Words that end no message: the reader would have to look for the noun."""
OF_OTHERS = (
    r"No such file or directory$",  # the operating system
    r"Is a directory$",
)
"""Texts by other programs, which Diastole only passes on."""
_KIND = re.compile(r"^(?:diastole: (?:error: |warning: )?|\w+(?:Error|Input): )")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}|<[^<>]*>")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_HINT = re.compile(r" \(see diastole [\w ]*--help\)$|; did you mean .*$")


def plain(message: str) -> str:
    """Return a message without the kind of the error, without placeholders and hints."""
    text = _PLACEHOLDER.sub("x", message)
    for pattern in (_KIND, _HINT, _HINT):
        text = pattern.sub("", text)
    return text


def messages(*tables: Path) -> list[str]:
    """Return all different messages of the tables, without kind, placeholders and hints."""
    lines = (line for path in tables for entry in refusals(path) for line in entry.said)
    return list(dict.fromkeys(map(plain, lines)))


def figures(tables: Iterable[Path] = TABLES) -> Figures:
    """Return the figures of all lines of the tables. A repeated message counts every time."""
    lines = [plain(line) for path in tables for entry in refusals(path) for line in entry.said]
    sentences = sum(len(long_sentences(line)) for line in lines)
    return Figures(vague=round(vague_rate(lines), 1), sentences=sentences)


def faults(message: str) -> list[str]:
    """Return the broken rules of a plain message, each as a text; empty for a good message."""
    if any(re.search(text, message) for text in OF_OTHERS):
        return []
    words = _WORD.findall(message)
    found = [f"a sentence has more than 40 words: {each}" for each in long_sentences(message)]
    if words and words[-1].lower() in DANGLING:
        found.append(f"the message ends with {words[-1]}")
    first = re.split(r"; |(?<=\w[.!?]) ", message)[0]
    if not VERBS & {word.lower() for word in _WORD.findall(first)}:
        found.append("the first sentence has no verb")
    return found
