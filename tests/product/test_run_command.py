"""The command ``run`` on generated Verilog, to its end: results, the verdict and the counts."""

import numpy as np
import pytest

from command_line import Result
from diastole import cli
from diastole.config.file import to_toml
from support.products import MACHINES
from support.sweep import sweep

M, K, N = 13, 21, 6
MULTIPLIED = {"forward": ("Y",), "dx": ("dX",), "dw": ("dW",), "backward": ("dX", "dW")}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, np_rng):
    """``run(name, *words)``: the command on a machine of ``MACHINES``."""
    monkeypatch.chdir(tmp_path)
    shapes = {"X": (M, K), "W": (K, N), "dY": (M, N)}
    given = {name: np_rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    np.savez("in.npz", **given)

    def run(name, *words):
        (tmp_path / "my.toml").write_text(to_toml(MACHINES[name]))
        code = cli.main(["run", "my.toml", "--in", "in.npz", "--out", "out.npz", *words])
        return Result(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("op", MULTIPLIED)
@pytest.mark.parametrize(
    "name", ["pico", "nvfp4", "fast", *map(sweep, ("mxfp8_e4m3", "fp8_e5m2", "ports"))]
)
def test_every_operation(run, name, op):
    """Bit for bit golden's, and not far from the product in float64."""
    codes = ["--codes"] * (name != "fast")  # whose elements have several widths
    done = run(name, "--op", op, "--verify", "--json", *codes)
    made = [line for line in done.err if "compiling the Verilog" in line]  # the first time
    assert (done.code, done.err) == (0, made), done.err
    record = done.json
    assert (record["verified"], record["mismatches"], record["beyond_float32"]) == (True, 0, {})
    assert record["compared"] > 0
    assert record["cycles"] > 0
    with np.load("in.npz") as file:
        x, w, dy = (file[key].astype("f8") for key in ("X", "W", "dY"))
    wanted = {"Y": x @ w, "dX": dy @ w.T, "dW": x.T @ dy}
    with np.load("out.npz") as file:
        for result in MULTIPLIED[op]:
            error = np.linalg.norm(file[result] - wanted[result])
            assert error < 0.25 * np.linalg.norm(wanted[result]), result


def test_what_it_says_without_json(run):
    done = run("pico", "--op", "forward", "--verify")
    assert done.code == 0
    assert "equal to the golden model" in " ".join(done.out.split())
    assert run("pico", "--op", "backward").code == 0
