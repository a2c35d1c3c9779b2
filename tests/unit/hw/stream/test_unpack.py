import pytest

from diastole_hw.stream.unpack import Unpack
from support.bench import design, get, put, run


@pytest.mark.parametrize("beat", [32, 64, 512])
@pytest.mark.parametrize("widths", [(5,), (40, 40, 72), (20, 64, 96), (288, 128, 32)])
@pytest.mark.parametrize("sends, takes", [(1.0, 1.0), (0.5, 0.5)])
def test_vectors_are_the_bits_in_order(beat, widths, sends, takes, rng):
    runs = []
    for _ in range(6):
        kind, vectors = rng.randrange(len(widths)), rng.randrange(1, 17)
        beats = -(-vectors * widths[kind] // beat)
        runs.append((kind, vectors, beats + rng.randrange(2), rng.getrandbits(beats * beat)))
    dut = design(Unpack, beat=beat, vectors=widths, max_beats=200, max_vectors=16)

    async def describe(ctx):
        items = [
            {"beats": beats, "vectors": vectors, "kind": kind, "mark": vectors & 1}
            for kind, vectors, beats, _ in runs
        ]
        await put(ctx, dut.run, items)

    async def drive(ctx):
        items = [
            bits >> (k * beat) & (2**beat - 1) for _, _, beats, bits in runs for k in range(beats)
        ]
        await put(ctx, dut.i, items, willing=lambda: rng.random() < sends)

    async def check(ctx):
        for number, (kind, vectors, _, bits) in enumerate(runs):
            for k in range(vectors):
                got = await get(ctx, dut.o, willing=lambda: rng.random() < takes)
                mask = 2 ** widths[kind] - 1
                assert got.kind == kind
                assert got.mark == vectors & 1
                assert got.bits & mask == bits >> (k * widths[kind]) & mask, (
                    f"run {number} vector {k}"
                )
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid), "extra output"

    run(dut, describe, drive, check)


def cycles_of(beat, widths, runs):
    """When runs and beats are taken and vectors given, where nothing ever waits."""
    cycle, found = 0, ([], [], [])
    for kind, vectors, beats in runs:
        found[0].append(cycle)
        cycle += 1
        bits = 0
        while vectors or beats:
            if vectors and bits >= widths[kind]:
                found[2].append(cycle)
                bits -= widths[kind]
                vectors -= 1
                given = True
            else:
                given = False
            if beats and (bits <= max(widths) or (not vectors and not given)):
                found[1].append(cycle)
                bits += beat
                beats -= 1
            cycle += 1
    return found


@pytest.mark.parametrize("beat", [32, 64])
@pytest.mark.parametrize("widths", [(5,), (40, 40, 72), (20, 64, 96)])
def test_cycles(beat, widths, rng):
    runs = []
    for _ in range(8):
        kind, vectors = rng.randrange(len(widths)), rng.randrange(1, 17)
        runs.append((kind, vectors, -(-vectors * widths[kind] // beat) + rng.randrange(3)))
    dut = design(Unpack, beat=beat, vectors=widths, max_beats=200, max_vectors=16)
    want = cycles_of(beat, widths, runs)
    streams = (dut.run, dut.i, dut.o)
    got = ([], [], [])

    async def drive(ctx):
        items = [
            {"kind": kind, "vectors": vectors, "beats": beats} for kind, vectors, beats in runs
        ]
        await put(ctx, dut.run, items)

    async def check(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        moves = [stream.valid & stream.ready for stream in streams]
        for cycle in range(max(map(max, want)) + 10):
            _, _, *moved = await ctx.tick().sample(*moves)
            for cycles, move in zip(got, moved, strict=True):
                cycles.extend([cycle] * move)

    run(dut, drive, check)
    assert got == want
