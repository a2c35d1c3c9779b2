"""Scratchpads: banks of vectors in front of the array's ports, read with the array's skew."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import SIGNIFICAND_BITS, Element, held_layout, vector_layout
from diastole.control.execute import held_read_layout
from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import Plan


def mark_layouts(plan: Plan, *, poison_bits: int, deficits: tuple[str, ...]) -> dict:
    """What may be kept beside the elements of a vector, in a machine that has it."""
    marks = dict.fromkeys(deficits, unsigned(plan.deficit_bits)) | {"nonzero": unsigned(1)}
    if plan.significands:
        marks["significand"] = unsigned(SIGNIFICAND_BITS)
    if plan.shape.extents:
        marks["extent"] = unsigned(plan.shape.extent_bits)
    if plan.poison:
        marks["poison"] = unsigned(poison_bits)
    return marks


class Bank:
    """The two memories of one bank: words of one vector each, and one word per block.

    ``words``, ``blocks``: their layouts (``blocks`` may be empty: there is no second memory then).
    :meth:`read` gives each member, whichever word it is in.
    """

    def __init__(self, m, unit, platform, number: int, words: dict, blocks: dict, depth: int):
        plan = unit.plan
        enable = unit.write_en & (unit.write_bank == number)
        self._members = {}
        self._reads = []
        for name, members, shift in (("bank", words, 0), ("blocks", blocks, plan.log_block)):
            if not members:
                continue
            layout = data.StructLayout(members)
            ram = Ram(width=layout.size, depth=max(depth >> shift, 2))
            m.submodules[f"{name}_{number}"] = place(ram, platform)
            m.d.comb += [
                ram.write_en.eq(enable),
                ram.write_addr.eq(unit.write_addr >> shift),
                ram.write_data.eq(Cat(unit.written(member) for member in members)),
            ]
            self._reads.append((ram, shift))
            view = data.View(layout, ram.read_data)
            self._members |= {member: view[member] for member in members}

    def read(self, m, enable, addr):
        """Look up a vector in this cycle; the values of its members, in the next one."""
        for ram, shift in self._reads:
            m.d.comb += [ram.read_en.eq(enable), ram.read_addr.eq(addr >> shift)]
        return self._members


class _Scratchpad(wiring.Component):
    """What both kinds share: the write port, one vector per cycle into one bank.

    ``write_elements`` are of :meth:`diastole.plan.Plan.element`; each mark that the machine has
    comes by its name.
    """

    def __init__(self, plan: Plan, banks: int, words: int, marks: dict, ports: dict):
        wide = data.ArrayLayout(unsigned(plan.element().bits), plan.block)
        self._marks = marks
        super().__init__(
            {
                "write_en": In(1),
                "write_bank": In(range(max(banks, 2))),
                "write_addr": In(range(max(words, 2))),
                "write_elements": In(wide),
            }
            | {f"write_{name}": In(shape) for name, shape in marks.items()}
            | ports
        )

    def _layouts(self, element: Element, per_block: tuple[str, ...]) -> tuple[dict, dict]:
        """Members of a vector's word, and of a block's."""
        words = {"elements": data.ArrayLayout(unsigned(element.bits), self.plan.block)}
        words |= {name: shape for name, shape in self._marks.items() if name not in per_block}
        blocks = {name: shape for name, shape in self._marks.items() if name in per_block}
        self._element = element
        return words, blocks

    def written(self, member: str):
        """What is written as one member of a word."""
        if member != "elements":
            return getattr(self, f"write_{member}")
        resized, wide = self.plan.shape.resized, self.plan.element()
        return Cat(resized(each, wide, self._element) for each in self.write_elements)


class StreamScratchpad(_Scratchpad):
    """The vectors that stream into the array from one side; bank b feeds port b.

    Timing: ``read_en`` with ``read_addr`` in cycle t gives port b its vector in cycle t + 1 + b;
    in other cycles a port shows a vector with ``nonzero`` and ``poison`` 0. Where vectors may be
    poisoned, ``read_banks`` tells how many banks are meant: the others show no poison.

    Parameters: ``side``, ``south`` or ``west``.
    """

    def __init__(self, plan: Plan, *, side: str):
        self.plan, self.side = plan, side
        self.banks = plan.cols if side == "south" else plan.rows
        self.words = 2 * plan.half_words
        self.element = getattr(plan.shape, side)
        self.by_row = any(map(plan.grouped, plan.streamed(side)))
        ports = {
            "read_en": In(1),
            "read_addr": In(range(self.words)),
            "ports": Out(vector_layout(plan.shape, self.element)).array(self.banks),
        }
        if plan.poison:
            ports["read_banks"] = In(range(self.banks + 1))
        marks = mark_layouts(plan, poison_bits=1, deficits=("deficit",))
        super().__init__(plan, self.banks, self.words, marks, ports)

    @property
    def placed_parameters(self) -> dict[str, object]:
        """Both sides are one module where they have the same banks."""
        names = ("plan", "banks", "element", "by_row")
        return {name: getattr(self, name) for name in names}

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        per_block = () if self.by_row else ("deficit", "nonzero", "significand")
        layouts = self._layouts(self.element, per_block)
        enable, addr = self.read_en, self.read_addr
        meant = self.read_banks if plan.poison else None
        for number in range(self.banks):
            bank = Bank(m, self, platform, number, *layouts, self.words)
            shown = self._delayed(m, enable, f"shown_{number}")
            port = self.ports[number]
            for name, value in bank.read(m, enable, addr).items():
                if name == "nonzero":
                    value = shown & value
                if name == "poison":
                    value = value & self._delayed(m, enable & (number < meant), f"meant_{number}")
                m.d.comb += port[name].eq(value)
            enable = self._delayed(m, enable, f"enable_{number + 1}")
            addr = self._delayed(m, addr, f"addr_{number + 1}")
            if plan.poison:
                meant = self._delayed(m, meant, f"read_banks_{number + 1}")
        return m

    @staticmethod
    def _delayed(m, value, name):
        following = Signal(value.shape(), name=name)
        m.d.sync += following.eq(value)
        return following


class HeldScratchpad(_Scratchpad):
    """The blocks that the array holds; bank c feeds load port c.

    Blocks outside the slice (``rows_valid``, ``cols_valid``) leave as zeros. Timing as
    :class:`StreamScratchpad`: a read in cycle t reaches load port c in cycle t + 1 + c.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.deficits = tuple(f"deficit_{direction}" for direction in plan.directions)
        marks = mark_layouts(plan, poison_bits=plan.block, deficits=self.deficits)
        ports = {
            "read": In(held_read_layout(plan)),
            "ports": Out(held_layout(plan.shape)).array(plan.cols),
        }
        super().__init__(plan, plan.cols, plan.held_words, marks, ports)

    def elaborate(self, platform):
        m = Module()
        plan, read = self.plan, self.read
        own = ("deficit_north", "nonzero", "significand") if plan.lane_deficits else ()
        per_block = {*self.deficits, "nonzero", "significand"} - {*own}
        layouts = self._layouts(plan.shape.held, tuple(per_block))
        for number in range(plan.cols):
            bank = Bank(m, self, platform, number, *layouts, plan.held_words)
            shown = Signal(held_read_layout(plan), name=f"shown_{number}")
            inside = Signal(name=f"inside_{number}")
            m.d.sync += shown.eq(read)
            word = self.ports[number]
            m.d.comb += [
                inside.eq((shown.row < shown.rows_valid) & (number < shown.cols_valid)),
                word.valid.eq(shown.valid),
                word.row.eq(shown.row),
                word.index.eq(shown.index),
            ]
            for name, value in bank.read(m, read.valid, read.addr).items():
                if name in ("elements", "nonzero", "extent", "poison"):
                    value = Mux(inside, value, 0)
                m.d.comb += word[name].eq(value)
            following = Signal(held_read_layout(plan), name=f"read_{number + 1}")
            m.d.sync += following.eq(read)
            read = following
        return m
