# amaranth: UnusedElaboratable=no
"""Rows of floats against the bytes that they must leave in memory."""

import pytest

from diastole_hw.store.rows import EmitRows
from support.bench import get, put, run
from support.plans import make_numerics, make_plan

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
    vectors = rng.choice((1, rng.randrange(1, 5 * dut.vectors)))
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


def store(memory, plan, span, rows, pitch=PITCH):
    """Write the rows as they must be: zeros to the end of the beat, or of the last vector."""
    unit = min(plan.beat_bytes, 4 * plan.block)
    for number, row in enumerate(rows):
        floats = row[: span["cols"]]
        image = b"".join(word.to_bytes(4, "little") for word in floats)
        image += bytes(-len(image) % unit)
        start = span["addr"] + number * pitch
        memory[start : start + len(image)] = image


async def collect(ctx, dut, memory, rows, willing):
    """Carry out ``rows`` requests; the beats come in their order."""
    beat_bytes = dut.plan.beat_bytes
    for _ in range(rows):
        request = await get(ctx, dut.requests, willing)
        assert ctx.get(dut.busy)
        assert request.addr % beat_bytes == 0
        for k in range(request.beats):
            beat = await get(ctx, dut.beats, willing)
            at = request.addr + k * beat_bytes
            word = beat.data.to_bytes(beat_bytes, "little")
            for byte in range(beat_bytes):
                if beat.strb >> byte & 1:
                    memory[at + byte] = word[byte]


@pytest.mark.parametrize("block, data_width, vectors, ports", [*CASES, *TWO_BEATS])
@pytest.mark.sampled(4)
def test_memory_holds_the_rows(block, data_width, vectors, ports, rng):
    stride = rng.choice((1, 2))
    dut = emitter(block, data_width, vectors, ports, stride=stride)
    plan = dut.plan
    spans = [random_span(rng, dut, SIZE // 4 * n) for n in range(4)]
    given = [rows_of(rng, dut, span) for span in spans]
    pitch = PITCH // stride
    want = bytearray(b"\xa5" * SIZE)
    got = bytearray(want)
    p = rng.choice([1.0, 0.5])
    for span, rows in zip(spans, given, strict=True):
        store(want, plan, span, rows, stride * pitch)

    def willing():
        return rng.random() < p

    async def ask(ctx):
        ctx.set(dut.pitch, pitch)
        await put(ctx, dut.spans, spans, willing)

    async def send(ctx):
        lanes = vectors * block
        flat = [row[k : k + lanes] for rows in given for row in rows
                for k in range(0, len(row), lanes)]  # fmt: skip
        await put(ctx, dut.words, flat, willing)

    async def check(ctx):
        await collect(ctx, dut, got, sum(span["repeat"] for span in spans), willing)
        for _ in range(10):
            _, _, *valid = await ctx.tick().sample(dut.requests.valid, dut.beats.valid)
            assert valid == [0, 0], "extra output"
        assert not ctx.get(dut.busy)

    run(dut, ask, send, check)
    wrong = [at for at in range(SIZE) if got[at] != want[at]]
    assert not wrong, f"from byte {wrong[0]:#x} on; {spans=}"


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.parametrize("block, data_width", [(4, 32), (8, 128), (16, 256), (2, 32)])
@pytest.mark.sampled(2)
def test_pieces_of_turned_rows(block, data_width, p, rng):
    """Beats of them, in place of words; then words again."""
    dut = emitter(block, data_width, turns=True)
    beat = data_width // 32
    spans = [random_span(rng, dut, SIZE // 4 * n) for n in range(4)]
    given = [rows_of(rng, dut, span) for span in spans]
    want = bytearray(b"\xa5" * SIZE)
    got = bytearray(want)
    for span, rows in zip(spans, given, strict=True):
        store(want, dut.plan, span, rows)

    def willing():
        return rng.random() < p

    async def send(ctx):
        for number, (span, rows) in enumerate(zip(spans, given, strict=True)):
            size, source = (beat, dut.pieces) if number in (0, 1) else (block, dut.words)
            last = span["cols"] if number in (0, 1) else len(rows[0])
            flat = [row[k : k + size] for row in rows for k in range(0, last, size)]
            await put(ctx, source, flat, willing)

    async def check(ctx):
        await collect(ctx, dut, got, sum(span["repeat"] for span in spans), willing)
        assert not ctx.get(dut.busy)

    async def ask(ctx):
        ctx.set(dut.pitch, PITCH)
        ctx.set(dut.turned, 1)
        await put(ctx, dut.spans, spans[:2], willing)
        while ctx.get(dut.busy):
            await ctx.tick()
        ctx.set(dut.turned, 0)
        await put(ctx, dut.spans, spans[2:], willing)

    run(dut, ask, send, check)
    wrong = [at for at in range(SIZE) if got[at] != want[at]]
    assert not wrong, f"from byte {wrong[0]:#x} on; {spans=}"


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
    taken = []

    async def ask(ctx):
        ctx.set(dut.pitch, PITCH)
        await put(ctx, dut.spans, [span, span])

    async def check(ctx):
        for stream in (dut.requests, dut.beats):
            ctx.set(stream.ready, 1)
        ctx.set(dut.words.valid, 1)
        for cycle in range(150):
            _, _, ready = await ctx.tick().sample(dut.words.ready)
            taken.extend([cycle] * ready)

    run(dut, ask, check)
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
    taken = []

    async def ask(ctx):
        await put(ctx, dut.spans, [short])

    async def check(ctx):
        for stream in (dut.requests, dut.beats):
            ctx.set(stream.ready, 1)
        ctx.set(dut.words.valid, 1)
        for cycle in range(40):
            _, _, ready = await ctx.tick().sample(dut.words.ready)
            taken.extend([cycle - taken[0] if taken else cycle] * ready)

    run(dut, ask, check)
    assert taken[1:] == [2, 3, 5, 7, 8]
