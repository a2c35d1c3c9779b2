"""Mish and Lion of docs/own.md on generated Verilog, beside golden and beside numpy in float64."""

from pathlib import Path

import numpy as np
import pytest

from command_line import Result
from diastole import cli
from diastole.backend import make_machine, program_limits
from diastole.config.file import to_toml
from diastole.execution import Execution
from diastole_sim.program.own_code import OwnCode
from diastole_sim.program.run import golden_machine
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.options import ProgramOptions
from support.own_page import ACTIVATIONS, SIGNUM, write_examples
from support.products import SEED, STEPS_1X1

STEPS, HIDDEN, RATE = 3, 24, 2.0**-7
BETAS, DECAY = (0.75, 0.875), 0.5


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path)
    (tmp_path / "my.toml").write_text(to_toml(STEPS_1X1))


def test_from_the_command_line(files, capsys):
    """Every number that every command writes is golden's, and both leave the same weights."""
    words = [
        "train", "my.toml", "--task", "digits", "--steps", "2", "--hidden", "24", "--json",
        "--optimizer", "lion.py:Lion", "--activation", "mish.py:mish",
    ]  # fmt: skip
    found = []
    for more in (["--verify"], ["--backend", "golden"]):
        code = cli.main([*words, *more])
        found.append(Result(code, *capsys.readouterr()).json)
        assert code == 0
    verilog, golden = found
    assert (verilog["backend"], verilog["verified"], verilog["mismatches"]) == ("rtl", True, 0)
    assert verilog["compared"] > 0
    for name in ("weights_sha256", "optimizer_sha256", "activation_sha256"):
        assert verilog[name] == golden[name] is not None


@pytest.mark.parametrize(
    "activation, more",
    [("step", []), ("softsign", ["--loss-scale", "4", "--clip", "0.5"]), ("square", [])],
)
def test_others(files, capsys, activation, more):
    """What is kept is the value, z, or not read; no constant changes from step to step."""
    Path("others.py").write_text(ACTIVATIONS)
    Path("signum.py").write_text(SIGNUM)
    words = ["train", "my.toml", "--task", "digits", "--steps", "2", "--hidden", "24", "--json"]
    own = ["--activation", f"others.py:{activation}", "--optimizer", "signum.py:Signum"]
    code = cli.main([*words, *own, *more, "--verify"])
    record = Result(code, *capsys.readouterr()).json
    assert (code, record["verified"], record["mismatches"]) == (0, True, 0)


def mish(z):
    """Its value and slope."""
    t = np.tanh(np.logaddexp(0, z))
    return z * t, t + z * (1 - t * t) / (1 + np.exp(-z))


def trained_in_float64(samples, batches):
    """Losses of a perceptron that is not quantised, by formulas alone."""
    widths = (samples.inputs.shape[1], HIDDEN, 10)
    w = [initial_weights(*widths[n : n + 2], seed=SEED, layer=n).astype(float) for n in (0, 1)]
    b = [np.zeros(columns) for columns in widths[1:]]
    m, losses = [0.0] * 4, []
    for step, rows in enumerate(batches):
        x, labels = samples.inputs[rows].astype(float), samples.labels[rows]
        a, slope = mish(x @ w[0] + b[0])
        z = a @ w[1] + b[1]
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        chances = powers / powers.sum(axis=1, keepdims=True)
        losses.append(-np.log(chances[np.arange(len(z)), labels]).mean())
        dz = (chances - np.eye(10)[labels]) / len(z)
        below = dz @ w[1].T * slope
        gradients = [x.T @ below, a.T @ dz, below.sum(axis=0), dz.sum(axis=0)]
        rate, moved = RATE * (1 - step / STEPS), []
        for n, (p, g) in enumerate(zip([*w, *b], gradients, strict=True)):
            c = BETAS[0] * m[n] + (1 - BETAS[0]) * g
            m[n] = BETAS[1] * m[n] + (1 - BETAS[1]) * g
            moved.append(p - rate * (np.sign(c) + DECAY * p))
        w, b = moved[:2], moved[2:]
    return losses, [w[0], b[0], w[1], b[1]]


def test_beside_numpy(files):
    """Losses and weights of the gates are near those of numbers that are not quantised. Lion moves
    by signs: most weights move as there, the others are those whose gradient is about 0."""
    limits = program_limits(STEPS_1X1)
    options = ProgramOptions(
        limits=limits, hidden=(HIDDEN,), rate=RATE, betas=BETAS, weight_decay=DECAY,
        activation=OwnCode.read("mish.py:mish"), optimizer=OwnCode.read("lion.py:Lion"),
    )  # fmt: skip
    numerics = STEPS_1X1.numerics
    made = options.program(find_task("digits"), numerics, steps=STEPS, seed=SEED)
    with make_machine(Execution(seed=SEED), STEPS_1X1, made.program) as rtl:
        golden = golden_machine(made.program, numerics, limits, seed=SEED)
        run = VerifiedRun(program=made.program, machine=rtl, reference=golden)
        run.train(STEPS)
        assert run.comparison.first is None
        losses, parameters = run.losses(), list(run.parameters().values())
    expected, moved = trained_in_float64(made.training, made.recipe.batches)
    np.testing.assert_allclose(losses, expected, rtol=0.03)
    assert expected[0] - expected[-1] > 0.05
    for ours, theirs in zip(parameters, moved, strict=True):
        off = abs(ours.reshape(theirs.shape) - theirs)
        assert off.max() < 2.1 * RATE * STEPS
        assert (off < RATE / 100).mean() > 0.8
