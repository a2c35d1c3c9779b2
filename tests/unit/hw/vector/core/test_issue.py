# amaranth: UnusedElaboratable=no
"""When instructions begin, cycle by cycle, against the rules of the unit's docstring."""

import pytest

from diastole_hw.vector.core.issue import BLOCKS, Issue
from diastole_hw.vector.core.timing import special_cycles
from diastole_sim.spec.micro import Source
from support.bench import design, run
from support.sweep import sweep
from support.vector_core import shape_of

LONG_AGO = -1000
REGISTERS = 4
"""Few, so that instructions meet."""


def random_entry(rng, shape):
    """Of an instruction; what it names is few, so that it often waits."""
    special = rng.random() < 0.25
    sources = [*range(REGISTERS), int(Source.S0), int(Source.ONE), int(Source.ZERO)]
    a, b, c = (rng.choice(sources) for _ in "abc")
    if special:
        a, b, c = int(Source.ZERO), rng.randrange(REGISTERS), int(Source.ZERO)
    turns = [0, *(1 << bit for bit in range(shape.row_bits))]
    turned = rng.choice(turns) if c < 16 and not special else 0
    panel, output = rng.random() < 0.3, rng.random()
    to_panel = output < 0.3 and not special
    places = [rng.randrange(16) * shape.block + rng.randrange(2) for _ in range(2)]
    if panel and to_panel:  # an instruction reads and writes at places of one kind
        places[1] = places[0]
    return {
        "end": 0,
        "special": special,
        "op": rng.randrange(16, 22) if special else rng.randrange(1, 10),
        "a": {"source": a, "negate": 0},
        "b": {"source": b, "negate": 0},
        "c": {"source": c, "negate": 0},
        "writes": special or rng.random() < 0.7,
        "d": rng.randrange(REGISTERS),
        "writes_output": not special and output > 0.6,
        "o": rng.randrange(4),
        "to_panel": to_panel,
        "turn_rows": turned,
        "streams": 0 if special else rng.getrandbits(2),
        "from_panel": panel and not special,
        "panel_read": places[0],
        "panel_write": places[1],
    }


