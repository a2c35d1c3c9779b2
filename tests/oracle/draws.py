"""The draw of one element, of any kind."""

import struct

from oracle import lfsr, threefry


def element_draw(
    value, *, row, column, columns, drawn="counter", lfsr_bits=24, seed, tag, step, bits, second
):
    """Of the element ``value`` (a float, as binary32) at its place in a tensor of so many
    ``columns``; ``drawn``: the kind."""
    where = {"seed": seed, "tag": tag, "step": step, "bits": bits, "second": second}
    if drawn == "data":
        (pattern,) = struct.unpack("<I", struct.pack("<f", value))
        return lfsr.data_draw(pattern, bits)
    if drawn == "counter":
        return threefry.draw(index=row * columns + column, **where)
    n = {"lfsr": lfsr_bits, "lfsr3": 3}[drawn]
    return lfsr.row_draw(kind=drawn, n=n, row=row, column=column, **where)
