"""The pages of `diastole explain`: true to the machine, and what a reader does with them works."""

import numpy as np
import pytest

from diastole.errors import CheckFailed
from diastole.explain import story
from diastole.explain.observe import observe
from diastole.explain.page import write_page
from diastole.explain.waves import Waves
from diastole_hw.plan.uses import Mode
from support.pages import BROWSERS, read_in
from support.products import MACHINES, machine
from support.sweep import sweep

SIZES = {"m": 9, "k": 14, "n": 7}
NAMES = ["forward", "dx", "dw", "backward"]
GROUPED = machine("explained_nvfp4", "nvfp4", rows=2, cols=2, side=4, data_width=128)
CASES = {
    "pico": (MACHINES["pico"], SIZES),
    "wide": (MACHINES["wide"], SIZES),
    "ports": (MACHINES["ports"], {"m": 21, "k": 18, "n": 26}),
    "nvfp4": (GROUPED, SIZES),
    "mixed": (MACHINES["mixed"], SIZES),
    "turning": (MACHINES["turning"], SIZES),
}


def observed(name):
    config, sizes = CASES[name]
    names = NAMES if config.plan.fused else NAMES[:3]
    operands, results, runs = observe(config, names, sizes, seed=3)
    return config, sizes, names, operands, results, runs


@pytest.fixture(scope="module")
def pico():
    return observed("pico")


def total(run, way, sizes):
    """Slots times blocks of the contraction: what all passes of a direction have multiplied."""
    side = "cols" if way.direction == story.EAST else "rows"
    return sum(each.count * getattr(each, side) for each in run.passes)


@pytest.mark.parametrize("name", [sweep(name) for name in CASES if name != "pico"])
def test_stories_are_true(name):
    """:func:`story.runs_of` compares every number; here: that nothing is left out."""
    check_complete(*observed(name))


def test_stories_of_pico_are_true(pico):
    check_complete(*pico)


