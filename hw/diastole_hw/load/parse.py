"""Separate the beats of a region: maxima, exponents of a group's blocks, or mantissas of the
blocks."""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_register
from diastole_hw.memory.maxima import MaximaWriteSignature
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.regions import granules
from diastole_hw.schedule.tokens import (
    any_grouped,
    block_group_layout,
    max_exponent_beats,
    max_mantissa_beats,
    region_layout,
)
from diastole_hw.stream.blocks import beat_layout
from diastole_hw.successor import is_successor
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.integers import pow2ceil


def blocks_per_run(plan: Plan, cls: int) -> int:
    """Return the number of blocks side by side, in a group of eight, that share the exponents of
    their rows."""
    return GROUP_BLOCKS // plan.group_layouts[cls].runs


class ExponentBeats(NamedTuple):
    """Exponent beats of the current group. ``last``: the current beat is the last exponent beat.
    ``entries``: all exponents, valid with the last beat."""

    last: Signal
    entries: Value


class RegionParse(wiring.Component):
    """Separate the beats of regions into maxima, exponents and elements.

    A region of maxima has ``region.beats`` beats, which are written as received, from the first
    beat of the region's slot on. A region of blocks has, for each of its rows, a *part* of every
    group of eight blocks that the region's columns meet. A part is the exponent field of the group,
    then the elements of the part's blocks, from the first block on, rounded up to whole granules.
    (A granule is the smallest number of blocks in whole beats.) ``groups`` describes the part, with
    the exponents of the group from the part's first block on. The elements pass through to
    ``mantissas``, for :class:`diastole_hw.stream.blocks.BlockBuffer`. If there are several ports, a
    port delivers the rows with its number, modulo the number of ports. If a region has no row for
    the port, the port delivers a row that is to be dropped.

    Not checked: a region starts on a whole granule of its group, and nothing is empty.

    Timing: a beat per cycle, and 1 cycle before the first region. A region is accepted with the
    last beat of the previous region. ``groups`` is valid with the last beat of the group's
    exponents, and the beat is accepted when ``groups`` is ready. ``maxima`` follows ``data`` in the
    same cycle. ``mantissas`` also follows ``data`` in the same cycle, and ``data.ready`` is then
    the ``ready`` of ``mantissas``.

    Parameters
    ----------
    plan : Plan
    port : int
        Number of the port.

    Members
    -------
    regions : In(stream of region_layout(plan))
    data : In(stream of unsigned(plan.data_width))
    groups : Out(stream of block_group_layout(plan))
    mantissas : Out(stream of beat_layout(plan.data_width))
    maxima : Out(MaximaWriteSignature(plan))
    maxima_loaded : Out(1)
        The last beat of a chunk's last region of maxima is accepted.
    """

    regions: stream.Interface
    data: stream.Interface
    groups: stream.Interface
    mantissas: stream.Interface
    maxima: wiring.PureInterface

    def __init__(self, plan: Plan, port: int = 0):
        self.plan, self.port = plan, port
        super().__init__(
            {
                "regions": In(stream.Signature(region_layout(plan))),
                "data": In(stream.Signature(unsigned(plan.data_width))),
                "groups": Out(stream.Signature(block_group_layout(plan))),
                "mantissas": Out(stream.Signature(beat_layout(plan.data_width))),
                "maxima": Out(MaximaWriteSignature(plan)),
                "maxima_loaded": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        region = data_register(region_layout(plan))
        most_beats = max(max_exponent_beats(plan), max_mantissa_beats(plan), plan.maxima_depth)
        beat = Signal(range(most_beats + 1))
        row = Signal(region.rows.shape(), name="row", init=self.port)
        ports = plan.ports
        col = Signal.like(region.cols, name="col")
        blocks = Signal(range(GROUP_BLOCKS + 1))
        # For the elements of a group, which follow the exponents a cycle later at the earliest.
        last_beat = data_register(range(max_mantissa_beats(plan)))
        last_part = data_register()
        offset = Signal(range(GROUP_BLOCKS))
        self._group(m, region, col, offset, blocks, last_beat)
        m.d.comb += [
            self.maxima.memory.eq(region.kind.as_value()[:2]),
            self.maxima.data.eq(self.data.payload),
            self.maxima.addr.eq(self._slot(region) + beat),
            self.groups.p.region.eq(region),
            self.groups.p.row.eq(row),
            self.groups.p.col.eq(col),
            self.mantissas.p.bits.eq(self.data.payload),
            self.mantissas.p.last.eq(beat == last_beat),
        ]
        last_maxima, last_row = (Signal(name=name) for name in ("last_maxima", "last_row"))
        m.d.comb += [
            last_maxima.eq(is_successor(region.beats, beat)),
            last_row.eq(self._last(row, region)),
        ]
        m.d.sync += last_part.eq(region.cols - col == blocks)
        field = self._exponent_field(m, region, beat)
        self._exponents(m, region, offset, field.entries)
        with m.FSM():
            # Accept a region.
            with m.State("REGION"):
                self._next_region(m, region, offset)
            # Write the beats of maxima.
            with m.State("MAXIMA"):
                m.d.comb += [self.data.ready.eq(1), self.maxima.enable.eq(self.data.valid)]
                with m.If(self.data.valid):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(last_maxima):
                        m.d.sync += beat.eq(0)
                        m.d.comb += self.maxima_loaded.eq(region.last)
                        self._next_region(m, region, offset)
            # Collect the exponents of a group, then describe the part.
            with m.State("EXPONENTS"):
                m.d.comb += self.groups.valid.eq(self.data.valid & field.last)
                m.d.comb += self.data.ready.eq(~field.last | self.groups.ready)
                with m.If(self.data.valid & self.data.ready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(field.last):
                        m.d.sync += beat.eq(0)
                        m.next = "MANTISSAS"
            # Pass on the elements of a part, then go to the next group, row or region.
            with m.State("MANTISSAS"):
                m.d.comb += self.mantissas.valid.eq(self.data.valid)
                m.d.comb += self.data.ready.eq(self.mantissas.ready)
                with m.If(self.data.valid & self.mantissas.ready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(self.mantissas.p.last):
                        m.d.sync += [beat.eq(0), offset.eq(0), col.eq(col + blocks)]
                        m.next = "EXPONENTS"
                        with m.If(last_part):
                            m.d.sync += [col.eq(0), row.eq(row + ports), offset.eq(region.offset)]
                            with m.If(last_row):
                                m.d.sync += row.eq(self.port)
                                self._next_region(m, region, offset)
        return m

    def _last(self, row, region):
        """Return whether ``row`` is the last row that the port delivers."""
        if self.plan.ports == 1:
            return row == region.rows - 1
        return row + self.plan.ports >= region.rows

    def _next_region(self, m, region, offset):
        """Accept the next region, if there is a region, in the cycle of the previous region's last
        beat."""
        m.d.comb += self.regions.ready.eq(1)
        m.d.sync += [region.eq(self.regions.payload), offset.eq(self.regions.p.offset)]
        m.next = "REGION"
        with m.If(self.regions.valid):
            m.next = "EXPONENTS"
            with m.If(self.regions.p.kind.as_value()[2]):
                m.next = "MAXIMA"

    def _exponent_field(self, m, region, beat) -> ExponentBeats:
        """Return the exponents of the current group, whose last beat is the current beat."""
        plan, beats = self.plan, max_exponent_beats(self.plan)
        last = Signal(name="last_exponents")
        count = Array([plan.group_layouts[cls].exponent_beats for cls in (0, 1, 2, 2)])[region.cls]
        m.d.comb += last.eq(is_successor(count, beat))
        words = []
        for k in range(beats - 1):
            word = data_register(plan.data_width, name=f"exponents_{k}")
            here = self.data.valid & (beat == k)
            with m.If(here):
                m.d.sync += word.eq(self.data.payload)
            words.append(Mux(beat == k, self.data.payload, word))
        return ExponentBeats(last, Cat(*words, self.data.payload))

    def _group(self, m, region, col, offset, blocks, last_beat):
        """Drive the number of blocks that the region has in the current group, in ``groups``
        rounded up to the whole granules that memory delivers."""
        plan = self.plan
        left = Signal.like(region.cols, name="left")
        space = Signal(range(GROUP_BLOCKS + 1))
        whole = Signal(range(GROUP_BLOCKS + 1))
        m.d.comb += [
            left.eq(region.cols - col),
            space.eq(GROUP_BLOCKS - offset),
            blocks.eq(Mux(left < space, left, space)),
            self.groups.p.blocks.eq(whole),
        ]
        for cls in range(3):
            with m.If(region.cls == cls):
                table = [
                    max(plan.group_layouts[cls].block_beats(n) - 1, 0)
                    for n in range(GROUP_BLOCKS + 1)
                ]
                m.d.comb += whole.eq(granules(blocks, plan.group_layouts[cls].granule))
                m.d.sync += last_beat.eq(Array(table)[whole])

    def _exponents(self, m, region, offset, exponents):
        """Drive the exponents of the group, beginning with the exponents of the region's first
        block."""
        plan, out = self.plan, self.groups.p.exponents
        if not all(map(plan.grouped, range(3))):
            m.d.comb += out.eq(exponents[: 8 * GROUP_BLOCKS] >> (offset << 3))
        if any_grouped(plan):
            m.d.comb += self.groups.p.place.eq(offset)
        for cls in filter(plan.grouped, range(3)):
            run = offset >> exact_log2(blocks_per_run(plan, cls))
            with m.If(region.cls == cls):
                whole = exponents[: 8 * plan.group_layouts[cls].exponent_entries]
                m.d.comb += out.eq(whole >> (run << exact_log2(8 * plan.block)))

    def _slot(self, region):
        """Return the first beat of the region's tile in the memory of maxima. The fused pass keeps
        all maxima of dY."""
        plan = self.plan
        stationary = Mux(region.fused, 0, region.tile * pow2ceil(plan.stationary_maxima_words))
        streamed = region.tile * pow2ceil(plan.stream_maxima_words)
        return Mux(region.kind.as_value()[0], stationary, streamed)  # EAST and NORTH are odd
