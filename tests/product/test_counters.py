"""The model of the machine against the Verilog's counters: bytes exactly, cycles nearly, for
shapes, formats, nests and memories of all kinds."""

import math
import random
import zlib

import pytest

from diastole.backend import cached_product
from diastole.devices import Device
from diastole.files.layers import NamedLayer
from diastole.layers.layer_costs import layer_costs
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.conversion_estimate import estimate_conversion
from diastole_sim.perf.product_estimate import gradients_apart
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.operations import OPERATIONS
from support import products as p
from support.nests import drawn_nest
from support.sweep import sweep

MACHINES = [
    *("pico", "nano", "nvfp4", "fast"),
    *(sweep(name) for name in ("ports", "esru_2x2", "mixed", "fp8_e5m2", "mxfp8_e4m3")),
    *(sweep(name) for name in p.PLANE_MACHINES if name != "fast"),
    sweep("mxfp4_e2m1"),
    sweep("four_over_six"),  # two passes over every tile
    sweep("ports_mxfp8"),  # what is of two ports, and what is of a format, is seen one by one
    sweep("ports_nvfp4"),
]
CASES = 4
LATENCIES = 20, 100
SHARE = 0.02
"""Of the cycles, by which the model may be wrong."""
ROWS_OF_TILES = 19, 57, 61
"""M, K and N of tensors of which a row of blocks lies in several tiles, and each of its rows begins
between two hashes."""
LONG_MACHINES = ("pico", "nano", "mxfp8_e4m3", "fp8_e5m2", "nvfp4", "fast")
LONGEST, MAX_CYCLES, MOST_ELEMENTS = 5000, 300_000, 1 << 20
"""Of a side, of the multiplications for each multiplier, and of a tensor."""
OF_FAR_READS, OF_SMALL_BLOCKS, OF_COPIES, AT_ENDS = 0.02, 0.1, 0.02, 4
"""And of a conversion from a far memory, which has only so many requests open, of one in blocks of
less than 4, and of one into two copies in blocks of 4; and cycles besides, as one may have hundreds
only."""


@pytest.fixture(params=LATENCIES, ids="latency {}".format)
def latency(request):
    return request.param


def model_of(config, latency):
    sizes = {"rows": config.array.rows, "cols": config.array.cols} | config.bus.model_dump()
    sizes["has_vector"] = config.vector.enable
    return ModelledMachine.of(config.numerics, memory=Memory.axi(latency), **sizes)


def drawn(device, model, op, sizes, rng):
    """Any nest that the machine takes, or the host's choice."""
    limits = device.loops.limits.of(op)
    if limits is None or rng.random() < 0.3:
        return None
    loops = loops_of(model, op, **sizes)
    return drawn_nest(limits, loops.blocks, rng, loops.planes)


def converted(device, tensors, rng):
    """Of any width, where there is a choice."""
    found = {}
    for name, array in tensors.items():
        cls, numerics = p.CLASSES[name], device.numerics
        width = rng.choice(numerics.widths) if numerics.tensor_class(cls).format.planes else None
        found[name] = device.convert(array, cls, tag=p.TAGS[name], width=width)
    return found


def check_conversions(config, operands, latency):
    bus = {"data_width": config.bus.data_width, "memory": Memory.axi(latency)}
    for tensor in operands.values():
        guess = estimate_conversion(
            config.numerics, tensor.tensor_class, *tensor.shape, **bus, width=tensor.width
        )
        cycles = tensor.convert_cycles
        where = f"{tensor.tensor_class} of {tensor.shape}, {tensor.width} bits"
        share = SHARE + OF_FAR_READS * (latency != min(LATENCIES))
        share += OF_SMALL_BLOCKS * (config.numerics.block < 4)
        share += OF_COPIES * (config.numerics.block == 4 and tensor.storage.two_copies)
        error = share * cycles + AT_ENDS
        assert abs(guess.cycles - cycles) <= error, f"{where}: {guess.cycles} for {cycles}"
        assert guess.write_bytes == sum(len(image.data) for image in tensor.images), where


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.sampled(4)
def test_the_model_is_the_hardware(name, latency, np_rng, request):
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    config = p.MACHINES[name]
    model = model_of(config, latency)
    memory = {"read_latency": latency, "write_latency": latency, "memory_bytes": 1 << 24}
    with Device(cached_product(config), **memory) as device:
        wide = p.tensors(np_rng, ROWS_OF_TILES, "plain")
        check_conversions(config, converted(device, wide, rng), latency)
        for number in range(CASES):
            op = rng.choice([op for op in OPERATIONS if number or op != "backward"])
            m, k, n = (rng.randrange(1, 70) for _ in range(3))
            operands = converted(device, p.tensors(np_rng, (m, k, n), "plain"), rng)
            check_conversions(config, operands, latency)
            widths = tuple(operands[name].width for name in p.CLASSES)
            sizes = {"m": m, "n": n, "k": k, "widths": widths}
            device.loops.nest = drawn(device, model, op, sizes, rng)
            nest = device.loops.of(op, **sizes)
            counted = p.multiply(device, op, operands).counters
            device.loops.nest = None
            guess = estimate(model, op, m, n, k, nest, widths)
            names = device.loops.products(op, m=m, n=n, widths=widths)
            if len(names) > 1:
                parts = [
                    estimate(model, part, m, n, k, device.loops.of(part, **sizes), widths)
                    for part in names
                ]
                guess = gradients_apart(parts)
            where = f"{op} of {m} x {k} x {n}, {widths}, {nest}: "
            where += f"{guess.cycles} for {counted.cycles}"
            assert guess.read_bytes == counted.read_bytes, where
            assert guess.write_bytes == counted.write_bytes, where
            error = SHARE * counted.cycles
            if len(names) > 1:  # in flight, which the model adds up
                longest = max(part.cycles for part in parts)
                assert longest - error <= counted.cycles <= guess.cycles + error, where
            else:
                assert abs(guess.cycles - counted.cycles) <= error, where


