"""The Python of README.md and of docs/python.md, run as it stands in these documents."""

import re
from collections import OrderedDict

import numpy as np
import pytest

import diastole
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from support.sources import ROOT

BLOCK = re.compile(r"^    import .*\n(?:(?:    .*)?\n)*", re.MULTILINE)
"""An import, with all indented lines after it."""
FORMATS = {"x": "mxfp8_e4m3", "w": "mxfp8_e4m3", "dy": "mxfp8_e5m2"}


def source(document, word):
    """Return the block of a document that has a word, as a program."""
    (block,) = [block for block in BLOCK.findall((ROOT / document).read_text()) if word in block]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


def numbers(np_rng, *shape):
    return np_rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def np_rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_two_devices(document, np_rng, tmp_path, monkeypatch):
    """The second one is the model again here; that the Verilog has its bits is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(to_toml(PRODUCTS_ONLY["pico"]))
    monkeypatch.setattr(diastole, "Device", diastole.GoldenDevice)
    given = {"X": numbers(np_rng, 3, 5), "W": numbers(np_rng, 5, 2)}
    lines = source(document, 'GoldenDevice("my.toml"').splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("y =="))
    lines[place] = "same = " + lines[place]
    exec("\n".join(lines), given)
    assert given["same"].all()
    want = diastole.GoldenDevice(PRODUCTS_ONLY["pico"].numerics, seed=1).forward(
        given["X"], given["W"]
    )
    assert np.array_equal(given["y"], want.y)


def test_a_graph(capsys):
    given = {}
    exec(source("docs/python.md", "nn.trace"), given)
    assert capsys.readouterr().out.splitlines() == [
        "0 (linear) (4, 32)",
        "1 (gelu) (4, 32)",
        "2.body.0 (linear) (4, 32)",
        "2.body.1 (gelu) (4, 32)",
        "2 (add) (4, 32)",
        "3 (linear) (4, 1)",
        "mse_loss (mse_loss) ()",
        f"{given['made'].output} (32, 8)",
    ]
    assert given["made"].output.shape == ()


@pytest.mark.parametrize("formats", ["bfp4", FORMATS], ids=str)
def test_layers_of_torch(formats, capsys):
    """With a convolution in the body, and whatever formats."""
    torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
    nn = torch.nn
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 8), nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 8, 2))
    model = nn.Sequential(OrderedDict(body=body, flat=nn.Flatten(), head=nn.Linear(8, 2)))
    plain = dict(model.named_modules())
    x, w = torch.randn(5, 6), torch.randn(6, 4, requires_grad=True)

    def step(model, number):
        return model(x).square().mean()

    given = {"model": model, "x": x, "w": w, "step": step}
    text = source("docs/python.md", "diastole.torch.convert")
    exec(text.replace('GoldenDevice(formats="bfp4"', f"GoldenDevice(formats={formats!r}"), given)
    assert dict(given["model"].named_modules()) == plain
    want = diastole.GoldenDevice(formats=formats, seed=1).forward(x, w.detach(), tags=(8, 9)).y
    assert np.array_equal(given["y"].detach().numpy(), want)
    given["y"].sum().backward()
    assert w.grad.shape == (6, 4)
    assert list(given["losses"].losses) == ["float32", "bfp4", "nvfp4"]
    assert len(given["losses"].losses["nvfp4"]) == 20
    said = "swapped {} layers, {} % of the multiplications; left: {}"
    counts = said.format("3 of 3", 100, "nothing")  # 5 times 48, 64 and 16
    assert str(given["losses"]).endswith(counts)
    counts = said.format("2 of 3", 87.5, "head (Linear, 12.5 %)")
    out, err = capsys.readouterr()
    assert out.startswith(f"{given['losses']}\n{counts}\nlayer ")
    assert err == (
        "diastole: swapped 2 of 3 layers; left: head (Linear); "
        "the first forward pass that is not compiled counts the multiplications\n"
    )
