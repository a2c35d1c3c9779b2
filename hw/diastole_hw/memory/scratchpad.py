"""Scratchpads: banks of vectors in front of the array's ports, read with the array's skew."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.layouts import stationary_layout, vector_layout
from diastole_hw.data_registers import delayed_record
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port, port_name
from diastole_hw.schedule.tokens import stationary_read_layout
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def mark_shapes(plan: Plan, *, poison_bits: int, deficits: tuple[str, ...]) -> dict:
    """Return the shapes of the marks beside the elements of a vector, as far as the machine has the
    marks."""
    marks = dict.fromkeys(deficits, unsigned(plan.deficit_bits)) | {"nonzero": unsigned(1)}
    if plan.significands:
        marks["significand"] = unsigned(SCALE_SIGNIFICAND_BITS)
    if plan.shape.extents:
        marks["extent"] = unsigned(plan.shape.extent_bits)
    if plan.poison:
        marks["poison"] = unsigned(poison_bits)
    return marks


def elements_layout(plan: Plan, element: Element) -> data.ArrayLayout:
    """Return the layout of B elements."""
    return data.ArrayLayout(unsigned(element.bits), plan.block)


def write_signature(plan: Plan, *, banks: int, words: int, marks: dict) -> wiring.Signature:
    """Return the signature of a write of V vectors per cycle into one bank, as seen by the writer.

    ``words``: words of a bank. Each of ``vectors`` has ``elements`` in the layout of
    :meth:`diastole_hw.plan.plan.Plan.element`, and the marks.
    """
    elements = elements_layout(plan, plan.element())
    vector = data.StructLayout({"elements": elements} | marks)
    return wiring.Signature(
        {
            "en": Out(1),
            "bank": Out(range(max(banks, 2))),
            "word": Out(range(max(words, 2))),
            "vectors": Out(data.ArrayLayout(vector, plan.fill_vectors)),
        }
    )


def sub_bank_of(plan: Plan, word):
    """Return the part of a split bank that holds a word: the parity of the word's block."""
    return word[plan.log_block - exact_log2(plan.fill_vectors)]


class Bank(wiring.Component):
    """Keep one bank of vectors in memory: words of V vectors, and a word per block for the marks
    that the vectors of a block share.

    Words are written whole, vectors are read individually. Every write of a word also writes the
    shared word of its block, with the marks of the word's last vector.

    Timing: as :class:`diastole_hw.memory.ram.Ram`, with a multiplexer of V vectors behind the
    memory.

    Parameters
    ----------
    vector, block : data.StructLayout
        Members that are stored per vector and per block, in separate memories. ``block`` may be
        empty.
    depth : int
        Number of vectors.
    log_block, log_word : int
        A block has 2^``log_block`` vectors, a word 2^``log_word`` = V vectors.

    Members
    -------
    write_en, write_word : In(1), In(range(words))
    write_data : In(array of V structs of the members of ``vector`` and ``block``)
    read_en, read_addr : In(1), In(range(depth))
        Address of a vector.
    read_data : Out(the struct)
    """

    write_data: data.View
    read_data: data.View

    def __init__(
        self,
        *,
        vector: data.StructLayout,
        block: data.StructLayout,
        depth: int,
        log_block: int,
        log_word: int,
    ):
        self.vector, self.block, self.depth = vector, block, depth
        self.log_block, self.log_word = log_block, log_word
        both = data.StructLayout(dict(vector.members) | dict(block.members))
        super().__init__(
            {
                "write_en": In(1),
                "write_word": In(range(max(depth >> log_word, 2))),
                "write_data": In(data.ArrayLayout(both, 1 << log_word)),
                "read_en": In(1),
                "read_addr": In(range(depth)),
                "read_data": Out(both),
            }
        )

    def elaborate(self, platform):
        m = Module()
        vectors = data.ArrayLayout(self.vector, 1 << self.log_word)
        words = self._memory(m, "vectors", vectors.size, self.log_word)
        m.d.comb += words.write_data.eq(
            Cat(each[name] for each in self.write_data for name in self.vector.members)
        )
        vector = Signal(self.vector)
        m.d.comb += vector.eq(self._chosen(m, words.read_data))
        m.d.comb += [self.read_data[name].eq(vector[name]) for name in self.vector.members]
        if self.block.members:
            blocks = self._memory(m, "blocks", self.block.size, self.log_block)
            last, shown = self.write_data[-1], data.View(self.block, blocks.read_data)
            m.d.comb += blocks.write_data.eq(Cat(last[name] for name in self.block.members))
            m.d.comb += [self.read_data[name].eq(shown[name]) for name in self.block.members]
        return m

    def _chosen(self, m, word):
        """Return the requested vector of a word."""
        size = self.vector.size
        vectors = [word[k : k + size] for k in range(0, len(word), size)]
        if len(vectors) == 1:
            return word
        number = Signal(self.log_word)
        with m.If(self.read_en):
            m.d.sync += number.eq(self.read_addr)
        return Array(vectors)[number]

    def _memory(self, m, name, width, log_vectors) -> Ram:
        """Make a memory with words of ``width`` bits, each for 2^``log_vectors`` vectors."""
        m.submodules[name] = ram = Ram(width=width, depth=max(self.depth >> log_vectors, 2))
        m.d.comb += [
            ram.write_en.eq(self.write_en),
            ram.write_addr.eq(self.write_word >> (log_vectors - self.log_word)),
            ram.read_en.eq(self.read_en),
            ram.read_addr.eq(self.read_addr >> log_vectors),
        ]
        return ram


