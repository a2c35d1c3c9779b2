"""Scenes of conversions and products: data of every kind, odd sizes, stalls, slow memories."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

from diastole_sim.host.errors import CommandError
from diastole_sim.spec.nest import KEEP_VALUES, Nest, NestLimits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS
from mutation.watch import LIMIT, Log, Watched, opened
from support import products as p
from support.nests import blocks_of, drawn_nest, widest_planes


def said_once() -> Iterator[dict[str, np.ndarray]]:
    """X, W and dY, for a scene of the check, of which one thing is said that nothing else hides: no
    number is normal; sums overflow in one column alone, an odd one, of Y, of dX or of dW."""
    ones = {"X": np.ones((5, 6)), "W": np.ones((6, 7)), "dY": np.ones((5, 7))}

    def scaled(**exponents: int) -> dict[str, np.ndarray]:
        found = {name: np.ldexp(ones[name], exponents.get(name, 0)) for name in ones}
        return {name: values.astype(np.float32) for name, values in found.items()}

    yield scaled(X=-130, W=-149, dY=-127)
    for large, other, place in (
        ("W", "X", np.s_[:, 1]),  # of Y
        ("W", "dY", np.s_[1]),
        ("dY", "X", np.s_[:, 1]),
    ):
        data = scaled(**{other: 64})
        data[large][place] = 2.0**100
        yield data


def multiply_all(device: Watched, golden, data, step=0, ops=tuple(OPERATIONS)) -> None:
    """Convert, then the products; with a golden model, its judgement."""
    operands = p.convert(device, data, step)
    wanted = p.convert(golden, data, step) if golden else {}
    for name, tensor in operands.items():
        if golden:
            p.check_tensor(tensor, wanted[name], name)
        _note_tensor(device.log, name, tensor)
    for op in ops:
        result = p.multiply(device, op, operands)
        if golden:
            p.check_result(result, p.multiply(golden, op, wanted), op)
        for name, values in result.values.items():
            device.log.note(f"{op}: {name}", values.tobytes())
        device.log.note(f"{op}: flags", (result.exact, result.overflow, result.counters))


def _note_tensor(log: Log, name: str, tensor) -> None:
    log.note(f"{name}: images", [image.data.tobytes() for image in tensor.images])
    seen = (tensor.nan, tensor.inf, tensor.saturated, tensor.underflowed, tensor.amax)
    log.note(f"{name}: flags", seen)


def every_kind(product: Path, log: Log) -> None:
    """Data of every kind, without a stall."""
    rng = np.random.default_rng(0)
    with opened(product, log) as (device, golden):
        kinds = ("wide", "special", "ties", "plain", "long", "huge", "tiny", "quarters")
        for step, kind in enumerate(kinds):
            multiply_all(device, golden, p.tensors(rng, (31, 37, 23), kind), step)
        for sizes in ((9, 80, 11), (80, 9, 11), (11, 9, 80)):
            multiply_all(device, golden, p.tensors(rng, sizes, "stepped"))
        for power in (-117, -126, -133, -142):  # the lowest scales, and beyond
            data = p.tensors(rng, (17, 19, 21), "plain")
            multiply_all(device, golden, {n: np.ldexp(a, power) for n, a in data.items()})


def odd_sizes(product: Path, log: Log) -> None:
    """One element, one row, one column; several tiles and chunks of each axis."""
    rng = np.random.default_rng(1)
    with opened(product, log, seed=0x1234_5678) as (device, golden):
        for sizes in ((1, 1, 1), (1, 40, 3), (3, 2, 1), (33, 1, 9), (8, 16, 8), (65, 129, 9)):
            multiply_all(device, golden, p.tensors(rng, sizes, "plain"), 0xFFFF_FFFF)
        for sizes in ((140, 20, 70), (20, 140, 70), (70, 70, 140)):
            multiply_all(device, golden, p.tensors(rng, sizes, "wide"), 0x8000_0001)


def nests(product: Path, log: Log) -> None:
    """Loops of lengths that the machine takes, with every choice of what stays on chip."""
    rng, lengths = np.random.default_rng(10), Random(10)
    with opened(product, log) as (device, golden):
        for m, k, n in ((45, 37, 50), (20, 70, 90)):
            data = p.tensors(rng, (m, k, n), "wide")
            for op in ("forward", "dx", "dw"):
                limits = device.loops.limits.of(op)
                assert limits is not None
                blocks = blocks_of(op, (m, n, k), device.numerics.block)
                planes = widest_planes(op, device.numerics)
                for keep in KEEP_VALUES:
                    nests = (drawn_nest(limits, blocks, lengths, planes) for _ in range(200))
                    nest = next((each for each in nests if each.keep == keep), None)
                    if nest is not None:  # something of it fits
                        device.loops.nest = nest
                        multiply_all(device, golden, data, ops=(op,))
        # One operand stays; the panels of the other one are too long to stay.
        device.limit = 10 * LIMIT
        limits = device.loops.limits.of("forward")
        for kept, cases in ONE_STAYS.items():
            m, k, n, nest = one_stays(limits, device.numerics, kept, cases, lengths)
            device.loops.nest = nest
            data = p.tensors(rng, (m, k, n), "plain")
            multiply_all(device, golden, data, ops=("forward",))
        device.loops.nest = None


ONE_STAYS = {
    "stationary": [(m, 100, 9) for m in (100, 200, 400, 800)],
    "stream": [(9, 480, n) for n in (40, 80, 160, 320, 640, 1280)],
}
"""By what a nest keeps, sizes M, K and N of products whose other operand is longer and longer."""


def one_stays(limits: NestLimits, numerics: Numerics, kept: str, cases, lengths: Random):
    """The first of the sizes for which a nest is drawn that keeps an operand, while the other one
    would not fit; and the nest. Where there is none the last, and the machine's own nest."""
    side = 1 - ("stream", "stationary").index(kept)
    room = (limits.stream_blocks, limits.stationary_blocks)[side]
    planes = widest_planes("forward", numerics)
    for m, k, n in cases:
        blocks = blocks_of("forward", (m, n, k), numerics.block)
        for _ in range(100):
            nest = drawn_nest(limits, blocks, lengths, planes)
            if nest.keep == kept and limits.panels(nest, blocks, planes)[side] > room:
                return m, k, n, nest
    return *cases[-1], Nest()


