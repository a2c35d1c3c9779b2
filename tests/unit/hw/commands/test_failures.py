"""What goes wrong below the commands takes one line and its exit code."""

import pytest

from command_line import error
from diastole import backend
from diastole.errors import CheckFailed
from diastole.presets import PRESETS
from diastole_sim.rtl.errors import HardwareHang


def test_a_hang_of_the_hardware_fails_the_check(monkeypatch):
    class Device:
        def __init__(self, *_, **__): ...
        def __enter__(self):
            return self

        def __exit__(self, *_): ...

    monkeypatch.setattr("diastole_sim.rtl.device.Device", Device)
    monkeypatch.setattr(backend, "cached_product", lambda config: "product")
    with (
        pytest.raises(CheckFailed, match="no interrupt\nstate: waiting"),
        backend.make_device("rtl", PRESETS["nano"], seed=0),
    ):
        raise HardwareHang("no interrupt", "state: waiting")


def test_a_full_disk_is_one_line(diastole, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "new.toml")

    monkeypatch.setattr("diastole.commands.init.to_toml", full)
    result = diastole("init", "new.toml")
    assert (result.code, result.err) == (2, error("new.toml: No space left on device"))


def test_an_interrupt_is_one_line(diastole, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("diastole.commands.init.to_toml", interrupt)
    result = diastole("init", "new.toml")
    assert (result.code, result.err) == (130, error("interrupted"))
