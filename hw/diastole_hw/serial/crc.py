"""Compute the checksum of frames, one octet at a time."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Value

from diastole_sim.spec.serial import CRC_POLYNOMIAL

CRC_BITS, OCTET_BITS = 32, 8


def crc_after(register: Value, octet: Value) -> Value:
    """Return the register of the CRC-32 (:data:`diastole_sim.spec.serial.CRC_POLYNOMIAL`) after
    another octet: 32 XORs of at most 7 bits of the register and 7 bits of the octet."""
    every = [*register, *octet]
    state = [{bit} for bit in range(CRC_BITS)]
    for bit in range(OCTET_BITS):
        low = state[0] ^ {CRC_BITS + bit}
        state = [*state[1:], set()]
        state = [
            each ^ low if CRC_POLYNOMIAL >> place & 1 else each for place, each in enumerate(state)
        ]
    sums = (reduce(xor, (every[bit] for bit in sorted(each))) for each in state)
    return Value.cast(Cat(sums))
