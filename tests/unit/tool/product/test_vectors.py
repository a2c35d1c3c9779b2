"""The run that benches make: what it holds, and that it is what the golden machine does."""

import re

import numpy as np
import pytest

from diastole.product.scene import BASE, SEED, accesses
from diastole.product.vectors import c_vectors, make_vectors
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, PRODUCTS, Opcode
from diastole_sim.spec.registers import BY_NAME, END
from support.host_machines import VIEWS


@pytest.fixture(params=VIEWS)
def view(request):
    return VIEWS[request.param]


def commands(view):
    vectors = make_vectors(view)
    count = dict(vectors.writes)[BY_NAME["command_count"].offset]
    starts = range(0, count * COMMAND_BYTES, COMMAND_BYTES)
    encoded = [vectors.inputs[at : at + COMMAND_BYTES] for at in starts]
    return vectors, [decode(each, view.limits) for each in encoded]


def test_every_operation_is_in_it(view):
    vectors, found = commands(view)
    assert {each.opcode for each in found} == set(view.opcodes)
    assert [each.opcode for each in found[:7]] == [Opcode.CONVERT] * 3 + list(PRODUCTS)
    assert {each.class_x for each in found[:3]} == {0, 1, 2}
    assert all(size % view.block or view.block == 1 for size in vectors.sizes.values())
    for values in vectors.floats.values():
        assert (values < 0).any()
        assert (values > 0).any()


def test_data_are_the_same_every_time(view):
    one, other = make_vectors(view), make_vectors(view)
    for name in ("inputs", "expected", "writes", "reads"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("name", ["floats", "choices", "chained_vectors"])
def test_it_is_what_the_golden_machine_does(name):
    """Of machines with a vector unit the golden model does commands from their bytes."""
    view = VIEWS[name]
    vectors = make_vectors(view, base=0)
    size = len(vectors.inputs)
    machine = GoldenMachine(view.numerics, view.limits, memory_bytes=size, seed=SEED)
    machine.write(0, np.frombuffer(vectors.inputs, dtype=np.uint8))
    count = dict(vectors.writes)[BY_NAME["command_count"].offset]
    outcome = machine.run_at(0, count)
    assert (outcome.error, outcome.done) == (ErrorCode.NONE, count)
    assert machine.memory.read(0, size).tobytes() == vectors.expected
    reads = dict(vectors.reads)
    assert reads[BY_NAME["amax"].offset] == machine.status.amax
    assert reads[BY_NAME["saturated"].offset] == machine.status.saturated
    assert reads[BY_NAME["underflowed"].offset] == machine.status.underflowed
    assert reads[BY_NAME["step"].offset] == machine.step == 1
    bits = BY_NAME["flags"]
    assert reads[bits.offset] == sum(1 << bits.bit(flag) for flag in machine.status.flags)


def test_flags_of_one_are_not_those_of_another():
    inexact = 1 << BY_NAME["flags"].bit("inexact")
    flags = {dict(make_vectors(VIEWS[name]).reads)[BY_NAME["flags"].offset] for name in VIEWS}
    assert flags == {0, inexact}


def test_writes_begin_the_run_and_stay_in_its_windows(view):
    vectors = make_vectors(view)
    settings = dict(vectors.writes)

    def of(name):
        at = BY_NAME[name].offset
        return settings[at] | settings[at + 4] << 32

    changed = [
        at
        for at, pair in enumerate(zip(vectors.inputs, vectors.expected, strict=True))
        if pair[0] != pair[1]
    ]
    assert of("write_base") <= BASE + changed[0]
    assert BASE + changed[-1] < of("write_limit") <= of("read_limit")
    assert of("read_base") == of("command_address") == BASE
    assert of("read_limit") == BASE + len(vectors.inputs)
    assert BASE % len(vectors.inputs) == 0
    assert vectors.writes[-2:] == ((0x0C, 0x104), (0x0C, 0x101))
    assert all(offset < END for offset, _ in (*vectors.writes, *vectors.reads))
    identity = dict(vectors.reads)[BY_NAME["config_hash"].offset]
    assert identity == int(view.config_sha256[:8], 16)


def test_hexadecimal_lines():
    vectors = make_vectors(VIEWS["squares"])
    assert vectors.beats(bytes(range(8)), 4) == "03020100\n07060504\n"
    assert vectors.words(((0x1C, 7), (0xFFC, 0xDEAD_BEEF))) == "01c00000007\nffcdeadbeef\n"


def test_wide_registers_take_two_words():
    assert accesses("read_base", 0x12_3456_7890) == [(0x30, 0x3456_7890), (0x34, 0x12)]
    assert accesses("seed", 5) == [(0x28, 5)]


def test_c_arrays(view):
    vectors = make_vectors(view)
    text = c_vectors(view, vectors)
    training = vectors.training
    arrays = {"x": vectors.floats["X"], "y": vectors.product}
    arrays |= {"t": training.targets, "losses": training.losses}
    for name, values in arrays.items():
        body = re.search(rf"{view.name}_vectors_{name}\[(\d+)\] = \{{(.*?)\}};", text, re.DOTALL)
        words = [int(word, 16) for word in re.findall(r"0x([0-9A-F]{8})u", body[2])]
        assert len(words) == int(body[1])
        assert words == values.reshape(-1).view(np.uint32).tolist()
    assert f"#define {view.prefix}_VECTORS_K {vectors.sizes['k']}\n" in text
    (rate,) = re.findall(rf"{view.prefix}_VECTORS_RATE 0x([0-9A-F]{{8}})u", text)
    assert np.array([int(rate, 16)], np.uint32).view(np.float32) == np.float32(training.rate)
