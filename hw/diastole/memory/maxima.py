"""Row and column maxima of the tiles at work: read when blocks arrive and when sums leave."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import Plan
from diastole_sim.formats import SIGNIFICAND_FRACTION

NAMES = ("south", "east", "west", "north")
"""The memories by number, as writes select them."""
OF_DIRECTION = {"east": ("south", "east"), "north": ("west", "north")}
"""By direction: the memory of what streams, and that of what is held."""
READERS = ("load", "drain")


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


class Maxima(wiring.Component):
    """Memories of stored scales: of the vectors from south and west, of the held lanes east and
    north.

    Each is written beat by beat as the beats come from memory, and has two readers: the loader,
    which computes deficits, and the drain, which computes bounds.

    Timing: a reader gives ``*_index`` with ``*_en``; ``*_value`` follows one cycle later and stays.
    Where it has B entries, they are those of the rows, or all that of the block.
    Members per memory NAME that the machine has (:func:`maxima_names`): ``load_NAME_index``,
    ``load_NAME_value`` with ``load_en``, ``drain_NAME_index``, ``drain_NAME_value`` with
    ``drain_east_en`` or ``drain_north_en``. ``write_en``/``write_addr``/``write_data`` are shared,
    ``write_select`` is the memory's number.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.names = maxima_names(plan)
        self.depth = plan.maxima_depth
        members = {
            "write_en": In(1),
            "write_select": In(2),
            "write_addr": In(range(self.depth)),
            "write_data": In(plan.data_width),
            "load_en": In(1),
        }
        for name in self.names:
            for reader in READERS:
                entries = maxima_entries(plan, name, reader)
                members[f"{reader}_{name}_index"] = In(lookup_layout(plan, entries))
                members[f"{reader}_{name}_value"] = Out(values_layout(entries))
        for direction in plan.directions:
            members[f"drain_{direction}_en"] = In(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        for name in self.names:
            direction = next(d for d, names in OF_DIRECTION.items() if name in names)
            self._reader(m, platform, "load", name, self.load_en)
            self._reader(m, platform, "drain", name, getattr(self, f"drain_{direction}_en"))
        return m

    def _reader(self, m, platform, reader, name, enable):
        """A copy of one memory, in as many parts as the entries of a block have beats."""
        entries = maxima_entries(self.plan, name, reader)
        parts = max(1, entries // self.plan.beat_bytes)
        index = getattr(self, f"{reader}_{name}_index")
        mine = self.write_en & (self.write_select == NAMES.index(name))
        low = exact_log2(parts)
        read = []
        for part in range(parts):
            ram = Ram(width=self.plan.data_width, depth=max(2, -(-self.depth // parts)))
            suffix = f"_{part}" if parts > 1 else ""
            m.submodules[f"{reader}_{name}{suffix}"] = place(ram, platform)
            m.d.comb += [
                ram.write_en.eq(mine & (self.write_addr[:low] == part) if low else mine),
                ram.write_addr.eq(self.write_addr[low:]),
                ram.write_data.eq(self.write_data),
                ram.read_en.eq(enable),
                ram.read_addr.eq(index.word[low:]),
            ]
            read.append(ram.read_data)
        byte = Signal(range(parts * self.plan.beat_bytes), name=f"{reader}_{name}_byte")
        with m.If(enable):
            m.d.sync += byte.eq(Cat(index.byte, index.word[:low]))
        bytes_ = data.View(data.ArrayLayout(unsigned(8), parts * self.plan.beat_bytes), Cat(read))
        value = getattr(self, f"{reader}_{name}_value")
        if entries == 1:
            m.d.comb += value[0].eq(bytes_[byte])
            return
        by_row = Signal(name=f"{reader}_{name}_by_row")
        with m.If(enable):
            m.d.sync += by_row.eq(index.by_row)
        rows = Cat(read).word_select(byte >> exact_log2(entries), 8 * entries)
        for lane in range(entries):
            m.d.comb += value[lane].eq(Mux(by_row, rows.word_select(lane, 8), bytes_[byte]))
