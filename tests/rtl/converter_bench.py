"""The converter against the golden model: whole images in memory, bit for bit."""

import random

import cocotb
import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from rtl.ports import Ports, sometimes
from rtl.service_memory import ServiceMemory
from rtl.tensors import special_tensor
from rtl.units import make_converter

SHAPES = [(1, 1), (3, 5), (6, 16), (7, 33), (2, 18), (5, 3)]
PORTS = ("read__requests", "read__beats", "write__requests", "write__beats")


async def convert(unit, ports, memory, values, cls, seed):
    """One command; everything that it leaves in memory and at the ports is as it should be."""
    rows, cols = values.shape
    what = f"{rows} x {cols}, class {cls}"
    command = {"tag": random.getrandbits(32), "step": random.getrandbits(32)}
    asked = Conversion(CLASS_NAMES[cls], **command)
    golden = quantise(values, asked, unit.sizes.numerics, seed=seed)
    layouts = image_layouts(
        golden.storage,
        values.shape,
        block=unit.sizes.numerics.block,
        data_width=unit.sizes.data_width,
    )
    images = [
        layout.pack(copy).tobytes() for layout, copy in zip(layouts, golden.copies, strict=True)
    ]
    floats = FloatLayout(rows=rows, cols=cols, data_width=unit.sizes.data_width).pack(values)
    floats.reshape(rows, -1)[:, 4 * cols :] = 0x7F  # what lies beside a row is ignored
    source = memory.beat * random.randrange(1, 8)
    memory.bytes[:] = random.randbytes(len(memory.bytes))
    memory.bytes[source : source + len(floats)] = floats.tobytes()
    want = bytearray(memory.bytes)
    end, addresses = source + len(floats), []
    for image in images:
        addresses.append(end + memory.beat * random.randrange(8))
        end = addresses[-1] + len(image)
        want[addresses[-1] : end] = image
    command |= {"cls": cls, "rows": rows, "cols": cols, "source": source, "scale": 0}
    command |= {"destination": addresses[0], "destination_t": addresses[-1]}
    await ports.put("control__command", command)
    counted, done = [0, 0], 0
    while not done:
        done, *now = await ports.sample("control__done", "saturated", "underflowed")
        counted = [total + more for total, more in zip(counted, now, strict=True)]
    reported = ("nan", "inf", "amax")
    flags = await ports.sample(*(f"control__{name}" for name in reported), "busy")
    wrong = [n - addresses[0] for n in range(len(want)) if want[n] != memory.bytes[n]]
    assert not wrong, f"{what}: bytes {wrong[:8]} of {[len(image) for image in images]}"
    assert flags == [golden.nan, golden.inf, golden.amax, 0], what
    assert counted == [golden.saturated, golden.underflowed], what


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(p_move=[1.0, 0.4])
async def matches_model(dut, p_move):
    unit = make_converter()
    ports = Ports(dut, unit)
    memory = ServiceMemory(ports, PORTS, size=1 << 13, beat=unit.sizes.data_width // 8)
    memory.willing = sometimes(p_move)
    await ports.start()
    memory.start()
    seed = random.getrandbits(32)
    ports.set("seed", seed)
    rng = np.random.default_rng(random.getrandbits(32))
    for cls in range(3):
        for shape in SHAPES:
            await convert(unit, ports, memory, special_tensor(rng, *shape), cls, seed)
