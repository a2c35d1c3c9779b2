# amaranth: UnusedElaboratable=no
"""Rows of results through two ports: the bytes that they leave in memory, and that neither port
ever waits for the other with a row that it has asked for."""

import pytest

from diastole_hw.store.distribute_rows import DistributeRows, EmitPorts
from support.emitted_rows import carry_out, differing, store
from support.plans import make_numerics, make_plan
from support.unit_bench import Unit

SIZE = 1 << 15
PITCH = 1024
CASES = [(8, 64, 1), (4, 128, 2), (2, 128, 4), (8, 256, 2), (8, 512, 4), (1, 512, 32), (4, 256, 2)]
"""Block, width of a port, vectors of a word: of several beats, of two and of one."""


def plan_of(block, data_width):
    side = 32 // block
    return make_plan(make_numerics(block=block), side, side, data_width=data_width, ports=2)


def random_span(rng, vectors, block, addr):
    count = rng.choice((1, rng.randrange(1, 4 * vectors + 1)))
    return {
        "addr": addr,
        "cols": (count - 1) * block + rng.randrange(1, block + 1),
        "vectors": count,
        "repeat": rng.choice((1, 2, 3, rng.randrange(1, 9))),
    }


def words_of(rng, span, vectors, block):
    """By row: words of several vectors, anything beyond its end."""
    count = -(-span["vectors"] // vectors)
    row = range(vectors * block)
    return [
        [[rng.getrandbits(32) for _ in row] for _ in range(count)] for _ in range(span["repeat"])
    ]


@pytest.mark.parametrize("block, data_width, vectors", CASES)
@pytest.mark.parametrize("slow", [None, 0, 1], ids="slow port {}".format)
@pytest.mark.sampled(4)
def test_memory_holds_the_rows(block, data_width, vectors, slow, rng):
    plan = plan_of(block, data_width)
    dut = EmitPorts(plan, vectors=vectors)
    spans = [random_span(rng, vectors, block, SIZE // 4 * n) for n in range(4)]
    given = [words_of(rng, span, vectors, block) for span in spans]
    want = bytearray(b"\xa5" * SIZE)
    got = bytearray(want)
    for span, rows in zip(spans, given, strict=True):
        floats = [[value for word in row for value in word] for row in rows]
        store(want, plan, span, floats, PITCH)
    unit = Unit(dut, rng)
    unit.hold(pitch=PITCH)
    unit.give(dut.spans, spans)
    unit.give(dut.words, [word for rows in given for row in rows for word in row], pace=0.9)
    ports = [
        [unit.collect(stream, 0.15 if number == slow else 1) for stream in port]
        for number, port in enumerate(ports_of(dut))
    ]
    busy = unit.record(dut.busy)
    unit.run(silence=40, limit=60_000)
    assert not busy.values[-1]
    for number, (requests, beats) in enumerate(ports):
        carry_out(got, requests.items, beats.items, plan.beat_bytes)
        assert [request["addr"] for request in requests.items] == [
            span["addr"] + row * PITCH for span in spans for row in range(number, span["repeat"], 2)
        ]
    assert got == want, differing(got, want, spans)


def ports_of(dut):
    return (dut.requests, dut.beats), (dut.requests_1, dut.beats_1)


@pytest.mark.parametrize("held", [0, 1], ids="port {} held".format)
def test_who_has_asked_needs_no_other_port(held, rng):
    """With one port held up for ever, each row that the other one asks for comes whole."""
    plan = plan_of(4, 128)
    dut = EmitPorts(plan, vectors=2)
    row = plan.longest_row // 2  # words
    assert row > plan.queued_words(2)
    span = {"addr": 0, "cols": 8 * row, "vectors": 2 * row, "repeat": 8}
    unit = Unit(dut)
    unit.hold(pitch=4 * 8 * row)
    unit.give(dut.spans, [span])
    unit.give(dut.words, [[0] * 8] * 8 * row).needed = False
    free, stuck = (ports_of(dut)[number] for number in (1 - held, held))
    asked, came = (unit.collect(stream) for stream in free)
    for stream in stuck:
        unit.collect(stream, 0)
    unit.run(cycles=40 * row)
    asked = [request["beats"] for request in asked.items]
    came = came.items
    assert len(came) == sum(asked)
    assert len(asked) == held, "port 1 waits behind row 0, port 0 behind row 1"


@pytest.mark.parametrize("block, data_width, vectors", [(8, 512, 4), (4, 128, 2)])
def test_a_word_per_cycle(block, data_width, vectors):
    """Long rows, of which each port takes a word in two cycles: the queues hide that. Each port
    loses a cycle for a span, and a few for its first row."""
    plan = plan_of(block, data_width)
    dut = EmitPorts(plan, vectors=vectors)
    most = plan.longest_row // vectors
    span = {"addr": 0, "cols": most * vectors * block, "vectors": most * vectors, "repeat": 16}
    unit = Unit(dut)
    unit.hold(pitch=1 << 14)
    unit.give(dut.spans, [span] * 3)
    taken = unit.give(dut.words, [[0] * (vectors * block)] * (3 * 16 * most)).cycles
    for stream in (stream for port in ports_of(dut) for stream in port):
        unit.collect(stream)
    unit.run()
    assert taken[-1] - taken[0] <= 3 * 16 * most + 12


def test_words_go_where_their_row_goes():
    plan = plan_of(4, 128)
    dut = DistributeRows(plan, vectors=2)
    spans = [
        {"addr": 0x100, "cols": 16, "vectors": 4, "repeat": 3},
        {"addr": 0x900, "cols": 3, "vectors": 1, "repeat": 1},
        {"addr": 0xA00, "cols": 8, "vectors": 2, "repeat": 2},
    ]
    unit = Unit(dut)
    unit.hold(pitch=0x40)
    unit.give(dut.spans, spans)
    unit.give(dut.words, [[number] * 8 for number in range(9)])
    words = [unit.collect(dut.words_0), unit.collect(dut.words_1)]
    told = [unit.collect(dut.spans_0), unit.collect(dut.spans_1)]
    begins = unit.record(dut.begins)
    unit.run()

    def in_order(ports, what):
        moved = (
            (cycle, number, what(item))
            for number, port in enumerate(ports)
            for cycle, item in zip(port.cycles, port.items, strict=True)
        )
        return [(number, value) for _, number, value in sorted(moved)]

    seen = [(0, 0), (0, 1), (1, 2), (1, 3), (0, 4), (0, 5), (0, 6), (0, 7), (1, 8)]
    assert in_order(words, lambda word: word[0]) == seen
    firsts = [(cycle, begins.values[cycle]) for cycle in begins.cycles]
    moved = sorted((cycle, n) for n, port in enumerate(words) for cycle in port.cycles)
    assert [seen[moved.index((cycle, n - 1))] for cycle, n in firsts] == [
        (0, 0), (1, 2), (0, 4), (0, 6), (0, 7), (1, 8)
    ]  # fmt: skip
    assert in_order(told, lambda span: (span["addr"], span["repeat"])) == [
        (0, (0x100, 2)), (1, (0x140, 1)), (0, (0x900, 1)), (0, (0xA00, 1)), (1, (0xA40, 1))
    ]  # fmt: skip
