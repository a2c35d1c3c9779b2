"""A board, its RTL in Verilator behind a pseudo-terminal: training over the serial line has the
bits of the golden model, over bad lines too, and says clearly what is wrong with a board."""

from dataclasses import replace

import numpy as np
import pytest

from command_line import Result
from diastole import cli
from diastole.backend import generated_product
from diastole.config.file import to_toml
from diastole.config.keys import ArrayConfig, BusConfig, Config
from diastole_sim.host.product import Product
from diastole_sim.machines.board.link import Link
from diastole_sim.machines.board.port import SerialPort
from diastole_sim.train import TASKS
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import task_of_samples
from support.board_model import Damage
from support.simulated_board import CLOCK_HZ, SimulatedBoard, plugged
from support.sweep import sweep

TINY = Config(name="tiny", array=ArrayConfig(rows=1, cols=1, block=2), bus=BusConfig(data_width=32))
MEMORY_BYTES = 1 << 16
STEPS = 2


@pytest.fixture(scope="module")
def board():
    made = SimulatedBoard(Product.load(generated_product(TINY)), MEMORY_BYTES)
    yield made
    made.close()


@pytest.fixture
def diastole(capsys, tmp_path, monkeypatch):
    """The command line in a folder with tiny.toml, where the digits are fewer and smaller."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(to_toml(TINY))
    random = np.random.default_rng(4)
    inputs = random.integers(17, size=(24, 5)).astype(np.float32) / 16
    labels = random.integers(3, size=24)
    labels[0] = 2
    task = task_of_samples(Samples(inputs=inputs, labels=labels), "digits")
    task = replace(task, batch=7, evaluate_every=2)
    monkeypatch.setitem(TASKS, "digits", task)
    monkeypatch.setattr("diastole_sim.machines.board.port.SILENCE_SECONDS", 0.1)

    def run(*words):
        options = ("tiny.toml", "--task", "digits", "--steps", str(STEPS), "--seed", "9", "--json")
        code = cli.main(["train", *options, *map(str, words)])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def written(monkeypatch):
    """Sizes of what was written to the board's memory, each once, however often it was sent."""
    sizes, write = [], Link.write_memory

    def counted(link, address, octets):
        write(link, address, octets)
        sizes.append(len(octets))

    monkeypatch.setattr(Link, "write_memory", counted)
    return sizes


def over(cable):
    """At about the speed that is simulated, for what is waited for."""
    return "--backend", "board", "--port", cable.name, "--baud", "57600"


@pytest.mark.parametrize("rate", [sweep(0.0), 0.0004], ids=["good", "bad"])
def test_training_over_a_line(board, diastole, rate, rng):
    golden = diastole("--backend", "golden").json
    with plugged(board, Damage(rng, rate)) as cable:
        result = diastole(*over(cable), "--verify")
    assert result.code == 0, result.err
    found = result.json
    for key in ("weights_sha256", "loss", "accuracy", "macs", "saturated", "underflowed"):
        assert found[key] == golden[key], key
    assert found["backend"] == "board"
    assert found["mismatches"] == 0 < found["compared"]
    assert found["cycles"] > 0
    assert (cable.damaged > 3) == bool(rate)


def test_a_training_goes_on_from_its_state(board, diastole, written, tmp_path, monkeypatch):
    """The cable is pulled in the middle; the same command, when it is there again, ends with the
    weights of a training that nobody disturbed."""
    task = TASKS["digits"]
    monkeypatch.setitem(TASKS, "digits", replace(task, evaluate_every=1))
    small = ("--hidden", "4")
    golden = diastole("--backend", "golden", *small).json
    saved = tmp_path / "run.safetensors"
    with plugged(board) as cable:
        diastole(*over(cable), *small, "--save", saved)
    whole = sum(written)
    saved.unlink()
    with plugged(board) as cable:
        cable.pull_when = saved.exists
        result = diastole(*over(cable), *small, "--save", saved)
    assert result.code == 2
    assert result.out == ""
    lost = result.err[-1]
    assert lost.startswith(f"diastole: error: {cable.name}: the serial port has disappeared: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.safetensors", "tiny.toml"]
    written.clear()
    with plugged(board) as cable:
        result = diastole(*over(cable), *small, "--save", saved, "--resume")
    assert 0 < sum(written) < whole
    assert result.code == 0, result.err
    for key in ("weights_sha256", "loss", "accuracy", "macs"):
        assert result.json[key] == golden[key], key


def test_a_board_with_another_machine(board, diastole):
    with plugged(board) as cable:
        result = diastole(*over(cable), "--set", "rounding.bits=7")
    assert result.code == 2
    text = f"diastole: error: {cable.name}: the board holds a machine of another configuration: "
    assert result.err[-1].startswith(f"{text}the hash is {TINY.config_sha256[:8]}, but tiny has ")


def test_a_port_that_is_not_there(diastole, tmp_path):
    result = diastole("--backend", "board", "--port", tmp_path / "tty")
    reason = "cannot be opened as a serial port: "
    assert result.code == 2
    assert result.err[-1].startswith(f"diastole: error: {tmp_path}/tty: {reason}")
    assert "o such file" in result.err[-1]


def test_the_board_tells_what_it_is(board):
    with plugged(board) as cable:
        line = SerialPort(cable.name)
        identity = Link(line).identify()
        line.close()
    assert identity["memory_bytes"] == MEMORY_BYTES
    assert identity["clock_hz"] == CLOCK_HZ
