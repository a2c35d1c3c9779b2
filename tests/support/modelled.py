"""Modelled machines for tests, by what matters to them."""

from typing import Any

from diastole_sim.perf import ModelledMachine
from support.numerics import make_numerics


def modelled(
    *,
    block=8,
    element_bits=(5, 5, 5),
    vectors=(None, None, None),
    widths=None,
    float_chunk=None,
    **sizes: Any,
) -> ModelledMachine:
    """``element_bits`` of x, w, dy as stored (3 to 9), in squares or in ``vectors`` of so many
    elements; ``widths`` that every tensor may be converted to, None: one; ``float_chunk``: elements
    that are summed before a float accumulator adds them. It has a vector unit, if nothing else is
    said."""
    formats = "fast" if widths else tuple(f"bfp{bits - 1}" for bits in element_bits)
    groupings = tuple(vector and f"1x{vector}" for vector in vectors)
    others: dict[str, Any] = {"widths": list(widths)} if widths else {}
    if float_chunk:
        others["accumulator"] = {"kind": "float", "mantissa": 18, "chunk": float_chunk}
    numerics = make_numerics(block=block, formats=formats, groupings=groupings, **others)
    return ModelledMachine.of(numerics, **{"has_vector": True} | sizes)
