"""Widths that a machine decides in whole steps, beside the host's rule on the same tensors."""

import numpy as np
import pytest

from diastole_sim.golden import machine as golden
from diastole_sim.program.step_widths import LOGGED, chosen_widths
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train.precision import Precision, Widths
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.small_programs import WIDTHS, SmallRun

STEPS = 6
FAST = Precision(kind="fast", classes=CLASS_NAMES, alpha=0.45, beta=0.3)
DEEP = (13, 11, 9, 7)


class Watch:
    """What the golden machine converts, in its order: (class, layer, step, width)."""

    def __init__(self, monkeypatch, precision, layers):
        self.rule = Widths(precision=precision, steps=STEPS, layers=layers)
        self.seen = []
        real = golden.quantise

        def quantise(values, name, numerics, *, tag, step, width=None, **others):
            tensor = real(values, name, numerics, tag=tag, step=step, width=width, **others)
            layer, of_step = tag // 4, (step + (name == "w")) % 2**32
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


def logged(made, run):
    area = made.program.areas[LOGGED]
    rows = run.machine.read_rows(area.address, *(area.shape[0], area.pitch, 4 * area.shape[1]))
    return np.ascontiguousarray(rows).view("<u4")


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
    chosen = watch.rule.chosen
    assert {width for each in chosen.values() for width in each} == {2, 4}
    expected = {name: each[:STEPS] for name, each in chosen.items()}
    assert chosen_widths(logged(made, run), FAST, layers) == expected