class SplitBank(wiring.Component):
    """Keep one bank of vectors in two parts: blocks of even and of odd addresses. The bank takes
    two words per cycle.

    Two words of one cycle must belong to blocks of different parity (an invariant, asserted).

    Timing: as :class:`Bank`, with a multiplexer of the two parts behind.

    Parameters
    ----------
    vector, block : data.StructLayout
        Members that are stored per vector and per block, in separate memories. ``block`` may be
        empty.
    depth : int
        Number of vectors of both parts together, a multiple of two blocks.
    log_block, log_word : int
        A block has 2^``log_block`` vectors, a word 2^``log_word`` = V vectors.

    Members
    -------
    write_en, write_word : In(1), In(range(words))
    write_data : In(array of V structs of the members of ``vector`` and ``block``)
        First word that is written.
    write_en_1, write_word_1, write_data_1 : as above
        Second word that is written.
    read_en, read_addr : In(1), In(range(depth))
        Address of a vector.
    read_data : Out(the struct)
    """

    read_data: data.View

    def __init__(
        self,
        *,
        vector: data.StructLayout,
        block: data.StructLayout,
        depth: int,
        log_block: int,
        log_word: int,
    ):
        self.vector, self.block, self.depth = vector, block, depth
        self.log_block, self.log_word = log_block, log_word
        both = data.StructLayout(dict(vector.members) | dict(block.members))
        super().__init__(
            per_port("write_en", In(1), 2)
            | per_port("write_word", In(range(depth >> log_word)), 2)
            | per_port("write_data", In(data.ArrayLayout(both, 1 << log_word)), 2)
            | {"read_en": In(1), "read_addr": In(range(depth)), "read_data": Out(both)}
        )

    def elaborate(self, platform):
        m = Module()
        shown = Signal()  # the part of the last read
        parts = [self._part(m, parity) for parity in range(2)]
        with m.If(self.read_en):
            m.d.sync += shown.eq(self.read_addr[self.log_block])
        even, odd = (part.read_data.as_value() for part in parts)
        m.d.comb += self.read_data.eq(Mux(shown, odd, even))
        return m

    def _part(self, m, parity) -> Bank:
        """Make the bank for the blocks of one parity."""
        sizes = {"log_block": self.log_block, "log_word": self.log_word}
        bank = Bank(vector=self.vector, block=self.block, depth=self.depth // 2, **sizes)
        m.submodules[("even", "odd")[parity]] = bank
        words = of_ports(self, "write_word", 2)
        contents = of_ports(self, "write_data", 2)
        low = self.log_block - self.log_word
        mine = [
            enabled & (word[low] == parity)
            for enabled, word in zip(of_ports(self, "write_en", 2), words, strict=True)
        ]
        m.d.comb += [
            bank.write_en.eq(mine[0] | mine[1]),
            bank.write_word.eq(self._without(Mux(mine[1], words[1], words[0]), low)),
            bank.write_data.eq(Mux(mine[1], contents[1].as_value(), contents[0].as_value())),
            bank.read_en.eq(self.read_en & (self.read_addr[self.log_block] == parity)),
            bank.read_addr.eq(self._without(self.read_addr, self.log_block)),
        ]
        m.d.sync += Assert(~(mine[0] & mine[1]), "two words for one part of a bank")
        return bank

    @staticmethod
    def _without(addr, bit):
        """Return an address without the bit ``bit``."""
        return Cat(addr[:bit], addr[bit + 1 :])


def add_banks(m, pad, element: Element, per_block: set[str]) -> list:
    """Make the banks of ``pad`` and connect the write ports of ``pad`` to every bank.

    The banks store elements in the layout ``element``. ``per_block``: marks that the vectors of a
    block share.
    """
    plan = pad.plan
    marks = dict(pad.write.vectors.shape().elem_shape.members)
    del marks["elements"]
    vector = {"elements": elements_layout(plan, element)}
    vector |= {name: shape for name, shape in marks.items() if name not in per_block}
    block = {name: shape for name, shape in marks.items() if name in per_block}
    kind = Bank if plan.ports == 1 else SplitBank
    sizes = {
        "vector": data.StructLayout(vector),
        "block": data.StructLayout(block),
        "depth": pad.vectors,
        "log_block": plan.log_block,
        "log_word": exact_log2(plan.fill_vectors),
    }
    banks = []
    for number, _ in enumerate(pad.ports):
        m.submodules[f"bank_{number}"] = bank = kind(**sizes)
        banks.append(bank)
    for port, write in enumerate(of_ports(pad, "write", plan.ports)):
        stored = _stored_extents(
            m, plan, write, banks[0].write_data.shape(), element, port_name("stored", port)
        )
        for number, bank in enumerate(banks):
            enabled, word, content = (
                getattr(bank, port_name(name, port))
                for name in ("write_en", "write_word", "write_data")
            )
            m.d.comb += [
                enabled.eq(write.en & (write.bank == number)),
                word.eq(write.word),
                content.eq(stored),
            ]
    return banks


def _skewed(m, plan, read, banks: int, control: str) -> list[tuple]:
    """Return, by bank, the read on arrival at the bank, and the read when the word is output.
    ``control``: the valid bit among the members of ``read``."""
    stages = [read]
    for number in range(1, banks + plan.read_cycles):
        stages.append(delayed_record(m, stages[-1], f"read_{number}", control=(control,)))
    return list(zip(stages, stages[plan.read_cycles :], strict=False))


def _read_register(m, plan, bank, number: int):
    """Return the output of a bank, registered if banks have output registers. The register follows
    the choice of a vector and has as few bits as possible."""
    if not plan.output_register:
        return bank.read_data
    register = Signal(bank.read_data.shape(), name=f"bank_{number}_read_register", reset_less=True)
    m.d.sync += register.eq(bank.read_data)
    return register


def _stored_extents(m, plan, write, shape, element: Element, name):
    """Return the written vectors in the layout that banks store."""
    stored = Signal(shape, name=name)
    resized, wide = plan.shape.resized, plan.element()
    for to, came in zip(stored, write.vectors, strict=True):
        marks = (mark for mark in came.shape().members if mark != "elements")
        m.d.comb += [to[mark].eq(came[mark]) for mark in marks]
        m.d.comb += [
            target.eq(resized(value, wide, element))
            for target, value in zip(to.elements, came.elements, strict=True)
        ]
    return stored


class StreamScratchpad(wiring.Component):
    """Store the vectors that stream into the array from one side. Bank b feeds port b.

    If blocks have a single scale (squares), a block has one deficit, ``nonzero`` and significand,
    set by the last written vector of the block.

    Timing: one vector is read and one word written per cycle (two words with two ports to memory),
    but not of the same word. ``read_en`` with ``read_addr`` in cycle t gives port b its vector in
    cycle t + ``plan.read_cycles`` + b. In all remaining cycles a port outputs a vector with
    ``nonzero`` and ``poison`` 0. A vector is visible to reads that reach its bank (bank b in cycle
    t + b) from the cycle after its write on.

    Parameters
    ----------
    plan : Plan
    side : str
        ``south`` or ``west``.

    Members
    -------
    write : In(write_signature(plan, banks=banks, words=vectors // V, marks=...))
        Marks: ``deficit``, ``nonzero``, and, as far as the machine has the marks, ``significand``,
        ``extent`` and ``poison`` (1 bit).
    write_1
        A second word, with a second port to memory. The two words of a cycle must not be for blocks
        of one parity in one bank.
    read_en, read_addr : In(1), In(range(vectors))
    read_banks : In(range(banks + 1))
        Number of banks that the read covers, only in a machine with poison. Ports of further banks
        output no poison.
    ports : Out(vector_layout(plan.shape, element)), an array of ``banks``

    ``banks`` (C at the south, R at the west), ``vectors`` of a bank and ``element`` are attributes.
    """

    write: wiring.PureInterface

    def __init__(self, plan: Plan, *, side: str):
        self.plan, self.side = plan, side
        self.banks = plan.cols if side == "south" else plan.rows
        self.vectors = plan.stream_words
        self.element = getattr(plan.shape, side)
        self.by_row = any(map(plan.grouped, plan.streamed(side)))
        marks = mark_shapes(plan, poison_bits=1, deficits=("deficit",))
        words = self.vectors // plan.fill_vectors
        write = write_signature(plan, banks=self.banks, words=words, marks=marks)
        members = per_port("write", In(write), plan.ports) | {
            "read_en": In(1),
            "read_addr": In(range(self.vectors)),
            "ports": Out(vector_layout(plan.shape, self.element)).array(self.banks),
        }
        super().__init__(
            members | ({"read_banks": In(range(self.banks + 1))} if plan.poison else {})
        )

    @property
    def shared_parameters(self) -> dict[str, object]:
        """Parameters of the module. The two sides share a module if their banks are equal."""
        names = ("plan", "banks", "element", "by_row")
        return {name: getattr(self, name) for name in names}

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        per_block = set() if self.by_row else {"deficit", "nonzero", "significand"}
        read = Signal(self._read_layout())
        m.d.comb += [read.en.eq(self.read_en), read.addr.eq(self.read_addr)]
        if plan.poison:
            m.d.comb += read.banks.eq(self.read_banks)
        banks = add_banks(m, self, self.element, per_block)
        skewed = _skewed(m, plan, read, self.banks, "en")
        for number, (port, bank, (reads, shown)) in enumerate(
            zip(self.ports, banks, skewed, strict=True)
        ):
            m.d.comb += [bank.read_en.eq(reads.en), bank.read_addr.eq(reads.addr)]
            vector = _read_register(m, plan, bank, number)
            for name in vector.shape().members:
                value = vector[name]
                if name == "nonzero":
                    value = shown.en & value
                if name == "poison":
                    value = value & (shown.en & (number < shown.banks)).replicate(len(value))
                m.d.comb += port[name].eq(value)
        return m

    def _read_layout(self) -> data.StructLayout:
        """Return the layout of a read that travels from bank to bank."""
        members = {"en": 1, "addr": self.read_addr.shape()}
        poison = {"banks": self.read_banks.shape()} if self.plan.poison else {}
        return data.StructLayout(members | poison)


class StationaryScratchpad(wiring.Component):
    """Store the stationary blocks of the array. Bank c feeds load port c.

    Blocks outside the slice (``rows_valid``, ``cols_valid``) are output as zeros: elements,
    ``nonzero``, ``extent`` and ``poison`` are 0. Marks that a block has once are the marks of its
    last written vector: deficits, ``nonzero`` and significand, but with lane deficits
    ``deficit_east`` only.

    Timing: a read in cycle t reaches load port c in cycle t + ``plan.read_cycles`` + c. One read
    per cycle is possible, beside the write of another word of V vectors. While ``read.valid`` is 0,
    ``valid`` of a port is 0, and its remaining members are undefined. A vector is visible to reads
    that reach its bank (bank c in cycle t + c) from the cycle after its write on.

    Members
    -------
    write : In(write_signature(plan, banks=C, words=plan.held_words // V, marks=...))
        Marks: a deficit for each direction of the array, ``nonzero``, and, as far as the machine
        has the marks, ``significand``, ``extent`` and ``poison`` (B bits, one for each element).
    write_1
        A second word, as in :class:`StreamScratchpad`.
    read : In(stationary_read_layout(plan))
    ports : Out(stationary_layout(plan.shape)), an array of C
        The deficit of an absent direction is 0.
    """

    write: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.vectors = plan.stationary_words
        self.deficits = tuple(f"deficit_{direction}" for direction in plan.directions)
        marks = mark_shapes(plan, poison_bits=plan.block, deficits=self.deficits)
        words = self.vectors // plan.fill_vectors
        write = write_signature(plan, banks=plan.cols, words=words, marks=marks)
        super().__init__(
            per_port("write", In(write), plan.ports)
            | {
                "read": In(stationary_read_layout(plan)),
                "ports": Out(stationary_layout(plan.shape)).array(plan.cols),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        own = {"deficit_north", "nonzero", "significand"} if plan.lane_deficits else set()
        per_block = {*self.deficits, "nonzero", "significand"} - own
        banks = add_banks(m, self, plan.shape.stationary, per_block)
        skewed = _skewed(m, plan, self.read, plan.cols, "valid")
        for number, (word, bank, (read, shown)) in enumerate(
            zip(self.ports, banks, skewed, strict=True)
        ):
            m.d.comb += [bank.read_en.eq(read.valid), bank.read_addr.eq(read.addr)]
            inside = Signal(name=f"inside_{number}")
            m.d.comb += [
                inside.eq((shown.row < shown.rows_valid) & (number < shown.cols_valid)),
                word.valid.eq(shown.valid),
                word.row.eq(shown.row),
                word.index.eq(shown.index),
            ]
            vector = _read_register(m, plan, bank, number)
            for name in vector.shape().members:
                value = vector[name]
                if name in ("elements", "nonzero", "extent", "poison"):
                    value = Mux(inside, value, 0)
                m.d.comb += word[name].eq(value)
        return m
