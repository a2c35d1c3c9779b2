"""Rules of the house that no other tool knows: tests, names, docstrings, and what may change."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from support.sources import PACKAGES, ROOT, imports, module_name, sources, tree

UNIT = ROOT / "tests" / "unit"
HARDWARE = PACKAGES["diastole_hw"]
DOCUMENTED = (
    "array", "bus", "cell", "command", "convert", "engine", "execute", "load", "memory", "serial",
    "store", "stream",
)  # fmt: skip
"""Folders of the hardware whose components say their members and their timing."""

SCOPES = {
    "hardware and simulation": (HARDWARE, PACKAGES["diastole_sim"]),
    "tool": (PACKAGES["diastole"],),
}
"""Where a public name stands for one thing."""
TWICE = {
    "compare": "a run with the golden model; a user's own model in several formats",
    "add_parser": "of every command, called with its module's name before it",
    "execute": "likewise",
    "describe": "likewise",
    "Linear": "a layer of PyTorch on a machine; a layer of a network without PyTorch",
    "exp": "of the vector unit, to the bit; of training on the host",
    "relu": "of floats, on the host; the activation as programs",
    "quantise": "by a format's name for people; by a tensor's class in the golden model",
    "scale_exponent": "in gates, of what was measured; in the model, of a command's field",
}
"""Names that stand for two all the same, with the reason."""


def imported(folder: Path) -> set[str]:
    return {name for path in sources(folder) for name in imports(path)}


def untested(package: Path, tests: Path, used: set[str]) -> list[str]:
    """Modules without a test file in the mirrored place, that no file of ``tests`` imports either.

    ``package``: in the folder that ``tests`` mirrors. ``used``: what those import. ``__init__`` and
    ``__main__`` hold nothing of their own.
    """
    root = package.parent
    found: list[str] = []
    for path in sources(package):
        if path.stem in ("__init__", "__main__"):
            continue
        place = path.relative_to(package).with_name(f"test_{path.name}")
        name = module_name(path, root)
        named = any(each == name or each.startswith(f"{name}.") for each in used)
        if not named and not (tests / root.name / place).exists():
            found.append(name)
    return found


def changed_self(path: Path) -> list[str]:
    """Assignments to ``self``, or to what it holds, in classes with an ``elaborate``; constructors
    are where it is made."""
    found: list[str] = []
    for kind in (node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)):
        methods = {node.name: node for node in kind.body if isinstance(node, ast.FunctionDef)}
        if "elaborate" not in methods:
            continue
        for name, method in methods.items():
            if name not in ("__init__", "__post_init__"):
                found += (f"{kind.name}.{name}: {text}" for text in _writes(method))
    return found


def _writes(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and re.match(r"(set|del)attr\(self,", ast.unparse(node)):
            yield ast.unparse(node)
        if not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load):
            continue
        base: ast.expr = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name) and base.id == "self":
            yield ast.unparse(node)


def relative_imports(path: Path) -> list[str]:
    nodes = ast.walk(tree(path))
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.ImportFrom) and node.level]


def twins(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Public classes and functions at the top of two modules, with the modules of each."""
    places: dict[str, list[str]] = {}
    for folder in folders:
        for path in sources(folder):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                    places.setdefault(node.name, []).append(module_name(path, folder.parent))
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def undocumented(path: Path) -> list[str]:
    """Components whose docstring lacks "Timing:" or a section "Members", at the start of a line."""
    found: list[str] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(base).rpartition(".")[2] == "Component" for base in node.bases
        ):
            text = ast.get_docstring(node) or ""
            if not (
                re.search(r"^Timing:", text, re.MULTILINE)
                and re.search(r"^Members\n-------$", text, re.MULTILINE)
            ):
                found.append(node.name)
    return found


def hardware_folders() -> list[Path]:
    return [path for folder in DOCUMENTED for path in sources(HARDWARE / folder)]


def exact(found: set[str], listed: set[str]) -> None:
    more, fewer = sorted(found - listed), sorted(listed - found)
    assert not more, f"against the rule: {' '.join(more)}"
    assert not fewer, f"to be struck off the list: {' '.join(fewer)}"


def test_every_module_has_a_test():
    used = imported(UNIT)
    found = {name for each in PACKAGES.values() for name in untested(each, UNIT, used)}
    assert not found, f"without a test file: {' '.join(sorted(found))}"


