"""Scratchpads: banks of vectors in front of the array's ports, read with the array's skew."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import held_layout, vector_layout
from diastole.control.execute import held_read_layout
from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import Plan


def narrowed(elements, bits: int):
    """Elements of a wider format whose values fit ``bits`` of magnitude: drop the zeros between."""
    return Cat(*(Cat(element[:bits], element[-1]) for element in elements))


def write_members(plan: Plan, banks: int, words: int, deficits: int) -> dict:
    """Write port: one vector per cycle into one bank; the deficits are those of its block."""
    width = max(plan.mantissas) + 1
    return {
        "write_en": In(1),
        "write_bank": In(range(max(banks, 2))),
        "write_addr": In(range(max(words, 2))),
        "write_elements": In(data.ArrayLayout(unsigned(width), plan.block)),
        "write_deficit": In(deficits * plan.deficit_bits + 1),  # with nonzero on top
    }


def add_bank(m, unit, plan, platform, name: str, number: int, bits: int, words: int, deficits: int):
    """Vectors and, apart from them, one word of deficits per block; returns the two memories."""
    vectors = Ram(width=plan.block * (bits + 1), depth=words)
    blocks = Ram(width=deficits * plan.deficit_bits + 1, depth=max(words // plan.block, 2))
    m.submodules[f"{name}_{number}"] = place(vectors, platform)
    m.submodules[f"{name}_deficits_{number}"] = place(blocks, platform)
    enable = unit.write_en & (unit.write_bank == number)
    m.d.comb += [
        vectors.write_en.eq(enable),
        vectors.write_addr.eq(unit.write_addr),
        vectors.write_data.eq(narrowed(unit.write_elements, bits)),
        blocks.write_en.eq(enable),
        blocks.write_addr.eq(unit.write_addr >> plan.log_block),
        blocks.write_data.eq(unit.write_deficit),
    ]
    return vectors, blocks


class StreamScratchpad(wiring.Component):
    """The vectors that stream into the array from one side; bank b feeds port b.

    Timing: ``read_en`` with ``read_addr`` in cycle t gives port b its vector in cycle t + 1 + b;
    in other cycles a port shows a vector with ``nonzero`` 0.

    Parameters: ``banks`` ports; ``bits`` of a magnitude; ``words`` vectors per bank.
    """

    def __init__(self, plan: Plan, *, banks: int, bits: int, words: int):
        self.plan, self.banks, self.bits, self.words = plan, banks, bits, words
        vector = vector_layout(plan.block, bits, plan.deficit_bits)
        super().__init__(
            write_members(plan, banks, words, 1)
            | {
                "read_en": In(1),
                "read_addr": In(range(words)),
                "ports": Out(vector).array(banks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        enable, addr = self.read_en, self.read_addr
        for number in range(self.banks):
            vectors, blocks = add_bank(
                m, self, plan, platform, "bank", number, self.bits, self.words, 1
            )
            shown = Signal(name=f"shown_{number}")
            m.d.sync += shown.eq(enable)
            port = self.ports[number]
            m.d.comb += [
                vectors.read_en.eq(enable),
                vectors.read_addr.eq(addr),
                blocks.read_en.eq(enable),
                blocks.read_addr.eq(addr >> plan.log_block),
                port.elements.eq(vectors.read_data),
                port.deficit.eq(blocks.read_data),
                port.nonzero.eq(shown & blocks.read_data[-1]),
            ]
            enable_next = Signal(name=f"enable_{number + 1}")
            addr_next = Signal.like(addr, name=f"addr_{number + 1}")
            m.d.sync += [enable_next.eq(enable), addr_next.eq(addr)]
            enable, addr = enable_next, addr_next
        return m


class HeldScratchpad(wiring.Component):
    """The blocks that the array holds; bank c feeds load port c.

    Blocks outside the slice (``rows_valid``, ``cols_valid``) leave as zeros. Timing as
    :class:`StreamScratchpad`: a read in cycle t reaches load port c in cycle t + 1 + c.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.directions = 2 if plan.in_place else 1
        word = held_layout(plan.rows, plan.block, plan.held_bits, plan.deficit_bits)
        super().__init__(
            write_members(plan, plan.cols, plan.held_words, self.directions)
            | {"read": In(held_read_layout(plan)), "ports": Out(word).array(plan.cols)}
        )

    def elaborate(self, platform):
        m = Module()
        plan, read = self.plan, self.read
        for number in range(plan.cols):
            vectors, blocks = add_bank(
                m, self, plan, platform, "bank", number, plan.held_bits, plan.held_words,
                self.directions,
            )  # fmt: skip
            shown = Signal(held_read_layout(plan), name=f"shown_{number}")
            inside = Signal(name=f"inside_{number}")
            m.d.sync += shown.eq(read)
            word, deficits = self.ports[number], blocks.read_data
            m.d.comb += [
                vectors.read_en.eq(read.valid),
                vectors.read_addr.eq(read.addr),
                blocks.read_en.eq(read.valid),
                blocks.read_addr.eq(read.addr >> plan.log_block),
                inside.eq((shown.row < shown.rows_valid) & (number < shown.cols_valid)),
                word.valid.eq(shown.valid),
                word.row.eq(shown.row),
                word.index.eq(shown.index),
                word.elements.eq(Mux(inside, vectors.read_data, 0)),
                word.deficit_east.eq(deficits[: plan.deficit_bits]),
                word.nonzero.eq(inside & deficits[-1]),
            ]
            if plan.in_place:
                m.d.comb += word.deficit_north.eq(deficits[plan.deficit_bits : -1])
            following = Signal(held_read_layout(plan), name=f"read_{number + 1}")
            m.d.sync += following.eq(read)
            read = following
        return m
