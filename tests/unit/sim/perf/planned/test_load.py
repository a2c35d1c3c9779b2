"""Requests on the planned bus, by hand."""

from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.planned import PlannedMachine
from diastole_sim.perf.planned.load import LAG, Cost, LoadQueues, cost

NANO = PlannedMachine.after(
    ModelledMachine(
        rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64,
        memory=Memory(read_cycles=10),
    ),
    data_width=128,
)  # fmt: skip


def test_cost():
    """Of 320 bits a block, 5 beats for two: a piece begins and ends at an even block."""
    assert cost(NANO, 0, 1, (0, 2)) == Cost(beats=1 + 5, pieces=1, blocks=2)
    assert cost(NANO, 0, 3, (1, 1)) == Cost(beats=3 * (1 + 5), pieces=3, blocks=6)
    assert cost(NANO, 0, 1, (6, 3)) == Cost(beats=6 + 6, pieces=2, blocks=4)


def test_what_streams():
    """Two rows of two blocks: the bus or the writers, whatever takes longer."""
    load = LoadQueues(NANO, ask=0, ask_held=0)
    first, last = load.streamed(0, (0, 2), (0, 2), free=7)
    asked = 7 + 3
    lasts = 2 * max(1 + 5, 2 * 8 / 4)
    assert (first, last) == (asked + 10 + lasts / 2 + LAG, asked + 10 + lasts + LAG)
    assert load.beats == 12


def test_turned_vectors_come_with_the_last_row():
    plain, turned = (
        LoadQueues(NANO, 0, 0).streamed(0, (0, 4), (0, 2), free=0, turned=turned)
        for turned in (0, 1)
    )
    assert plain[1] == turned[1]
    assert turned[0] > plain[0]


def test_what_is_held_fills_gaps():
    """Between two rectangles that wait for room the bus is idle: there it costs nothing."""
    load = LoadQueues(NANO, ask=0, ask_held=0)
    load.streamed(0, (0, 2), (0, 2), free=0)
    bus = load.bus
    _, last = load.streamed(0, (0, 2), (0, 2), free=100)
    behind = load.bus
    first, end = load.held(1, (0, 2), (0, 2), free=0)
    assert bus < first < end < last
    assert load.bus == behind


def test_what_is_held_goes_behind():
    load = LoadQueues(NANO, ask=0, ask_held=0)
    load.streamed(0, (0, 8), (0, 8), free=0)
    bus = load.bus
    first, end = load.held(1, (0, 2), (0, 2), free=0)
    assert first > bus
    assert load.bus == end - LAG == bus + 12
