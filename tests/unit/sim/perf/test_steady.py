"""What is passed over because it repeats: the model says to the cycle what it says without that."""

import random

import pytest

from diastole_sim.perf import execute, load, result_store
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.product_estimate import OPERATIONS, estimate
from support.modelled import modelled

MACHINES = {
    "pico": {"rows": 1, "cols": 1, "block": 4, "data_width": 32},
    "nano": {"rows": 2, "cols": 2, "block": 8, "data_width": 128},
    "wide": {"rows": 2, "cols": 5, "block": 8, "data_width": 256},
    "grouped": {"rows": 3, "cols": 2, "block": 8, "data_width": 64, "vectors": (16, 16, 16)},
    "ports": {"rows": 2, "cols": 4, "block": 8, "data_width": 64, "ports": 2},
}
SIDES = (1, 7, 16, 40, 64, 128, 200)


def drawn(name, count=12):
    """Products of every kind, some of them as long as rows that repeat take."""
    chosen = random.Random(name)
    for _ in range(count):
        sides = [chosen.choice(SIDES) for _ in range(3)]
        yield chosen.choice(OPERATIONS), sides, chosen.choice((1, 20, 100))


def found(name):
    sizes = {"element_bits": (5, 5, 5), **MACHINES[name]}
    return [
        estimate(modelled(memory=Memory.axi(latency), **sizes), op, *sides)
        for op, sides, latency in drawn(name)
    ]


def one_by_one(self, count, cycles, chunk):
    """The passes that :meth:`Execute._repeat` passes over."""
    for _ in range(count):
        self._pass(chunk, 0, first=False, last=False)


@pytest.mark.parametrize("name", MACHINES)
def test_rows_and_passes_that_repeat(name, monkeypatch):
    quick, skipped = found(name), []
    monkeypatch.setattr(execute.Execute, "_repeat", one_by_one)
    monkeypatch.setattr(load, "MIN_MEMO_RUNS", 1 << 30)
    monkeypatch.setattr(
        result_store.Store, "_skip", lambda self, drain, until=None: skipped.append(drain.row)
    )
    assert found(name) == quick
    assert max(skipped) > 30


def test_rows_are_passed_over(monkeypatch):
    """Most of a long tile's, where bursts begin alike, and where they do so by turns."""
    rows = []
    kept = result_store.Store._row

    def counted(self, direction, start):
        rows.append(direction)
        return kept(self, direction, start)

    monkeypatch.setattr(result_store.Store, "_row", counted)
    nano = modelled(memory=Memory.axi(20), element_bits=(5, 5, 5), **MACHINES["nano"])
    for columns in (64, 24):
        rows.clear()
        estimate(nano, "forward", 1000, columns, 512)
        assert len(rows) < 600
