"""Scratchpads: every bank gives the vectors that were written, with the array's skew."""

import pytest

from diastole.memory.scratchpad import HeldScratchpad, StreamScratchpad
from support.bench import run
from support.plans import make_numerics, make_plan

FORMATS = ("bfp3", "bfp5", "bfp2")


class Banks:
    """What was written; vectors and deficits, written in whole blocks."""

    def __init__(self, rng, plan, banks, bits, words, deficits):
        self.plan, self.bits, self.deficits = plan, bits, deficits
        self.count, self.words, self.rng = banks, words, rng
        self.vectors = {}  # (bank, address): elements, as they are written
        self.blocks = {}  # (bank, block): deficits, nonzero

    def wide(self, magnitude, sign):
        """An element of the widest format: magnitude low, sign on top."""
        return magnitude | sign << max(self.plan.mantissas)

    def narrow(self, element):
        top = max(self.plan.mantissas)
        return element & (1 << self.bits) - 1 | (element >> top) << self.bits

    async def fill(self, ctx, dut, blocks):
        """Write blocks, vector by vector, with pauses; returns the addresses of their vectors."""
        rng, side = self.rng, self.plan.block
        addresses = rng.sample(range(self.words // side), blocks)
        order = [(bank, block) for bank in range(self.count) for block in addresses]
        for bank, block in rng.sample(order, len(order)):
            deficits = [rng.randrange(2**self.plan.deficit_bits) for _ in range(self.deficits)]
            nonzero = rng.randrange(2)
            self.blocks[bank, block] = deficits, nonzero
            packed = sum(d << k * self.plan.deficit_bits for k, d in enumerate(deficits))
            packed |= nonzero << self.deficits * self.plan.deficit_bits
            for addr in range(block * side, (block + 1) * side):
                elements = [
                    self.wide(rng.randrange(2**self.bits), rng.randrange(2)) for _ in range(side)
                ]
                self.vectors[bank, addr] = [self.narrow(element) for element in elements]
                ctx.set(dut.write_en, 1)
                ctx.set(dut.write_bank, bank)
                ctx.set(dut.write_addr, addr)
                ctx.set(dut.write_elements, elements)
                ctx.set(dut.write_deficit, packed)
                await ctx.tick()
                if rng.random() < 0.2:  # other values on the port are not written
                    ctx.set(dut.write_en, 0)
                    ctx.set(dut.write_elements, [0] * side)
                    ctx.set(dut.write_deficit, 0)
                    await ctx.tick()
        ctx.set(dut.write_en, 0)
        return [block * side + k for block in addresses for k in range(side)]

    def block(self, bank, addr):
        return self.blocks[bank, addr >> self.plan.log_block]


@pytest.mark.parametrize("banks, block, bits", [(1, 1, 3), (1, 4, 5), (3, 2, 5), (2, 8, 3)])
def test_stream(banks, block, bits, rng):
    plan = make_plan(make_numerics(block=block, formats=FORMATS), cols=banks)
    words = 2 * plan.half_words
    dut = StreamScratchpad(plan, banks=banks, bits=bits, words=words)
    model = Banks(rng, plan, banks, bits, words, 1)

    async def bench(ctx):
        addresses = await model.fill(ctx, dut, 6)
        reads = []  # by cycle: an address, or None
        for cycle in range(150):
            addr = rng.choice(addresses) if rng.random() < 0.7 else None
            reads.append(addr)
            ctx.set(dut.read_en, addr is not None)
            ctx.set(dut.read_addr, addr if addr is not None else rng.randrange(words))
            for number in range(min(banks, cycle)):
                port, read = dut.ports[number], reads[cycle - 1 - number]
                if read is None:
                    assert not ctx.get(port.nonzero), f"port {number} shows what was not read"
                    continue
                (deficit,), nonzero = model.block(number, read)
                got = (list(ctx.get(port.elements)), ctx.get(port.deficit), ctx.get(port.nonzero))
                assert got == (model.vectors[number, read], deficit, nonzero), f"port {number}"
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize(
    "rows, cols, block, in_place", [(1, 1, 4, True), (2, 3, 2, True), (3, 2, 1, False)]
)
def test_held(rows, cols, block, in_place, rng):
    numerics = make_numerics(block=block, formats=FORMATS)
    plan = make_plan(numerics, rows=rows, cols=cols, in_place=in_place)
    dut = HeldScratchpad(plan)
    model = Banks(rng, plan, cols, plan.held_bits, plan.held_words, 2 if in_place else 1)

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
        deficits, nonzero = model.block(number, read["addr"])
        inside = read["row"] < read["rows_valid"] and number < read["cols_valid"]
        elements = model.vectors[number, read["addr"]] if inside else [0] * block
        got = [ctx.get(getattr(word, name)) for name in ("row", "index", "nonzero")]
        assert got == [read["row"], read["index"], inside and nonzero], f"port {number}, {read}"
        assert list(ctx.get(word.elements)) == elements, f"port {number}, {read}"
        got = [ctx.get(word.deficit_east), ctx.get(word.deficit_north)]
        assert got[: len(deficits)] == deficits, f"port {number}, {read}"

    async def bench(ctx):
        addresses = await model.fill(ctx, dut, 4)
        reads = []
        for cycle in range(150):
            reads.append(random_read(addresses))
            ctx.set(dut.read, reads[-1])
            for number in range(min(cols, cycle)):
                check(ctx, number, reads[cycle - 1 - number])
            await ctx.tick()

    run(dut, bench)
