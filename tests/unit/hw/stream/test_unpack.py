import pytest

from diastole.stream.unpack import Unpack
from support.bench import get, put, run


@pytest.mark.parametrize("beat", [32, 64, 512])
@pytest.mark.parametrize("widths", [(5,), (40, 40, 72), (20, 64, 96), (288, 128, 32)])
@pytest.mark.parametrize("sends, takes", [(1.0, 1.0), (0.5, 0.5)])
def test_vectors_are_the_bits_in_order(beat, widths, sends, takes, rng):
    runs = []
    for _ in range(6):
        kind, vectors = rng.randrange(len(widths)), rng.randrange(1, 17)
        beats = -(-vectors * widths[kind] // beat)
        runs.append((kind, vectors, beats + rng.randrange(2), rng.getrandbits(beats * beat)))
    dut = Unpack(beat=beat, vectors=widths, max_beats=200, max_vectors=16)

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
                assert got.kind == kind and got.mark == vectors & 1
                assert got.bits & mask == bits >> (k * widths[kind]) & mask, (
                    f"run {number} vector {k}"
                )
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid), "extra output"

    run(dut, describe, drive, check)