def stalls(product: Path, log: Log) -> None:
    """Every handshake delayed, each of the three orders of a write's halves; random power-up."""
    rng = np.random.default_rng(2)
    for seed in (1, 2, 3, 4, 7, 11):
        with opened(product, log, stalls=seed) as (device, golden):
            for sizes in ((31, 32, 17), (20, 50, 30)):
                multiply_all(device, golden, p.tensors(rng, sizes, "wide"))


def slow_memory(product: Path, log: Log) -> None:
    """One burst at a time, answered late: every queue before it fills; and a fast one."""
    rng = np.random.default_rng(3)
    memories = [
        {"write_latency": 150, "outstanding": 1},
        {"read_latency": 700, "outstanding": 64},
        {"read_latency": 1, "write_latency": 1, "outstanding": 64},
        {"read_latency": 90, "outstanding": 1},
        {"write_latency": 1000, "outstanding": 64},
        {"write_pause": 2500, "outstanding": 64},
    ]
    for options in memories:
        with opened(product, log, **options) as (device, golden):
            multiply_all(device, golden, p.tensors(rng, (19, 41, 43), "plain"))


def full_buffers(product: Path, log: Log) -> None:
    """A memory faster than the array, and then slower results than it makes: all waits for room."""
    rng = np.random.default_rng(8)
    fast = {"read_latency": 1, "write_latency": 1, "outstanding": 64}
    for options in (fast, fast | {"write_pause": 4000}):
        with opened(product, log, **options) as (device, golden):
            device.limit = 10 * LIMIT
            data = p.tensors(rng, (130, 136, 141), "plain")
            multiply_all(device, golden, data, ops=("forward", "backward"))


def long_rows(product: Path, log: Log) -> None:
    """Rows beyond the longest burst and beyond 4 KiB; the widest tensor; the longest sum."""
    rng = np.random.default_rng(4)
    with opened(product, log) as (device, golden):
        multiply_all(device, golden, p.tensors(rng, (3, 9, 1203), "plain"), ops=("forward", "dw"))
        multiply_all(device, golden, p.tensors(rng, (3, 1203, 5), "plain"), ops=("dx", "backward"))
        rows = min(600, device.numerics.max_contraction)
        multiply_all(device, golden, p.tensors(rng, (rows, 3, 2), "plain"))
        most = device.product.parameters["max_convert_cols"]
        device.limit = 10 * LIMIT
        for cols in (most, most + 1):
            array = p.plain(rng, (1, cols))
            try:
                _note_tensor(log, "widest", device.convert(array, "x", tag=0xFFFF_FFFE))
            except CommandError:
                log.note("widest", "refused")


def all_but_one(product: Path, log: Log) -> None:
    """X, W and dY whose products are exact and finite, but for one element of one of them.

    Every group has a 1 and a 1/16. The one is so small that its product with a 1/16 leaves a
    window, or it is no number: what is said of one element, lane or vector is not hidden by what
    is said of another, as it is in random data.
    """
    lengths = {"M": 5, "K": 6, "N": 7}
    shapes = {name: [lengths[side] for side in sides] for name, sides in p.SHAPES.items()}
    with opened(product, log) as (device, golden):
        for data in said_once():
            multiply_all(device, golden, data)
        for odd in shapes:
            for value in (2.0**-8, p.NAN):
                for place in np.ndindex(2, 4):
                    data = {name: _chessboard(shape) for name, shape in shapes.items()}
                    data[odd][place] = value
                    multiply_all(device, golden, data)


def one_result(product: Path, log: Log) -> None:
    """Products of one element each, whose sums have more bits than a float and overflow: what is
    said of one is not hidden by what is said of another; nor are the last ones by answers that
    come late."""
    rng = np.random.default_rng(9)
    with opened(product, log, read_latency=1, write_latency=1) as (device, golden):
        for step in range(6):
            # In the second the last results of the fused pass are those of a whole tile that turns.
            for sizes in ((1, 33, 1), (1, 32, 1), (33, 1, 1), (1, 1, 33)):
                data = p.tensors(rng, sizes, "wide")
                huge = {name: np.ldexp(array, 60) for name, array in data.items()}
                multiply_all(device, golden, huge, step)


def given_scales(product: Path, log: Log) -> None:
    """Of tensors that have one scale, by the host; then measured again."""
    rng = np.random.default_rng(10)
    for options in ({}, {"given": True}, {"given": True, "stalls": 6}):
        with opened(product, log, **options) as (device, golden):
            for shape in ((33, 70), (5, 9), (1, 1)):
                for name, cls in p.CLASSES.items():
                    array = p.wide(rng, shape)
                    scales = (
                        (-7, None, 4) if device.numerics.tensor_class(cls).has_tensor_scale else ()
                    )
                    for scale in scales if "given" in options else (None,):
                        tensor = device.convert(array, cls, tag=3, scale=scale)
                        _note_tensor(log, name, tensor)
                        if golden:
                            wanted = golden.convert(array, cls, tag=3, scale=scale)
                            p.check_tensor(tensor, wanted, name)


def _chessboard(shape):
    rows, cols = np.indices(shape)
    return np.where((rows + cols) % 2, 1 / 16, 1).astype(np.float32)
