"""A machine that is rung: what its registers are told, and what is told of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.host.errors import ProductError
from diastole_sim.host.product import Product
from diastole_sim.host.vector_machine import VectorMachine
from diastole_sim.machines.board.board_machine import BoardMachine
from diastole_sim.machines.board.link import Link
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import VectorLimits
from diastole_sim.spec.registers import BY_NAME, WAIT_REGISTERS
from support import fake_machine
from support.board_model import MachineBridge, ModelLine
from support.numerics import make_numerics


class Played(fake_machine.FakeMachine):
    """Goes on by one step, or stops with an error."""

    error = None

    def write(self, address, value):
        self.registers[address] = value
        if address == BY_NAME["control"].offset and value & 1:
            self.started = {name: self.get(name) for name in ("step", "step_end", "command_first")}
            self.started |= {n: self.get(n) for n in ("command_count", "command_address", "seed")}
            self.put("step", self.get("step") + 1)
        if address == BY_NAME["control"].offset and value & 2:
            self.put("status", 0)  # reset

    def run(self, limit=None):
        self.put("cycles_total", 100)
        if self.error:
            self.put("status", 1 << BY_NAME["status"].bit("error"))
            self.put("error_code", self.error)
            self.put("error_index", 5)
        return 100


@pytest.fixture
def product(copier):
    path = copier(128) / "manifest.json"
    manifest = json.loads(path.read_text())
    numerics = make_numerics(block=8).to_dict()
    manifest["parameters"] |= fake_machine.parameters_of(numerics, 128)
    manifest["parameters"]["vector"] = {
        "special": 2,
        **VectorLimits(panel_vectors=512).to_dict(),
    }
    path.write_text(json.dumps(manifest))
    return path.parent


@pytest.fixture
def machine(product):
    played = Played(Product.load(product), memory_base=0, memory_bytes=1 << 16)
    with VectorMachine(played, seed=9) as made:
        yield made
    assert made.machine.closed


def test_a_run(machine):
    machine.step, machine.step_end, machine.command_first = 3, 7, 2
    assert machine.run_at(0x1000, 30).error == ErrorCode.NONE
    assert machine.machine.started == {
        "step": 3, "step_end": 7, "command_first": 2,
        "command_count": 30, "command_address": 0x1000, "seed": 9,
    }  # fmt: skip
    assert machine.step == 4
    assert machine.memory.size == 1 << 16


def test_an_error(machine):
    machine.machine.error = ErrorCode.BAD_STREAM
    outcome = machine.run_at(0, 30)
    assert (outcome.error, outcome.index) == (ErrorCode.BAD_STREAM, 5)
    assert machine.step == 1
    assert machine.counters()["cycles_total"] == 100


def test_limits_are_those_of_the_manifest(machine):
    assert machine.limits.vector.panel_vectors == 512
    assert machine.limits.block == 8


def test_counters(machine):
    machine.machine.put("wait_load", 17)
    assert set(machine.counters().values()) == {0}
    machine.run_at(0, 1)
    counters = machine.counters()
    assert counters["wait_load"] == 17
    machine.machine.put("saturated", 3)
    machine.machine.put("underflowed", 4)
    machine.run_at(0, 1)
    assert machine.reported() == {"saturated": 3, "underflowed": 4}
    assert set(counters) == {"cycles_total", "busy_slots", *WAIT_REGISTERS.values()}


def test_the_losss_scale(machine):
    loss = LossScale(on=True, exponent=-3, smallest=-14, largest=24, window=100, clean=7)
    machine.loss = loss
    assert machine.loss == loss
    assert machine.machine.get("loss_scale") == loss.register


def test_memory(machine, np_rng):
    data = np_rng.integers(0, 256, size=100).astype(np.uint8)
    machine.write(0x100, data)
    assert np.array_equal(machine.memory[0x100:0x164], data)
    assert np.array_equal(machine.read_rows(0x102, 3, 16, 5), data[2:50].reshape(3, 16)[:, :5])


def test_on_a_board(product):
    """What the machine wrote is there when somebody looks, and what the host wrote before."""
    played = Played(Product.load(product), memory_base=0, memory_bytes=1 << 12)
    line = ModelLine(MachineBridge(played))
    with VectorMachine(BoardMachine(played.product, Link(line)), seed=9) as made:
        made.write(0x100, np.arange(64, dtype=np.uint8))
        made.step, made.step_end, made.command_first = 3, 7, 2
        assert made.run_at(0x800, 30).error == ErrorCode.NONE
        assert played.started["command_address"] == 0x800
        assert (played.started["step"], played.started["seed"], made.step) == (3, 9, 4)
        assert made.counters()["cycles_total"] == 100
        assert list(played.memory[0x100:0x140]) == list(range(64))
        played.memory[0x104:0x108] = 7
        assert made.read_rows(0x102, 2, 4, 3).tolist() == [[2, 3, 7], [7, 7, 8]]
        made.loss = LossScale(on=True, exponent=5)
        assert made.loss.exponent == 5
    assert line.closed


def test_a_product_without_a_unit_is_refused(copier):
    with pytest.raises(ProductError, match=r"no vector unit; .* vector\.enable = true"):
        VectorMachine(SimpleNamespace(product=Product.load(copier(128))))
