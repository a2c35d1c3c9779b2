"""Cycles over those of one plane, on devices that count as many as a test wants."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from diastole.measure import plane_passes
from diastole.measure.plane_passes import WIDTHS, figures, over_one_plane, passes_of

ALONE = {"forward": 100_000, "dx": 100_000, "dw": 100_000, "backward": 200_000}


class Counting:
    """``share``: of the cycles of a plane that each further pass takes. ``seen``: operands."""

    def __init__(self, share):
        self.share, self.seen = share, []

    def convert(self, array, tensor_class, tag, width):
        self.seen.append((array.shape, tensor_class, tag, width))
        return width or 2

    def counted(self, op, *pairs):
        passes = sum(a * b / 4 for a, b in pairs) / len(pairs)
        cycles = round(ALONE[op] * (1 + (passes - 1) * self.share))
        return SimpleNamespace(counters=SimpleNamespace(cycles=cycles))

    def forward(self, x, w):
        return self.counted("forward", (x, w))

    def dx(self, w, dy):
        return self.counted("dx", (w, dy))

    def dw(self, x, dy):
        return self.counted("dw", (x, dy))

    def backward(self, x, w, dy):
        return self.counted("backward", (dy, w), (dy, x))


@pytest.mark.parametrize(
    "op, widths, passes",
    [("forward", (4, 2, 8), 2), ("dx", (8, 4, 6), 6), ("dw", (6, 2, 4), 6),
     ("backward", (4, 2, 2), 1.5), ("backward", (4, 4, 4), 4)],
)  # fmt: skip
def test_passes(op, widths, passes):
    assert passes_of(op, dict(zip(("X", "W", "dY"), widths, strict=True))) == passes


@pytest.mark.parametrize("share, met", [(1, True), (0.995, True), (1.03, False), (0.9, False)])
def test_each_is_asked_for_as_many_as_its_passes(share, met, monkeypatch):
    monkeypatch.setattr(plane_passes, "SIDE", 4)
    monkeypatch.setattr(plane_passes, "FUSED_SIDE", 3)
    device = Counting(share)
    found = list(over_one_plane(device, ALONE))
    assert len(found) == len(ALONE) * len(WIDTHS)
    assert found[0].what == "cycles of forward over bfp2, 4^3, X in 2, W in 2 bits"
    last = found[-1]
    assert last.what == "cycles of backward over bfp2, 3^3, X in 4, W in 4, dY in 4 bits"
    assert (last.asked, last.measured) == ("4.0000, within 0.0400", f"{1 + 3 * share:.4f}")
    assert all(each.met for each in found[: len(ALONE)]), "of one plane"
    assert last.met is met
    assert device.seen[-3:] == [((3, 3), "x", 0, 4), ((3, 3), "w", 1, 4), ((3, 3), "dy", 2, 4)]


def test_the_same_machine_in_both_formats(monkeypatch):
    asked = []
    monkeypatch.setattr(plane_passes, "SIDE", 4)
    monkeypatch.setattr(plane_passes, "FUSED_SIDE", 4)
    monkeypatch.setattr(plane_passes, "cached_product", lambda config: config)
    monkeypatch.setattr(
        plane_passes, "Device",
        lambda config: asked.append((config.format.x, config.array.rows)) or nullcontext(
            Counting(1)
        ),
    )  # fmt: skip
    assert all(each.met for each in figures())
    assert asked == [("bfp2", 2), ("fast", 2)]
