"""Move addresses in the bytes of commands and of descriptors."""

from collections.abc import Sequence

import numpy as np

from diastole_sim.golden.memory import Bytes
from diastole_sim.spec.command_table import ADDRESS_BITS

ADDRESS_BYTES = ADDRESS_BITS // 8
"""Bytes of an address in a command and in a descriptor, the lowest first. The address in a
descriptor is in the first bytes."""


def relocate(image: Bytes, places: Sequence[int], base: int) -> None:
    """Add ``base`` to the addresses at ``places`` of an image, in place and modulo 2^40."""
    for place in places:
        field = image[place : place + ADDRESS_BYTES]
        moved = (int.from_bytes(field.tobytes(), "little") + base) % 2**ADDRESS_BITS
        field[:] = np.frombuffer(moved.to_bytes(ADDRESS_BYTES, "little"), np.uint8)
