"""The whole machine through its AXI ports: forward and backward of a network of two layers."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.registers import MAGIC
from rtl.host import BASE, Host
from rtl.step import Step
from rtl.tensors import tensor
from rtl.units import MACHINE

WIDTH = MACHINE.bus.data_width
BATCH, INPUTS, HIDDEN, CLASSES = 7, 19, 6, 5


async def start(dut, p_pause):
    """A host, and a step of a device with a seed."""
    host = Host(dut, p_pause)
    await host.start()
    seed = random.getrandbits(32)
    await host.write("seed", seed)
    step = Step(host, NumpyDevice(MACHINE.numerics, seed), random.getrandbits(32), WIDTH)
    return host, step


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(p_pause=[0.0, 0.4])
async def trains_two_layers(dut, p_pause):
    """Every converted tensor and every result equals the golden model's, bit for bit."""
    _, step = await start(dut, p_pause)
    rng = np.random.default_rng(random.getrandbits(32))
    first = {"m": BATCH, "k": INPUTS, "n": HIDDEN}
    second = {"m": BATCH, "k": HIDDEN, "n": CLASSES}
    w1 = step.convert(tensor(rng, INPUTS, HIDDEN), "w", tag=1)
    w2 = step.convert(tensor(rng, HIDDEN, CLASSES), "w", tag=5)
    x1 = step.convert(tensor(rng, BATCH, INPUTS), "x", tag=0)
    sums = step.product(Opcode.FORWARD, **first, x=x1, w=w1).y
    await step.run()

    x2 = step.convert(np.maximum(sums, 0), "x", tag=4)
    y = step.product(Opcode.FORWARD, **second, x=x2, w=w2).y
    await step.run()

    wanted = tensor(rng, BATCH, CLASSES)
    dy2 = step.convert((y - wanted).astype(np.float32), "dy", tag=6)
    back = step.product(Opcode.BACKWARD, **second, x=x2, w=w2, dy=dy2)
    step.product(Opcode.DX, **second, w=w2, dy=dy2)
    await step.run()

    dy1 = step.convert(np.where(sums > 0, back.dx, np.float32(0)), "dy", tag=2)
    step.product(Opcode.DW, **first, x=x1, dy=dy1)
    await step.run()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def works_again_after_the_reset_bit(dut):
    """A malformed command stops the machine; so does the reset bit, in the middle of a product."""
    host, step = await start(dut, 0.2)
    assert await host.read("magic") == MAGIC
    rng = np.random.default_rng(random.getrandbits(32))
    sizes = {"m": 6, "k": 9, "n": 4}
    x = step.convert(tensor(rng, 6, 9), "x", tag=0)
    step.commands.append(Command(opcode=9).encode())
    await step.run(error=ErrorCode.BAD_OPCODE, index=1)
    await host.reset()
    assert await host.status() == set()
    assert not int(dut.irq.value)

    w = step.convert(tensor(rng, 9, 4), "w", tag=1)
    step.product(Opcode.FORWARD, **sizes, x=x, w=w)
    step.load()
    await host.begin(BASE, len(step.commands))
    await ClockCycles(dut.aclk, random.randrange(50, 300))
    assert "busy" in await host.status()
    await host.reset()
    assert await host.status() == set()
    assert not int(dut.irq.value)
    await step.run()  # the same commands again, on memory as it was
