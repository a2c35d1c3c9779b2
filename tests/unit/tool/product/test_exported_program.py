"""Files for a host without Python: the image, and a header whose numbers are the program's."""

import re

import numpy as np
import pytest

from diastole.backend import program_limits
from diastole.config.presets import PRESETS
from diastole.product.exported_program import exported
from diastole.product.host_view import HostView
from diastole_sim.lowering.program import training_program
from diastole_sim.program.program import EVALUATION, LOSSES, OUTPUT, TRAINING
from diastole_sim.program.relocation import address_places, memory_image
from diastole_sim.train.loss_scaling import LossScaling
from support.optimisers import SETTINGS
from support.small_programs import SmallRun

CONFIG = PRESETS["pico"]
SEED = 9
SCALING = LossScaling(exponent=5, window=7)


@pytest.fixture(scope="module")
def program():
    run = SmallRun(np.random.default_rng(2), SETTINGS["adamw"], steps=3, loss_scaling=SCALING)
    return training_program(
        run.recipe,
        run.training,
        run.held_out,
        numerics=CONFIG.numerics,
        limits=program_limits(CONFIG),
    )


@pytest.fixture(scope="module")
def files(program):
    return exported(HostView.of(CONFIG), program, seed=SEED)


def numbers_of(header):
    found = re.findall(r"#define PROGRAM_(\w+) (0x[0-9a-f]+|\d+)u", header)
    return {name: int(value, 0) for name, value in found}


def test_the_image(program, files):
    assert set(files) == {"program.bin", "program.h", "train.c"}
    assert files["program.bin"] == memory_image(program).tobytes()
    assert len(files["program.bin"]) == program.memory_bytes


def test_numbers_of_the_header(program, files):
    numbers = numbers_of(files["program.h"].decode())
    areas = program.areas
    scale = SCALING.begin()
    assert numbers == {
        "CONFIG_HASH": int(CONFIG.config_sha256[:8], 16),
        "BYTES": program.memory_bytes,
        "SEED": SEED,
        "STEPS": 3,
        "TRAINING": areas[TRAINING].address,
        "TRAINING_COUNT": len(program.training),
        "RESUME": program.resume,
        "EVALUATION": areas[EVALUATION].address,
        "EVALUATION_COUNT": len(program.evaluation),
        "LOSSES": areas[LOSSES].address,
        "LOSSES_PITCH": areas[LOSSES].pitch,
        "LOSS_SCALE": scale.register,
        "LOSS_WINDOW": 7,
        "ADDRESSES": len(address_places(program)),
        "ADDRESS_BYTES": 5,
        "PARAMETERS": 4,
    }


def test_tensors_and_addresses(program, files):
    header = files["program.h"].decode()
    rows = re.findall(r'\{"([^"]+)", (0x[0-9a-f]+)u, (\d+), (\d+), (\d+)\}', header)
    assert [name for name, *_ in rows] == [*program.parameters, OUTPUT]
    for name, address, high, wide, pitch in rows:
        area = program.areas[name]
        assert int(address, 0) == area.address
        assert (int(high), int(wide)) == (area.shape if len(area.shape) > 1 else (1, *area.shape))
        assert int(pitch) == area.pitch
    (listed,) = re.findall(r"program_addresses\[\] = \{\n(.*?)\};", header, re.DOTALL)
    assert tuple(map(int, re.findall(r"\d+", listed))) == address_places(program)


def test_names_of_the_machine(files):
    host = files["train.c"].decode()
    assert '#include "diastole_pico_driver.h"' in host
    assert "machine_" not in host
    assert "MACHINE_" not in host
