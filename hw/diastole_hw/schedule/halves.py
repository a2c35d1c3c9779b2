"""Where what comes from the west stands in the fused pass: halves of its banks, in turn."""

from amaranth.hdl import Array, Mux
from amaranth.lib import data

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.uses import W


def _base(plan: Plan, product, chunk: data.View, length: int):
    """In banks of ``length``."""
    half = length // 2
    base = Mux(chunk.tile[0], half, 0)
    if not plan.planar:
        return base
    bits = plan.plane_bits
    parts = [half // plan.west_parts(count) for count in range(1, 2**bits + 1)]
    return base + Array(parts)[product.planes[W][:bits]] * chunk.stream_plane[:bits]


def west_base(plan: Plan, product, chunk: data.View):
    """First block, in every bank, of the plane of W that a chunk multiplies: tiles have the halves
    of the banks in turn, and the planes parts of a half (:meth:`Plan.west_parts`).

    ``product``: its ``planes``, where there are any, are read.
    """
    return _base(plan, product, chunk, plan.stream_blocks)


def west_word(plan: Plan, product, chunk: data.View):
    """Likewise, the first word."""
    return _base(plan, product, chunk, plan.stream_words)
