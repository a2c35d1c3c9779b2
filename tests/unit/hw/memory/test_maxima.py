"""The memories of maxima against arrays of bytes."""

import pytest

from diastole.memory.maxima import NAMES, WEST, Maxima
from support.bench import run
from support.plans import make_numerics, make_plan


@pytest.mark.parametrize("data_width, in_place", [(32, True), (64, False), (512, True)])
def test_two_readers_of_each_memory(data_width, in_place, rng):
    plan = make_plan(make_numerics(block=4), rows=2, in_place=in_place, data_width=data_width)
    dut = Maxima(plan)
    names = NAMES[: dut.count]
    assert names == (NAMES if in_place else ("south", "east"))
    memory = {name: {} for name in names}  # word: its bytes
    shown = {}  # (reader, name): what the last read gave
    beat = plan.beat_bytes

    def enable_of(reader, number):
        return "load_en" if reader == "load" else f"drain_{('east', 'north')[number >= WEST]}_en"

    async def bench(ctx):
        for _ in range(300):
            number, word = rng.randrange(dut.count), rng.randrange(dut.depth)
            value = rng.randbytes(beat)
            write = rng.random() < 0.7
            ctx.set(dut.write_en, write)
            ctx.set(dut.write_select, number)
            ctx.set(dut.write_addr, word)
            ctx.set(dut.write_data, int.from_bytes(value, "little"))
            enables = {"load_en", "drain_east_en", *(["drain_north_en"] if in_place else [])}
            enabled = {name for name in sorted(enables) if rng.random() < 0.6}
            for name in enables:
                ctx.set(getattr(dut, name), name in enabled)
            for reader in ("load", "drain"):
                for at, name in enumerate(names):
                    known = [w for w in memory[name] if not (write and at == number and w == word)]
                    source, byte = rng.choice(known or [0]), rng.randrange(beat)
                    index = getattr(dut, f"{reader}_{name}_index")
                    ctx.set(index.word, source)
                    ctx.set(index.byte, byte)
                    if enable_of(reader, at) in enabled:
                        shown[reader, name] = memory[name][source][byte] if known else None
            await ctx.tick()
            if write:
                memory[names[number]][word] = value
            for (reader, name), want in shown.items():
                got = ctx.get(getattr(dut, f"{reader}_{name}_value"))
                assert want is None or got == want, f"{reader} {name}"

    run(dut, bench)
    assert all(memory.values()) and None not in shown.values()
