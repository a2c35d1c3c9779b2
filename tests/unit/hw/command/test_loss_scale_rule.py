"""The scale of the loss: what becomes of it at the end of a step, by a model of its own."""

import math
import struct

import pytest

from diastole_hw.command.loss_scale_rule import LossScaleRule
from support.bench import design, simulation

ON = 1 << 31


def power(x):
    """2^x in binary32, as bits."""
    value = math.inf if x > 127 else math.ldexp(1.0, x) if x >= -126 else 0.0
    return struct.unpack("<I", struct.pack("<f", value))[0]


def byte(x):
    return x & 0xFF


CASES = [
    (x, low, high, window, clean, overflowed, on)
    for x in (-128, -127, -126, -3, 0, 5, 126, 127)
    for low, high in ((-128, 127), (-3, 5), (x, x))
    for window, clean in ((1, 0), (3, 2), (3, 1), (2**32 - 1, 7), (0, 2**32 - 1))
    for overflowed in (0, 1)
    for on in (0, 1)
    if low <= x <= high
]


async def test_steps():
    dut = design(LossScaleRule)
    ctx = await simulation(dut)
    for x, low, high, window, clean, overflowed, on in CASES:
        register = byte(x) | byte(low) << 8 | byte(high) << 16 | ON * on
        ctx.set(dut.loss_scale, register)
        ctx.set(dut.loss_window, window)
        ctx.set(dut.loss_clean, clean)
        ctx.set(dut.overflowed, overflowed)
        for following in (0, 1):
            ctx.set(dut.following, following)
            sets = on and following
            assert ctx.get(dut.loss_scale_set) == ctx.get(dut.loss_clean_set) == sets
        ctx.set(dut.following, 0)
        grown, count = x, (clean + 1) % 2**32
        if overflowed:
            grown, count = max(x - 1, low), 0
        elif count == window:
            grown, count = min(x + 1, high), 0
        assert ctx.get(dut.loss_scale_next) == register & ~0xFF | byte(grown)
        assert ctx.get(dut.loss_clean_next) == count


@pytest.mark.parametrize("pulse", ["start", "following", "floor"])
@pytest.mark.parametrize("on", [0, 1])
async def test_constants(pulse, on):
    dut = design(LossScaleRule)
    ctx = await simulation(dut)
    for x in range(-128, 128):
        assert not ctx.get(dut.put.valid)
        signal = dut.floor.valid if pulse == "floor" else getattr(dut, pulse)
        ctx.set(signal, 1)
        await ctx.tick()
        ctx.set(signal, 0)
        ctx.set(dut.loss_scale, byte(x) | ON * on)  # as the register is from now on
        for index, exponent in ((252, x), (253, -x)):
            put = ctx.get(dut.put)
            assert (put.valid, put.index, put.value) == (1, index, power(exponent * on))
            await ctx.tick()


async def test_floors():
    """A load of the floor: the smallest exponent is the loaded one, and the scale is not below."""
    dut = design(LossScaleRule)
    ctx = await simulation(dut)
    for x in (-128, -14, 0, 8, 13, 127):
        for field in (0, 1, 113, 127, 135, 140, 254, 255):
            for on, overflowed, clean in ((1, 0, 3), (1, 1, 3), (0, 0, 3), (1, 0, 9)):
                floor = (field - 127 + 128) % 256 - 128
                register = byte(x) | byte(-14) << 8 | byte(24) << 16 | ON * on
                ctx.set(dut.loss_scale, register)
                ctx.set(dut.loss_window, 10)
                ctx.set(dut.loss_clean, clean)
                ctx.set(dut.overflowed, overflowed)
                ctx.set(dut.floor, {"valid": 1, "field": field})
                rises = x < floor
                assert ctx.get(dut.loss_scale_set) == on
                assert ctx.get(dut.loss_clean_set) == (on and rises)
                wanted = register & ~0xFFFF | byte(max(x, floor)) | byte(floor) << 8
                assert ctx.get(dut.loss_scale_next) == wanted
                if rises:
                    assert ctx.get(dut.loss_clean_next) == 0
    ctx.set(dut.floor, {"valid": 0, "field": 0})
    assert not ctx.get(dut.loss_scale_set)
