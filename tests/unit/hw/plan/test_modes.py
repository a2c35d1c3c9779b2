# amaranth: UnusedElaboratable=no
"""The uses of the array on whole matrices, two at a time where a block serves both: equal to the
golden model.

Where W is not in vector groups, one pass holds it and mixes the slots of Y = X W and dX = dY W^T;
where dY is not, one holds it and does dW = X^T dY and dX again, the fused backward pass. In vector
groups each product holds a copy of its own, and everything goes north. M, K and N are what one
pass covers, less a padded edge.
"""

from fractions import Fraction

import numpy as np
import pytest

from diastole_hw.array.array import Array
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics
from oracle.cell import Block, Vector
from oracle.product import binary32
from support.bench import design, run
from support.golden_products import forward, input_gradient, weight_gradient
from support.plans import make_plan
from support.sweep import sweep

BIAS = 127
NAN = np.array(0x7FC00000, np.uint32).view(np.float32)


def numerics(block, formats, fraction, **options):
    """``formats``: of x, w and dy, as "FORMAT" or "FORMAT GROUPING"."""
    classes = {}
    for name, text in zip(("x", "w", "dy"), formats, strict=True):
        kind, *grouping = text.split()
        classes[name] = {"format": kind, "rounding": "nearest"}
        if grouping:
            classes[name]["grouping"] = grouping[0]
    sizes = {"block": block, "random_bits": 8, "fraction": fraction, "headroom": 8}
    return Numerics.from_dict(classes | sizes | options)


class Side:
    """One operand as lines along a contraction: elements, and marks by line and block of it."""

    def __init__(self, quantised, number, shape):
        self.shape, self.block = shape, quantised.block
        self.format, self.size = quantised.storage.format, quantised.storage.grouping.size
        self.grouped = quantised.storage.two_copies
        copy = quantised.copies[number if self.grouped else 0]
        self.turned = number == 1 and not self.grouped
        self.codes, self.bytes = copy.codes.tolist(), copy.exponents.tolist()
        self.maxima = (copy.col_max if self.turned else copy.row_max).tolist()
        self.tensor_exponent = quantised.tensor_exponent

    def vector(self, kind, line, place):
        """The vector of a line in block ``place`` of the contraction; zeros if it is outside."""
        along = range(place * self.block, (place + 1) * self.block)
        byte = self.byte(line, place)
        nonzero = byte not in (0, self.nan_byte)
        return Vector(
            kind,
            [self.element(kind, line, c) for c in along],
            self.deficit(line, place) if nonzero else 0,
            int(nonzero),
            self.significand(byte),
            max(self.extent(line, c) for c in along),
            int(any(self.poison(line, place))),
        )

    def poison(self, line, place):
        """For each element of a vector, whether it is no number, or its group's scale."""
        along = range(place * self.block, (place + 1) * self.block)
        none = self.byte(line, place) == self.nan_byte
        return [int(none or self._decoded(line, c)[1]) for c in along]

    @property
    def nan_byte(self):
        return 127 if self.format.scale == "e4m3" else 255

    def code(self, line, c):
        """The stored element, 0 outside."""
        row, column = (c, line) if self.turned else (line, c)
        inside = row < len(self.codes) and column < len(self.codes[0])
        return self.codes[row][column] if inside else 0

    def byte(self, line, place):
        """The stored exponent of a vector's group."""
        across = line if self.grouped else line // self.block
        along = place * self.block // self.size if self.grouped else place
        row, column = (along, across) if self.turned else (across, along)
        inside = row < len(self.bytes) and column < len(self.bytes[0])
        return self.bytes[row][column] if inside else 0

    def maximum(self, line):
        """Exponent of the largest group of a line."""
        place = line if self.grouped else line // self.block
        return self.exponent(self.maxima[place]) if place < len(self.maxima) else 0

    def exponent(self, byte):
        if self.format.scale == "e4m3":
            return max(byte >> 3, 1) - 7 + self.tensor_exponent + 2
        return byte - BIAS

    def significand(self, byte):
        return 8 * (byte >> 3 != 0) + (byte & 7) if self.format.scale == "e4m3" else 8

    def deficit(self, line, place):
        deficit = self.maximum(line) - self.exponent(self.byte(line, place))
        return min(deficit, self.shape.sum_bits + self.shape.fraction)

    def _decoded(self, line, c):
        """Sign, sig of the format's own bits, d; whether it is no number."""
        code, kind = self.code(line, c), self.format
        sign, magnitude = code >> kind.magnitude_bits, code % 2**kind.magnitude_bits
        if magnitude > kind.max_code:
            return (sign, 0, 0), True
        field = magnitude >> (kind.precision - 1)
        if kind.depth == 0 or field == 0:
            return (sign, magnitude, kind.depth if magnitude else 0), False
        top = 1 << (kind.precision - 1)
        return (sign, top | magnitude % top, kind.depth + 1 - field), False

    def element(self, kind, line, c):
        """The element in the layout ``kind``."""
        (sign, sig, d), _ = self._decoded(line, c)
        if self.shape.window is not None:
            sig <<= kind.significand_bits - self.format.precision
        return sign, sig, d

    def extent(self, line, c):
        (_, sig, d), _ = self._decoded(line, c)
        return d + self.format.precision if sig else 0


