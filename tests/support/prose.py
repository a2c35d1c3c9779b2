"""Figures of docstrings and documents: how plainly they are written."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from support.sources import ROOT

LIMITS = ROOT / "scripts" / "prose.toml"
PACKAGES = ("hw/diastole_hw", "sim/diastole_sim", "tool/diastole")
DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "docs/**/*.ipynb",
)

VAGUE = frozenset(
    """
    it its they them their theirs that those this these what which who whose so other others else
    one ones likewise such each both same there here
    """.split()
)
"""Words that stand for a noun which the reader has to find."""
HEADLESS = re.compile(
    r"(of|by|in|for|with|from|to|at|as|on|where|those|that|these|this|what|whether|how|which|"
    r"likewise|the same)\b",
    re.IGNORECASE,
)
"""Beginnings of a docstring that has neither a subject nor an imperative verb."""
LONGEST_SENTENCE = 40
"""Words."""
LONGEST_LINE = 120
"""Characters of a line of a document. Lines of a table, of code and links may be longer."""

_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE = re.compile(r"```.*?```|^(?: {4}|\t).*?$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"``[^`]*``|`[^`\n]*`|:\w+:`[^`]*`|https?://\S+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s?)")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one text, or their limits.

    ``vague`` counts vague words in 100 words. ``headless`` is the share, in per cent, of docstrings
    that begin without a subject or verb. ``sentences`` counts sentences of more than 40 words, and
    ``lines`` counts lines of more than 120 characters.
    """

    vague: float = 0.0
    headless: float = 0.0
    sentences: int = 0
    lines: int = 0

    def above(self, limits: "Figures") -> list[str]:
        """Return the names of the figures that are above their limits."""
        names = [field.name for field in fields(self)]
        return [name for name in names if getattr(self, name) > getattr(limits, name)]


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, with the strings that describe attributes."""
    for node in ast.walk(ast.parse(source)):
        for statement in node.body if isinstance(node, _DEFINITIONS) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield text


def long_sentences(text: str) -> list[str]:
    """Return the sentences of more than 40 words."""
    plain = _INLINE.sub("x", text)
    return [s for s in _SENTENCE.split(plain) if len(_WORD.findall(s)) > LONGEST_SENTENCE]


def vague_rate(texts: list[str]) -> float:
    """Return how many of 100 words are vague."""
    words = [word.lower() for text in texts for word in _WORD.findall(_INLINE.sub("x", text))]
    return 100 * sum(word in VAGUE for word in words) / max(1, len(words))


def of_package(sources: list[str]) -> Figures:
    """Return the figures of the docstrings in these modules."""
    texts = [text for source in sources for text in docstrings(source)]
    headless = sum(HEADLESS.match(text.strip()) is not None for text in texts)
    return Figures(
        vague=round(vague_rate(texts), 1),
        headless=round(100 * headless / max(1, len(texts)), 1),
        sentences=sum(len(long_sentences(text)) for text in texts),
    )


def of_document(text: str) -> Figures:
    """Return the figures of a document in Markdown; its code counts for nothing."""
    prose = _CODE.sub("", text)
    rows = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
    return Figures(
        vague=round(vague_rate([prose]), 1),
        sentences=len(long_sentences("\n".join(rows))),
        lines=sum(len(_INLINE.sub("x", line)) > LONGEST_LINE for line in rows),
    )


def document_text(path: Path) -> str:
    """Return the Markdown of a document. The Markdown cells of a notebook are one text."""
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return "\n\n".join(texts) + "\n"


def measured(root: Path = ROOT) -> dict[str, Figures]:
    """Return the figures of every package and document, by path."""
    found: dict[str, Figures] = {}
    for package in PACKAGES:
        folders = [root / package, *sorted(p for p in (root / package).iterdir() if p.is_dir())]
        for folder in folders:
            inside = folder.glob("*.py") if folder == folders[0] else folder.rglob("*.py")
            sources = [path.read_text() for path in sorted(inside)]
            if sources:
                found[str(folder.relative_to(root))] = of_package(sources)
    for pattern in DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            found[str(path.relative_to(root))] = of_document(document_text(path))
    return found


def read_limits(path: Path = LIMITS) -> tuple[Figures, Mapping[str, Figures]]:
    """Return the limits of all texts, and the limits of the texts that have their own."""
    document = tomllib.loads(path.read_text())
    common = document.pop("all")
    own = {}
    for name, given in document.items():
        if not given.pop("why", ""):
            raise ValueError(f"{path.name}: [{name!r}] needs a why")
        own[name] = Figures(**common | given)
    return Figures(**common), own


def problems(
    found: Mapping[str, Figures], common: Figures, own: Mapping[str, Figures]
) -> list[str]:
    """Return a sentence for each figure above its limit, and for each limit of no text."""
    said = [f"{name}: there is no such text; take its limits out" for name in own.keys() - found]
    for name, figures in found.items():
        limits = own.get(name, common)
        said += [
            f"{name}: {each} is {getattr(figures, each)}, and may be {getattr(limits, each)}"
            for each in figures.above(limits)
        ]
    return sorted(said)