def test_elaboration_never_changes_self():
    assert not [line for path in sources(HARDWARE) for line in changed_self(path)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_relative_imports(package):
    assert not [line for path in sources(PACKAGES[package]) for line in relative_imports(path)]


def test_one_name_one_thing():
    found = {name for folders in SCOPES.values() for name in twins(folders)}
    exact(found, set(TWICE))


def test_components_say_their_members_and_timing():
    found = {name for path in hardware_folders() for name in undocumented(path)}
    assert not found, f"without members or timing: {' '.join(sorted(found))}"


def shown_at_times(path: Path) -> list[str]:
    """Calls of ``data_output`` where a condition holds: the output would be 0 where it does not."""
    return [
        f"{path.name}:{call.lineno}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.With)
        and any(ast.unparse(item.context_expr).startswith("m.") for item in node.items)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "data_output"
    ]


def test_registers_are_shown_at_all_times():
    found = {place for path in sources(HARDWARE) for place in shown_at_times(path)}
    assert not found, f"an output that shows its register at times: {' '.join(sorted(found))}"


# What each check would find.


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_untested_module_would_be_seen(tmp_path):
    package, tests = tmp_path / "hw" / "demo_hw", tmp_path / "tests"
    for name in ("__init__", "__main__", "own", "named", "taken", "alone", "part/own"):
        write(package / f"{name}.py", "")
    write(tests / "hw" / "test_own.py", "import demo_hw.named\n")
    write(tests / "sim" / "test_alone.py", "from demo_hw.taken import x\nfrom demo_hw import y\n")
    assert untested(package, tests, imported(tests)) == ["demo_hw.alone", "demo_hw.part.own"]
    write(tests / "hw" / "part" / "test_own.py", "from demo_hw import alone\n")
    assert untested(package, tests, imported(tests)) == []


@pytest.mark.parametrize(
    "line",
    [
        "self.x = 1",
        "self.x += 1",
        "self.x: int = 1",
        "a, (self.x, b) = 1, (2, 3)",
        "for self.x in range(3): pass",
        "self.x[0] = 1",
        "self.x.y = 1",
        "del self.x",
        "setattr(self, 'x', 1)",
    ],
)
@pytest.mark.parametrize("method", ["elaborate", "_helper"])
def test_a_changed_self_would_be_seen(line, method, tmp_path):
    lines = {"elaborate": "m.d.comb += self.x.eq(1)", "_helper": "m.a = self.x[0]", method: line}
    text = f"""
class Unit:
    def __init__(self):
        {line}
    def elaborate(self, m):
        {lines["elaborate"]}
    def _helper(self, m):
        {lines["_helper"]}
class Value:
    def keep(self):
        {line}
"""
    (found,) = changed_self(write(tmp_path / "unit.py", text))
    assert found.startswith(f"Unit.{method}: ")


def test_a_relative_import_would_be_seen(tmp_path):
    path = write(tmp_path / "a.py", "import b\nfrom b import c\ndef f():\n    from . import d\n")
    assert relative_imports(path) == ["from . import d"]


def test_a_name_of_two_things_would_be_seen(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    write(one / "a.py", "class Twin: pass\ndef _own(): pass\ndef f(): pass\n")
    write(one / "b.py", "def f():\n    def inner(): pass\n")
    write(other / "c.py", "from one.a import Twin as T\ndef Twin(): pass\ndef _own(): pass\n")
    write(other / "d.py", "class Alone:\n    def inner(self): pass\n")
    assert twins([one]) == {"f": ["one.a", "one.b"]}
    assert twins([other]) == {}
    assert twins([one, other]) == {"f": ["one.a", "one.b"], "Twin": ["one.a", "other.c"]}


@pytest.mark.parametrize(
    "docstring, good",
    [
        ("One thing.\n\nTiming: 1 cycle.\n\nMembers\n-------\ni : In(1)", True),
        ("One thing.\n\nTiming: 1 cycle. Members are i and o.", False),
        ("One thing.\n\nTiming: 1 cycle.\n\nMembers\n\ni : In(1)", False),
        ("One thing, in time.\n\nMembers\n-------\ni : In(1)", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("base", ["wiring.Component", "Component"])
def test_a_poor_docstring_would_be_seen(docstring, good, base, tmp_path):
    text = f"class Unit({base}):\n    {docstring!r}\nclass Plain(Elaboratable):\n    pass\n"
    assert undocumented(write(tmp_path / "unit.py", text)) == ([] if good else ["Unit"])


@pytest.mark.parametrize(
    "where, wrong", [("m.If(x)", True), ("m.FSM()", True), ("suppress()", False)]
)
def test_a_register_that_is_shown_at_times_would_be_seen(where, wrong, tmp_path):
    line = "m.d.sync += data_output(m, self.o, 'kept').eq(1)"
    path = write(tmp_path / "unit.py", f"with {where}:\n    {line}\n{line}\n")
    assert shown_at_times(path) == (["unit.py:2"] if wrong else [])
