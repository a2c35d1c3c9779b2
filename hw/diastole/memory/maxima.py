"""Row and column maxima of the tiles at work: read when blocks arrive and when sums leave."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole.emit.place import place
from diastole.memory.ram import Ram
from diastole.plan import Plan

SOUTH, EAST, WEST, NORTH = range(4)
NAMES = ("south", "east", "west", "north")


def lookup_layout(depth: int, beat_bytes: int):
    """Where one maximum stands: the beat, and the byte in it."""
    return data.StructLayout({"word": range(depth), "byte": range(beat_bytes)})


class Maxima(wiring.Component):
    """Four memories of stored exponents: of the vectors from south and west, of the held lanes east
    and north.

    Each is written beat by beat as the beats come from memory, and has two readers: the loader,
    which computes deficits, and the drain, which computes bounds.

    Timing: a reader gives ``*_index`` with ``*_en``; ``*_value`` follows one cycle later and stays.
    Members per memory NAME (south, east; with an array that turns in place also west, north):
    ``write_en``/``write_addr``/``write_data`` shared, ``write_select`` the memory's number.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.count = 4 if plan.in_place else 2
        bytes_ = plan.beat_bytes
        self.depth = plan.maxima_depth
        members = {
            "write_en": In(1),
            "write_select": In(2),
            "write_addr": In(range(self.depth)),
            "write_data": In(plan.data_width),
        }
        for name in NAMES[: self.count]:
            for reader in ("load", "drain"):
                members[f"{reader}_{name}_index"] = In(lookup_layout(self.depth, bytes_))
                members[f"{reader}_{name}_value"] = Out(8)
        members["load_en"] = In(1)
        members["drain_east_en"] = In(1)
        members["drain_north_en"] = In(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        lanes = data.ArrayLayout(unsigned(8), plan.beat_bytes)
        for number, name in enumerate(NAMES[: self.count]):
            for reader in ("load", "drain"):
                ram = Ram(width=plan.data_width, depth=self.depth)
                m.submodules[f"{reader}_{name}"] = place(ram, platform)
                index = getattr(self, f"{reader}_{name}_index")
                if reader == "load":
                    enable = self.load_en
                else:  # the drain to the east needs the south and east maxima, and so on
                    enable = self.drain_east_en if number < WEST else self.drain_north_en
                byte = Signal(range(plan.beat_bytes), name=f"{reader}_{name}_byte")
                with m.If(enable):
                    m.d.sync += byte.eq(index.byte)
                m.d.comb += [
                    ram.write_en.eq(self.write_en & (self.write_select == number)),
                    ram.write_addr.eq(self.write_addr),
                    ram.write_data.eq(self.write_data),
                    ram.read_en.eq(enable),
                    ram.read_addr.eq(index.word),
                    getattr(self, f"{reader}_{name}_value").eq(
                        data.View(lanes, ram.read_data)[byte]
                    ),
                ]
        return m
