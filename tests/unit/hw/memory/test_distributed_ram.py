# amaranth: UnusedElaboratable=no
import random
import re

import pytest

from diastole_hw.memory.distributed_ram import DistributedRam
from support.bench import simulation


@pytest.mark.parametrize("width, depth", [(1, 2), (5, 7), (64, 16)])
async def test_shows_at_once_what_was_written(width, depth):
    rng = random.Random(f"{width} {depth}")
    dut = DistributedRam(width=width, depth=depth)
    words = {}
    ctx = await simulation(dut)
    for _ in range(400):
        write, target = rng.random() < 0.6, rng.randrange(depth)
        source = rng.choice(list(words) or [0])
        value = rng.getrandbits(width)
        ctx.set(dut.write_en, write)
        ctx.set(dut.write_addr, target)
        ctx.set(dut.write_data, value)
        ctx.set(dut.read_addr, source)
        await ctx.delay(1e-9)
        if source in words and not (write and target == source):
            assert ctx.get(dut.read_data) == words[source], f"{source=}"
        await ctx.tick()
        if write:
            words[target] = value
            ctx.set(dut.write_en, 0)
            ctx.set(dut.read_addr, target)
            await ctx.delay(1e-9)
            assert ctx.get(dut.read_data) == value, "not seen from the next cycle on"


def test_template_has_the_ports_of_the_component():
    dut = DistributedRam(width=9, depth=100)
    text = dut.template("memory_of_mine")
    declared = re.findall(r"(?:input|output) (?:\[(\d+):0\] )?(\w+)", text)
    found = {name: int(high or 0) + 1 for high, name in declared}
    assert found.pop("clk") == 1
    assert found == {name: len(getattr(dut, name)) for name in dut.signature.members}
    assert "reg [8:0] ram_words [0:99];" in text
    assert text.startswith("//")
    assert "module memory_of_mine (" in text
