# amaranth: UnusedElaboratable=no
"""What a word means in a block, against the same said in Python, of random words and streams."""

import pytest

from diastole_hw.vector.core.instruction_decode import Decode
from support.bench import design, simulation
from support.vector_core import shape_of
from support.vector_entries import (
    compared,
    entry_of,
    holds,
    random_block,
    random_fields,
    random_stream,
    word_of,
)

SIZES = [(1, 2), (2, 2), (4, 64), (8, 2048), (16, 8), (32, 1024)]
"""B, and vectors of the panel."""


@pytest.mark.parametrize("block, vectors", SIZES)
@pytest.mark.sampled(3)
async def test_every_field(block, vectors, rng):
    shape = shape_of(block, panel_vectors=vectors)
    dut = design(Decode, shape)
    ctx = await simulation(dut)
    for _ in range(300):
        fields, at = random_fields(rng, block), random_block(rng, shape)
        streams = [random_stream(rng) for _ in range(8)]
        panels = {fields[n] for n in "abc" if 16 <= fields[n] < 20}
        if len(panels) > 1:  # two panels: refused
            fields |= {n: min(panels) for n in "abc" if 16 <= fields[n] < 20}
        ctx.set(dut.word, word_of(fields))
        ctx.set(dut.block, at)
        ctx.set(dut.streams, streams)
        await ctx.delay(1e-9)
        assert ctx.get(dut.holds) == holds(fields["when"], at), f"{fields} {at}"
        entry = entry_of(shape, fields, at, streams)
        for name, got, want in compared(ctx.get(dut.entry), entry):
            assert got == want, f"{name}: {got}, not {want}: {fields} {at} {streams}"
