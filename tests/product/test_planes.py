"""Products of tensors in planes, in Verilator: any widths of any operands, bit for bit.

Images are judged by what the format says, in fractions; products by the golden model, and the
small ones by the sum over pairs of planes of :mod:`oracle.product`.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from diastole_sim.host.errors import CommandError
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.nest import KEEP_VALUES, Nest
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.train import run_task
from diastole_sim.train.precision import Precision
from oracle.product import binary32, plane_product, read
from support import products as p
from support.host_perceptron import digits_by_host
from support.nests import blocks_of, drawn_nest
from support.planes import planar_tensor
from support.scenario import Scenario
from support.sweep import sweep

SAME = ["fast", "fast_2x2", "fast_4x2", "fast_ports"]
OTHERS = ["fast_2x2", "fast_4x2", "fast_ports", "fast_1x8", "fast_6_8", "fast_w"]
NAMES = ["fast", *map(sweep, OTHERS)]
STALLS = 5
STEPS = 4


def widths_of(device, name):
    """Those that a tensor may have; None where its class has one."""
    chosen = device.numerics.tensor_class(p.CLASSES[name]).format
    return device.numerics.widths if chosen.planes else (None,)


def convert(device, data, widths, step=0):
    return {
        name: device.convert(data[name], p.CLASSES[name], tag=p.TAGS[name], step=step, width=width)
        for name, width in widths.items()
    }


def every_width(device):
    """Of X, W and dY: all combinations."""
    names = list(p.CLASSES)
    for found in product(*(widths_of(device, name) for name in names)):
        yield dict(zip(names, found, strict=True))


def check_images(device, data, operands, step):
    """Every byte of every plane, and what the monitor and the other counters say."""
    for name, tensor in operands.items():
        planes = tensor.images[0].planes
        want = planar_tensor(
            data[name], p.CLASSES[name], device.numerics, planes, device.product.data_width,
            seed=device.seed, tag=p.TAGS[name], step=step,
        )  # fmt: skip
        found = tuple(image.data.tobytes() for image in tensor.images)
        assert found == want.images, f"{name}, {planes} planes"
        got = (tensor.nan, tensor.inf, tensor.saturated, tensor.underflowed)
        assert got == (want.nan, want.inf, want.saturated, want.underflowed), name
        if device.numerics.tensor_class(p.CLASSES[name]).format.planes:
            num, den = want.monitor
            assert (tensor.improvement.num, tensor.improvement.den) == (num, 4 * den), name


def check_oracle(device, operands, results):
    """Sums over all pairs of planes, each rounded alone."""
    numerics = device.numerics
    stored = {name: tensor.read() for name, tensor in operands.items()}
    found = {}
    for name, factors in p.READ.items():
        sides = [read(stored[operand], axis) for operand, axis in factors]
        counts = [operands[operand].images[0].planes for operand, _ in factors]
        sizes = {"block": numerics.block, "fraction": numerics.fraction}
        found[name] = plane_product(*sides, counts, **sizes)
    for op, result in results.items():
        assert result.exact == all(found[name][1] for name in result.values), op
        for name, values in result.values.items():
            rows, cols = values.shape
            want = [[binary32(Fraction(v))[0] for v in row[:cols]] for row in found[name][0][:rows]]
            p.same_bits(values, np.array(want, np.float32), f"{op} {name}")


def check_products(device, golden, operands, wanted, what):
    results = {op: p.multiply(device, op, operands) for op in OPERATIONS}
    for op, result in results.items():
        p.check_result(result, p.multiply(golden, op, wanted), f"{op} {what}")
    return results


@pytest.mark.parametrize(
    "sizes, kind, stalls",
    [((1, 1, 1), "ties", None), ((5, 7, 6), "wide", STALLS), ((13, 9, 34), "special", None)],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_all_products_in_all_widths(name, sizes, kind, stalls, devices, goldens, np_rng):
    device, golden = devices(name, stalls), goldens(name)
    data = p.tensors(np_rng, sizes, kind)
    for step, widths in enumerate(every_width(device)):
        operands = convert(device, data, widths, step)
        check_images(device, data, operands, step)
        wanted = convert(golden, data, widths, step)
        results = check_products(device, golden, operands, wanted, widths)
        if np.prod(sizes) < 300:
            check_oracle(device, operands, results)


@pytest.mark.parametrize("sizes", [(65, 33, 40), (37, 140, 21)], ids=str)
@pytest.mark.parametrize("stalls", [None, STALLS])
@pytest.mark.parametrize("name", NAMES)
def test_several_tiles_and_chunks(name, stalls, sizes, devices, goldens, np_rng, rng):
    """Products behind each other in other widths, so that rings are anywhere."""
    device, golden = devices(name, stalls), goldens(name)
    data = p.tensors(np_rng, sizes, "plain")
    for widths in rng.sample(list(every_width(device)), 2):
        operands, wanted = (convert(each, data, widths) for each in (device, golden))
        check_products(device, golden, operands, wanted, widths)


@pytest.mark.parametrize("stalls", [None, STALLS])
@pytest.mark.parametrize("name", NAMES)
def test_nests_of_planes(name, stalls, devices, goldens, np_rng, rng):
    """Any loops, whatever stays: the same bits."""
    device, golden = devices(name, stalls), goldens(name)
    m, k, n = sizes = (25, 30, 41)
    data, tried = p.tensors(np_rng, sizes, "wide"), set()
    for widths in rng.sample(list(every_width(device)), 2):
        operands, wanted = (convert(each, data, widths) for each in (device, golden))
        for op in ("forward", "dx", "dw"):
            want = p.multiply(golden, op, wanted)
            limits, blocks = device.loops.limits.of(op), blocks_of(op, (m, n, k), 4)
            (made,) = OPERATIONS[op].products
            planes = tuple(
                (widths[{"x": "X", "w": "W", "dy": "dY"}[each.tensor_class]] or 2) // 2
                for each in made.factors
            )
            for keep in KEEP_VALUES:
                nest = Nest(**vars(drawn_nest(limits, blocks, rng)) | {"keep": keep})
                if limits.problem(nest, blocks, planes) is not None:
                    continue
                tried.add(keep)
                device.loops.nest = nest
                try:
                    p.check_result(p.multiply(device, op, operands), want, f"{op} {nest} {widths}")
                finally:
                    device.loops.nest = None
    assert tried >= {"none", "stream", "stationary"}


WIDTHS = {
    "a product": (lambda s: s.changed("forward", width_x=2), 2),
    "the other operand": (lambda s: s.changed("backward", width_dy=3), 2),
    "a conversion": (lambda s: s.changed("convert", width=2), 2),
}


@pytest.mark.parametrize("stalls", [None, STALLS])
@pytest.mark.parametrize("case", WIDTHS)
def test_width_that_the_machine_has_not(case, stalls, devices, goldens, np_rng):
    """Error WIDTH with the command's index; nothing of it is written, and all works afterwards."""
    scenario = Scenario(devices("fast", stalls), goldens("fast"), np_rng)
    make, index = WIDTHS[case]
    good = scenario.commands
    try:
        with pytest.raises(CommandError) as caught:
            scenario.run([good["convert"], good["dw"], make(scenario), good["dx"]])
        assert (caught.value.code, caught.value.index) == (ErrorCode.WIDTH, index)
        scenario.assert_right("convert", "dw")
        scenario.assert_untouched("dx", "forward", "backward")
        scenario.assert_works()
    finally:
        scenario.close()


@pytest.fixture(scope="module")
def trained(goldens):
    return train(goldens("fast"))


def train(device):
    precision = Precision(kind="fast", classes=("x", "w", "dy"))
    result = run_task(
        digits_by_host(), device, backend="any", steps=STEPS, seed=0, precision=precision
    )
    return result.weights_sha256, result.loss, result.accuracy, result.saturated


@pytest.mark.parametrize(
    "name, stalls",
    [("fast", None), sweep("fast", 3)]
    + [sweep(name, stalls) for name in SAME[1:] for stalls in (None, 3)],
)
def test_one_hash(name, stalls, devices, trained):
    """Widths chosen by what the monitor counts: 1 x 1, 2 x 2 and 4 x 2 cells, buses of 64, 128 and
    twice 64 bits end in the same weights."""
    assert p.MACHINES[name].numerics == p.MACHINES["fast"].numerics
    assert train(devices(name, stalls)) == trained
