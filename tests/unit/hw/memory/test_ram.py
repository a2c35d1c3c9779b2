# amaranth: UnusedElaboratable=no
import random
import re

import pytest

from diastole_hw.memory.ram import Ram
from support.bench import simulation


@pytest.mark.parametrize("width, depth", [(1, 2), (5, 7), (64, 16)])
async def test_reads_what_was_written_and_holds(width, depth):
    rng = random.Random(f"{width} {depth}")
    dut = Ram(width=width, depth=depth)
    words = {}
    ctx = await simulation(dut)
    held = None
    for _ in range(400):
        write, read = rng.random() < 0.6, rng.random() < 0.6 and bool(words)
        target, source = rng.randrange(depth), rng.choice(list(words) or [0])
        if write and target == source:
            read = False  # the same address in the same cycle is not defined
        value = rng.getrandbits(width)
        ctx.set(dut.write_en, write)
        ctx.set(dut.write_addr, target)
        ctx.set(dut.write_data, value)
        ctx.set(dut.read_en, read)
        ctx.set(dut.read_addr, source)
        await ctx.tick()
        if read:
            held = words[source]
        if write:
            words[target] = value
        if held is not None:
            assert ctx.get(dut.read_data) == held, f"{read=} {source=}"


def test_template_has_the_ports_of_the_component():
    dut = Ram(width=9, depth=100)
    text = dut.template("memory_of_mine")
    declared = re.findall(r"(?:input|output reg) (?:\[(\d+):0\] )?(\w+)", text)
    found = {name: int(high or 0) + 1 for high, name in declared}
    assert found.pop("clk") == 1
    assert found == {name: len(getattr(dut, name)) for name in dut.signature.members}
    assert "reg [8:0] ram_words [0:99];" in text
    assert text.startswith("//")
    assert "no_rw_check" in text  # otherwise flows add registers that make collisions defined
    assert "module memory_of_mine (" in text
