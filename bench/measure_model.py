"""Measure the model of the machine: distance from the counters of the Verilog, figures, time."""

import random
import time
from functools import cache, partial
from itertools import product
from math import log2

import numpy as np

from bench.figure import figure, shown
from bench.products import multiply
from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.layers.layer_costs import layer_costs
from diastole.layers.networks import LISTS, layers_of
from diastole.layers.sweep import configurations, on_all_cores, swept
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.conversion_estimate import estimate_conversion
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.operations import OPERANDS, OPERATIONS
from support.presets import in_format

FORMATS = ("bfp4", "bfp8", "fp8_e4m3", "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4", "fast")
MACHINES = tuple(product(("nano", "edge"), FORMATS))
SHAPES, LARGEST = 20, 320


def modelled(config):
    return ModelledMachine.of(config.numerics, **config.modelled_sizes)


def off(guesses, counts):
    """Return errors of cycles and of bytes, as shares of what was counted."""
    return [abs(guess / count - 1) for guess, count in zip(guesses, counts, strict=True)]


@cache
def errors(preset, name):
    """Return errors of products and of conversions of 20 shapes, the same in every run, in random
    widths where a format has several."""
    config = in_format(preset, name)
    model, rng, values = modelled(config), random.Random(0), np.random.default_rng(0)
    offsets = {"products": [], "conversions": []}
    with Device(cached_product(config), memory_bytes=1 << 26) as device:
        for _ in range(SHAPES):
            lengths = {axis: round(2 ** rng.uniform(0, log2(LARGEST))) for axis in "mkn"}
            converted = {}
            for tensor in OPERANDS:
                shape = lengths[tensor.rows], lengths[tensor.columns]
                array = values.standard_normal(shape).astype(np.float32)
                planes = config.numerics.tensor_class(tensor.tensor_class).format.planes
                width = rng.choice(config.numerics.widths) if planes else None
                converted[tensor.name] = each = device.convert(
                    array, tensor.tensor_class, tag=tensor.number, width=width
                )
                offsets["conversions"].append(conversion_error(config, each))
            m, n, k = lengths["m"], lengths["n"], lengths["k"]
            widths = tuple(converted[name].width for name in ("X", "W", "dY"))
            for op in OPERATIONS:
                if op == "backward" and not model.fuses(m, n, widths):
                    continue  # the command is dX and dW, which are here
                nest = device.loops.of(op, m=m, n=n, k=k, widths=widths)
                counted = multiply(device, op, converted).counters
                guess = estimate(model, op, m, n, k, nest, widths)
                pair = ((e.cycles, e.read_bytes + e.write_bytes) for e in (guess, counted))
                offsets["products"].append(off(*pair))
    return offsets


def conversion_error(config, tensor):
    """Machines count no bytes of conversions: their images are what is written."""
    guess = estimate_conversion(
        config.numerics,
        tensor.tensor_class,
        *tensor.shape,
        data_width=config.bus.data_width,
        memory=Memory.axi(LATENCY),
        width=tensor.width,
    )
    written = sum(end - begin for begin, end in (image.range for image in tensor.images))
    return off((guess.cycles, guess.write_bytes), (tensor.convert_cycles, written))


@figure(
    "model of {preset} in {name}: cycles off, mean of 20 shapes",
    at_most=dict.fromkeys(MACHINES, 0.02),
)
def cycles_off(preset, name):
    for what, pairs in errors(preset, name).items():
        yield what, float(np.mean([cycles for cycles, _ in pairs]))


@figure("model of {preset} in {name}: cycles off, worst", at_most=shown(*MACHINES))
def cycles_worst(preset, name):
    for what, pairs in errors(preset, name).items():
        yield what, max(cycles for cycles, _ in pairs)


@figure("model of {preset} in {name}: bytes off, worst", at_most=dict.fromkeys(MACHINES, 0.005))
def bytes_off(preset, name):
    for what, pairs in errors(preset, name).items():
        yield what, max(size for _, size in pairs)


CUBES = shown(
    *(("nano", side) for side in (64, 128, 512)),
    *(("edge", side) for side in (512, 768)),
    *(("server", side) for side in (512, 1024, 2048)),
)


