"""Arithmetic of sizes."""


def ceil_div(value: int, by: int) -> int:
    """Return ``value`` / ``by``, rounded up."""
    return -(-value // by)


def pow2ceil(value: int) -> int:
    """Return the smallest power of two that is at least ``value`` (value >= 1)."""
    return 1 << (value - 1).bit_length()


def pow2floor(value: int) -> int:
    """Return the largest power of two that is at most ``value`` (value >= 1)."""
    return 1 << (value.bit_length() - 1)


def log2(value: int) -> int:
    """Return the exponent of a power of two. ValueError for any other number."""
    if value < 1 or value & (value - 1):
        raise ValueError(f"{value} is not a power of two")
    return value.bit_length() - 1
