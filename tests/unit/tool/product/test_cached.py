"""Products that commands generate for themselves are made once for each configuration."""

from pathlib import Path

import pytest

from diastole.config.keys import Config
from diastole.product.cached import _SOURCES, cached, generator_version, products_folder

ROOT = Path(__file__).parents[4]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def generate(config, folder):
    folder.mkdir()
    (folder / "manifest.json").write_text(config.name)
    (folder / "top.v").write_text("module top;\nendmodule\n")


def refuse(config, folder):
    raise AssertionError("generated again")


def test_generated_once(home):
    folder = cached(Config(), generate)
    assert folder.is_relative_to(home / "diastole")
    assert (folder / "manifest.json").read_text() == "diastole"
    assert cached(Config(), refuse) == folder


def test_another_configuration_has_another_product(home):
    first = cached(Config(), generate)
    assert cached(Config(name="other"), generate) != first


def test_another_generator_has_another_product(home, monkeypatch):
    first = cached(Config(), generate)
    monkeypatch.setattr("diastole.product.cached.generator_version", lambda: "newer")
    assert cached(Config(), generate) != first


def test_a_failed_generation_is_tried_again(home):
    def fail(config, folder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(Config(), fail)
    assert (cached(Config(), generate) / "manifest.json").exists()


@pytest.mark.parametrize("value", [None, "", "relative"])
def test_without_the_variable_the_home_folder_counts(tmp_path, monkeypatch, value):
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert products_folder() == tmp_path / ".cache/diastole/products"


@pytest.mark.parametrize("damage", ["truncated", "altered", "removed", "manifest"])
def test_a_damaged_product_is_generated_again_and_that_is_said(home, capsys, damage):
    made = cached(Config(), generate)
    source, manifest = made / "top.v", made / "manifest.json"
    text = source.read_text()
    if damage == "truncated":
        source.write_text(text[:-1])
    elif damage == "altered":
        source.write_text(text.replace("module", "modulo"))
    elif damage == "removed":
        source.unlink()
    else:
        manifest.write_text("{}")
    assert cached(Config(), generate) == made
    assert (source.read_text(), manifest.read_text()) == (text, "diastole")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"diastole: {made.parent} is damaged (")
    assert said[0].endswith(") and is generated again")
    assert cached(Config(), refuse) == made
    assert capsys.readouterr().err == ""


def test_what_decides_is_in_the_version(monkeypatch, tmp_path):
    """A changed byte of a source or table, or another version of a generator, and nothing else."""
    versions = {generator_version.__wrapped__()}
    read = Path.read_bytes
    spec = "sim/diastole_sim/spec"
    golden, product = "sim/diastole_sim/golden/convert.py", "tool/diastole/product"
    changes = ("hw/diastole_hw/top.py", f"{spec}/image.py", f"{spec}/tables/exp.txt", golden)
    for name in (*changes, f"{product}/generate.py", f"{product}/texts/host.c"):
        with monkeypatch.context() as patch:
            changed = ROOT / name
            patch.setattr(
                Path, "read_bytes", lambda path, c=changed: read(path) + b"#" * (path == c)
            )
            versions.add(generator_version.__wrapped__())
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda name: "9")
        versions.add(generator_version.__wrapped__())
    assert len(versions) == 8
    for source in _SOURCES:
        assert list((ROOT / "tool/diastole").glob(source))
