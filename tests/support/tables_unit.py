"""Tables of the vector unit, and what moves their entries, as one component for benches."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.transfer import TableTransfer
from diastole_hw.vector.vector_tables import VectorTables

OF_TRANSFER = ("start", "transfer", "step", "done", "read", "write")
INNER = ("put", "take", "blocked")
STORED_WORDS = ("constant", "amax", "panel", "widths")


class TablesWithTransfer(wiring.Component):
    """Members are those of both but what they say to each other."""

    def __init__(self, shape: VectorShape):
        self.shape = shape
        self.tables, self.transfers = VectorTables(shape), TableTransfer(shape)
        theirs = {
            name: member
            for name, member in self.tables.signature.members.items()
            if name not in INNER
        }
        mine = {name: self.transfers.signature.members[name] for name in OF_TRANSFER}
        super().__init__(theirs | mine)

    def elaborate(self, platform):
        m = Module()
        tables, transfer = self.tables, self.transfers
        m.submodules.tables, m.submodules.transfer = tables, transfer
        for name in ("put", "take"):
            m.d.comb += getattr(tables, name).eq(getattr(transfer, name))
        m.d.comb += transfer.blocked.eq(tables.blocked)
        stored = [name for name in STORED_WORDS if name in transfer.signature.members]
        m.d.comb += [getattr(transfer, name).eq(getattr(tables, name)) for name in stored]
        for unit in (tables, transfer):
            for name, member in unit.signature.members.items():
                if name in INNER or (unit is transfer and name in STORED_WORDS):
                    continue
                self._join(m, name, member, unit)
        return m

    def _join(self, m, name, member, unit):
        own, its = getattr(self, name), getattr(unit, name)
        if member.is_signature:
            wiring.connect(m, its, wiring.flipped(own))
        elif member.flow == In:
            m.d.comb += its.eq(own)
        else:
            assert member.flow == Out
            m.d.comb += own.eq(its)