def check_complete(config, sizes, names, operands, results, runs):
    side = config.plan.block
    assert [run.mode for run in runs] == [Mode.FORWARD, Mode.DX, Mode.DW, Mode.FUSED][: len(names)]
    for run, result in zip(runs, results, strict=True):
        for way in run.ways:
            other = way.cols if way.direction == story.NORTH else way.rows
            lanes = -(-sizes[other] // side)
            groups = {(each.t0, each.row if other == way.rows else each.col) for each in run.passes}
            width = config.plan.cols if other == way.cols else config.plan.rows
            covered = {first + n for _, first in groups for n in range(width) if first + n < lanes}
            assert covered == set(range(lanes))
            contraction = way.rows if other == way.cols else way.cols
            blocks = -(-sizes[contraction] // side)
            groups_of_lanes = -(-lanes // width)
            assert total(run, way, sizes) == sizes[way.t] * blocks * groups_of_lanes
        slots = sum(each.count for each in run.passes) * len(run.ways)
        assert len(run.sums) == slots
        assert run.cycles <= result.counters.cycles
        assert len(run.reads) == len(run.waits) == run.cycles
        beats = len(run.reads) - run.reads.count(" ")
        ports = config.plan.ports
        read = result.counters.read_bytes // config.plan.beat_bytes
        assert beats <= read <= beats * ports + 8 * ports, "the header and the command are before"
        written = len(run.writes) * config.plan.beat_bytes
        assert written == result.counters.write_bytes
        assert all(came < last for *_, came, last in run.arrivals)


def altered(operands, name):
    changed = {key: values.copy() for key, values in operands.items()}
    changed[name, 0][-1, -1] += 1
    return changed


@pytest.mark.parametrize("name", ["X", "W", "dY"])
def test_other_operands_are_noticed(pico, name, monkeypatch):
    """That a story is not of other tensors: each of its numbers is compared."""
    config, sizes, names = pico[:3]
    kept = story.runs_of

    def falsified(waves, plan, operands):
        return kept(waves, plan, altered(operands, name))

    monkeypatch.setattr("diastole.explain.observe.runs_of", falsified)
    with pytest.raises(CheckFailed, match="the waves do not show what was computed"):
        observe(config, names, sizes, seed=3)


def test_other_waves_are_noticed(pico, monkeypatch):
    """One bit of one sum, of a cell, in a cycle in which it means something."""
    config, sizes, names, _, _, runs = pico
    kept = story.runs_of
    cell = f"{story.DATAPATH}array.row_0.cell_0.psum"

    def falsified(waves, plan, operands):
        starts = waves.high(f"{story.ENGINE}walk.start")
        at = starts[2] + runs[2].passes[3].first + 3
        values = dict(waves.values)
        values[cell] = [each ^ (3 << 20) * (n == at) for n, each in enumerate(waves[cell])]
        return kept(Waves(waves.cycles, values), plan, operands)

    monkeypatch.setattr("diastole.explain.observe.runs_of", falsified)
    with pytest.raises(CheckFailed, match=r"sums of cell 0, 0"):
        observe(config, names, sizes, seed=3)


# In a browser.


@pytest.fixture(scope="module", params=BROWSERS)
def told(request, pico, tmp_path_factory):
    """What a reader of the page of `pico` was told."""
    config, sizes, names, operands, results, runs = pico
    values = {name: array for result in results for name, array in result.values.items()}
    stories = list(zip(names, runs, strict=True))
    text = write_page(config, sizes, operands, values, stories, "dw")
    assert len(text.encode()) < 1e6
    return read_in(request.param, text, tmp_path_factory.mktemp("page"))


def test_keys_step(told, pico):
    runs = pico[-1]
    dw, forward = runs[2].cycles - 1, runs[0].cycles - 1
    assert told["steps"] == [
        *(f"cycle {n} of {dw}" for n in (0, 2, 6, 5, dw, dw)),
        f"cycle 0 of {forward}",
        f"cycle 1 of {forward}",
    ]
    assert told["pressed"] == ["true", "false", "false", "false"]
    assert told["errors"] == []
    assert "serves both products" in told["last"]


def test_what_is_pointed_at_adds_up_to_the_result(told, pico):
    """Every element of Y: its partial sums over the blocks of K, as the page tells them, are it."""
    _, sizes, _, _, results, _ = pico
    expected = results[0].y
    blocks = [f"{k}…{min(k + 4, sizes['k']) - 1}" for k in range(0, sizes["k"], 4)]
    assert len(told["sums"]) == expected.size
    for (row, col), value in np.ndenumerate(expected):
        parts = told["sums"][f"Y[{row}, {col}]"]
        assert sorted(parts) == sorted(blocks)
        assert np.float32(sum(parts.values())) == value


def test_every_operand_was_seen(told, pico):
    operands = pico[3]
    seen = {
        f"{name}[{row}, {col}]": value
        for name in ("X", "W")
        for (row, col), value in np.ndenumerate(operands[name, 0])
    }
    assert told["elements"] == seen


def test_blocks_say_where_they_are(told):
    assert all(text.startswith("block ") or "another product" in text for text in told["blocks"])
    assert any("100 % of its sums" in text for text in told["blocks"])


@pytest.mark.parametrize("browser", BROWSERS[:1])
def test_a_page_of_two_copies_runs(tmp_path, browser):
    config, sizes, names, operands, results, runs = observed("nvfp4")
    values = {name: array for result in results for name, array in result.values.items()}
    text = write_page(config, sizes, operands, values, list(zip(names, runs, strict=True)), "dx")
    data = read_in(browser, text, tmp_path)
    assert data["errors"] == []
    assert ("X", 1) in operands
    assert not np.array_equal(operands["X", 0], operands["X", 1]), "a copy that tells which it is"
    for (row, col), value in np.ndenumerate(operands["X", 0]):
        assert data["elements"][f"X[{row}, {col}]"] == value
