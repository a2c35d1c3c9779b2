"""Memories that give anything where a word is read while it is written: no machine uses that."""

import re
import shutil

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole.devices import Device
from support import products as p
from support.sweep import sweep

CLOCKED = "read_data <= ram_words[read_addr];"
AT_ONCE = "assign read_data = ram_words[read_addr];"
COLLIDES = "(write_en && write_addr == read_addr)"
MACHINES = ["pico", *map(sweep, ("mixed", "bfp4_1x16", "nvfp4", "fp8_e5m2", "ports", "floats"))]


def garbage(text):
    """The Verilog of a memory, with what is wrong in every bit for a word that is written."""
    wrong = f"{COLLIDES} ? ~(ram_words[read_addr] & write_data) : ram_words[read_addr];"
    text, clocked = re.subn(re.escape(CLOCKED), f"read_data <= {wrong}", text)
    text, at_once = re.subn(re.escape(AT_ONCE), f"assign read_data = {wrong}", text)
    return text, clocked + at_once


@pytest.fixture
def colliding(tmp_path):
    """``colliding(config)``: its product, with such memories."""

    def product(config):
        folder = tmp_path / config.name
        shutil.copytree(cached_product(config), folder)
        changed = 0
        for path in (folder / "rtl").glob("*_mem_*.v"):
            text, count = garbage(path.read_text())
            path.chmod(0o644)
            path.write_text(text)
            changed += count
        assert changed > 3, "memories"
        return folder

    return product


@pytest.mark.parametrize("name", MACHINES)
def test_no_result_depends_on_a_collision(name, colliding, goldens, np_rng):
    """Products of several tiles, and conversions of rows that follow each other without a gap."""
    with Device(colliding(p.MACHINES[name]), seed=p.SEED, stalls=3, memory_bytes=1 << 24) as device:
        for sizes in ((3, 5, 7), (70, 45, 33)):
            data = p.tensors(np_rng, sizes, "wide")
            p.check_against_golden(device, goldens(name), data)
        array = np_rng.standard_normal((64, 1)).astype(np.float32)
        p.check_tensor(device.convert(array, "x"), goldens(name).convert(array, "x"), "a column")
