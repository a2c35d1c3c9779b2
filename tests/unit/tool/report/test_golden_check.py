"""A result says by which comparisons it is the golden model's."""

import json
from dataclasses import replace

import pytest

from diastole.report.golden_check import checked_record
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train import run_task
from support.host_perceptron import digits_by_host
from support.numerics import make_numerics

NUMERICS = make_numerics(block=8, formats="bfp8", roundings="nearest")


@pytest.fixture(scope="module")
def whole():
    """A training that nothing was compared in."""
    device = NumpyDevice(NUMERICS)
    return run_task(digits_by_host(), device, backend="any", steps=2, float_run=False)


@pytest.fixture(scope="module")
def checked():
    """Its first step, compared."""
    devices = {"device": NumpyDevice(NUMERICS), "reference": NumpyDevice(NUMERICS)}
    return run_task(digits_by_host(), backend="any", steps=1, float_run=False, **devices)


def test_what_was_compared_is_said(whole, checked):
    record = checked_record(whole, compared=checked, golden=whole)
    assert (whole.verified, whole.compared) == (False, 0)
    assert record["verified"] is True
    assert record["compared"] == checked.compared > 10_000
    assert (record["mismatches"], record["first_mismatch"]) == (0, None)
    assert record["steps"] == 2
    assert record["weights_sha256"] == whole.weights_sha256
    assert record["verification"] == {
        "steps_compared": 1,
        "steps": 2,
        "golden_weights_sha256": whole.weights_sha256,
        "weights_are_those_of_golden": True,
    }
    assert json.loads(json.dumps(record)) == record


def test_other_weights_are_not_verified(whole, checked):
    other = replace(whole, weights_sha256="12" * 32)
    record = checked_record(whole, compared=checked, golden=other)
    assert record["verified"] is False
    assert record["verification"]["weights_are_those_of_golden"] is False
    assert record["verification"]["golden_weights_sha256"] == "12" * 32


def test_other_numbers_are_not_verified(whole, checked):
    odd = replace(checked, verified=False, mismatches=3, reports_differ=["saturated of w"])
    record = checked_record(whole, compared=odd, golden=whole)
    assert (record["verified"], record["mismatches"]) == (False, 3)
    assert record["reports_differ"] == ["saturated of w"]
