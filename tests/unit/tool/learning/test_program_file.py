"""Files of programs: what is written comes back, and no byte may change."""

import dataclasses

import numpy as np
import pytest

from diastole.backend import program_limits
from diastole.config.presets import PRESETS
from diastole.errors import BadInput
from diastole.files.network_file import NetworkFile
from diastole.learning.program_file import ProgramFile
from diastole_sim.lowering.program import training_program
from diastole_sim.train.loss_scaling import LossScaling
from support.optimisers import SETTINGS
from support.small_programs import SmallRun
from support.texts import exactly

CONFIG = PRESETS["pico"]
SCALING = LossScaling(exponent=5, floors=((2, 3), (4, 6)))


def small_program(**others):
    """A program of a perceptron for :data:`CONFIG`."""
    run = SmallRun(np.random.default_rng(8), SETTINGS["adamw"], steps=3, **others)
    return training_program(
        run.recipe,
        run.training,
        run.held_out,
        numerics=CONFIG.numerics,
        limits=program_limits(CONFIG),
    )


@pytest.fixture(scope="module")
def program():
    return small_program(loss_scaling=SCALING, clip=2.0)


@pytest.fixture
def file(tmp_path, program):
    path = tmp_path / "program.safetensors"
    ProgramFile(config=CONFIG, seed=7, program=program, about={"task": "small"}).write(path)
    return path


def test_what_is_written_comes_back(file, program):
    found = ProgramFile.read(file)
    assert found.config == CONFIG
    assert (found.seed, found.about) == (7, {"task": "small"})
    for field in dataclasses.fields(program):
        assert getattr(found.program, field.name) == getattr(program, field.name), field.name


def test_the_same_program_is_the_same_bytes(file, program, tmp_path):
    other = tmp_path / "other.safetensors"
    ProgramFile.read(file).write(other)
    assert other.read_bytes() == file.read_bytes()


def test_flipped_bytes_are_noticed(file):
    data = file.read_bytes()
    for place in (*range(0, len(data), 97), len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        file.write_bytes(changed)
        with pytest.raises(BadInput):
            ProgramFile.read(file)


def test_shorter_files_are_noticed(file):
    data = file.read_bytes()
    for length in (0, 8, 1000, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(BadInput):
            ProgramFile.read(file)


def test_a_network_is_no_program(tmp_path):
    path = tmp_path / "run.safetensors"
    NetworkFile(record={}, parameters={}, state={}).write(path)
    said = f"{path}: must be a program, which diastole program build writes, not a network"
    with pytest.raises(BadInput, match=exactly(said)):
        ProgramFile.read(path)


def test_a_program_is_no_network(file):
    said = f"{file}: must be a network, which diastole train --save writes, not a program"
    with pytest.raises(BadInput, match=exactly(said)):
        NetworkFile.read(file)


def test_a_command_that_the_machine_refuses(tmp_path, program):
    path = tmp_path / "program.safetensors"
    name = "commands of training"
    wrong = b"\xff" + program.initial[name][1:]
    changed = dataclasses.replace(program, initial={**program.initial, name: wrong})
    ProgramFile(config=CONFIG, seed=0, program=changed, about={}).write(path)
    with pytest.raises(BadInput, match=r"has a command that the machine refuses: .*unknown opcode"):
        ProgramFile.read(path)
