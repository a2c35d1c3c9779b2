"""Store row and column maxima of the tiles in work, for the reads when blocks arrive and when sums
leave."""

from dataclasses import dataclass
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port, port_name
from diastole_sim.spec.formats import SIGNIFICAND_FRACTION

NAMES = ("south", "east", "west", "north")
"""Names of the memories, by number."""
OF_DIRECTION = {"east": ("south", "east"), "north": ("west", "north")}
"""Memory of the streaming operand and memory of the stationary operand, by direction."""
ROLES = ("stream", "stationary")
"""Names of the two operands at a drain."""
STATIONARY = tuple(stationary for _, stationary in OF_DIRECTION.values())


def maxima_names(plan: Plan) -> tuple[str, ...]:
    """Return the names of the memories that the machine has."""
    existing = [name for direction in plan.directions for name in OF_DIRECTION[direction]]
    return tuple(name for name in NAMES if name in existing)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Describe the maxima of one look-up: ``rows`` maxima of each of ``blocks`` neighbouring
    blocks.

    ``rows`` is B if a class with an entry per row uses the memory and the rows of a block are
    looked up together, else 1. ``blocks`` is a power of two. If ``blocks`` is above 1, the entries
    of ``blocks`` blocks fit in a beat.
    """

    rows: int = 1
    blocks: int = 1

    @property
    def count(self) -> int:
        """Number of maxima of a look-up."""
        return self.rows * self.blocks

    @property
    def layout(self) -> data.ArrayLayout:
        """Layout of the maxima, beginning with the first block."""
        return data.ArrayLayout(unsigned(8), self.count)


def maxima_entries(plan: Plan, name: str, reader: str) -> Entries:
    """Return the maxima of one look-up in the memory ``name`` by a reader, ``load`` or
    ``drain``."""
    blocks = 1
    if reader == "drain" and name in STATIONARY:
        blocks = plan.drain_vectors(north=name == "north")
    if name == "north":
        return Entries(rows=plan.stationary_entries, blocks=blocks)
    streams = name not in STATIONARY and any(map(plan.grouped, plan.streamed(name)))
    return Entries(rows=plan.block if streams and reader == "load" else 1, blocks=blocks)


def lookup_layout(plan: Plan, entries: Entries) -> data.StructLayout:
    """Return the layout of the position of a maximum: the beat, and the byte in the beat.

    ``by_row`` exists if a look-up may return rows. The position is then the first entry of the rows
    of the blocks (at a multiple of as many bytes), else the first entry of whole blocks.
    """
    by_row = {"by_row": 1} if entries.rows > 1 else {}
    place_ = {"word": range(plan.maxima_depth), "byte": range(plan.beat_bytes)}
    return data.StructLayout(place_ | by_row)


def scale_exponent(plan: Plan, stored):
    """Return the biased exponent of a stored group scale: the byte itself, or the exponent of an
    E4M3 number."""
    if not plan.significands:
        return stored
    exponent = stored[SIGNIFICAND_FRACTION:]
    return Mux(exponent == 0, 1, exponent)


class LookupSignature(wiring.Signature):
    """One look-up in one memory of maxima, as seen by the reader.

    Parameters: ``entries``, the maxima of the look-up.

    Members
    -------
    index : Out(lookup_layout(plan, entries))
        Position of the maxima.
    value : In(entries.layout)
        Maxima at the position: of every block the entries of its rows, or a single entry for all
        rows. The blocks begin at the index and wrap in an aligned run of ``entries.blocks`` blocks.
    """

    def __init__(self, plan: Plan, entries: Entries):
        super().__init__({"index": Out(lookup_layout(plan, entries)), "value": In(entries.layout)})


class ReaderSignature(wiring.Signature):
    """Look-ups in a common cycle, as seen by the reader.

    Parameters: ``entries``, by the name of each look-up the maxima that the look-up returns.

    Members
    -------
    enable : Out(1)
        Look up all indices in the current cycle.
    NAME : Out(LookupSignature(plan, entries[NAME])) for each name
    """

    def __init__(self, plan: Plan, entries: dict[str, Entries]):
        lookups = {name: Out(LookupSignature(plan, count)) for name, count in entries.items()}
        super().__init__({"enable": Out(1)} | lookups)


class MaximaWriteSignature(wiring.Signature):
    """Write of one beat of maxima into one memory, as seen by the writer.

    Members
    -------
    enable : Out(1)
    memory : Out(2)
        Number of the memory in ``NAMES``.
    addr : Out(range(plan.maxima_depth))
        Address of the beat.
    data : Out(plan.data_width)
    """

    def __init__(self, plan: Plan):
        super().__init__(
            {
                "enable": Out(1),
                "memory": Out(2),
                "addr": Out(range(plan.maxima_depth)),
                "data": Out(plan.data_width),
            }
        )


def load_signature(plan: Plan) -> ReaderSignature:
    """Return the signature of the loader: a look-up in every memory of the machine, by the memory's
    name."""
    return ReaderSignature(
        plan, {name: maxima_entries(plan, name, "load") for name in maxima_names(plan)}
    )


def drain_entries(plan: Plan, direction: str) -> dict[str, Entries]:
    """Return the maxima of a look-up by the drain of a direction, for the streaming and the
    stationary operand."""
    entries = [maxima_entries(plan, name, "drain") for name in OF_DIRECTION[direction]]
    return dict(zip(ROLES, entries, strict=True))


def drain_signature(plan: Plan, direction: str) -> ReaderSignature:
    """Return the signature of the drain of a direction: ``stream`` for the streaming operand,
    ``stationary`` for the stationary operand."""
    return ReaderSignature(plan, drain_entries(plan, direction))


class _Reader(NamedTuple):
    """Reader of one copy of a memory.

    ``lookup`` has the index that is looked up while ``enable`` is high, and receives the value.
    ``late``: the value comes a cycle later.
    """

    enable: Value
    lookup: wiring.PureInterface
    late: bool


class Maxima(wiring.Component):
    """Store maxima, as stored scales, of vectors from south and west, and of stationary lanes to
    the east and to the north.

    Each memory is written beat by beat, as the beats come from the external memory. Two kinds of
    readers use a memory: the loader, which computes deficits, and the drains, which compute bounds.
    A machine has the memories of its directions (:func:`maxima_names`). If there are several ports
    to memory, the loader of each port writes copies of its own. The drains read the copies of the
    first port.

    Timing: ``enable`` of a reader and its indices are input in one cycle. Each ``value`` is valid
    from the next cycle on, until the cycle after the next ``enable``. For drains with
    ``memory.output_register``, the value begins and ends a cycle later. A beat that is written can
    be read in the following cycle. A read in the cycle of the write returns undefined data.

    Members
    -------
    write : In(MaximaWriteSignature(plan))
    load : In(load_signature(plan))
        All memories, with one ``enable``.
    write_1, load_1
        Writer and reader for the loader of a second port.
    drain : In(signature of {DIRECTION: drain_signature(plan, DIRECTION)})
        One reader for each of ``plan.directions``.
    """

    write: wiring.PureInterface
    load: wiring.PureInterface
    drain: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        drains = {name: Out(drain_signature(plan, name)) for name in plan.directions}
        super().__init__(
            per_port("write", In(MaximaWriteSignature(plan)), plan.ports)
            | per_port("load", In(load_signature(plan)), plan.ports)
            | {"drain": In(wiring.Signature(drains))}
        )

    def elaborate(self, platform):
        m = Module()
        for direction in self.plan.directions:
            drain = getattr(self.drain, direction)
            for role, name in zip(ROLES, OF_DIRECTION[direction], strict=True):
                readers = {
                    "load": _Reader(self.load.enable, getattr(self.load, name), late=False),
                    "drain": _Reader(
                        drain.enable, getattr(drain, role), late=self.plan.output_register
                    ),
                }
                for kind, reader in readers.items():
                    entries = maxima_entries(self.plan, name, kind)
                    self._copy(m, f"{kind}_{name}", name, self.write, reader, entries)
        for port in range(1, self.plan.ports):
            write, load = (of_ports(self, each, port + 1)[port] for each in ("write", "load"))
            for name in maxima_names(self.plan):
                reader = _Reader(load.enable, getattr(load, name), late=False)
                entries = maxima_entries(self.plan, name, "load")
                self._copy(m, port_name(f"load_{name}", port), name, write, reader, entries)
        return m

    def _copy(self, m, copy, name, write, reader, entries):
        """Make a reader's copy of the memory ``name``, in as many parts as the entries of a block
        have beats."""
        enable, index, value = reader.enable, reader.lookup.index, reader.lookup.value
        depth = self.plan.maxima_depth
        parts = max(1, entries.count // self.plan.beat_bytes)
        mine = write.enable & (write.memory == NAMES.index(name))
        low = exact_log2(parts)
        read = []
        for part in range(parts):
            ram = Ram(width=self.plan.data_width, depth=max(2, -(-depth // parts)))
            suffix = f"_{part}" if parts > 1 else ""
            m.submodules[f"{copy}{suffix}"] = ram
            m.d.comb += [
                ram.write_en.eq(mine & (write.addr[:low] == part) if low else mine),
                ram.write_addr.eq(write.addr[low:]),
                ram.write_data.eq(write.data),
                ram.read_en.eq(enable),
                ram.read_addr.eq(index.word[low:]),
            ]
            read.append(ram.read_data)
        byte = Signal(range(parts * self.plan.beat_bytes), name=f"{copy}_byte")
        with m.If(enable):
            m.d.sync += byte.eq(Cat(index.byte, index.word[:low]))
        of_blocks = self._of_blocks(m, copy, Cat(read), byte, entries.blocks)
        maxima = Cat(of_blocks)
        if entries.rows > 1:
            by_row = Signal(name=f"{copy}_by_row")
            with m.If(enable):
                m.d.sync += by_row.eq(index.by_row)
            rows = Cat(read).word_select(byte >> exact_log2(entries.count), 8 * entries.count)
            maxima = Cat(
                Mux(by_row, rows.word_select(lane, 8), of_blocks[lane // entries.rows])
                for lane in range(entries.count)
            )
        if reader.late:
            register = data_register(len(maxima), name=f"{copy}_value")
            m.d.sync += register.eq(maxima)
            maxima = register
        m.d.comb += Cat(value).eq(maxima)

    @staticmethod
    def _of_blocks(m, copy, read, byte, blocks):
        """Return the entries of whole blocks from ``byte`` on, which wrap in an aligned run of
        ``blocks`` entries."""
        run = Signal(8 * blocks, name=f"{copy}_run")
        low = exact_log2(blocks)
        m.d.comb += run.eq(read.word_select(byte >> low, 8 * blocks))
        return [run.word_select((byte + k)[:low], 8) for k in range(blocks)]
