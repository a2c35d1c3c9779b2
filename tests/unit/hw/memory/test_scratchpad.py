"""Scratchpads: every bank gives the vectors that were written, with the array's skew."""

import pytest

from diastole_hw.memory.scratchpad import StationaryScratchpad, StreamScratchpad
from support.bench import design, simulation
from support.plans import make_numerics, make_plan

MIXED = {"formats": ("bfp3", "bfp5", "bfp2")}
VECTORS = {"formats": ("bfp4", "bfp4", "bfp4"), "groupings": ("1x8", "1x8", "1x8")}
X_VECTORS = MIXED | {"groupings": ("1x8", None, None)}
W_VECTORS = MIXED | {"groupings": (None, "1x8", None), "special": "poison"}
WINDOWED = {  # poison and extents, significands of 4, 3 and 8 bits, depths of 14, 29 and 0
    "formats": ("fp8_e4m3", "fp8_e5m2", "bfp8"),
    "groupings": ("8x8", "tensor", None),
    "fraction": 4, "headroom": 8, "special": "poison",
}  # fmt: skip
NVFP4 = {"formats": ("nvfp4",) * 3, "fraction": 9, "headroom": 8, "special": "poison"}


def limits(plan, *classes):
    """Bits of a significand and of a depth, in elements that hold those of these classes."""
    formats = [plan.formats[cls] for cls in classes]
    depth = max(f.depth for f in formats)
    return max(f.precision for f in formats), depth.bit_length()


def packed(limit, element):
    sig, fall, negative = element
    return sig | fall << limit[0] | negative << sum(limit)


def unpacked(limit, bits):
    return bits % 2 ** limit[0], bits >> limit[0] & 2 ** limit[1] - 1, bits >> sum(limit)


