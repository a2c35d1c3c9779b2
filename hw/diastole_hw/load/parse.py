"""What the beats of a region are: maxima, the exponents of a group's blocks, or their mantissas."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.memory.maxima import MaximaWriteSignature
from diastole_hw.plan.plan import Plan
from diastole_hw.plan.policy import pow2ceil
from diastole_hw.schedule.regions import granules
from diastole_hw.schedule.tokens import (
    any_grouped,
    block_group_layout,
    max_exponent_beats,
    max_mantissa_beats,
    region_layout,
)
from diastole_hw.stream.unpack import run_layout
from diastole_sim.spec.image import GROUP_BLOCKS


def blocks_per_run(plan: Plan, cls: int) -> int:
    """Blocks side by side that share the exponents of their rows, in one group of eight."""
    return GROUP_BLOCKS // plan.runs(cls)


class RegionParse(wiring.Component):
    """Tell the beats of regions apart.

    A region of maxima is ``region.beats`` beats, written as they come, from the first beat of the
    region's slot on. A region of blocks is, for each row of it, a *part* of each group of eight
    that its columns meet: the group's exponent field, then the elements of the part's blocks,
    rounded up to whole granules, from the first of them on. The part is described in ``groups``,
    with the group's exponents from those of the part's first block on; its elements are announced
    in ``runs`` and go through to ``mantissas``, for :class:`diastole_hw.stream.unpack.Unpack`.

    Not checked: that a region starts on a whole granule of its group and that nothing is empty.

    Timing: 1 cycle for a region, then one beat per cycle; before the elements of each part 1 cycle
    more, in which ``groups`` and ``runs`` are valid as soon as both are ready, and are taken
    together. ``maxima`` follows ``data`` in the same cycle; so do ``mantissas``, whose ``ready`` is
    that of ``data`` then.

    Members
    -------
    regions : In(stream of region_layout(plan))
    data : In(stream of unsigned(plan.data_width))
    groups : Out(stream of block_group_layout(plan))
    runs : Out(stream of run_layout(max_mantissa_beats(plan), GROUP_BLOCKS * plan.block))
        ``kind`` is the class, ``mark`` that the region's blocks are turned.
    mantissas : Out(stream of unsigned(plan.data_width))
    maxima : Out(MaximaWriteSignature(plan))
    """

    regions: stream.Interface
    data: stream.Interface
    groups: stream.Interface
    runs: stream.Interface
    mantissas: stream.Interface
    maxima: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        beats = stream.Signature(unsigned(plan.data_width))
        run = run_layout(max_mantissa_beats(plan), GROUP_BLOCKS * plan.block)
        super().__init__(
            {
                "regions": In(stream.Signature(region_layout(plan))),
                "data": In(beats),
                "groups": Out(stream.Signature(block_group_layout(plan))),
                "runs": Out(stream.Signature(run)),
                "mantissas": Out(beats),
                "maxima": Out(MaximaWriteSignature(plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        region = Signal(region_layout(plan))
        most_beats = max(max_exponent_beats(plan), max_mantissa_beats(plan), plan.maxima_depth)
        beat = Signal(range(most_beats + 1))
        row = Signal.like(region.rows, name="row")
        col = Signal.like(region.cols, name="col")
        blocks = Signal(range(GROUP_BLOCKS + 1))
        run_beats = Signal(range(max_mantissa_beats(plan) + 1))
        offset = Signal(range(GROUP_BLOCKS))
        exponents = Signal(max_exponent_beats(plan) * plan.data_width)
        exponent_beats = Array([plan.exponent_beats(cls) for cls in (0, 1, 2, 2)])[region.cls]
        self._group(m, region, col, offset, blocks, run_beats)
        self._exponents(m, region, offset, exponents)
        m.d.comb += [
            self.maxima.memory.eq(region.kind.as_value()[:2]),
            self.maxima.data.eq(self.data.payload),
            self.maxima.addr.eq(self._slot(region) + beat),
            self.groups.p.region.eq(region),
            self.groups.p.row.eq(row),
            self.groups.p.col.eq(col),
            self.mantissas.payload.eq(self.data.payload),
        ]
        with m.FSM():
            with m.State("REGION"):
                m.d.comb += self.regions.ready.eq(1)
                m.d.sync += [region.eq(self.regions.payload), beat.eq(0), row.eq(0), col.eq(0)]
                m.d.sync += offset.eq(self.regions.p.offset)
                with m.If(self.regions.valid):
                    m.next = "EXPONENTS"
                    with m.If(self.regions.p.kind.as_value()[2]):
                        m.next = "MAXIMA"
            with m.State("MAXIMA"):
                m.d.comb += [self.data.ready.eq(1), self.maxima.enable.eq(self.data.valid)]
                with m.If(self.data.valid):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == region.beats - 1):
                        m.next = "REGION"
            with m.State("EXPONENTS"):
                m.d.comb += self.data.ready.eq(1)
                with m.If(self.data.valid):
                    m.d.sync += beat.eq(beat + 1)
                    for k in range(max_exponent_beats(plan)):
                        with m.If(beat == k):
                            part = exponents.word_select(k, plan.data_width)
                            m.d.sync += part.eq(self.data.payload)
                    with m.If(beat == exponent_beats - 1):
                        m.next = "OPEN"
            with m.State("OPEN"):  # the group and the run are taken together
                both = self.groups.ready & self.runs.ready
                m.d.comb += [self.groups.valid.eq(both), self.runs.valid.eq(both)]
                m.d.sync += beat.eq(0)
                with m.If(both):
                    m.next = "MANTISSAS"
            with m.State("MANTISSAS"):
                m.d.comb += self.mantissas.valid.eq(self.data.valid)
                m.d.comb += self.data.ready.eq(self.mantissas.ready)
                with m.If(self.data.valid & self.mantissas.ready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == run_beats - 1):
                        m.d.sync += [beat.eq(0), offset.eq(0), col.eq(col + blocks)]
                        m.next = "EXPONENTS"
                        with m.If(region.cols - col == blocks):
                            m.d.sync += [col.eq(0), row.eq(row + 1), offset.eq(region.offset)]
                            with m.If(row == region.rows - 1):
                                m.next = "REGION"
        return m

    def _group(self, m, region, col, offset, blocks, run_beats):
        """Blocks of the group at hand that the region has; what comes is whole granules of them."""
        plan, run = self.plan, self.runs.p
        left = Signal.like(region.cols, name="left")
        room = Signal(range(GROUP_BLOCKS + 1))
        whole = Signal(range(GROUP_BLOCKS + 1))
        m.d.comb += [
            left.eq(region.cols - col),
            room.eq(GROUP_BLOCKS - offset),
            blocks.eq(Mux(left < room, left, room)),
            self.groups.p.blocks.eq(whole),
            run.beats.eq(run_beats),
            run.vectors.eq(whole << plan.log_block),
            run.kind.eq(region.cls),
            run.mark.eq(region.turned),
        ]
        for cls in range(3):
            with m.If(region.cls == cls):
                table = [plan.mantissa_beats(cls, n) for n in range(GROUP_BLOCKS + 1)]
                m.d.comb += whole.eq(granules(blocks, plan.granule(cls)))
                m.d.comb += run_beats.eq(Array(table)[whole])

    def _exponents(self, m, region, offset, exponents):
        """Those of the group's first block that the region has come first."""
        plan, out = self.plan, self.groups.p.exponents
        if not all(map(plan.grouped, range(3))):
            m.d.comb += out.eq(exponents[: 8 * GROUP_BLOCKS] >> (offset << 3))
        if any_grouped(plan):
            m.d.comb += self.groups.p.place.eq(offset)
        for cls in filter(plan.grouped, range(3)):
            run = offset >> exact_log2(blocks_per_run(plan, cls))
            with m.If(region.cls == cls):
                whole = exponents[: 8 * plan.exponent_bytes(cls)]
                m.d.comb += out.eq(whole >> (run << exact_log2(8 * plan.block)))

    def _slot(self, region):
        """First beat of the region's tile among its maxima; the fused pass keeps all of dY's."""
        plan = self.plan
        held = Mux(region.fused, 0, region.tile * pow2ceil(plan.held_maxima_words))
        streamed = region.tile * pow2ceil(plan.stream_maxima_words)
        return Mux(region.kind.as_value()[0], held, streamed)  # EAST and NORTH are odd
