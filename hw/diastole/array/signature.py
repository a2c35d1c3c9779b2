"""What travels between cells: the layouts of vectors, held words, control and partial sums.

An element is sign and magnitude, the sign on top. A deficit is a maximum less a block's exponent
(design, "Aligned accumulation"); its bits are :func:`deficit_bits`, its range 0 to SW + F.
"""

from amaranth.hdl import Cat, Const, signed, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for


def deficit_bits(sum_bits: int, fraction: int) -> int:
    """Bits of a deficit: those of SW + F, at which a block sum has left the window whole."""
    return bits_for(sum_bits + fraction)


def vector_layout(block: int, bits: int, deficit_bits: int) -> data.StructLayout:
    """One row or column of a block: B elements of ``bits`` + 1 bits, and the block's deficit.

    ``nonzero`` 0 marks a block of zeros or a bubble; its elements and deficit then mean nothing.
    """
    return data.StructLayout(
        {
            "elements": data.ArrayLayout(unsigned(bits + 1), block),
            "deficit": unsigned(deficit_bits),
            "nonzero": unsigned(1),
        }
    )


def held_layout(rows: int, block: int, bits: int, deficit_bits: int) -> data.StructLayout:
    """Row ``index`` (a) of a block that is to be held, on its way up a column of cells.

    ``row`` counts the cells still to go: 0 to ``rows`` - 1 at a load port, 0 at its destination.
    ``deficit_east`` and ``deficit_north`` are those of the block in the two directions. All words
    of a block carry the same deficits and ``nonzero``.
    """
    return data.StructLayout(
        {
            "row": unsigned(bits_for(rows - 1)),
            "index": unsigned(bits_for(block - 1)),
            "elements": data.ArrayLayout(unsigned(bits + 1), block),
            "deficit_east": unsigned(deficit_bits),
            "deficit_north": unsigned(deficit_bits),
            "nonzero": unsigned(1),
            "valid": unsigned(1),
        }
    )


def control_layout() -> data.StructLayout:
    """What goes with a slot: its ``direction``, and ``swap``, one slot ahead of a new pass.

    ``direction`` is 0 from south to east, 1 from west to north; ignored where the array has one.
    """
    return data.StructLayout({"direction": unsigned(1), "swap": unsigned(1)})


def sum_layout(block: int, bits: int) -> data.StructLayout:
    """B partial sums; ``inexact``: two non-zero blocks met in them with deficits beyond F."""
    return data.StructLayout(
        {"sums": data.ArrayLayout(signed(bits), block), "inexact": unsigned(1)}
    )


def resized(element, bits: int):
    """``element`` with ``bits`` of magnitude: zeros put below its sign, or taken away there."""
    magnitude = element[:-1]
    missing = max(bits - len(magnitude), 0)
    return Cat(magnitude[:bits], Const(0, missing), element[-1])
