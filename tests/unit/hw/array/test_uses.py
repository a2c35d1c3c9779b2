# amaranth: UnusedElaboratable=no
"""The four uses of the array, two at a time, on whole matrices: equal to the golden model.

Pass 1 holds W and mixes the slots of Y = X W and dX = dY W^T; pass 2 holds dY and does dW = X^T dY
and dX again, the fused backward pass. M, K and N are what one pass covers, less a padded edge.
"""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from diastole.array.array import Array
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.golden.product import forward, input_gradient, weight_gradient
from diastole_sim.numerics import Numerics
from oracle.cell import Block, Vector
from oracle.product import binary32
from support.bench import run

BIAS = 127


def numerics(block, names, fraction):
    classes = dict(zip(("x", "w", "dy"), names, strict=True))
    return Numerics.from_dict(
        {name: {"format": kind, "rounding": "nearest"} for name, kind in classes.items()}
        | {"block": block, "random_bits": 8, "fraction": fraction, "headroom": 8}
    )


class Tensor:
    """A quantised tensor, by vectors and blocks, with the deficits that a use asks for."""

    def __init__(self, quantised, most):
        self.q, self.block, self.most = quantised, quantised.block, most
        self.signs, self.magnitudes, self.exponents, self.row_max, self.col_max = (
            getattr(quantised, name).astype(int).tolist()  # Python's integers: exact, and faster
            for name in ("negative", "magnitudes", "exponents", "row_max", "col_max")
        )

    @property
    def bits(self):
        return self.q.format.mantissa_bits

    def maximum(self, by_row, place):
        return (self.row_max if by_row else self.col_max)[place]

    def _deficit(self, by_row, i, j):
        maximum = self.maximum(by_row, i if by_row else j)
        return min(maximum - self.exponents[i][j], self.most)

    def _element(self, row, column):
        return self.signs[row][column], self.magnitudes[row][column]

    def vector(self, by_row, line, place):
        """Line ``line`` (a row, or a column) of the block at ``place`` along it."""
        span = range(place * self.block, (place + 1) * self.block)
        across = line // self.block
        i, j = (across, place) if by_row else (place, across)
        elements = [self._element(*((line, k) if by_row else (k, line))) for k in span]
        nonzero = int(self.exponents[i][j] != 0)
        return Vector(elements, self._deficit(by_row, i, j), nonzero)

    def held(self, i, j):
        """Block (i, j), summed down its rows to the east, along them to the north."""
        rows = [
            [self._element(i * self.block + a, j * self.block + b) for b in range(self.block)]
            for a in range(self.block)
        ]
        nonzero = int(self.exponents[i][j] != 0)
        return Block(rows, self._deficit(False, i, j), self._deficit(True, i, j), nonzero)