NESTS = [
    # A row of results waits in its middle for sums that are added in its memory,
    ("pico", "dx", (75, 76, 24), 100, Nest(t_blocks=8, groups=6, chunk=6, outer="l", keep="both")),
    # and is read between the passes of blocks that take longer to be loaded than to be used.
    ("nano", "dw", (48, 22, 71), 20, Nest(t_blocks=2, groups=3, chunk=8, keep="stationary")),
    # Chunks are small, and the memory is far: only six are asked for ahead.
    sweep("fp8_e5m2", "dw", (66, 85, 24), 200, Nest(t_blocks=1, groups=2, keep="both")),
]
"""Machine, operation, M, K and N, latency and nest."""


@pytest.mark.parametrize("name, op, shape, latency, nest", NESTS)
def test_nests_far_from_memory(name, op, shape, latency, nest, np_rng):
    config = p.MACHINES[name]
    m, k, n = shape
    memory = {"read_latency": latency, "write_latency": latency, "memory_bytes": 1 << 24}
    with Device(cached_product(config), **memory) as device:
        operands = converted(device, p.tensors(np_rng, shape, "plain"), random.Random(0))
        device.loops.nest = nest
        counted = p.multiply(device, op, operands).counters.cycles
    guess = estimate(model_of(config, latency), op, m, n, k, nest).cycles
    assert abs(guess - counted) <= 0.005 * counted, (guess, counted)


def shapes(rng, multipliers):
    """M, K and N of any length, that a simulation has the time for."""
    while True:
        m, k, n = (round(2 ** rng.uniform(0, math.log2(LONGEST))) for _ in range(3))
        few = m * k * n <= MAX_CYCLES * multipliers
        if few and max(m * k, k * n, m * n) <= MOST_ELEMENTS and max(m, k, n) > 300:
            return m, k, n


@pytest.mark.sweep
@pytest.mark.parametrize("name", LONG_MACHINES)
def test_estimates_of_long_products(name, np_rng, request):
    """What `estimate` says of layers, against the counters: in the loops that it names."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    config = p.MACHINES[name]
    with Device(cached_product(config), memory_bytes=1 << 26) as device:
        for _ in range(2 * CASES):
            m, k, n = shapes(rng, config.macs)
            operands = converted(device, p.tensors(np_rng, (m, k, n), "plain"), rng)
            widths = tuple(operands[name].width for name in p.CLASSES)
            layer = NamedLayer(name="layer", m=m, k=k, n=n)
            phase = rng.choice(("forward", "backward"))
            for cost in layer_costs(config, [layer], (phase,), min(LATENCIES), widths=widths):
                device.loops.nest = cost.nest
                counted = p.multiply(device, cost.phase, operands).counters
                device.loops.nest = None
                where = f"{cost.phase} of {m} x {k} x {n}, {widths}, {cost.nest}: "
                where += f"{cost.cycles} for {counted.cycles}"
                assert abs(cost.cycles - counted.cycles) <= SHARE * counted.cycles, where
                assert cost.utilisation <= 1, where
                assert cost.estimate.read_bytes == counted.read_bytes, where
                assert cost.estimate.write_bytes == counted.write_bytes, where
