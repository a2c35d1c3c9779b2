"""Compute the sizes of the memories that feed the array and store its sums, without emitting
anything."""

from collections.abc import Iterator

from amaranth.hdl import Fragment

from diastole_hw.memory.port_sums import read_data_layout, sums_layout
from diastole_hw.memory.ram import Ram
from diastole_hw.memory.scratchpad import StationaryScratchpad, StreamScratchpad
from diastole_hw.plan.plan import Plan


def scratchpad_bits(plan: Plan) -> int:
    """Return the bits of the scratchpads of streaming and stationary operands, with the marks
    beside the elements."""
    sides = [side for side, used in (("south", plan.east), ("west", plan.north)) if used]
    pads = [StationaryScratchpad(plan), *(StreamScratchpad(plan, side=side) for side in sides)]
    return sum(ram.width * ram.depth for pad in pads for ram in rams_of(Fragment.get(pad, None)))


def sum_bits(plan: Plan) -> int:
    """Return the bits of the accumulators of all directions."""
    bits = 0
    for north, ports in ((False, plan.rows * plan.east), (True, plan.cols * plan.north)):
        word = read_data_layout(plan).size
        if plan.overwriting_slices(north=north) > 1:
            word += sums_layout(plan, plan.numerics.chunk_sum_bits).size
        bits += ports * plan.sum_words * word
    return bits


def rams_of(fragment: Fragment) -> Iterator[Ram]:
    """Yield every memory below a fragment."""
    for inner, _, _ in fragment.subfragments:
        origin = next(iter(inner.origins or ()), None)
        if isinstance(origin, Ram):
            yield origin
        else:
            yield from rams_of(inner)
