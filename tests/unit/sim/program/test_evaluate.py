"""Chains in float64: every kind of stream, in memory and in the panel."""

import numpy as np
import pytest

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.program.evaluate import in_float64
from diastole_sim.spec.stream_table import Kind, PanelOrder

BLOCKS = (1, 2, 4, 8)


def port(number, *kinds, order=PanelOrder.BLOCK):
    return Port(number=number, kinds=kinds, meaning="", order=order)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("panel", [False, True])
def test_tensors_and_vectors(block, panel, np_rng):
    chain = Chain(
        name="all",
        text=lines("""
            r0 = mad s0 K[a] s1
            r0 = add r0 s2
            r0 = add r0 K[252] -> o0
            r1 = max s0 r1 fresh keep
            turned max r1 lanes when last -> o1
            r2 = add s0 r2 fresh keep
            turned add r2 lanes when last
            r2 = mul r2 K[253] when last -> o2
        """),
        inputs={
            "x": port(0, Kind.F32, Kind.PANEL),
            "columns": port(1, Kind.COLUMN),
            "rows": port(2, Kind.ROW, Kind.PANEL, order=PanelOrder.BLOCK_ROW),
        },
        outputs={
            "y": port(0, Kind.F32, Kind.PANEL),
            "most": port(1, Kind.ROW, Kind.PANEL, order=PanelOrder.BLOCK_ROW),
            "sum": port(2, Kind.CONSTANT),
        },
        constants={"a": None},
    )
    x, columns, rows = np_rng.normal(size=(5, 7)), np_rng.normal(size=7), np_rng.normal(size=5)
    found = in_float64(
        chain,
        {"x": x, "columns": columns, "rows": rows},
        shape=(5, 7),
        constants={"a": 3.5},
        block=block,
        kinds=dict.fromkeys(("x", "rows", "y", "most"), Kind.PANEL) if panel else None,
        loss_scale=4.0,
    )
    np.testing.assert_allclose(found["y"], 3.5 * x + columns + rows[:, None] + 4, rtol=1e-14)
    np.testing.assert_array_equal(found["most"], x.max(axis=1))
    last = slice(4 // block * block, None)  # the last row of blocks; its first row counts
    np.testing.assert_allclose(found["sum"], x[last][0].sum() / 4, rtol=1e-13)


@pytest.mark.parametrize("block", BLOCKS)
def test_sums_of_columns(block, np_rng):
    chain = Chain(
        name="sums",
        text=lines("r0 = add s0 s1 keep -> o0"),
        inputs={
            "x": port(0, Kind.F32),
            "sums": port(1, Kind.PANEL, order=PanelOrder.BLOCK_COLUMN_ZERO_FIRST),
        },
        outputs={"sums": port(0, Kind.PANEL, order=PanelOrder.BLOCK_COLUMN)},
    )
    x = np_rng.normal(size=(7, 5))
    sums = in_float64(chain, {"x": x}, shape=(7, 5), block=block)["sums"]
    expected = np.zeros((block, 5))
    for row, values in enumerate(x):
        expected[row % block] += values
    np.testing.assert_allclose(sums, expected, rtol=1e-14)

    total = Chain(
        name="total",
        text=lines("r0 = mov s0\nturned add r0 rows -> o0"),
        inputs={"sums": port(0, Kind.PANEL, order=PanelOrder.BLOCK_COLUMN)},
        outputs={"sum": port(0, Kind.COLUMN)},
        by_columns=True,
    )
    found = in_float64(total, {"sums": sums}, shape=(1, 5), block=block)["sum"]
    np.testing.assert_allclose(found, x.sum(axis=0), rtol=1e-14)


def test_what_is_missing():
    chain = Chain(
        name="one",
        text="mul s0 K[a] -> o0",
        inputs={"x": port(0, Kind.F32)},
        outputs={"y": port(0, Kind.F32)},
        constants={"a": None},
    )
    with pytest.raises(KeyError, match="'a'"):
        in_float64(chain, {"x": np.ones((1, 1))}, shape=(1, 1))
    with pytest.raises(KeyError, match="'x'"):
        in_float64(chain, {}, shape=(1, 1), constants={"a": 1.0})
