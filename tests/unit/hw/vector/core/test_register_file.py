# amaranth: UnusedElaboratable=no
"""Rows that are written together and read apart."""

import pytest

from diastole_hw.vector.core.register_file import PORTS, RowFile
from support.bench import design, run, simulation
from support.vector_core import shape_of


@pytest.mark.parametrize("block, rows", [(1, 2), (1, 16), (4, 4), (2, 32)])
async def test_each_port_reads_what_was_written_before(block, rows, rng):
    dut = design(RowFile, shape_of(block), rows=rows)
    words, shown = {}, [None] * PORTS
    ctx = await simulation(dut)
    for _ in range(400):
        write, to, row = rng.random() < 0.6, rng.randrange(rows), rng.getrandbits(32 * block)
        enables, places = rng.getrandbits(PORTS), [rng.randrange(rows) for _ in range(PORTS)]
        for port in range(PORTS):
            if write and places[port] == to:
                enables &= ~(1 << port)
        ctx.set(dut.write_en, write)
        ctx.set(dut.write_at, to)
        ctx.set(dut.write.as_value(), row)
        ctx.set(dut.read_en, enables)
        ctx.set(dut.read_at, places)
        await ctx.tick()
        for port in range(PORTS):
            if enables >> port & 1:
                shown[port] = words.get(places[port])
            if shown[port] is not None:
                assert ctx.get(dut.read[port].as_value()) == shown[port], f"port {port}"
        if write:
            words[to] = row


@pytest.mark.parametrize("port", range(PORTS))
def test_a_row_is_not_read_while_it_is_written(port):
    dut = RowFile(shape_of(2), rows=4)

    async def bench(ctx):
        ctx.set(dut.write_en, 1)
        ctx.set(dut.write_at, 3)
        ctx.set(dut.read_en, 1 << port)
        ctx.set(dut.read_at[port], 3)
        for _ in range(2):
            await ctx.tick()

    with pytest.raises(AssertionError, match="a row is read while it is written"):
        run(dut, bench)
