# amaranth: UnusedElaboratable=no
"""Rows of floats against the bytes that they must leave in memory."""

import pytest

from diastole_hw.store.emit_rows import EmitRows
from support.emitted_rows import carry_out, differing, store
from support.plans import make_numerics, make_plan
from support.unit_bench import Unit, until

SIZE = 1 << 16  # bytes of memory
PITCH = 4096  # bytes
WIDTHS = [32, 64, 128, 256, 512]
SIDES = [1, 2, 4, 8, 16, 32]
CASES = [
    (block, data_width, vectors, 1)
    for block in SIDES
    for data_width in WIDTHS
    for vectors in (1, 2, 4, 8, 16)
    if vectors == 1 or 32 * block * vectors <= data_width
]
TWO_BEATS = [
    (block, data_width, 2 * data_width // (32 * block), 2)
    for block in SIDES
    for data_width in WIDTHS
    if data_width >= 32 * block
]
"""Words of two ports together."""


def emitter(block, data_width, vectors=1, ports=1, **options):
    cells = {"rows": ports, "cols": ports}
    plan = make_plan(make_numerics(block=block), data_width=data_width, ports=ports, **cells)
    return EmitRows(plan, vectors=vectors, **options)


def random_span(rng, dut, addr):
    """Rows of a few vectors, the last one cut, from a place on where a row may start."""
    plan = dut.plan
    longest = ((1 << len(dut.spans.p.cols)) - 1) // plan.block  # a span of a tile has no more
    vectors = rng.choice((1, rng.randrange(1, min(5 * dut.vectors, longest + 1))))
    slot = 4 * plan.block * (dut.vectors if vectors > 1 else 1)  # bytes of a vector, or of a word
    if slot < plan.beat_bytes and plan.ports == 1:
        addr += slot * rng.randrange(plan.beat_bytes // slot)
    return {
        "addr": addr,
        "cols": (vectors - 1) * plan.block + rng.randrange(1, plan.block + 1),
        "vectors": vectors,
        "repeat": rng.randrange(1, 5),
    }


def rows_of(rng, dut, span):
    """What comes in: rows of words, with anything beyond their end."""
    word = dut.vectors * dut.plan.block
    count = -(-span["vectors"] // dut.vectors) * word
    return [[rng.getrandbits(32) for _ in range(count)] for _ in range(span["repeat"])]


def check(unit, spans, given, pitch, *scripts):
    """All rows of all spans are in memory, and nothing else."""
    dut, beat_bytes = unit.dut, unit.dut.plan.beat_bytes
    want = bytearray(b"\xa5" * SIZE)
    for span, rows in zip(spans, given, strict=True):
        store(want, dut.plan, span, rows, pitch)
    requests, beats = unit.collect(dut.requests), unit.collect(dut.beats)
    busy = unit.record(dut.busy)
    unit.run(*scripts)
    assert {*requests.cycles} <= {*busy.cycles}
    assert not busy.values[-1]
    got = bytearray(b"\xa5" * SIZE)
    carry_out(got, requests.items, beats.items, beat_bytes)
    assert len(requests.items) == sum(span["repeat"] for span in spans)
    assert got == want, differing(got, want, spans)


@pytest.mark.parametrize("block, data_width, vectors, ports", [*CASES, *TWO_BEATS])
@pytest.mark.sampled(4)
def test_memory_holds_the_rows(block, data_width, vectors, ports, rng):
    stride = rng.choice((1, 2))
    dut = emitter(block, data_width, vectors, ports, stride=stride)
    spans = [random_span(rng, dut, SIZE // 4 * n) for n in range(4)]
    given = [rows_of(rng, dut, span) for span in spans]
    unit = Unit(dut, rng, pace=rng.choice([1.0, 0.5]))
    unit.hold(pitch=PITCH // stride)
    unit.give(dut.spans, spans)
    lanes = vectors * block
    words = (
        row[k : k + lanes] for rows in given for row in rows for k in range(0, len(row), lanes)
    )
    unit.give(dut.words, words)
    check(unit, spans, given, PITCH)


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.parametrize("block, data_width", [(4, 32), (8, 128), (16, 256), (2, 32)])
@pytest.mark.sampled(2)
def test_pieces_of_turned_rows(block, data_width, p, rng):
    """Beats of them, in place of words; then words again."""
    dut = emitter(block, data_width, transposes=True)
    beat = data_width // 32
    spans = [random_span(rng, dut, SIZE // 4 * n) for n in range(4)]
    given = [rows_of(rng, dut, span) for span in spans]
    unit = Unit(dut, rng, pace=p)
    unit.hold(pitch=PITCH, transposed=1)
    asked, words = unit.give(dut.spans, spans[:2]), unit.give(dut.words)
    pieces = unit.give(dut.pieces)

    def parts(numbers, size):
        for number in numbers:
            last = spans[number]["cols"] if size == beat else len(given[number][0])
            yield from (row[k : k + size] for row in given[number] for k in range(0, last, size))

    async def script(ctx):
        pieces.add(parts((0, 1), beat))
        await unit.settled(ctx)
        await until(ctx, ~dut.busy)
        unit.set(ctx, transposed=0)
        asked.add(spans[2:])
        words.add(parts((2, 3), block))
        await unit.settled(ctx)

    check(unit, spans, given, PITCH, script)


def taken_words(dut, spans):
    """The cycles in which words are taken, where nothing else waits."""
    unit = Unit(dut)
    unit.hold(pitch=PITCH)
    unit.give(dut.spans, spans)
    count = sum(-(-span["vectors"] // dut.vectors) * span["repeat"] for span in spans)
    words = unit.give(dut.words, [[0] * (dut.vectors * dut.plan.block)] * count)
    unit.collect(dut.requests)
    unit.collect(dut.beats)
    unit.run()
    return words.cycles


@pytest.mark.parametrize(
    "block, data_width, word",
    [(8, 64, 1), (4, 128, 1), (2, 256, 1), (2, 256, 2), (4, 256, 2), (1, 512, 4)],
)
def test_one_beat_or_one_word_per_cycle(block, data_width, word):
    """And one cycle per span; requests do not slow the beats down."""
    dut = emitter(block, data_width, word)
    words, rows = 4, 3
    vectors = words * word
    span = {"addr": 0, "cols": vectors * block, "vectors": vectors, "repeat": rows}
    taken = taken_words(dut, [span, span])
    cost = max(1, 32 * block // data_width)
    first = [taken[0] + cost * k for k in range(words * rows)]
    second = [cycle + cost * words * rows + 1 for cycle in first]
    assert taken == first + second


@pytest.mark.parametrize("block, data_width, vectors", [(8, 256, 2), (4, 512, 8), (1, 32, 2)])
def test_a_word_of_two_beats(block, data_width, vectors):
    """The last word of a row may have one beat: it takes a cycle then."""
    dut = emitter(block, data_width, vectors, ports=2)
    whole = 3 * vectors
    short = {"addr": 0, "cols": (whole - 1) * block, "vectors": whole - 1, "repeat": 2}
    if vectors > 2:  # still in its second beat
        short = {"addr": 0, "cols": (whole - vectors // 2) * block} | {"repeat": 2}
        short["vectors"] = short["cols"] // block
    taken = taken_words(dut, [short])
    taken = [cycle - taken[0] for cycle in taken]
    assert taken[1:] == [2, 3, 5, 7, 8]
