"""Machines that do not do what the golden model does are no subject of a page."""

from contextlib import contextmanager

import pytest

from command_line import Faulty
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput, CheckFailed
from diastole.explain import observe
from diastole.explain.shown_run import WavesDisagree
from diastole_sim.golden.numpy_device import NumpyDevice
from support.products import machine as machine_of

CONFIG, AXES = PRODUCTS_ONLY["pico"], {"m": 3, "k": 5, "n": 7}


@pytest.fixture
def machine(monkeypatch):
    """``machine(kind)``: the machine is a golden device of this kind, whose waves are untrue."""

    def told(*_):
        raise WavesDisagree("a story")

    def of(kind):
        @contextmanager
        def make_device(execution, config, *, views):
            assert execution.backend == "rtl"
            assert not views, "waves that are deleted need none"
            yield kind(config.numerics, seed=execution.seed)

        monkeypatch.setattr(observe, "make_device", make_device)
        monkeypatch.setattr(observe, "read_waves", lambda *_: None)
        monkeypatch.setattr(observe, "runs_of", told)

    return of


def test_a_wrong_result_is_found_before_its_waves_are_read(machine):
    machine(Faulty)
    with pytest.raises(
        CheckFailed, match=r"differs from the golden model: .*tensor Y, index .1, 2.:"
    ):
        observe.observe(CONFIG, ["dx", "forward"], AXES, seed=0)


def test_untrue_waves(machine):
    machine(NumpyDevice)
    with pytest.raises(CheckFailed, match="the waves differ from the computed results: a story"):
        observe.observe(CONFIG, ["forward"], AXES, seed=0)


def test_a_wrong_conversion_is_found(machine):
    """Of an operand too: its codes are compared, not only the results that it has."""

    class Changed(NumpyDevice):
        def convert(self, array, *arguments, **options):
            return super().convert(array + (array == array.max()), *arguments, **options)

    machine(Changed)
    with pytest.raises(CheckFailed, match=r"differs from the golden model: .*tensor X_q"):
        observe.observe(CONFIG, ["forward"], AXES, seed=0)


def test_elements_that_are_no_numbers(machine):
    """`floor`, `specification` and `poison`: some groups have elements beyond the format."""
    machine(NumpyDevice)
    tables = {
        key: {"x": value} for key, value in (("scale", "floor"), ("overflow", "specification"))
    }
    config = machine_of("beyond", "fp8_e5m2", **tables, block={"x": "4x4"}, special="poison")
    with pytest.raises(BadInput, match=r"X has Inf or NaN, because overflow\.x = spec"):
        observe.observe(config, ["forward"], {"m": 32, "k": 32, "n": 32}, seed=0)
