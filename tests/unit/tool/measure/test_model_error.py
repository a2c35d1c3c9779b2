"""How far the model is from counters: on a device whose counters are the model's, but for an
error."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from diastole.measure import model_error
from diastole.measure.model_error import MACHINES, errors_of, machine_of
from diastole_sim.device.interface import CommandCounters
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.conversion import estimate_conversion
from diastole_sim.spec.nest import Nest

NANO = machine_of("nano", "bfp4")


class Counting(GoldenDevice):
    """``slow``: times as many cycles as the model says."""

    def __init__(self, slow, config=NANO):
        super().__init__(config.numerics)
        self.slow, self.config = slow, config
        sizes = {"rows": config.array.rows, "cols": config.array.cols} | config.bus.model_dump()
        self.model = ModelledMachine.of(config.numerics, **sizes)
        self.loops = SimpleNamespace(of=lambda op, **lengths: Nest())
        self.widths = {}

    def convert(self, values, tensor_class, tag, width):
        self.widths[tensor_class] = width
        guess = estimate_conversion(
            self.config.numerics, tensor_class, *values.shape, data_width=128,
            memory=Memory.axi(20), width=width,
        )  # fmt: skip
        image = SimpleNamespace(range=(4096, 4096 + guess.write_bytes))
        given = {"shape": values.shape, "tensor_class": tensor_class, "images": [image]}
        cycles = round(guess.cycles * self.slow)
        return SimpleNamespace(convert_cycles=cycles, width=width, **given)

    def _counted(self, op, m, n, k):
        widths = tuple(self.widths.values())
        found = estimate(self.model, op, m, n, k, widths=widths)
        none = dict.fromkeys(("total_cycles", "convert_cycles"), 0)
        counters = CommandCounters(
            cycles=round(found.cycles * self.slow), read_bytes=found.read_bytes,
            write_bytes=found.write_bytes, busy_slots=found.slots, waits={}, **none,
        )  # fmt: skip
        return SimpleNamespace(counters=counters)

    def forward(self, x, w):
        return self._counted("forward", m=x.shape[0], k=x.shape[1], n=w.shape[1])

    def dx(self, w, dy):
        return self._counted("dx", m=dy.shape[0], k=w.shape[0], n=w.shape[1])

    def dw(self, x, dy):
        return self._counted("dw", m=x.shape[0], k=x.shape[1], n=dy.shape[1])

    def backward(self, x, w, dy):
        return self._counted("backward", m=x.shape[0], k=x.shape[1], n=dy.shape[1])


@pytest.mark.parametrize("name", ["bfp4", "fast"])
@pytest.mark.parametrize("slow, met", [(1, True), (1.015, True), (1.04, False)])
def test_errors_are_shares_of_what_was_counted(slow, met, name):
    config = machine_of("nano", name)
    device = Counting(slow, config)
    figures = {each.what: each for each in errors_of("it", config, device, shapes=4)}
    for what in ("products", "conversions"):
        mean = figures[f"model of it, {what}: cycles off, mean"]
        assert mean.met is met
        assert float(mean.measured[:-1]) == pytest.approx(100 * (slow - 1) / slow, abs=0.2)
        beyond = figures[f"model of it, {what}: more than 2% off"]
        assert beyond.measured == ("0.0%" if met else "100.0%")
        assert figures[f"model of it, {what}: bytes off, worst"].measured == "0.00%"
    assert set(device.widths.values()) <= ({2, 4} if name == "fast" else {None})


def test_every_machine_is_measured(monkeypatch):
    """In seven formats, and is otherwise the preset."""
    asked = []
    monkeypatch.setattr(model_error.step_error, "figures", lambda: ["of steps"])
    monkeypatch.setattr(model_error, "cached_product", lambda config: config)
    monkeypatch.setattr(model_error, "Device", lambda config, **options: nullcontext(config))
    monkeypatch.setattr(
        model_error, "errors_of", lambda label, config, device: asked.append((label, config)) or []
    )
    assert list(model_error.figures()) == ["of steps"]
    assert len(asked) == 7 * len(MACHINES)
    assert len({label for label, _ in asked}) == len(asked)
    for label, config in asked:
        preset, name = label.split(" in ")
        assert {config.format.x, config.format.w, config.format.dy} == {name}
        assert config.array.rows == {"nano": 2, "edge": 6}[preset]
