# amaranth: UnusedElaboratable=no
"""The memories of maxima against arrays of bytes."""

import pytest

from diastole_hw.memory.maxima import Maxima
from support.bench import design, simulation
from support.plans import make_numerics, make_plan
from support.sweep import sweep

NAMES = ["south", "east", "west", "north"]
DRAINS = {"east": ("south", "east"), "north": ("west", "north")}  # of what streams, of what is held
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
    "drains of two blocks": (4, SQUARES, True, 256, 2, 3),
    "drains of W's vectors, by four": (4, (None, "1x8", None), True, 512, 4, 4),
    "drains of four and of two": (2, VECTORS, True, 256, 5, 2),
    "two ports": (4, SQUARES, True, 128, 2, 4, 2),
    "two ports, vectors": (8, VECTORS, True, 64, 2, 2, 2),
}
# Maxima of the held side that a drain is given, east and north; where blocks come by the beat.
HELD_BY_DRAINS = {
    "wide bus": (2, 2),
    "drains of two blocks": (2, 2),
    "drains of W's vectors, by four": (4, 16),
    "drains of four and of two": (None, 4),
}
# Which memories there are, and whether a lookup of the loader and of the drain gives rows.
ROWS = {
    "squares": {"south": "", "east": "", "west": "", "north": ""},
    "edge": {"south": "", "east": ""},
    "vectors": {"west": "load", "north": "load drain"},
    "W in vectors": {"south": "", "east": "", "west": "load", "north": "load drain"},
    "X in vectors": {"south": "load", "east": "", "west": "", "north": ""},
}


def make(machine, **options):
    block, groupings, in_place, data_width, *sides = MACHINES[machine]
    numerics = make_numerics(block=block, groupings=groupings)
    rows, cols, *ports = sides or (2, 2)
    return make_plan(numerics, rows, cols, in_place, data_width, None, *ports, **options)


def readers(dut, port=0):
    """By a name for each: its port, and the memories that its look-ups are for; of those that see
    what a port to memory brings."""
    load = dut.load_1 if port else dut.load
    found = {"load": (load, {name: name for name in NAMES if hasattr(dut.load, name)})}
    for direction, names in DRAINS.items() if port == 0 else ():
        if hasattr(dut.drain, direction):
            roles = dict(zip(("stream", "stationary"), names, strict=True))
            found[f"drain {direction}"] = getattr(dut.drain, direction), roles
    return found


def lookups(dut):
    """By reader (load or drain) and memory."""
    return {
        (reader.split()[0], name): getattr(port, role)
        for reader, (port, roles) in readers(dut).items()
        for role, name in roles.items()
    }


@pytest.mark.parametrize("machine", ROWS)
def test_memories_and_entries(machine):
    plan = make(machine)
    dut = design(Maxima, plan)
    found = lookups(dut)
    assert {name for _, name in found} == set(ROWS[machine])
    for (reader, name), lookup in found.items():
        rows = reader in ROWS[machine][name].split()
        assert len(lookup.value) == (plan.block if rows else 1), f"{reader} {name}"


@pytest.mark.parametrize("machine", HELD_BY_DRAINS)
def test_a_drain_is_given_neighbouring_blocks(machine):
    plan = make(machine)
    dut = design(Maxima, plan)
    loads = [getattr(dut.load, name).value for name in NAMES if hasattr(dut.load, name)]
    assert {len(value) for value in loads} <= {1, plan.block}, "the loader has one block"
    drains = {name: getattr(dut.drain, name, None) for name in DRAINS}
    stationary = [drain and len(drain.stationary.value) for drain in drains.values()]
    assert tuple(stationary) == HELD_BY_DRAINS[machine]
    assert all(len(drain.stream.value) == 1 for drain in drains.values() if drain)


SLOW = ("wide bus", "drains of W's vectors, by four", "drains of two blocks")
"""Others have what these do."""

SEEN = [
    (machine, port, False) for machine in MACHINES for port in range(1 + ("two ports" in machine))
]
LATE = [("vectors", 0, True), ("drains of four and of two", 0, True)]


@pytest.mark.parametrize(
    "machine, port, late", [sweep(*seen) if seen[0] in SLOW else seen for seen in SEEN + LATE]
)
@pytest.mark.sampled(6)
async def test_two_readers_of_each_memory(machine, port, late, rng):
    """One entry for the block, or as many as it has rows; what another port brings is not seen.
    What drains are given may come a cycle later."""
    plan = make(machine, output_register=late)
    dut = design(Maxima, plan)
    names = [name for name in NAMES if hasattr(dut.load, name)]
    memory = {name: {} for name in names}  # number of a byte: what it is
    shown = {}  # (reader, name): a lookup and what its last read gave
    beat = plan.beat_bytes
    both = set()  # kinds of lookups that have happened

    def look_up(ctx, lookup, name, busy):
        """Set the index; returns what is to be shown, None if that is not known."""
        entries = len(lookup.value)
        rows = plan.block if hasattr(lookup.index, "by_row") else 1
        blocks = entries // rows
        by_row = rows > 1 and rng.random() < 0.5
        count = entries if by_row else blocks
        firsts = range(0, (max(memory[name], default=0) + 1), count)
        known = [
            first + (0 if by_row else rng.randrange(blocks))  # from there on, in turn
            for first in firsts
            if all(at in memory[name] and at // beat != busy for at in range(first, first + count))
        ]
        at = rng.choice(known) if known else 0
        index = lookup.index
        ctx.set(index.word, at // beat)
        ctx.set(index.byte, at % beat)
        if rows > 1:
            ctx.set(index.by_row, by_row)
        if not known:
            return None
        both.add(by_row)
        if by_row:
            return [memory[name][at + k] for k in range(entries)]
        run = [at - at % blocks + (at + k) % blocks for k in range(blocks)]
        return [memory[name][place] for place in run for _ in range(rows)]

    ctx = await simulation(dut)
    for _ in range(400):
        before = dict(shown)
        name, word = rng.choice(names), rng.randrange(min(plan.maxima_depth, 24))
        value = rng.randbytes(beat)
        write = rng.random() < 0.7
        writes = [dut.write, *([dut.write_1] if plan.ports > 1 else [])]
        for number, each in enumerate(writes):
            mine = number == port
            ctx.set(each.enable, write if mine else rng.randrange(2))
            ctx.set(each.memory, NAMES.index(name if mine else rng.choice(names)))
            ctx.set(each.addr, word if mine else rng.randrange(min(plan.maxima_depth, 24)))
            ctx.set(each.data, int.from_bytes(value if mine else rng.randbytes(beat), "little"))
        for reader, (seen, roles) in readers(dut, port).items():
            enabled = rng.random() < 0.6
            ctx.set(seen.enable, enabled)
            for role, one in roles.items():
                busy = word if write and one == name else None
                lookup = getattr(seen, role)
                found = look_up(ctx, lookup, one, busy)
                if enabled:
                    shown[reader, one] = lookup, found
        await ctx.tick()
        if write:
            memory[name] |= {word * beat + k: byte for k, byte in enumerate(value)}
        due = {
            which: found
            for which, found in shown.items()
            if not (late and which[0].startswith("drain"))
        }
        due |= {which: found for which, found in before.items() if which not in due}
        for which, (lookup, want) in due.items():
            got = list(ctx.get(lookup.value))
            assert want is None or got == want, which
    assert all(memory.values())
    assert len(shown) == (1 if port else 2) * len(names)
    assert None not in [want for _, want in shown.values()]
    by_row = any(hasattr(lookup.index, "by_row") for lookup in lookups(dut).values())
    assert both == ({False, True} if by_row else {False})
