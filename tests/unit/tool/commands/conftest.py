"""The command line in a folder of its own, and data for it."""

import numpy as np
import pytest

from command_line import Result
from diastole import cli
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY


@pytest.fixture
def diastole(capsys, tmp_path, monkeypatch):
    """``diastole("check", "nano.toml")`` runs it in a folder that holds nano.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def npz(tmp_path, rng):
    """A file with X (3 x 5), W (5 x 7) and dY (3 x 7), signed."""
    random = np.random.default_rng(rng.randrange(2**32))
    shapes = {"X": (3, 5), "W": (5, 7), "dY": (3, 7)}
    tensors = {k: random.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    np.savez(tmp_path / "a.npz", **tensors)
    return tensors
