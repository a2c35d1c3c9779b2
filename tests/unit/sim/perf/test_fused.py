"""The fused backward pass, chunk by chunk, counted by hand."""

import pytest

from diastole_sim.perf.fused import fused_chunks, fused_passes, turned_spans
from diastole_sim.perf.machine import DY, ModelledMachine, W, X
from diastole_sim.perf.walk import NOTHING, LoadedRegion, Span, blocks

NANO = ModelledMachine(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64)


def test_the_fused_pass():
    """20 x 9 x 20: 3, 2 and 3 blocks; k tiles of 2, slices of M of 2 cells."""
    chunks = list(fused_chunks(NANO, 20, 9, 20))
    t0, t1, c0, c1, n = (0, 2), (2, 1), (0, 2), (2, 1), (0, 2)
    one = LoadedRegion(rows=0, maxima_beats=1)
    assert [chunk.regions for chunk in chunks] == [
        (
            *[one] * 4,
            blocks(NANO, W, t0, n),
            blocks(NANO, DY, c0, n),
            blocks(NANO, X, c0, t0),
        ),
        (blocks(NANO, DY, c1, n), blocks(NANO, X, c1, t0)),
        (one, NOTHING, one, NOTHING, blocks(NANO, W, t1, n), NOTHING, blocks(NANO, X, c0, t1)),
        (NOTHING, blocks(NANO, X, c1, t1)),
    ]
    assert [chunk.loads for chunk in chunks] == [(True, True)] * 2 + [(True, False)] * 2
    assert [chunk.frees for chunk in chunks] == [(True, False)] * 2 + [(True, True)] * 2
    assert [chunk.slots for chunk in chunks] == [16, 16, 4, 4]
    assert [chunk.opens for chunk in chunks] == [(True, True), (False, True)] * 2
    assert [chunk.closes for chunk in chunks] == [(False, True), (True, True)] * 2
    assert {(chunk.slices, chunk.groups, chunk.uses) for chunk in chunks} == {(1, 1, (True, True))}
    east = [chunk.spans[0] for chunk in chunks]
    ends = Span(16, 2, 5, start=0, pitch=5), Span(4, 2, 5, start=80, pitch=5)
    assert east == [(), ends[:1], (), ends[1:]]


def test_turned_rows_of_a_result():
    """Rows of a block, as long as a tile; the last ones are 4, and 4 columns."""
    full = [Span(8, 2, 8, columns=16, start=start, pitch=10) for start in (0, 80)]
    low = Span(4, 2, 8, columns=16, start=160, pitch=10)
    last = Span(4, 1, 2, columns=4, start=168, pitch=10)
    assert turned_spans(NANO, 20, 20, (0, 2), (0, 2)) == tuple(full)
    assert turned_spans(NANO, 20, 20, (2, 1), (0, 2)) == (low,)
    assert turned_spans(NANO, 20, 20, (2, 1), (2, 1)) == (last,)


@pytest.mark.parametrize("cols, step", [(4, 2), (2, 2), (6, 2), (3, 1), (1, 1)])
def test_blocks_turn_together_if_a_slice_is_whole_with_them(cols, step):
    machine = ModelledMachine(rows=2, cols=cols, block=8, element_bits=(5, 5, 5), data_width=512)
    assert machine.turned_blocks == step
    spans = turned_spans(machine, 100, 64, (0, cols), (0, 2))
    assert {span.rows for span in spans} == {8 * step}
    assert {(span.beats, span.columns, span.vectors) for span in spans} == {(1, 16, 2)}
    assert len(spans) == cols // step
