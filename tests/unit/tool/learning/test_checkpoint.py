"""The file of a training: resumed with the same bits, and equal on every machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import Result
from diastole import cli
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.network_file import NetworkFile
from support.own_networks import NUMBERS, read_table, write_networks


@pytest.fixture
def files(capsys, tmp_path, monkeypatch):
    """The command line in a folder with networks and data of a user."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    write_networks(tmp_path)

    def run(*arguments):
        code = cli.main(list(arguments))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def test_a_run_that_is_killed_goes_on_with_the_same_bits(files, tmp_path):
    words = [*NUMBERS, "--epochs", "40", "--clip", "1"]
    whole = files(*words, "--save", "whole.safetensors", "--json").json
    command = [sys.executable, "-m", "diastole", *words, "--save", "cut.safetensors"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (tmp_path / "cut.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = NetworkFile.read(tmp_path / "cut.safetensors").record["progress"]["steps"]
    again = files(*words, "--save", "cut.safetensors", "--resume", "--json").json
    for key in set(whole) - {"seconds"}:
        assert again[key] == whole[key], key
    assert 0 < before <= whole["steps"]
    one, other = (tmp_path / f"{name}.safetensors" for name in ("whole", "cut"))
    assert one.read_bytes() == other.read_bytes()


def test_verilog_golden_and_verification_have_one_file(files):
    """The state and the weights of the Verilog are those of the golden model, byte by byte."""
    rtl = [word for word in NUMBERS if word not in ("--backend", "golden")]
    assert files(*NUMBERS, "--save", "golden.safetensors").code == 0
    verified = files(*rtl, "--verify", "--save", "rtl.safetensors", "--json")
    assert verified.code == 0
    assert verified.json["verified"] is True
    golden, hardware = (NetworkFile.read(Path(f"{name}.safetensors")) for name in ("golden", "rtl"))
    assert set(golden.state) == set(hardware.state)
    for name, each in golden.state.items():
        assert each.tobytes() == hardware.state[name].tobytes(), name
    for backend in ("golden", "rtl"):
        predict = ("predict", "golden.safetensors", "--in", "x.csv", "--backend", backend)
        assert files(*predict, "--out", f"{backend}.csv").code == 0
    assert read_table("golden.csv") == read_table("rtl.csv")


def test_a_state_of_another_training(files):
    assert files(*NUMBERS, "--save", "run.safetensors").code == 0
    for words, said in (
        (("--rate", "0.5"), "without --rate: leave --rate out"),
        (("--epochs", "5"), "of 16 steps, not 20: give the same --epochs"),
        (("--seed", "1"), "with --seed 0, not 1"),
        (("--group", "*:rate=0.5"), "with other groups of parameters: give the same --group"),
        (("--init", "run.safetensors"), "with other initial parameters: give the same --init"),
        (
            ("--set", "format.x=bfp8"),
            "with another configuration of the machine: give the same FILE",
        ),
    ):
        result = files(*NUMBERS, "--save", "run.safetensors", "--resume", *words)
        assert result.code == 2
        assert said in result.err[0]


def test_other_names_of_columns_are_other_data(files, tmp_path):
    assert files(*NUMBERS, "--save", "run.safetensors").code == 0
    text = (tmp_path / "n.csv").read_text().replace("a,b,c", "a,b,d", 1)
    (tmp_path / "n.csv").write_text(text)
    result = files(*NUMBERS, "--save", "run.safetensors", "--resume")
    assert result.code == 2
    assert "is the state of a training with other data: give the same --data" in result.err[0]


def test_a_pipe_is_no_file(files, tmp_path):
    os.mkfifo(tmp_path / "run.safetensors")
    result = files(*NUMBERS, "--save", "run.safetensors")
    said = "diastole: error: --save must name a file, not run.safetensors"
    assert (result.code, result.err) == (2, [said])
