"""Widths that a machine decides in whole steps, beside the host's rule on the same tensors."""

import numpy as np
import pytest

from diastole_sim.golden import golden_machine as golden
from diastole_sim.program.memory_plan import MemoryPlan
from diastole_sim.program.step_widths import (
    LOGGED,
    StepWidths,
    first_widths,
    width_history,
    widths_of,
)
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train.precision import Precision, Widths
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.small_programs import WIDTHS, SmallRun
from support.texts import exactly

STEPS = 6
FAST = Precision(kind="fast", classes=CLASS_NAMES, alpha=0.45, beta=0.3)
DEEP = (13, 11, 9, 7)


class Watch:
    """What the golden machine converts, in its order: (class, layer, step, width)."""

    def __init__(self, monkeypatch, precision, layers):
        self.rule = Widths(precision=precision, steps=STEPS, layers=layers)
        self.seen = []
        real = golden.quantise

        def quantise(values, asked, numerics, *, seed):
            tensor, name = real(values, asked, numerics, seed=seed), asked.tensor_class
            layer, of_step = asked.tag // 4, (asked.step + (name == "w")) % 2**32
            wanted = self.rule.choose(name, layer, of_step)
            self.seen.append((name, layer, of_step, tensor.width, wanted))
            self.rule.see(name, layer, of_step, tensor)
            return tensor

        monkeypatch.setattr(golden, "quantise", quantise)


def make(rng, precision=FAST, *, formats="fast", **others):
    numerics = make_numerics(formats=formats, headroom=8, **others.pop("numerics", {}))
    return SmallRun(
        rng, SETTINGS["momentum"], steps=STEPS, numerics=numerics, precision=precision, **others
    )


@pytest.mark.parametrize("widths", [WIDTHS, DEEP], ids=["two layers", "three"])
@pytest.mark.parametrize("groupings", [None, "1x16"], ids=["squares", "vectors"])
def test_decisions_are_the_rule_s(widths, groupings, np_rng, monkeypatch):
    layers = len(widths) - 1
    watch = Watch(monkeypatch, FAST, layers)
    made = make(np_rng, widths=widths, numerics={"groupings": groupings})
    run = made.start()
    run.train(2)
    run.evaluate()
    run.train(STEPS - 2)
    assert len(watch.seen) == layers * (1 + 3 * STEPS + 1)
    assert [each[3] for each in watch.seen] == [each[4] for each in watch.seen]
    chosen = watch.rule.history
    assert {width for each in chosen.values() for width in each} == {2, 4}
    expected = {name: each[:STEPS] for name, each in chosen.items()}
    assert width_history(run.widths(), FAST, layers) == expected


@pytest.mark.parametrize("kind, width", [("low", 2), ("high", 4)])
def test_widths_that_stay(kind, width, np_rng, monkeypatch):
    precision = Precision(kind=kind, classes=("x", "dy"))
    watch = Watch(monkeypatch, precision, 2)
    made = make(np_rng, precision, formats=("fast", "bfp2", "fast"))
    run = made.start()
    run.train(STEPS)
    run.evaluate()
    assert {each[3] for each in watch.seen if each[0] != "w"} == {width}
    chosen = width_history(run.widths(), precision, 2)
    assert chosen == {f"layer{n}.{name}": [width] * STEPS for n in range(2) for name in ("X", "dY")}


