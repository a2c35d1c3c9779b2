"""Figures of float accumulators, from few steps and small products."""

import pytest

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import accumulators
from diastole.measure.accumulators import (
    ACCUMULATORS,
    accuracies,
    floating,
    train_accumulators,
    utilisations,
    whole,
)
from diastole.measure.area import MachineArea


def test_accumulators_are_other_numbers():
    found = [
        from_document({"numbers": "ibm-fp8"}, overrides).accumulator.floats
        for overrides in ACCUMULATORS.values()
    ]
    parts = [each and (each["mantissa"], each["chunk"]) for each in found]
    assert parts == [None, (9, 64), (9, 16), (5, 16), (3, 16)]


def test_a_job_is_a_run():
    first, other = (train_accumulators((name, "integers", 0, 3)) for name in ("ibm-fp8", "hfp8"))
    assert first != other


def test_means_of_seeds(monkeypatch):
    names = ("integers", "m = 3, chunks of 16")
    monkeypatch.setattr(accumulators, "SEEDS", (0, 3))
    monkeypatch.setattr(accumulators, "ACCUMULATORS", {name: ACCUMULATORS[name] for name in names})
    found = list(accuracies(2))
    assert len(found) == 4
    runs = [train_accumulators(("ibm-fp8", names[1], seed, 2)) for seed in (0, 3)]
    assert found[1].what == f"digits, seeds 0 to 3, ibm-fp8, {names[1]}: accuracy"
    assert found[1].measured == f"{sum(runs) / 2:.2%}"


def test_only_accumulators_differ():
    nano = PRODUCTS_ONLY["nano"]
    floats = floating(nano)
    assert floats.accumulator.floats == {"kind": "float", "mantissa": 9, "chunk": 64}
    back = floats.model_copy(update={"name": nano.name, "accumulator": nano.accumulator})
    assert back == nano


def test_whole_machines():
    class Mapper:
        def machine(self, config):
            return MachineArea(whole=1000 + (config.accumulator.kind == "float"), cells=1)

    assert [(figure.what, figure.measured) for figure in whole(Mapper())] == [
        ("NAND2 equivalents of diastole_nano, all but clocked memories", "1,000"),
        ("NAND2 equivalents of diastole_nano_e6m9, all but clocked memories", "1,001"),
    ]


def test_what_is_lost(monkeypatch):
    shares = iter(({"forward": 0.99, "dx": 0.9}, {"forward": 0.985, "dx": 0.88}))
    monkeypatch.setattr(accumulators, "OPERATIONS", ("forward", "dx"))
    monkeypatch.setattr(accumulators, "busy", lambda _config, _side: next(shares))
    found = list(utilisations(side=16))
    assert [figure.measured for figure in found] == [
        "99.00%", "98.50%", "0.50%", "90.00%", "88.00%", "2.00%",
    ]  # fmt: skip
    assert [figure.met for figure in found] == [None, None, True, None, None, False]
    assert found[2].what == "points lost, diastole_nano, forward, 16^3"


@pytest.mark.sweep
def test_busy_by_the_counters():
    shares = accumulators.busy(PRODUCTS_ONLY["pico"], 32)
    assert all(0.5 < share < 1 for share in shares.values())