def estimates(preset, side):
    """Yield estimates of every product in the machine's own tiles, and in the nest that a host
    chooses."""
    config = PRODUCTS_ONLY[preset]
    machine = modelled(config)
    for op in OPERATIONS:
        yield f"{op}, own tiles", estimate(machine, op, side, side, side)
        limits = config.plan.nests.of(op)
        if limits is not None:
            nest = choose_nest(machine, limits, op, side, side, side)
            yield f"{op}, chosen nest", estimate(machine, op, side, side, side, nest)


@figure("modelled use of {preset}, {side} cubed", at_least=CUBES, form="{:.1%}")
def modelled_use(preset, side):
    for name, estimated in estimates(preset, side):
        yield name, estimated.utilisation


@figure("modelled traffic of {preset}, {side} cubed", at_least=CUBES, form="{:.3f} MB read")
def modelled_traffic(preset, side):
    for name, estimated in estimates(preset, side):
        yield name, estimated.read_bytes / 1e6


@figure("modelled reads of {preset} over stored bytes, {side} cubed", at_most=CUBES, form="{:.3f}")
def modelled_reads(preset, side):
    machine = modelled(PRODUCTS_ONLY[preset])
    images = {tensor.name: number for number, tensor in enumerate(OPERANDS)}
    for name, estimated in estimates(preset, side):
        read = OPERATIONS[name.partition(",")[0]].operand_names
        stored = sum(machine.stored_beats(images[each], side, side) for each in read)
        yield name, estimated.read_bytes / machine.beat_bytes / stored


@cache
def choices(count=200):
    """Return by how much chosen loops of layers of any shape on nano take longer than the best of
    all, by the model, and milliseconds of each choice."""
    config, rng = PRODUCTS_ONLY["nano"], random.Random(0)
    machine, losses, milliseconds = modelled(config), [], []
    for _ in range(count):
        op = rng.choice(("forward", "dx", "dw"))
        sizes = [int(2 ** rng.uniform(2.0, 6.5)) for _ in range(3)]
        limits = config.plan.nests.of(op)
        began = time.perf_counter()
        chosen = choose_nest(machine, limits, op, *sizes)
        milliseconds.append(1000 * (time.perf_counter() - began))
        best = min(
            estimate(machine, op, *sizes, nest).cycles
            for nest in all_nests(limits, loops_of(machine, op, *sizes).blocks)
        )
        losses.append(estimate(machine, op, *sizes, chosen).cycles / best - 1)
    return losses, milliseconds


def all_nests(limits, blocks):
    """Yield every nest that the machine takes for a product of so many blocks."""
    lengths = product(limits.t_blocks, limits.groups, limits.chunk, OUTER, KEEP_VALUES)
    for t_blocks, groups, chunk, outer, keep in lengths:
        nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
        if limits.problem(nest, blocks) is None:
            yield nest


@figure("chosen loops on nano over the best of all, mean of 200 layers", at_most=0.01)
def chosen_loops():
    return float(np.mean(choices()[0]))


@figure("chosen loops on nano over the best of all, worst of 200 layers")
def chosen_worst():
    return max(choices()[0])


@figure("time to choose loops on nano, mean of 200 layers", at_most=50, form="{:.0f} ms")
def choice_time():
    return float(np.mean(choices()[1]))


PHASES = {"nano": ("forward", "backward"), "server": ("forward", "dx", "dw")}


@figure(
    "estimate of {name} on {preset}, all cores",
    at_most={("resnet-50", "nano"): 3, ("bert-base", "nano"): 2, ("llama-7b", "server"): 5},
    form="{:.1f} s",
)
def estimating_layers(name, preset):
    began = time.perf_counter()
    with on_all_cores() as mapped:
        config = PRODUCTS_ONLY[preset]
        layer_costs(config, layers_of(name, 1), PHASES[preset], LATENCY, mapped)
    return time.perf_counter() - began


@figure("estimate of 50 layers of known networks on 100 machines", at_most=180, form="{:.0f} s")
def estimating_machines():
    over = (
        "array.rows=1,2,4,8,16",
        "array.cols=1,2,4,8",
        "bus.data_width=32,64,128,256,512",
    )
    nano = PRODUCTS_ONLY["nano"].model_dump(exclude_none=True)
    distinct = {(each.m, each.k, each.n): each for name in LISTS for each in layers_of(name, 1)}
    layers = random.Random(0).sample(list(distinct.values()), 50)
    machines = configurations(over, partial(from_document, nano))
    began = time.perf_counter()
    assert len(list(swept(machines, layers, PHASES["nano"], LATENCY))) == 100
    return time.perf_counter() - began