class Banks:
    """What was written, in whole blocks; elements as (sig, d, sign) of ``cls``, a class that goes
    to these banks. ``marks``: bits of each mark; ``by_row``: those that differ within a block."""

    def __init__(self, rng, plan, banks, depth, marks, by_row, cls):
        self.rng, self.plan, self.count, self.depth = rng, plan, banks, depth
        self.marks, self.by_row, self.cls = marks, by_row, cls
        self.aligned_top = any(f.depth for f in plan.formats)
        self.vectors = {}  # (bank, address): elements, marks

    def element(self, limit, sig, fall, negative):
        """In elements of ``limit``: at the top of sig, or in plain block floating point below."""
        missing = limit[0] - self.plan.formats[self.cls].precision
        return packed(limit, (sig << missing * self.aligned_top, fall, negative))

    async def fill(self, ctx, dut, blocks):
        """Write blocks, word by word, with pauses; returns the addresses of their vectors. Where
        there are two ports to memory, those of even and of odd addresses side by side."""
        rng, side = self.rng, self.plan.block
        addresses = rng.sample(range(self.depth // side), blocks)
        order = [(bank, block) for bank in range(self.count) for block in addresses]
        order, writes = rng.sample(order, len(order)), [dut.write]
        parts = [order]
        if self.plan.ports > 1:
            writes = rng.sample([dut.write, dut.write_1], 2)
            parts = [[place for place in order if place[1] % 2 == parity] for parity in range(2)]
        sources = [self.cycles(ctx, *each) for each in zip(writes, parts, strict=True)]
        while sources := [source for source in sources if next(source, False)]:
            await ctx.tick()
        return [block * side + k for block in addresses for k in range(side)]

    def cycles(self, ctx, write, places):
        """Blocks through one port: true for every cycle that they take."""
        for bank, block in places:
            for number, word in enumerate(self.words(bank, block)):
                ctx.set(write.en, 1)
                ctx.set(write.bank, bank)
                ctx.set(write.word, block * self.plan.block // len(word) + number)
                ctx.set(write.vectors, word)
                yield True
                if self.rng.random() < 0.2:  # other values on the port are not written
                    ctx.set(write.en, 0)
                    zeros = {"elements": [0] * self.plan.block} | dict.fromkeys(self.marks, 0)
                    ctx.set(write.vectors, [zeros] * len(word))
                    yield True
        ctx.set(write.en, 0)

    def words(self, bank, block):
        """What a block is to hold, at random."""
        rng, side = self.rng, self.plan.block
        stored, wide = self.plan.formats[self.cls], limits(self.plan, 0, 1, 2)
        marks = {name: rng.getrandbits(bits) for name, bits in self.marks.items()}
        vectors = []
        for addr in range(block * side, (block + 1) * side):
            elements = [
                (
                    rng.randrange(2**stored.precision),
                    rng.randrange(stored.depth + 1),
                    rng.randrange(2),
                )
                for _ in range(side)
            ]
            marks |= {name: rng.getrandbits(self.marks[name]) for name in self.by_row}
            self.vectors[bank, addr] = elements, dict(marks)
            vectors.append({"elements": [self.element(wide, *each) for each in elements]} | marks)
        count = self.plan.fill_vectors
        return [vectors[k : k + count] for k in range(0, side, count)]

    def expected(self, bank, addr, limit):
        elements, marks = self.vectors[bank, addr]
        return [self.element(limit, *each) for each in elements], dict(marks)


def mark_bits(plan, deficits, poison_bits):
    """Bits of the marks that the machine has."""
    bits = dict.fromkeys(deficits, plan.deficit_bits) | {"nonzero": 1}
    bits |= {"significand": 4} if plan.significands else {}
    bits |= {"extent": plan.shape.extent_bits} if plan.shape.extents else {}
    return bits | ({"poison": poison_bits} if plan.poison else {})


STREAMS = {  # numerics, block, rows, cols, side, class written, the side's classes, vector groups
    "bfp": (MIXED, 4, 1, 1, "south", 0, (0,), False),
    "bfp, narrower than the widest": (MIXED, 1, 3, 1, "west", 2, (1, 2), False),
    "bfp, side by side": (MIXED, 8, 1, 2, "south", 0, (0,), False),
    "vectors": (VECTORS, 4, 2, 1, "west", 0, (0, 2), True),
    "vectors of X": (X_VECTORS, 2, 1, 3, "south", 0, (0,), True),
    "squares beside vectors of X": (X_VECTORS, 2, 2, 2, "west", 2, (2,), False),
    "windowed": (WINDOWED, 4, 1, 2, "south", 0, (0,), False),
    "windowed, two classes": (WINDOWED, 2, 2, 1, "west", 2, (1, 2), False),
    "nvfp4": (NVFP4, 8, 1, 2, "south", 0, (0,), True),
    "two ports": (MIXED, 4, 2, 2, "south", 0, (0,), False),
    "vectors by two ports": (VECTORS, 4, 2, 4, "west", 0, (0, 2), True),
}


REGISTERED = pytest.mark.parametrize("registered", [False, True], ids=["plain", "registered"])


@REGISTERED
@pytest.mark.parametrize("case", STREAMS)
@pytest.mark.sampled(4)
async def test_stream(case, registered, rng):
    numerics, block, rows, cols, side, cls, classes, grouped = STREAMS[case]
    numerics = make_numerics(block=block, **numerics)
    sizes = {"rows": rows, "cols": cols, "ports": 1 + ("two ports" in case)}
    plan = make_plan(numerics, **sizes, output_register=registered)
    assert plan.read_cycles == 1 + registered
    dut = design(StreamScratchpad, plan, side=side)
    banks = cols if side == "south" else rows
    marks = mark_bits(plan, ("deficit",), 1)
    own = {"extent", "poison"} | ({"deficit", "nonzero", "significand"} if grouped else set())
    model = Banks(rng, plan, banks, dut.vectors, marks, sorted(own & set(marks)), cls)
    limit = limits(plan, *classes)
    assert dut.vectors == plan.stream_words
    ctx = await simulation(dut)
    addresses = await model.fill(ctx, dut, 6)
    reads = []  # by cycle: an address and how many banks are meant, or None
    for cycle in range(150):
        addr = rng.choice(addresses) if rng.random() < 0.7 else None
        meant = rng.randrange(banks + 1)
        reads.append(None if addr is None else (addr, meant))
        ctx.set(dut.read_en, addr is not None)
        ctx.set(dut.read_addr, addr if addr is not None else rng.randrange(dut.vectors))
        if plan.poison:
            ctx.set(dut.read_banks, meant)
        for number in range(min(banks, cycle - registered)):
            port, read = dut.ports[number], reads[cycle - plan.read_cycles - number]
            if read is None:
                assert not ctx.get(port.nonzero), f"port {number} shows what was not read"
                assert not plan.poison or not ctx.get(port.poison), f"port {number} poisoned"
                continue
            elements, want = model.expected(number, read[0], limit)
            if plan.poison and number >= read[1]:
                want["poison"] = 0
            assert list(ctx.get(port.elements)) == elements, f"port {number}"
            assert {name: ctx.get(port[name]) for name in want} == want, f"port {number}"
        await ctx.tick()


HELD = {  # numerics, block, rows, cols, in place, deficits, whether words have their own
    "bfp": (MIXED, 4, 1, 1, True, ("east", "north"), False),
    "bfp, 2x3": (MIXED, 2, 2, 3, True, ("east", "north"), False),
    "edge": (MIXED, 1, 3, 2, False, ("east",), False),
    "vectors": (VECTORS, 4, 2, 2, True, ("north",), True),
    "vectors of W": (W_VECTORS, 2, 2, 2, True, ("east", "north"), True),
    "windowed": (WINDOWED, 2, 1, 2, True, ("east", "north"), False),
    "nvfp4": (NVFP4, 4, 2, 1, True, ("east", "north"), True),
    "two ports": (MIXED, 4, 2, 2, True, ("east", "north"), False),
    "poison by two ports": (WINDOWED, 2, 2, 2, True, ("east", "north"), False),
}


@REGISTERED
@pytest.mark.parametrize("case", HELD)
@pytest.mark.parametrize("cls", [1, 2], ids=["w", "dy"])
@pytest.mark.sampled(4)
async def test_held(case, cls, registered, rng):
    numerics, block, rows, cols, in_place, directions, own = HELD[case]
    numerics = make_numerics(block=block, **numerics)
    ports = 1 + ("two ports" in case)
    sizes = {"rows": rows, "cols": cols, "in_place": in_place, "ports": ports}
    plan = make_plan(numerics, **sizes, output_register=registered)
    dut = design(StationaryScratchpad, plan)
    marks = mark_bits(plan, [f"deficit_{name}" for name in directions], block)
    by_row = {"extent", "poison"} | ({"deficit_north", "nonzero", "significand"} if own else set())
    model = Banks(rng, plan, cols, plan.stationary_words, marks, sorted(by_row & set(marks)), cls)
    limit = limits(plan, 1, 2)

    def random_read(addresses):
        return {
            "valid": rng.random() < 0.7,
            "addr": rng.choice(addresses),
            "row": rng.randrange(rows),
            "index": rng.randrange(block),
            "rows_valid": rng.randrange(rows + 1),
            "cols_valid": rng.randrange(cols + 1),
        }

    def check(ctx, number, read):
        word = dut.ports[number]
        assert ctx.get(word.valid) == read["valid"]
        if not read["valid"]:
            return
        elements, want = model.expected(number, read["addr"], limit)
        if not (read["row"] < read["rows_valid"] and number < read["cols_valid"]):
            elements = [0] * block
            want |= dict.fromkeys({"nonzero", "extent", "poison"} & set(want), 0)
        want |= {"row": read["row"], "index": read["index"]}
        assert {name: ctx.get(word[name]) for name in want} == want, f"port {number}, {read}"
        assert list(ctx.get(word.elements)) == elements, f"port {number}, {read}"

    ctx = await simulation(dut)
    addresses = await model.fill(ctx, dut, 4)
    reads = []
    for cycle in range(150):
        reads.append(random_read(addresses))
        ctx.set(dut.read, reads[-1])
        for number in range(min(cols, cycle - registered)):
            check(ctx, number, reads[cycle - plan.read_cycles - number])
        await ctx.tick()


@pytest.mark.parametrize("words", [(0, 4), (2, 7)], ids=["even", "odd"])
async def test_two_words_for_one_part_of_a_bank(words):
    """Blocks of two words each."""
    plan = make_plan(make_numerics(block=4), rows=2, cols=2, data_width=32, ports=2)
    dut = design(StreamScratchpad, plan, side="south")
    assert plan.fill_vectors == 2
    ctx = await simulation(dut)
    for write, word in zip((dut.write, dut.write_1), words, strict=True):
        ctx.set(write.en, 1)
        ctx.set(write.bank, 1)
        ctx.set(write.word, word)
    with pytest.raises(AssertionError, match="two words for one part of a bank"):
        await ctx.tick()
