"""Products that commands generate for themselves are made once for each configuration."""

import pytest

from diastole import product_cache
from diastole.config import Config


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def generate(config, folder):
    folder.mkdir()
    (folder / "manifest.json").write_text(config.name)


def refuse(config, folder):
    raise AssertionError("generated again")


def test_generated_once(home):
    folder = product_cache.product(Config(), generate)
    assert folder.is_relative_to(home / "diastole")
    assert (folder / "manifest.json").read_text() == "diastole"
    assert product_cache.product(Config(), refuse) == folder


def test_another_configuration_has_another_product(home):
    first = product_cache.product(Config(), generate)
    assert product_cache.product(Config(name="other"), generate) != first


def test_another_generator_has_another_product(home, monkeypatch):
    first = product_cache.product(Config(), generate)
    monkeypatch.setattr(product_cache, "generator_version", lambda: "newer")
    assert product_cache.product(Config(), generate) != first


def test_a_failed_generation_is_tried_again(home):
    def fail(config, folder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        product_cache.product(Config(), fail)
    assert (product_cache.product(Config(), generate) / "manifest.json").exists()


@pytest.mark.parametrize("value", [None, "", "relative"])
def test_without_the_variable_the_home_folder_counts(tmp_path, monkeypatch, value):
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert product_cache.cache_folder() == tmp_path / ".cache" / "diastole"
