"""Compute where blocks from the west stand in the fused pass: in halves of their banks,
alternately."""

from amaranth.hdl import Array, Mux
from amaranth.lib import data

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.uses import W


def _base(plan: Plan, product, chunk: data.View, length: int):
    """Return the first place of a chunk's plane of W in banks of ``length`` places."""
    half = length // 2
    base = Mux(chunk.tile[0], half, 0)
    if not plan.planar:
        return base
    bits = plan.plane_bits
    parts = [half // plan.west_parts(count) for count in range(1, 2**bits + 1)]
    return base + Array(parts)[product.planes[W][:bits]] * chunk.stream_plane[:bits]


def west_base(plan: Plan, product, chunk: data.View):
    """Return the first block, in every bank, of the plane of W that a chunk multiplies. Tiles use
    the halves of the banks alternately; planes use parts of a half (:meth:`Plan.west_parts`).

    ``product``: its ``planes`` are read, if there are any.
    """
    return _base(plan, product, chunk, plan.stream_blocks)


def west_word(plan: Plan, product, chunk: data.View):
    """Return the first word, in every bank, of the plane of W that a chunk multiplies."""
    return _base(plan, product, chunk, plan.stream_words)
