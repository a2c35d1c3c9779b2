"""What the beats of a region are: maxima, the exponents of a group's blocks, or their mantissas."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.control.region import granules, region_layout
from diastole.plan import GROUP, Plan, pow2ceil
from diastole.stream.unpack import run_layout


def max_mantissa_beats(plan: Plan) -> int:
    return max(plan.mantissa_beats(cls, GROUP) for cls in range(3))


def max_exponent_beats(plan: Plan) -> int:
    return max(plan.exponent_beats(cls) for cls in range(3))


def any_grouped(plan: Plan) -> bool:
    return any(map(plan.grouped, range(3)))


def blocks_per_run(plan: Plan, cls: int) -> int:
    """Blocks side by side that share the exponents of their rows, in one group of eight."""
    return GROUP // plan.runs(cls)


def group_layout(plan: Plan) -> data.StructLayout:
    """The blocks of one group that a region wants: whose they are, which, and their exponents."""
    region = region_layout(plan)
    exponents = max(plan.exponent_bytes(cls) for cls in range(3))
    place = {"place": range(GROUP)} if any_grouped(plan) else {}  # of the first one in its group
    return data.StructLayout(
        {
            "region": region,
            "row": region["rows"].shape,  # of the region
            "col": region["cols"].shape,  # of the first of the blocks
            "blocks": range(GROUP + 1),  # whole granules: some may be beyond the region
            "exponents": unsigned(8 * exponents),  # those of the first block lowest
        }
        | place
    )


class RegionParse(wiring.Component):
    """Tell the beats of regions apart.

    Maxima are written as they come (``maxima_*``: number of the memory, beat in it). For the blocks
    of each group, their exponents go to ``groups``, then a run is opened for
    :class:`diastole.stream.unpack.Unpack` and the mantissas go through to it.

    Timing: one beat per cycle, and two cycles more per group and per region.
    """

    regions: stream.Interface
    data: stream.Interface
    groups: stream.Interface
    runs: stream.Interface
    mantissas: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        beats = stream.Signature(unsigned(plan.data_width))
        run = run_layout(max_mantissa_beats(plan), GROUP * plan.block)
        super().__init__(
            {
                "regions": In(stream.Signature(region_layout(plan))),
                "data": In(beats),
                "groups": Out(stream.Signature(group_layout(plan))),
                "runs": Out(stream.Signature(run)),
                "mantissas": Out(beats),
                "maxima_en": Out(1),
                "maxima_select": Out(2),
                "maxima_addr": Out(range(plan.maxima_depth)),
                "maxima_data": Out(plan.data_width),
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
        blocks = Signal(range(GROUP + 1))
        run_beats = Signal(range(max_mantissa_beats(plan) + 1))
        offset = Signal(range(GROUP))
        exponents = Signal(max_exponent_beats(plan) * plan.data_width)
        exponent_beats = Array([plan.exponent_beats(cls) for cls in (0, 1, 2, 2)])[region.cls]
        self._group(m, region, col, offset, blocks, run_beats)
        self._exponents(m, region, offset, exponents)
        m.d.comb += [
            self.maxima_select.eq(region.kind.as_value()[:2]),
            self.maxima_data.eq(self.data.payload),
            self.maxima_addr.eq(self._slot(region) + beat),
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
                m.d.comb += [self.data.ready.eq(1), self.maxima_en.eq(self.data.valid)]
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
        room = Signal(range(GROUP + 1))
        whole = Signal(range(GROUP + 1))
        m.d.comb += [
            left.eq(region.cols - col),
            room.eq(GROUP - offset),
            blocks.eq(Mux(left < room, left, room)),
            self.groups.p.blocks.eq(whole),
            run.beats.eq(run_beats),
            run.vectors.eq(whole << plan.log_block),
            run.kind.eq(region.cls),
            run.mark.eq(region.turned),
        ]
        for cls in range(3):
            with m.If(region.cls == cls):
                table = [plan.mantissa_beats(cls, n) for n in range(GROUP + 1)]
                m.d.comb += whole.eq(granules(blocks, plan.granule(cls)))
                m.d.comb += run_beats.eq(Array(table)[whole])

    def _exponents(self, m, region, offset, exponents):
        """Those of the group's first block that the region has come first."""
        plan, out = self.plan, self.groups.p.exponents
        if not all(map(plan.grouped, range(3))):
            m.d.comb += out.eq(exponents[: 8 * GROUP] >> (offset << 3))
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
