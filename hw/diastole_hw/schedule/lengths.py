"""The lengths of a nest, from the fields of a command."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data

from diastole_hw.transfer.times import times
from diastole_sim.spec.nest import NestLimits


class NestLengths(NamedTuple):
    """Signals: a nest's lengths, the slices of its chunks, blocks of a bank that a chunk takes of
    what streams and of what is held (:class:`diastole_sim.spec.nest.NestLimits`), and vectors of
    sums that a tile has behind a port, in blocks."""

    t_blocks: Signal
    groups: Signal
    chunk: Signal
    slices: Signal
    stream_slab: Signal
    held_slab: Signal
    sums: Signal


def nest_lengths(m: Module, name: str, limits: NestLimits, given: data.View) -> NestLengths:
    """Of ``nest_t``, ``nest_groups`` and ``nest_chunk`` as given, the machine's own where they are
    0. They mean nothing where the limits do not have a length."""

    def length(field, accepted):
        found = Signal(range(accepted[-1] + 1), name=f"{name}_{field}")
        value = given[f"nest_{field}"]
        m.d.comb += found.eq(Mux(value == 0, accepted[-1], value))
        return found

    t_blocks = length("t", limits.t_blocks)
    groups = length("groups", limits.groups)
    chunk = length("chunk", limits.chunk)
    slices = Signal(range(limits.chunk[-1] // limits.chunk_side + 1), name=f"{name}_slices")
    with m.Switch(chunk):
        for blocks in limits.chunk:
            with m.Case(blocks):
                m.d.comb += slices.eq(blocks // limits.chunk_side)
    stream_slab = Signal(range(limits.stream_blocks + 1), name=f"{name}_stream_slab")
    held_slab = Signal(range(limits.held_blocks + 1), name=f"{name}_held_slab")
    sums = Signal(range(limits.groups[-1] * limits.t_blocks[-1] + 1), name=f"{name}_sums")
    with m.Switch(t_blocks):
        for blocks in limits.t_blocks:
            with m.Case(blocks):
                m.d.comb += [stream_slab.eq(times(slices, blocks)), sums.eq(times(groups, blocks))]
    m.d.comb += held_slab.eq(times(times(slices, groups), limits.pass_blocks))
    return NestLengths(t_blocks, groups, chunk, slices, stream_slab, held_slab, sums)
