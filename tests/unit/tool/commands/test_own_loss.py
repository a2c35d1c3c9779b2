"""A loss in a file of the user: trained, saved and evaluated; and mistakes in the file."""

from pathlib import Path

import numpy as np
import pytest

from support.own_networks import NUMBERS, read_table, write_networks
from support.own_page import write_examples

WORDS = [word for word in NUMBERS if word not in ("--loss", "mse")]


@pytest.fixture
def files(diastole, tmp_path):
    """The command line in a folder with networks, data and the examples of docs/own.md."""
    write_networks(tmp_path)
    write_examples(tmp_path)
    return diastole


def changed(before, after):
    text = Path("log_cosh.py").read_text()
    assert before in text
    Path("bad.py").write_text(text.replace(before, after))


def test_a_training_and_an_evaluation(files):
    more = ("--loss", "log_cosh.py:log_cosh", "--save", "run.safetensors", "--json")
    record = files(*WORDS, *more, "--epochs", "20", "--standardize", "all").json
    assert record["loss"] == pytest.approx(record["float_loss"], rel=0.1)
    Path("log_cosh.py").unlink()
    words = ("run.safetensors", "--backend", "golden")
    measured = files("evaluate", *words, "--data", "n.csv", "--json").json
    assert files("predict", *words, "--in", "x.csv", "--out", "y.csv").code == 0
    columns = {
        name: np.array([[float(row[each]) for each in "uv"] for row in read_table(name)])
        for name in ("y.csv", "n.csv")
    }
    error = np.abs(columns["y.csv"] - columns["n.csv"]).mean()
    assert measured["mean_absolute_error"] == pytest.approx(error, rel=1e-5)
    assert measured["loss"] == pytest.approx(record["loss"], rel=0.6)


def test_the_other_commands_take_the_loss(files):
    loss = ("--loss", "log_cosh.py:log_cosh")
    network = ("nano.toml", "--set", "vector.enable=true", "--graph", "nets.py:numbers")
    assert files("estimate", *network, *loss, "--inputs", "3").code == 0
    data = ("--data", "n.csv", "--target", "u,v", "--batch", "16", "--out", "p.safetensors")
    assert files("program", "build", *network, *loss, *data).code == 0


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("r3 = sel r3 r8 -r8", "r3 = sel r3 r8 -r8 -> o0",
         "text: bad.py, line 25: the loss stays in r1 and the derivative in r3: r3 = sel"),
        ("r1 = add r4 r10", "r2 = add r4 r10",
         "text: bad.py, line 22: r2 has the sum of the row: take another register: r2 = "),
        ("r9 K[ln2]", "r9 K[ln3]", "text: bad.py, line 21: there is no constant ln3"),
        ('"ln2": 0', '"slope": 0', "constants: slope is a constant of every loss"),
        ("r5 = exp r5", "r5 = exp s2", "text: bad.py, line 12: there is no stream s2"),
        ("r3 = gt r0 0", "r12 = gt r0 0",
         "text: bad.py, line 25: no line before writes r3: r3 = sel r3 r8 -r8"),
        ("r1 = add r4 r10", "r12 = add r4 r10",
         "text: bad.py, line 23: no line before writes r1"),
        ("r0 = add s0 -s1 ", "r0 = add s0 -s1 fresh ", "text: bad.py, line 9: "),
        ("r1 = add r4 r10", "r1 = add r4 r10 when last",
         "text: bad.py, line 22: a loss of one element has no when"),
        ('"ln2": 0.6931471805599453', '"ln2": 0.6931471805599453, "252": 7.0',
         "constants: 252 is a constant of every loss: take another name"),
        ('name="log_cosh"', "name=3", "name must be a text, not 3"),
        ("def log_cosh()", "def log_cosh(p)",
         "a loss is called without arguments, but log_cosh needs p"),
        ("return ElementLoss(", "return dict(",
         "must be an ElementLoss of diastole_sim.program.chains.losses"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(files, before, after, said):
    changed(before, after)
    result = files(*WORDS, "--loss", "bad.py:log_cosh")
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: --loss: bad.py:log_cosh: {said}")


def test_what_is_no_loss(files):
    result = files(*WORDS, "--loss", "msr")
    said = "--loss must be one of cross-entropy, mse, l1, smooth-l1, or FILE.py:NAME, not msr"
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: {said}; did you mean mse?")


@pytest.mark.parametrize(
    "text, said",
    [
        ("r1 = add s0 -s1", "text: no line writes r3, the derivative"),
        ("r3 = add s0 -s1", "text: no line writes r1, the loss"),
        ("", "text: no line writes r1, the loss"),
    ],
)
def test_texts_that_leave_a_register(files, text, said):
    Path("bad.py").write_text(
        "from diastole_sim.program.chains.losses import ElementLoss\n"
        f"loss = ElementLoss(name='bad', text={text!r})\n"
    )
    result = files(*WORDS, "--loss", "bad.py:loss")
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: --loss: bad.py:loss: {said}")
