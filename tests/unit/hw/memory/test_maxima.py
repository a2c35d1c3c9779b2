# amaranth: UnusedElaboratable=no
"""The memories of maxima against arrays of bytes."""

import pytest

from diastole.memory.maxima import Maxima, maxima_entries
from support.bench import run
from support.plans import make_numerics, make_plan

NAMES = ["south", "east", "west", "north"]
SQUARES, VECTORS = (None, None, None), ("1x8", "1x8", "1x8")
MACHINES = {
    "squares": (4, SQUARES, True, 32),
    "edge": (4, SQUARES, False, 64),
    "wide bus": (4, SQUARES, True, 512),
    "vectors": (4, VECTORS, True, 128),
    "vectors of a beat": (8, VECTORS, True, 64),
    "vectors of two beats": (8, VECTORS, True, 32),
    "W in vectors": (4, (None, "1x8", None), True, 64),
    "W in vectors of two beats": (8, (None, "1x8", None), True, 32),
    "X in vectors": (2, ("1x8", None, None), True, 32),
    "element by element": (1, VECTORS, True, 32),
}
# Which memories there are, and whether a lookup of the loader and of the drain gives rows.
ROWS = {
    "squares": {"south": "", "east": "", "west": "", "north": ""},
    "edge": {"south": "", "east": ""},
    "vectors": {"west": "load", "north": "load drain"},
    "W in vectors": {"south": "", "east": "", "west": "load", "north": "load drain"},
    "X in vectors": {"south": "load", "east": "", "west": "", "north": ""},
}


def make(machine):
    block, groupings, in_place, data_width = MACHINES[machine]
    numerics = make_numerics(block=block, groupings=groupings)
    return make_plan(numerics, rows=2, cols=2, in_place=in_place, data_width=data_width)


@pytest.mark.parametrize("machine", ROWS)
def test_memories_and_entries(machine):
    plan = make(machine)
    dut = Maxima(plan)
    assert list(dut.names) == [name for name in NAMES if name in ROWS[machine]]
    for name, readers in ROWS[machine].items():
        for reader in ("load", "drain"):
            entries = len(getattr(dut, f"{reader}_{name}_value"))
            assert entries == (plan.block if reader in readers.split() else 1), f"{reader} {name}"


@pytest.mark.parametrize("machine", MACHINES)
def test_two_readers_of_each_memory(machine, rng):
    """One entry for the block, or as many as it has rows."""
    plan = make(machine)
    dut = Maxima(plan)
    names = dut.names
    memory = {name: {} for name in names}  # number of a byte: what it is
    shown = {}  # (reader, name): what the last read gave
    beat = plan.beat_bytes
    both = set()  # kinds of lookups that have happened

    def look_up(ctx, reader, name, busy):
        """Set the index; returns what is to be shown, None if that is not known."""
        entries = maxima_entries(plan, name, reader)
        by_row = entries > 1 and rng.random() < 0.5
        count = entries if by_row else 1
        known = [
            at
            for at in memory[name]
            if at % count == 0
            and all(at + k in memory[name] and (at + k) // beat != busy for k in range(count))
        ]
        at = rng.choice(known) if known else 0
        index = getattr(dut, f"{reader}_{name}_index")
        ctx.set(index.word, at // beat)
        ctx.set(index.byte, at % beat)
        if entries > 1:
            ctx.set(index.by_row, by_row)
        if not known:
            return None
        both.add(by_row)
        found = [memory[name][at + k] for k in range(count)]
        return found if count == entries else found * entries

    async def bench(ctx):
        for _ in range(400):
            name, word = rng.choice(names), rng.randrange(min(dut.depth, 24))
            value = rng.randbytes(beat)
            write = rng.random() < 0.7
            ctx.set(dut.write_en, write)
            ctx.set(dut.write_select, NAMES.index(name))
            ctx.set(dut.write_addr, word)
            ctx.set(dut.write_data, int.from_bytes(value, "little"))
            for reader, enable, those in [
                ("load", "load_en", names),
                ("drain", "drain_east_en", ("south", "east")),
                ("drain", "drain_north_en", ("west", "north")),
            ]:
                if not set(those) & set(names):
                    assert not hasattr(dut, enable)
                    continue
                enabled = rng.random() < 0.6
                ctx.set(getattr(dut, enable), enabled)
                for one in those:
                    busy = word if write and one == name else None
                    found = look_up(ctx, reader, one, busy)
                    if enabled:
                        shown[reader, one] = found
            await ctx.tick()
            if write:
                memory[name] |= {word * beat + k: byte for k, byte in enumerate(value)}
            for (reader, one), want in shown.items():
                got = list(ctx.get(getattr(dut, f"{reader}_{one}_value")))
                assert want is None or got == want, f"{reader} {one}"

    run(dut, bench)
    assert all(memory.values()) and None not in shown.values()
    by_row = any(maxima_entries(plan, name, "load") > 1 for name in names)
    assert both == ({False, True} if by_row else {False})