class Rules:
    """What an entry waits for, of the cycles in which others began."""

    def __init__(self, shape, used):
        self.shape, self.used = shape, used
        self.block, self.slot = shape.block, max(8, shape.block)
        self.start, self.before = LONG_AGO, None
        self.special, self.owner = LONG_AGO, None
        self.release_at = None

    def free(self, now):
        return now + 1 - self.start >= self.slot

    def blocks(self, now, level):
        leaves = self.release_at == now
        return {stream for stream in range(4) if level[stream] > leaves}

    def begins(self, entry, now, level, room):
        """Whether it does in the next cycle."""
        needed = {stream for stream in range(4) if entry["streams"] >> stream & 1}
        return (
            self.free(now)
            and needed <= self.blocks(now, level)
            and (room or not entry["writes_output"])
            and now + 1 >= self.earliest(entry)
        )

    def named(self, entry):
        return [entry[letter]["source"] for letter in "abc"]

    def earliest(self, entry):
        """The first cycle of its slot, as far as others of its registers and vectors are meant."""
        at, soon = [0], self.special + special_cycles(self.shape)
        mine = [*self.named(entry), entry["d"] if entry["writes"] else None]
        if entry["special"] or (self.owner is not None and self.owner in mine):
            at.append(soon)
        if entry["turn_rows"] and entry["c"]["source"] == self.owner:
            at.append(soon + self.block // 2)
        before = self.before
        if before and entry["turn_rows"] and before["writes"] == entry["c"]["source"]:
            at.append(self.start + 8 + entry["turn_rows"])
        reads_panel = before and entry["from_panel"] and before["to_panel"] is not None
        if reads_panel and (entry["panel_read"] - before["to_panel"]) % self.block:
            at.append(self.start + 7 + self.block)
        return max(at)

    def begin(self, entry, now):
        """What its slot is to be: register written, and which operands are renamed."""
        renamed = [source == self.owner and self.owner is not None for source in self.named(entry)]
        writes = entry["d"] if entry["writes"] else None
        if entry["special"]:
            renamed[0], written = True, self.owner
            self.special, self.owner = now + 1, writes
        else:
            written = writes
            if writes == self.owner:
                self.owner = None
        self.start = now + 1
        panel = entry["panel_write"] if entry["to_panel"] else None
        self.before = {"writes": -1 if written is None else written, "to_panel": panel}
        return written, sum(1 << n for n, each in enumerate(renamed) if each)

    def ends(self, now, level):
        return self.release_at is None and self.used <= self.blocks(now, level)

    def end(self, now):
        self.release_at = now if self.free(now) else self.start + self.slot - 1


class Bench:
    """Random entries; ``gentle``: how often nothing holds them back from outside."""

    def __init__(self, dut, rng, gentle, blocks):
        self.dut, self.rng, self.gentle = dut, rng, gentle
        used = {0, 1, 3}
        self.rules, self.used = Rules(dut.shape, used), used
        self.entries, self.level, self.released = [], [0] * 4, LONG_AGO
        for number in range(blocks):
            self.entries += [random_entry(rng, dut.shape) for _ in range(rng.randrange(7))]
            self.entries.append({"end": 1, "last": number == blocks - 1})

    def arrive(self):
        for stream in self.used:
            if self.level[stream] < BLOCKS and self.rng.random() < self.gentle / 4:
                self.level[stream] += 1

    async def run(self, ctx):
        dut, rng, rules = self.dut, self.rng, self.rules
        ctx.set(dut.used, sum(1 << stream for stream in self.used))
        expected, offered = None, False
        for now in range(100_000):
            self.arrive()
            room = rng.random() < self.gentle
            valid = bool(self.entries) and (offered or rng.random() < self.gentle)
            entry = self.entries[0] if self.entries else None
            ctx.set(dut.level, self.level)
            ctx.set(dut.space, room)
            ctx.set(dut.output_block.ready, room)
            ctx.set(dut.i.valid, valid)
            if valid:
                ctx.set(dut.i.payload, {k: v for k, v in entry.items() if k != "last"})
                ctx.set(dut.block.end, entry.get("last", 0))
            await ctx.delay(1e-9)
            is_end = valid and entry["end"]
            takes = valid and (
                rules.ends(now, self.level) if is_end
                else rules.begins(entry, now, self.level, room)
            )  # fmt: skip
            offered = valid and not takes  # and stays
            assert ctx.get(dut.i.ready & dut.i.valid) == takes, f"cycle {now}: {entry}"
            assert ctx.get(dut.output_block.valid) == (
                takes and not is_end and entry["writes_output"]
            )
            since = now - rules.start
            assert ctx.get(dut.active) == (since < rules.block)
            if since < rules.block:
                assert ctx.get(dut.row) == since
                self.check_slot(ctx, expected)
            assert ctx.get(dut.working) == (since < rules.slot)
            if takes:
                self.entries.pop(0)
                if is_end:
                    rules.end(now)
                else:
                    expected = entry, *rules.begin(entry, now)
            leaves = rules.release_at == now
            assert ctx.get(dut.release_block) == leaves, f"cycle {now}"
            if leaves:
                rules.release_at, self.released = None, now
                for stream in self.used:
                    self.level[stream] -= 1
            if ctx.get(dut.done):
                return self.check_done(now)
            await ctx.tick()
        raise AssertionError("no end")

    def check_slot(self, ctx, expected):
        entry, written, renamed = expected
        slot = self.dut.slot
        assert ctx.get(slot.entry.op) == entry["op"]
        assert ctx.get(slot.entry.writes) == (written is not None)
        if written is not None:
            assert ctx.get(slot.entry.d) == written
        assert ctx.get(slot.renamed) == renamed

    def check_done(self, now):
        rules = self.rules
        assert not self.entries
        rested = rules.special + special_cycles(rules.shape) - 1
        assert now == max(rules.start + rules.block + 8, rested, self.released + 1)


@pytest.mark.parametrize(
    "block, specials", [(1, 1), (2, 1), (4, 1), (8, 2), sweep(16, 4), sweep(16, 16)]
)
@pytest.mark.parametrize("gentle", [1.0, 0.3])
@pytest.mark.sampled(4)
def test_every_cycle(block, specials, gentle, rng):
    dut = design(Issue, shape_of(block, specials))
    for _ in range(3):
        run(dut, Bench(dut, rng, gentle, 12).run, limit=100_000)
