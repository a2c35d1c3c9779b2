"""Row and column maxima of the tiles at work: read when blocks arrive and when sums leave."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.memory.ram import Ram
from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.formats import SIGNIFICAND_FRACTION

NAMES = ("south", "east", "west", "north")
"""The memories by number."""
OF_DIRECTION = {"east": ("south", "east"), "north": ("west", "north")}
"""By direction: the memory of what streams, and that of what is held."""
ROLES = ("stream", "held")
"""What a drain calls the two."""


def maxima_names(plan: Plan) -> tuple[str, ...]:
    """The memories that the machine has."""
    kept = [name for direction in plan.directions for name in OF_DIRECTION[direction]]
    return tuple(name for name in NAMES if name in kept)


def maxima_entries(plan: Plan, name: str, reader: str) -> int:
    """Maxima that one lookup gives: B, of the rows of a block, where a class with an entry per row
    comes that way and its rows are looked at together; else 1."""
    if name == "north":
        return plan.held_entries
    streams = name != "east" and any(map(plan.grouped, plan.streamed(name)))
    return plan.block if streams and reader == "load" else 1


def lookup_layout(plan: Plan, entries: int) -> data.StructLayout:
    """Where a maximum stands: the beat, and the byte in it.

    ``by_row``, where a lookup may give several: the entries of B rows begin there (at a multiple of
    B bytes), not the one of a whole block.
    """
    by_row = {"by_row": 1} if entries > 1 else {}
    place_ = {"word": range(plan.maxima_depth), "byte": range(plan.beat_bytes)}
    return data.StructLayout(place_ | by_row)


def values_layout(entries: int) -> data.ArrayLayout:
    return data.ArrayLayout(unsigned(8), entries)


def scale_exponent(plan: Plan, stored):
    """The exponent of a stored group scale, biased: the byte itself, or that of an E4M3 number."""
    if not plan.significands:
        return stored
    exponent = stored[SIGNIFICAND_FRACTION:]
    return Mux(exponent == 0, 1, exponent)


class LookupSignature(wiring.Signature):
    """One look-up in one memory of maxima, seen from who asks.

    Parameters: ``entries``, the maxima that it gives.

    Members
    -------
    index : Out(lookup_layout(plan, entries))
        Where.
    value : In(values_layout(entries))
        What stands there: one entry, or those of as many rows, or the one of a block for all rows.
    """

    def __init__(self, plan: Plan, entries: int):
        super().__init__(
            {"index": Out(lookup_layout(plan, entries)), "value": In(values_layout(entries))}
        )


class ReaderSignature(wiring.Signature):
    """Look-ups that happen together, seen from who asks.

    Parameters: ``entries``, by the name of each look-up the maxima that it gives.

    Members
    -------
    enable : Out(1)
        Look up what the indices say, in this cycle.
    NAME : Out(LookupSignature(plan, entries[NAME])) for each name
    """

    def __init__(self, plan: Plan, entries: dict[str, int]):
        lookups = {name: Out(LookupSignature(plan, count)) for name, count in entries.items()}
        super().__init__({"enable": Out(1)} | lookups)


class MaximaWriteSignature(wiring.Signature):
    """One beat of maxima on its way into one memory, seen from who writes.

    Members
    -------
    enable : Out(1)
    memory : Out(2)
        Its number in ``NAMES``.
    addr : Out(range(plan.maxima_depth))
        The beat.
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
    """What the loader asks: of every memory that the machine has, by its name."""
    return ReaderSignature(
        plan, {name: maxima_entries(plan, name, "load") for name in maxima_names(plan)}
    )


def drain_entries(plan: Plan, direction: str) -> dict[str, int]:
    """How many maxima the drain of a direction gets of what streams, and of what is held."""
    entries = [maxima_entries(plan, name, "drain") for name in OF_DIRECTION[direction]]
    return dict(zip(ROLES, entries, strict=True))


def drain_signature(plan: Plan, direction: str) -> ReaderSignature:
    """What the drain of a direction asks: ``stream`` of what streams, ``held`` of what is held."""
    return ReaderSignature(plan, drain_entries(plan, direction))


class Maxima(wiring.Component):
    """Memories of stored scales: of the vectors from south and west, of the held lanes east and
    north.

    Each is written beat by beat as the beats come from memory, and has two readers: the loader,
    which computes deficits, and the drains, which compute bounds. A machine has the memories of its
    directions (:func:`maxima_names`).

    Timing: a reader's ``enable`` with its indices in one cycle; each ``value`` is what they ask for
    from the next cycle on, until the one after the next ``enable``. A beat that is written can be
    read in the following cycle; what a read in the same cycle gives is not defined.

    Members
    -------
    write : In(MaximaWriteSignature(plan))
    load : In(load_signature(plan))
        All memories, with one ``enable``.
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
            {
                "write": In(MaximaWriteSignature(plan)),
                "load": In(load_signature(plan)),
                "drain": In(wiring.Signature(drains)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for direction in self.plan.directions:
            drain = getattr(self.drain, direction)
            for role, name in zip(ROLES, OF_DIRECTION[direction], strict=True):
                lookups = {
                    "load": (self.load.enable, getattr(self.load, name)),
                    "drain": (drain.enable, getattr(drain, role)),
                }
                for reader, (enable, lookup) in lookups.items():
                    self._copy(m, platform, f"{reader}_{name}", name, enable, lookup)
        return m

    def _copy(self, m, platform, copy, name, enable, lookup):
        """A copy of the memory ``name`` for one reader, in as many parts as the entries of a block
        have beats."""
        index, value, write = lookup.index, lookup.value, self.write
        entries = len(value)
        depth = self.plan.maxima_depth
        parts = max(1, entries // self.plan.beat_bytes)
        mine = write.enable & (write.memory == NAMES.index(name))
        low = exact_log2(parts)
        read = []
        for part in range(parts):
            ram = Ram(width=self.plan.data_width, depth=max(2, -(-depth // parts)))
            suffix = f"_{part}" if parts > 1 else ""
            m.submodules[f"{copy}{suffix}"] = place(ram, platform)
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
        bytes_ = data.View(data.ArrayLayout(unsigned(8), parts * self.plan.beat_bytes), Cat(read))
        if entries == 1:
            m.d.comb += value[0].eq(bytes_[byte])
            return
        by_row = Signal(name=f"{copy}_by_row")
        with m.If(enable):
            m.d.sync += by_row.eq(index.by_row)
        rows = Cat(read).word_select(byte >> exact_log2(entries), 8 * entries)
        for lane in range(entries):
            m.d.comb += value[lane].eq(Mux(by_row, rows.word_select(lane, 8), bytes_[byte]))
