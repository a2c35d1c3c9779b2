"""Shapes of small cells for the tests of the cell and of the array, one of every kind."""

from diastole_hw.cell.align import low_bits
from diastole_hw.cell.cell_shape import CellShape, Element

BFP3, BFP4, BFP5, BFP8 = (Element(significand_bits=bits) for bits in (3, 4, 5, 8))
E2M1 = Element(significand_bits=2, depth=2, derived=True)
E4M3 = Element(significand_bits=4, depth=14, derived=True)
E5M2 = Element(significand_bits=3, depth=29, derived=True)
ANY = Element(significand_bits=4, depth=29)  # E4M3 and E5M2

KINDS = {
    "bfp": {"south": BFP3, "west": BFP5, "stationary": BFP4},
    "bfp, edge": {"south": BFP8, "west": BFP8, "stationary": BFP3, "directions": ("east",)},
    "bfp, lanes": {"south": BFP5, "west": BFP3, "stationary": BFP4, "lane_deficits": True},
    "bfp, poison": {"south": BFP3, "west": BFP3, "stationary": BFP4, "poison": True},
    "E4M3": {"south": E4M3, "west": E4M3, "stationary": E4M3, "window": 16, "extents": True},
    "E4M3, exact": {"south": E4M3, "west": E4M3, "stationary": E4M3, "window": 36},
    "E5M2, lanes": {
        "south": E5M2,
        "west": E5M2,
        "stationary": E5M2,
        "window": 9,
        "extents": True,
        "lane_deficits": True,
        "directions": ("north",),
        "poison": True,
    },
    "E4M3 and E5M2": {
        "south": E4M3,
        "west": ANY,
        "stationary": ANY,
        "window": 20,
        "extents": True,
        "poison": True,
    },
    "bfp8 and E4M3": {
        "south": BFP8,
        "west": E4M3,
        "stationary": E4M3,
        "window": 12,
        "extents": True,
    },
    "NVFP4, squares": {
        "south": E2M1,
        "west": E2M1,
        "stationary": E2M1,
        "window": 8,
        "significands": True,
    },
    "NVFP4, lanes": {
        "south": E2M1,
        "west": E2M1,
        "stationary": E2M1,
        "window": 8,
        "significands": True,
        "lane_deficits": True,
        "poison": True,
    },
    "everything": {
        "south": BFP8,
        "west": ANY,
        "stationary": E4M3,
        "window": 14,
        "extents": True,
        "significands": True,
        "lane_deficits": True,
        "poison": True,
    },
}
"""Name to what makes the elements and options of a shape."""


def shape_of(kind: str, *, rows: int, block: int, fraction: int, **options) -> CellShape:
    """The shape of a name in ``KINDS``, its SW as wide as its block sums need."""
    made = {"window": None, "extents": False, "significands": False} | KINDS[kind] | options
    streams = {"east": made["south"], "north": made["west"]}
    streamed = [streams[name] for name in made.get("directions", streams)]
    significands = (
        max(each.significand_bits for each in streamed) + made["stationary"].significand_bits
    )
    bits = (made["window"] or significands) + block.bit_length() + 8 * made["significands"]
    return CellShape(
        rows=rows,
        block=block,
        fraction=fraction,
        sum_bits=bits,
        exact=not made["extents"],
        **made,
    )


def control_const(shape: CellShape, direction: int, swap: bool) -> dict:
    """An initialiser of ``control_layout(shape)``."""
    return {"direction": direction * ((1 << shape.direction_copies) - 1), "swap": int(swap)}


def joined(early: list, late: list, shape: CellShape, psum_bits: int) -> list:
    """Partial sums of which a cycle has the lower halves, and the next one (``late``) the upper
    ones, if the shape adds so."""
    if not shape.halves:
        return early
    low = low_bits(psum_bits)
    return [
        above >> low << low | below & ((1 << low) - 1)
        for below, above in zip(early, late, strict=True)
    ]
