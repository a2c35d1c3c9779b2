"""Compute the lengths of a loop nest from the fields of a command."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from diastole_hw.plan.modes import OPERATION_OF, PRODUCTS
from diastole_hw.plan.plan import Plan
from diastole_hw.transfer.times import times
from diastole_sim.spec.nest import Nest, NestLimits


class NestLengths(NamedTuple):
    """Signals of a loop nest: its lengths, and the number of slices of a chunk."""

    t_blocks: Signal
    groups: Signal
    chunk: Signal
    slices: Signal


class NestSlabs(NamedTuple):
    """Signals: blocks per bank that a chunk takes of the streaming and of the stationary operand
    (:class:`diastole_sim.spec.nest.NestLimits`), and vectors of sums of a tile behind a port, in
    blocks."""

    stream_slab: Signal
    stationary_slab: Signal
    sums: Signal


def longest_lengths(plan: Plan) -> dict[str, int]:
    """Return the longest lengths of any loop nest of the machine, under their names in the record
    of a product. The lengths are, in blocks: T tile, lane tile, chunk, a chunk's share of a bank,
    and the distance between slices of a stationary bank."""
    lengths = [
        {
            "t_step": limits.t_blocks[-1],
            "l_step": limits.groups[-1] * limits.lane_side,
            "c_step": limits.chunk[-1],
            "stream_slab": limits.slabs(Nest())[0],
            "stationary_slab": limits.slabs(Nest())[1],
            "stationary_stride": plan.rows
            * max(limits.groups[-1], limits.chunk[-1] // limits.chunk_side),
        }
        for limits in (getattr(plan.nests, OPERATION_OF[mode].name) for mode in PRODUCTS)
    ]
    if plan.fused:
        of_slice = plan.fused_slices_n * plan.rows
        lengths.append(
            {
                "t_step": plan.fused_tile_blocks,
                "l_step": plan.fused_blocks_n,
                "c_step": plan.cols,
                "stream_slab": plan.fused_tile_blocks,
                "stationary_slab": of_slice,
                "stationary_stride": of_slice,
            }
        )
    return {name: max(each[name] for each in lengths) for name in lengths[0]}


def nest_lengths(m: Module, name: str, limits: NestLimits, command: data.View) -> NestLengths:
    """Compute the lengths of a loop nest from ``nest_t``, ``nest_groups`` and ``nest_chunk``. A
    field of 0 selects the longest length of the ``limits``. A field outside the limits gives
    meaningless lengths; the command is refused elsewhere."""

    def length(field, accepted):
        result = Signal(range(accepted[-1] + 1), name=f"{name}_{field}")
        value = command[f"nest_{field}"]
        m.d.comb += result.eq(Mux(value == 0, accepted[-1], value))
        return result

    t_blocks = length("t", limits.t_blocks)
    groups = length("groups", limits.groups)
    chunk = length("chunk", limits.chunk)
    slices = Signal(range(limits.chunk[-1] // limits.chunk_side + 1), name=f"{name}_slices")
    with m.Switch(chunk):
        for blocks in limits.chunk:
            with m.Case(blocks):
                m.d.comb += slices.eq(blocks // limits.chunk_side)
    return NestLengths(t_blocks, groups, chunk, slices)


def nest_slabs(m: Module, limits: list[NestLimits], t_blocks, groups, slices) -> NestSlabs:
    """Compute the slabs of a loop nest from lengths that are among the ``limits`` of a product."""
    (of_pass,) = {each.pass_blocks for each in limits}
    stream = Signal(range(max(each.stream_blocks for each in limits) + 1), name="nest_stream_slab")
    stationary = Signal(
        range(max(each.stationary_blocks for each in limits) + 1), name="nest_stationary_slab"
    )
    most = max(each.groups[-1] * each.t_blocks[-1] for each in limits)
    sums = Signal(range(most + 1), name="nest_sums")
    with m.Switch(t_blocks):
        for blocks in sorted({blocks for each in limits for blocks in each.t_blocks}):
            with m.Case(blocks):
                m.d.comb += [stream.eq(times(slices, blocks)), sums.eq(times(groups, blocks))]
    m.d.comb += stationary.eq(times(times(slices, groups), of_pass))
    return NestSlabs(stream, stationary, sums)
