"""Files of programs: what is written comes back, and no byte may change."""

import dataclasses
import json

import numpy as np
import pytest

from diastole.backend import program_limits
from diastole.config.presets import PRESETS
from diastole.errors import BadInput
from diastole.files.network_file import NetworkFile
from diastole.files.sealed_file import PROGRAM, SealedFile
from diastole.learning.program_file import ProgramFile
from diastole_sim.lowering.program import training_program
from diastole_sim.train.loss_scaling import LossScaling
from support.optimisers import SETTINGS
from support.small_programs import SmallRun
from support.texts import exactly

CONFIG = PRESETS["pico"]
ABOUT = {"task": "small", "batch": 9}
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
    ProgramFile(config=CONFIG, seed=7, program=program, about=ABOUT).write(path)
    return path


def test_what_is_written_comes_back(file, program):
    found = ProgramFile.read(file)
    assert found.config == CONFIG
    assert (found.seed, found.about) == (7, ABOUT)
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


def set_area(plan, name, key, value):
    next(area for area in plan["areas"] if area["name"] == name)[key] = value


EDITS = {
    "memory": lambda record: record["plan"].update(memory_bytes=-1),
    "large memory": lambda record: record["plan"].update(memory_bytes=2**62),
    "text": lambda record: record["plan"].update(memory_bytes="7"),
    "no areas": lambda record: record["plan"].update(areas=[]),
    "panel": lambda record: record["plan"].update(panel=3),
    "configuration": lambda record: record.update(configuration=7),
    "steps": lambda record: record["plan"].update(steps=0),
    "true": lambda record: record["plan"].update(steps=True),
    "resume": lambda record: record["plan"].update(resume=10**6),
    "layers": lambda record: record["plan"].update(layers=[None]),
    "seed": lambda record: record.update(seed=-1),
    "about": lambda record: record.update(about={}),
    "address": lambda record: set_area(record["plan"], "0.weight", "address", 2**50),
    "length": lambda record: set_area(record["plan"], "0.weight", "length", -1),
    "no address": lambda record: set_area(record["plan"], "0.weight", "address", None),
    "exponent": lambda record: record["plan"]["loss_scaling"].update(exponent=2**62),
    "window": lambda record: record["plan"]["loss_scaling"].update(window=0),
    "parameters": lambda record: record["plan"].update(parameters=["x"]),
    "no plan": lambda record: record.pop("plan"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_record_whose_parts_do_not_belong_together(name, file):
    """The hash of the file is right, and the record is wrong."""
    found = SealedFile.read(file, PROGRAM)
    record = json.loads(json.dumps(found.record))
    EDITS[name](record)
    SealedFile(kind=PROGRAM, record=record, tensors=found.tensors).write(file)
    with pytest.raises(BadInput, match="is not a program of this version: "):
        ProgramFile.read(file)


@pytest.mark.parametrize("times", [0, 2])
def test_commands_of_another_number(times, tmp_path, program):
    path = tmp_path / "program.safetensors"
    name = "commands of training"
    initial = {**program.initial, name: times * program.initial[name]}
    changed = dataclasses.replace(program, initial=initial)
    about = {"task": "small", "batch": 9}
    ProgramFile(config=CONFIG, seed=0, program=changed, about=about).write(path)
    with pytest.raises(BadInput, match="no step that repeats"):
        ProgramFile.read(path)
