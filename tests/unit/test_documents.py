"""What documents and docstrings name is there: files, links, targets of make, modules, classes."""

import ast
import builtins
import importlib.util
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from support.prose import document_text

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PATTERNS = ("*.md", "*.ipynb")
OF_A_PRODUCT = ROOT / "docs" / "reference" / "product.md"  # names files of a product
DOCUMENTS = sorted(
    [
        *(ROOT / name for name in NAMES),
        *(p for each in PATTERNS for p in (ROOT / "docs").rglob(each) if p != OF_A_PRODUCT),
    ]
)
TOP_FOLDERS = ("hw", "sim", "tool", "tests", "bench", "scripts", "docs")
PACKAGES = ("hw/diastole_hw", "sim/diastole_sim", "tool/diastole")
OURS = tuple(package.partition("/")[2] for package in PACKAGES)

PATH = re.compile(rf"(?<![\w/.$-])(?:{'|'.join(TOP_FOLDERS)})/(?:[\w./-]*[\w/])?")
SOURCE = re.compile(r"`([\w/]+\.(?:py|sh|json))`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
ROLE = re.compile(r":(mod|class|func|meth|data|attr|exc|obj):`~?([\w.]+)`")


def paths(text: str) -> list[str]:
    """Everything that looks like a path from the root of the repository."""
    return PATH.findall(text)


def missing_paths(text: str) -> list[str]:
    return [path for path in paths(text) if not list(ROOT.glob(path.rstrip("/")))]


def missing_sources(text: str) -> list[str]:
    """Return the names in code spans, such as ``cell/cell.py``, that end no path of the tree, and
    that the reader writes no file of."""
    written = re.findall(r"\bfile `([\w./]+)`", text)
    known = [
        f"/{path.relative_to(ROOT)}" for top in TOP_FOLDERS for path in (ROOT / top).rglob("*")
    ]
    return [
        name
        for name in SOURCE.findall(text)
        if not name.startswith(("build/", "product/"))
        and name not in written
        and not any(path.endswith(f"/{name}") for path in known)
    ]


def missing_links(document: Path, text: str) -> list[str]:
    """Targets of links, but those to other sites; of a heading too."""
    wrong = []
    for target in LINK.findall(text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        if not file.exists() or (anchor and anchor not in anchors(document_text(file))):
            wrong.append(target)
    return wrong


def anchors(text: str) -> set[str]:
    """Names of headings, as hosts of Markdown make them."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in kept}


def code(text: str) -> Iterator[str]:
    """Code spans, and lines of indented blocks; comments apart from what they comment on."""
    for line in text.splitlines():
        if line.startswith("    "):
            yield from line.split("#")
        else:
            yield from re.findall(r"`([^`]+)`", line)


def make_targets(text: str) -> set[str]:
    """Of commands every word before a variable, of comments the word after ``make``."""
    found: set[str] = set()
    for part in code(text):
        words = part.split()
        if words[:1] == ["make"] and "," not in part:
            found.update(takewhile(lambda word: "=" not in word, words[1:]))
        else:
            found.update(re.findall(r"\bmake ([a-z][a-z0-9-]*)", part))
    return found


def known_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_names_is_there(document):
    text = document_text(document)
    assert missing_paths(text) == []
    assert missing_sources(text) == []
    assert missing_links(document, text) == []
    assert make_targets(text) - known_targets() == set()


def test_the_documents_name_something():
    """Else the patterns above find nothing, and the test before says nothing."""
    text = "".join(document_text(document) for document in DOCUMENTS)
    assert {"scripts/mutation.py", "docs/house.md", "hw/", "tool/diastole/synth/pdk/"} <= set(
        paths(text)
    )
    assert {"cell/cell.py", "top.py"} <= set(SOURCE.findall(text))
    assert {"demo", "test", "lint", "bench", "setup", "clean"} <= make_targets(text)


def test_the_makefile_names_what_is_there():
    text = (ROOT / "Makefile").read_text()
    assert missing_paths(text) == []
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) == known_targets()


def test_a_wrong_name_is_seen(tmp_path):
    document = tmp_path / "a.md"
    document.write_text("# One heading: two\n")
    text = "see hw/diastole/config.py, `hw/`, `control/walk.py`, [a](b.md), [d](#none), "
    text += "[c](a.md#one-heading-two)\nand `make love`, `make test`\n\n"
    text += "    make bench war ARGS=x y # after make demo, make up\n"
    assert missing_paths(text) == ["hw/diastole/config.py"]
    assert missing_sources(text) == ["control/walk.py"]
    assert missing_links(document, text) == ["b.md", "#none"]
    assert make_targets(text) - known_targets() == {"love", "war", "up"}


# Docstrings.


def modules(package: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package with their import names. Without torch, the files that need
    torch are left out."""
    top = ROOT / package
    torch = importlib.util.find_spec("torch") is not None
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if parts[-1] != "__main__" and (torch or not name.startswith("diastole.torch")):
            yield path, name


def docstrings(tree: ast.Module) -> Iterator[tuple[str | None, str]]:
    """Every text that stands for itself, with the class that it is in."""

    def walk(node: ast.AST, owner: str | None) -> Iterator[tuple[str | None, str]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.ClassDef) else owner
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                yield owner, str(child.value.value)
            yield from walk(child, inner)

    yield from walk(tree, None)


def resolves(name: str, module: object = None, owner: str | None = None) -> bool:
    """Return whether a name exists: a dotted name in our modules, any other name in ``module`` or
    its class ``owner``."""
    if name.partition(".")[0] in OURS:
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            try:
                found: object = importlib.import_module(".".join(parts[:count]))
            except ModuleNotFoundError:
                continue
            return _has(found, parts[count:])
        return False
    if name.startswith("."):
        return False
    scopes = [module, builtins, *([getattr(module, owner)] if owner else [])]
    return any(_has(scope, name.split(".")) for scope in scopes)


def _has(found: object, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(found, part):
            return part in getattr(found, "__annotations__", {})
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("package", PACKAGES)
def test_what_docstrings_refer_to_is_there(package):
    wrong, count = [], 0
    for path, name in modules(package):
        module = importlib.import_module(name)
        for owner, text in docstrings(ast.parse(path.read_text())):
            for _, target in ROLE.findall(text):
                count += 1
                if not resolves(target, module, owner if hasattr(module, owner or "") else None):
                    wrong.append(f"{path.relative_to(ROOT)}: {target}")
    assert wrong == []
    assert count > 5


SECTION = re.compile(r'\(((?:docs|design)\b[^,:)]*)[,:] *"?([^")]*)')
"""A reference to a document in a docstring: (docs/how/array.md, "Heading")."""


@pytest.mark.parametrize("package", PACKAGES)
def test_sections_that_docstrings_refer_to_are_there(package):
    wrong = [
        f"{path.relative_to(ROOT)}: {document}, {heading}"
        for path, _ in modules(package)
        for document, heading in SECTION.findall(path.read_text())
        if heading not in headings(document)
    ]
    assert wrong == []


def headings(document: str) -> list[str]:
    path = ROOT / document
    return HEADING.findall(path.read_text()) if path.is_file() else []


def test_a_wrong_section_is_seen():
    text = (
        '(docs/how/product.md, "Rings"), (design, section 4), (design: uses), '
        '(docs/no.md, "Numbers")'
    )
    found = SECTION.findall(text)
    assert len(found) == 4
    assert [heading in headings(document) for document, heading in found] == [1, 0, 0, 0]


def test_a_wrong_reference_is_seen():
    assert resolves("diastole_sim.spec.formats")
    assert resolves("diastole_sim.spec.formats.Format.precision")
    assert not resolves("diastole_sim.formats")
    assert not resolves("diastole_sim.spec.formats.Format.precision_bits")
    assert not resolves("diastole_sim.spec.formats.Formats")
    assert not resolves(".config_file")
    module = importlib.import_module("diastole_sim.spec.formats")
    assert resolves("Format", module)
    assert resolves("precision", module, "Format")
    assert not resolves("precision", module)
    assert not resolves("Formats", module)