def held_block(east, north, r, c):
    """The block of cell (r, c): what ``north`` has in its rows, ``east`` in its columns, of which
    one may be None."""
    side = north or east
    first, place = (c, r) if north else (r, c)
    lines = range(first * side.block, (first + 1) * side.block)
    vectors = [side.vector(side.shape.stationary, line, place) for line in lines]
    rows = [vector.elements for vector in vectors]
    poison = [side.poison(line, place) for line in lines]
    if not north:
        rows, poison = (
            [list(column) for column in zip(*each, strict=True)] for each in (rows, poison)
        )
    return Block(
        rows,
        east.vector(side.shape.stationary, r * side.block, c).deficit if east else 0,
        [vector.deficit for vector in vectors],
        [vector.nonzero for vector in vectors],
        [vector.significand for vector in vectors],
        [vector.extent for vector in vectors],
        poison,
    )


class Stream:
    """Passes of (held to the east, held to the north, {"east": vectors, "north": vectors}).

    Every line of both is streamed once, in an order that mixes both directions, with empty slots
    between. ``sums`` by (pass, direction, line, port): B sums and their poison; ``inexact``: by
    (pass, direction).
    """

    def __init__(self, dut, passes, rng):
        self.dut, self.passes = dut, passes
        self.events, self.words, self.swaps = {}, {}, []
        self.sums, self.inexact = {}, set()
        lead = dut.rows * dut.block
        start = lead + 1
        for number, (east, north, uses) in enumerate(passes):
            first = self.swaps[-1] if self.swaps else 0
            blocks = [
                [held_block(east, north, r, c) for c in range(dut.cols)] for r in range(dut.rows)
            ]
            for n in range(lead):
                self.words[first + n] = (blocks, n // dut.block, n % dut.block)
            self.swaps.append(start - 1)
            count = max(dut.rows, dut.cols) * dut.block
            lines = [(kind, line) for kind in uses for line in range(count)]
            lines += [None] * max(3, lead - len(lines))
            rng.shuffle(lines)
            for offset, line in enumerate(lines):
                if line:
                    self.events[start + offset] = (number, *line)
            start += len(lines)
        self.cycles = start + 2 * (dut.rows + dut.cols) + 4

    def run(self):
        run(self.dut, self._bench)

    def _drive(self, ctx, cycle):
        dut, shape = self.dut, self.dut.shape
        for c in range(dut.cols):
            blocks, row, index = self.words.get(cycle - c, (None, 0, 0))
            ctx.set(dut.load[c], blocks[row][c].const(shape, row, index) if blocks else {})
            if "east" in shape.directions:
                self._set_vector(ctx, dut.south[c], shape.south, cycle - c, "east", c)
        for r in range(dut.rows):
            kind = self.events.get(cycle - r, (0, "east"))[1]
            swap = int(cycle - r in self.swaps)
            ctx.set(dut.control[r], {"direction": int(kind == "north"), "swap": swap})
            if "north" in shape.directions:
                self._set_vector(ctx, dut.west[r], shape.west, cycle - r, "north", r)

    def _set_vector(self, ctx, port, element, slot, direction, place):
        number, kind, line = self.events.get(slot, (0, None, 0))
        side = self.passes[number][2][kind] if kind == direction else None
        ctx.set(port, side.vector(element, line, place).const(self.dut.shape) if side else {})

    async def _bench(self, ctx):
        dut = self.dut
        for cycle in range(self.cycles):
            self._drive(ctx, cycle)
            for kind in dut.shape.directions:
                latency = getattr(dut, f"{kind}_latency")
                for port, output in enumerate(getattr(dut, kind)):
                    number, found, line = self.events.get(cycle - latency - port, (0, None, 0))
                    if found == kind:
                        self._take(ctx.get(output), (number, kind, line, port))
            await ctx.tick()

    def _take(self, got, where):
        lanes = range(self.dut.block)
        poison = got.poison if self.dut.shape.poison else 0
        self.sums[where] = [(got.sums[k], poison >> k & 1) for k in lanes]
        if got.inexact:
            self.inexact.add(where[:2])

    def matrix(self, use, vectors, held, shape):
        """The float32 result of one use: C[t, l] of line t and lane l."""
        cell = self.dut.shape
        exact = vectors.format.precision + held.format.precision
        points = cell.fraction + (cell.window or exact) - 2 + 6 * cell.significands
        result = np.zeros(shape, dtype=np.float32)
        for (number, kind, line, port), lanes in self.sums.items():
            for k, (total, poison) in enumerate(lanes):
                t, lane = line, port * len(lanes) + k
                if (number, kind) == use and t < shape[0] and lane < shape[1]:
                    scale = vectors.maximum(t) + held.maximum(lane) - points
                    value = binary32(Fraction(total) * Fraction(2) ** scale)[0]
                    result[t, lane] = NAN if poison else value
        return result


def data(np_rng, rows, columns, block, spread, specials):
    """Normal data whose blocks differ by powers of two; one block of zeros if there are many."""
    values = np_rng.standard_normal((rows, columns))
    blocks = -(-rows // block), -(-columns // block)
    scale = np.kron(np_rng.integers(-spread, spread + 1, blocks), np.ones((block, block)))
    values *= 2.0 ** scale[:rows, :columns]
    if blocks[0] * blocks[1] > 2:
        values[:block, :block] = 0
    if specials:
        values[rows // 2, columns // 2], values[-1, 0] = np.nan, np.inf
    return values.astype(np.float32)


def plan_passes(plan, converted):
    """Passes for a :class:`Stream`, and by result its (pass, direction), vectors, held lines."""

    def side(name, number):
        return Side(converted[name], number, plan.shape)

    passes, uses = [], []

    def add(result, east, north, vectors):
        for kind, held in (("east", east), ("north", north)):
            if kind in vectors:
                uses.append((result[kind], (len(passes), kind), vectors[kind], held))
        passes.append((east, north, vectors))

    x, x_down, w, dy = side("x", 0), side("x", 1), side("w", 0), side("dy", 0)
    if w.grouped:
        add({"north": "Y"}, None, side("w", 1), {"north": x})
        add({"north": "dX"}, None, w, {"north": dy})
    else:
        add({"east": "Y", "north": "dX"}, side("w", 1), w, {"east": x, "north": dy})
    if dy.grouped:
        add({"north": "dW"}, None, side("dy", 1), {"north": x_down})
    else:
        vectors = {"east": x_down, "north": w}
        add({"east": "dW", "north": "dX turned"}, side("dy", 1), dy, vectors)
    return passes, uses


BFP = {
    "bfp4": (1, ("bfp4",) * 3),
    "three widths": (2, ("bfp2", "bfp8", "bfp5")),
    "larger blocks": (4, ("bfp4",) * 3),
}
MINIFLOATS = {
    "E4M3": (2, ("fp8_e4m3", "fp8_e4m3 4x4", "fp8_e4m3")),
    "E4M3 and E5M2": (2, ("fp8_e4m3", "fp8_e4m3", "fp8_e5m2")),
    "bfp8 and E2M3": (2, ("bfp8", "e2m3", "e2m3 1x4")),
    "MXFP4": (4, ("mxfp4_e2m1 1x8",) * 3),
    "MXFP8": (2, ("mxfp8_e4m3 1x4",) * 3),
    "NVFP4": (2, ("nvfp4 1x4", "nvfp4 4x4", "nvfp4 1x4")),
    "NVFP4, vectors": (2, ("nvfp4 1x2",) * 3),
}


@pytest.mark.parametrize("rows, cols", [(1, 1), (2, 2), (3, 2), (4, 1)])
@pytest.mark.parametrize("spread, fraction", [(1, 30), (9, 6)], ids=["exact", "wide"])
@pytest.mark.parametrize("formats", BFP)
@pytest.mark.sampled(8)
def test_block_floating_point(rows, cols, formats, spread, fraction, rng):
    found = check(rows, cols, numerics(*BFP[formats], fraction), spread, rng)
    assert fraction == 6 or all(found)


@pytest.mark.parametrize(
    "rows, cols, special, spread, fraction",
    [
        (2, 2, "flag", 1, 17),
        (3, 2, "poison", 9, 6),
        sweep(2, 2, "flag", 9, 6),
        sweep(3, 2, "poison", 1, 17),
    ],
)
@pytest.mark.parametrize("formats", MINIFLOATS)
@pytest.mark.sampled(6)
def test_minifloats(rows, cols, formats, spread, fraction, special, rng):
    chosen = numerics(*MINIFLOATS[formats], fraction, special=special)
    check(rows, cols, chosen, spread, rng, specials=special == "poison")


@pytest.mark.parametrize("window, exact", [(10, False), (36, True)])
def test_windows(window, exact, rng):
    chosen = numerics(2, ("fp8_e4m3",) * 3, 12, window=window)
    assert all(check(2, 2, chosen, 0, rng)) == exact


def check(rows, cols, chosen, spread, rng, specials=False):
    """Every product equals the golden one; which of them are exact."""
    plan = make_plan(chosen, rows=rows, cols=cols)
    np_rng = np.random.default_rng(rng.getrandbits(32))
    block = chosen.block
    padding = int(block > 1)
    grouped = plan.lane_deficits  # the contraction is along the rows of cells then, not the columns
    m = k = (min(rows, cols) if grouped else cols) * block - padding
    n = (min(rows, cols) if grouped else rows) * block - padding
    golden = NumpyDevice(chosen)
    converted = {
        name: golden.convert(data(np_rng, *shape, block, spread, specials), name, tag=0)
        for name, shape in {"x": (m, k), "w": (k, n), "dy": (m, n)}.items()
    }
    dut = design(Array, shape=plan.shape, cols=cols)
    passes, uses = plan_passes(plan, converted)
    stream = Stream(dut, passes, rng)
    stream.run()
    x, w, dy = (converted[name] for name in ("x", "w", "dy"))
    products = {
        "Y": forward(x, w, chosen),
        "dX": input_gradient(w, dy, chosen),
        "dW": weight_gradient(x, dy, chosen),
    }
    products["dX turned"] = products["dX"]
    for name, use, vectors, held in uses:
        product = products[name]
        want = product.values.T if name == "dX turned" else product.values
        got = stream.matrix(use, vectors, held, want.shape)
        assert got.tobytes() == want.tobytes(), f"{name}: {got}, not {want}"
        assert (use not in stream.inexact) == product.exact, f"{name}: exact"
    return [product.exact for product in products.values()]
