# amaranth: UnusedElaboratable=no
"""Rows of results through two ports: the bytes that they leave in memory, and that neither port
ever waits for the other with a row that it has asked for."""

import pytest

from diastole_hw.store.deal import DealRows, EmitPorts
from support.bench import get, put, run
from support.plans import make_numerics, make_plan

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


def store(memory, plan, span, rows):
    """Zeros to the end of the beat, or of the last vector."""
    unit = min(plan.beat_bytes, 4 * plan.block)
    for number, row in enumerate(rows):
        floats = [value for word in row for value in word][: span["cols"]]
        image = b"".join(value.to_bytes(4, "little") for value in floats)
        image += bytes(-len(image) % unit)
        start = span["addr"] + number * PITCH
        memory[start : start + len(image)] = image


async def serve(ctx, requests, beats, memory, beat_bytes, count, willing):
    """Carry out so many requests of one port; returns their addresses."""
    found = []
    for _ in range(count):
        request = await get(ctx, requests, willing)
        found.append(request.addr)
        for k in range(request.beats):
            beat = await get(ctx, beats, willing)
            at, word = request.addr + k * beat_bytes, beat.data.to_bytes(beat_bytes, "little")
            for byte in range(beat_bytes):
                if beat.strb >> byte & 1:
                    memory[at + byte] = word[byte]
    return found


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
        store(want, plan, span, rows)
    asked = [[], []]

    async def ask(ctx):
        ctx.set(dut.pitch, PITCH)
        await put(ctx, dut.spans, spans)

    async def send(ctx):
        flat = [word for rows in given for row in rows for word in row]
        await put(ctx, dut.words, flat, lambda: rng.random() < 0.9)

    def port(number, requests, beats):
        rows = sum((span["repeat"] + 1 - number) // 2 for span in spans)

        async def bench(ctx):
            p = 0.15 if number == slow else 1.0
            asked[number] += await serve(
                ctx, requests, beats, got, plan.beat_bytes, rows, lambda: rng.random() < p
            )

        return bench

    async def end(ctx):
        for _ in range(10):
            await ctx.tick()
        while ctx.get(dut.busy):
            await ctx.tick()

    first = port(0, dut.requests, dut.beats)
    second = port(1, dut.requests_1, dut.beats_1)
    run(dut, ask, send, first, second, end, limit=60_000)
    wrong = [at for at in range(SIZE) if got[at] != want[at]]
    assert not wrong, f"from byte {wrong[0]:#x} on; {spans=}"
    for number in range(2):
        rows = [
            span["addr"] + row * PITCH for span in spans for row in range(number, span["repeat"], 2)
        ]
        assert asked[number] == rows


@pytest.mark.parametrize("held", [0, 1], ids="port {} held".format)
def test_who_has_asked_needs_no_other_port(held, rng):
    """With one port held up for ever, each row that the other one asks for comes whole."""
    plan = plan_of(4, 128)
    dut = EmitPorts(plan, vectors=2)
    row = plan.longest_row // 2  # words
    assert row > plan.queued_words(2)
    span = {"addr": 0, "cols": 8 * row, "vectors": 2 * row, "repeat": 8}
    requests, beats = ((dut.requests_1, dut.beats_1), (dut.requests, dut.beats))[held]
    asked, came = [], []

    async def ask(ctx):
        ctx.set(dut.pitch, 4 * 8 * row)
        await put(ctx, dut.spans, [span])

    async def watch(ctx):
        ctx.set(dut.words.valid, 1)
        for stream in (requests, beats):
            ctx.set(stream.ready, 1)
        for _ in range(40 * row):
            _, _, request, request_beats, beat = await ctx.tick().sample(
                requests.valid, requests.p.beats, beats.valid
            )
            asked.extend([request_beats] * request)
            came.extend([1] * beat)

    run(dut, ask, watch)
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
    taken = []

    async def ask(ctx):
        ctx.set(dut.pitch, 1 << 14)
        await put(ctx, dut.spans, [span] * 3)

    async def watch(ctx):
        ctx.set(dut.words.valid, 1)
        for stream in (dut.requests, dut.beats, dut.requests_1, dut.beats_1):
            ctx.set(stream.ready, 1)
        for cycle in range(3 * 16 * most + 200):
            _, _, ready = await ctx.tick().sample(dut.words.ready)
            taken.extend([cycle] * ready)

    run(dut, ask, watch)
    assert len(taken) == 3 * 16 * most
    assert taken[-1] - taken[0] <= 3 * 16 * most + 12


def test_words_go_where_their_row_goes():
    plan = plan_of(4, 128)
    dut = DealRows(plan, vectors=2)
    spans = [
        {"addr": 0x100, "cols": 16, "vectors": 4, "repeat": 3},
        {"addr": 0x900, "cols": 3, "vectors": 1, "repeat": 1},
        {"addr": 0xA00, "cols": 8, "vectors": 2, "repeat": 2},
    ]
    seen, begins, told = [], [], []

    async def ask(ctx):
        ctx.set(dut.pitch, 0x40)
        await put(ctx, dut.spans, spans)

    async def send(ctx):
        await put(ctx, dut.words, [[number] * 8 for number in range(9)])
        await ctx.tick().repeat(3)

    async def watch(ctx):
        for stream in (dut.spans_0, dut.spans_1, dut.words_0, dut.words_1):
            ctx.set(stream.ready, 1)
        while True:
            _, _, *now = await ctx.tick().sample(
                dut.words_0.valid, dut.words_0.payload, dut.words_1.valid, dut.words_1.payload,
                dut.begins, dut.spans_0.valid, dut.spans_0.payload, dut.spans_1.valid,
                dut.spans_1.payload,
            )  # fmt: skip
            for port in range(2):
                valid, payload = now[2 * port : 2 * port + 2]
                seen.extend([(port, payload[0])] * valid)
                begins.extend([(port, payload[0])] * (now[4] >> port & 1))
                told_now, span = now[5 + 2 * port : 7 + 2 * port]
                told.extend([(port, span.addr, span.repeat)] * told_now)

    run(dut, ask, send, background=(watch,))
    assert seen == [(0, 0), (0, 1), (1, 2), (1, 3), (0, 4), (0, 5), (0, 6), (0, 7), (1, 8)]
    assert begins == [(0, 0), (1, 2), (0, 4), (0, 6), (0, 7), (1, 8)]
    assert told == [
        (0, 0x100, 2), (1, 0x140, 1), (0, 0x900, 1), (0, 0xA00, 1), (1, 0xA40, 1)
    ]  # fmt: skip