def test_evaluations_take_the_widths_of_training_and_decide_nothing(np_rng):
    made = make(np_rng)
    run = made.start()
    run.train(3)
    tables = run.machine.tables
    tables.eps[:] = 2**18 - 1  # what decided would have 2 bits
    area = run.program.areas["widths of slots"]
    run.machine.write(area.address, np.full(area.length // 4, 2, "<u4").view(np.uint8))
    run.evaluate()
    slots = [4 * layer for layer in range(2)]
    assert tables.widths[slots].tolist() == [3, 3]
    assert not any(tables.amax[8:])


def test_thresholds():
    """Of 4 steps and 2 layers, .45 - .3 i/I - .3 l/L; weights are those of the step after."""
    plan = MemoryPlan(numerics=make_numerics(formats="fast"), data_width=64, panel_vectors=64)
    initial = {}
    made = StepWidths(FAST, steps=4, layers=2, plan=plan, initial=initial)
    commands = made.begin().commands()
    assert [(each.opcode, each.which, each.count) for each in commands] == [
        (Opcode.LOAD, VectorTable.EPS, 8),
    ]

    def eps(step, layer):
        return round(2**16 * max(0, 0.45 - 0.075 * step - 0.15 * layer))

    def words(name):
        return np.frombuffer(initial[name], "<u4").reshape(-1, 8).tolist()

    def expected(step, of_weights):
        each = [(eps(step, n), eps(of_weights, n), eps(step, n), 0) for n in range(2)]
        return [*each[0], *each[1]]

    assert first_widths(FAST, 2).tolist() == [3] * 8
    assert words("first thresholds") == [expected(0, 0)]
    assert words("thresholds") == [expected(step, step + 1) for step in range(4)]
    assert plan.areas[LOGGED].shape == (4, 8)


def test_thresholds_that_a_machine_has_not():
    plan = MemoryPlan(numerics=make_numerics(formats="fast"), data_width=64, panel_vectors=64)
    precision = Precision(kind="fast", classes=CLASS_NAMES, alpha=4.0)
    with pytest.raises(
        ValueError, match=exactly("threshold must be an integer in 0..262143, not 262144")
    ):
        StepWidths(precision, steps=1, layers=1, plan=plan, initial={})


def test_passes_are_those_of_the_widths():
    step = [
        Command.product(
            Opcode.FORWARD, m=8, n=4, k=2, slots={"x": 0, "w": 1},
            address_x=0, address_w=0, out_a=0,
        ),
        Command.product(
            Opcode.DW, m=8, n=3, k=4, slots={"x": 4, "dy": 6}, address_x=0, address_dy=0, out_a=0,
        ),
        Command.next(0),
    ]  # fmt: skip
    log = np.zeros((2, 8), np.uint32)
    log[0, [0, 6]] = 1, 3
    log[0, 1] = 2  # what is decided next does not count
    log[1, 4] = 1
    found = widths_of(log, step, FAST, steps=2, layers=2)
    # X 4 2, W 4 2 and dY 4 2 of layer 0 and 1: 64 MACs of 4 passes and of 1, 96 of 2 and of 2.
    assert found.products == {4: 1, 1: 1, 2: 2}
    assert found.mean_passes == (64 * 4 + 64 + 96 * 2 + 96 * 2) / 320
    assert found.log()["layer0.X"] == "42"
    assert found.log()["layer1.dY"] == "42"
    assert found.log()["layer0.W"] == "42"


@pytest.mark.parametrize(
    "change, text",
    [
        ({"formats": "bfp4"}, "the machine decides no widths of class x"),
        ({"numerics": {"widths": (4,)}}, "the machine decides no widths of class x"),
    ],
)
def test_machines_that_decide_none(change, text, np_rng):
    with pytest.raises(ValueError, match=exactly(text)):
        make(np_rng, **change)


@pytest.mark.parametrize("switch", [0, 1, 3, STEPS - 1, STEPS, STEPS + 4])
def test_widths_by_the_number_of_the_step(switch, np_rng, monkeypatch):
    """Of a run in two parts. W of a step was converted in the step before."""
    precision = Precision(kind="low-to-high", classes=CLASS_NAMES, switch=switch)
    watch = Watch(monkeypatch, precision, 2)
    run = make(np_rng, precision).start()
    run.train(2)
    run.train(STEPS - 2)
    assert [each[3] for each in watch.seen] == [2 if each[2] < switch else 4 for each in watch.seen]
    low = min(switch, STEPS)
    widths = low * [2] + (STEPS - low) * [4]
    chosen = width_history(run.widths(), precision, 2)
    assert chosen == {f"layer{n}.{name}": widths for n in range(2) for name in ("X", "W", "dY")}