def stream(dut, passes, rng):
    """Run ``passes`` of (held tensor, {"east": (tensor, by_row), "north": (tensor, by_row)}).

    Held block (c, r) is in cell (r, c). Every line of both tensors is streamed once, in an order
    that mixes both directions, with empty slots between. Returns {(pass, direction, line, port):
    B sums} and whether any was inexact, by (pass, direction).
    """
    lead = dut.rows * dut.block
    events, words, swaps, start = {}, {}, [], lead + 1
    for number, (held, uses) in enumerate(passes):
        first = swaps[-1] if swaps else 0
        for n in range(lead):
            words[first + n] = (held, n // dut.block, n % dut.block)
        swaps.append(start - 1)
        lines = [(kind, line) for kind in uses for line in range(dut.cols * dut.block)]
        lines += [None] * max(3, lead - len(lines))
        rng.shuffle(lines)
        for offset, line in enumerate(lines):
            if line:
                events[start + offset] = (number, *line)
        start += len(lines)

    def drive(ctx, cycle):
        for c in range(dut.cols):
            held, row, index = words.get(cycle - c, (None, 0, 0))
            word = held.held(c, row).const(dut.held_bits, row, index) if held else {}
            ctx.set(dut.load[c], word)
            set_vector(ctx, dut.south[c], dut.south_bits, cycle - c, "east", c)
        for r in range(dut.rows):
            kind = events.get(cycle - r, (0, "east"))[1]
            swap = int(cycle - r in swaps)
            ctx.set(dut.control[r], {"direction": int(kind == "north"), "swap": swap})
            set_vector(ctx, dut.west[r], dut.west_bits, cycle - r, "north", r)

    def set_vector(ctx, port, bits, slot, direction, place):
        number, kind, line = events.get(slot, (0, None, 0))
        if kind == direction:
            tensor, by_row = passes[number][1][kind]
            ctx.set(port, tensor.vector(by_row, line, place).const(bits))
        else:
            ctx.set(port.nonzero, 0)

    sums, inexact = {}, set()

    async def bench(ctx):
        for cycle in range(start + 2 * (dut.rows + dut.cols) + 4):
            drive(ctx, cycle)
            for kind, ports in (("east", dut.east), ("north", dut.north)):
                latency = getattr(dut, f"{kind}_latency")
                for port, output in enumerate(ports):
                    number, found, line = events.get(cycle - latency - port, (0, None, 0))
                    if found == kind:
                        got = ctx.get(output)
                        sums[number, kind, line, port] = [got.sums[k] for k in range(dut.block)]
                        if got.inexact:
                            inexact.add((number, kind))
            await ctx.tick()

    run(dut, bench)
    return sums, inexact


def matrix(sums, use, transposed, shape, bound, fraction, points):
    """The float32 result of one use: lines are rows of it, or its columns if ``transposed``."""
    result = np.zeros(shape, dtype=np.float32)
    for (number, kind, line, port), lanes in sums.items():
        if (number, kind) != use:
            continue
        scale = bound(line, port) - 2 * BIAS - fraction - points
        for k, lane in enumerate(lanes):
            place = (port * len(lanes) + k, line) if transposed else (line, port * len(lanes) + k)
            if place[0] < shape[0] and place[1] < shape[1]:
                result[place] = binary32(Fraction(lane) * Fraction(2) ** scale)[0]
    return result


def data(np_rng, rows, columns, block, spread):
    """Normal data whose blocks differ by powers of two; one block of zeros if there are many."""
    values = np_rng.standard_normal((rows, columns))
    blocks = -(-rows // block), -(-columns // block)
    scale = np.kron(np_rng.integers(-spread, spread + 1, blocks), np.ones((block, block)))
    values *= 2.0 ** scale[:rows, :columns]
    if blocks[0] * blocks[1] > 2:
        values[:block, :block] = 0
    return values.astype(np.float32)


@pytest.mark.parametrize("rows, cols", [(1, 1), (2, 2), (3, 2), (4, 1)])
@pytest.mark.parametrize(
    "spread, fraction, exact", [(1, 30, True), (9, 6, None)], ids=["exact", "wide"]
)
@pytest.mark.parametrize(
    "block, names",
    [(1, ("bfp4",) * 3), (2, ("bfp2", "bfp8", "bfp5")), (4, ("bfp4",) * 3)],
    ids=str,
)
def test_equal_to_the_golden_model(rows, cols, block, names, spread, fraction, exact, rng):
    chosen = numerics(block, names, fraction)
    np_rng = np.random.default_rng(rng.getrandbits(32))
    padding = int(block > 1)
    m = k = cols * block - padding
    n = rows * block - padding
    shapes = {"x": (m, k), "w": (k, n), "dy": (m, n)}
    golden = GoldenDevice(chosen)
    converted = {
        name: golden.convert(data(np_rng, *shape, block, spread), name, tag=0)
        for name, shape in shapes.items()
    }
    bits = {name: q.format.mantissa_bits for name, q in converted.items()}
    held_bits = max(bits["w"], bits["dy"])
    dut = Array(
        rows=rows,
        cols=cols,
        block=block,
        south_bits=bits["x"],
        west_bits=held_bits,
        held_bits=held_bits,
        sum_bits=chosen.block_sum_bits,
        fraction=chosen.fraction,
    )
    most = chosen.block_sum_bits + chosen.fraction
    x, w, dy = (Tensor(converted[name], most) for name in ("x", "w", "dy"))
    passes = [
        (w, {"east": (x, True), "north": (dy, True)}),
        (dy, {"east": (x, False), "north": (w, True)}),
    ]
    sums, inexact = stream(dut, passes, rng)

    def bound(a, a_by_row, b, b_by_row, line, port):
        return a.maximum(a_by_row, line // block) + b.maximum(b_by_row, port)

    uses = [
        # pass and side, transposed, golden product, shape, bound of (line, port), mantissas
        ((0, "east"), False, forward(x.q, w.q, chosen), (m, n), (x, True, w, False)),
        ((0, "north"), False, input_gradient(w.q, dy.q, chosen), (m, k), (dy, True, w, True)),
        ((1, "east"), False, weight_gradient(x.q, dy.q, chosen), (k, n), (x, False, dy, False)),
        ((1, "north"), True, input_gradient(w.q, dy.q, chosen), (m, k), (w, True, dy, True)),
    ]
    for use, transposed, product, shape, ends in uses:
        points = ends[0].bits + ends[2].bits - 2
        got = matrix(sums, use, transposed, shape, partial(bound, *ends), fraction, points)
        assert got.tobytes() == product.values.tobytes(), f"{use}: {got}, not {product.values}"
        assert (use not in inexact) == product.exact, f"{use}: exact"
        assert exact is None or product.exact
