"""Machines for the tests of whole products, data for them, and what each result must be.

Two judges: the golden model, bit for bit, and an independent check in exact arithmetic of what the
hardware stored and what it made of it.
"""

from fractions import Fraction

import numpy as np

from diastole.config.file import from_document
from diastole.config.keys import (
    AccumulatorConfig,
    ArrayConfig,
    BusConfig,
    Config,
    FormatConfig,
    RoundingConfig,
)
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.spec.operations import OPERATIONS
from oracle import formats as oracle
from oracle.product import aligned_product, binary32, exact_product, read
from support.planes import plane_copy

MACHINES = {
    "pico": PRODUCTS_ONLY["pico"],
    "nano": PRODUCTS_ONLY["nano"],
    # Three formats, a coarse accumulator, an array that is not square, a bus wider than a group.
    "mixed": Config(
        name="mixed",
        array=ArrayConfig(rows=3, cols=2, block=2),
        format=FormatConfig(x="bfp3", w="bfp5", dy="bfp2"),
        rounding=RoundingConfig(x="stochastic-a", w="nearest", dy="stochastic-c", bits=5),
        accumulator=AccumulatorConfig(fraction=3, headroom=9),
        bus=BusConfig(data_width=128),
    ),
    # The textbook systolic array: a cell is one multiplier, an exponent belongs to one element.
    "textbook": Config(
        name="textbook",
        array=ArrayConfig(rows=4, cols=1, block=1),
        format=FormatConfig(x="bfp8", w="bfp7", dy="bfp8"),
        rounding=RoundingConfig(x="nearest", w="stochastic-b", dy="stochastic-a", bits=16),
        accumulator=AccumulatorConfig(fraction=6, headroom=10),
        bus=BusConfig(data_width=32),
    ),
    # Transposes at the edge; the numbers of `pico`.
    "turning": Config(
        name="turning",
        array=ArrayConfig(rows=2, cols=1, block=4, transpose="edge"),
        bus=BusConfig(data_width=128),
    ),
    # The numbers of `pico` again.
    "wide": Config(name="wide", array=ArrayConfig(rows=3, cols=2, block=4)),
}


def machine(name, formats, *, rows=1, cols=1, side=4, data_width=64, ports=1, **tables) -> Config:
    """A machine from the tables of a file; ``formats``: one for all classes, or x, w and dy;
    ``side`` of a block."""
    names = [formats] * 3 if isinstance(formats, str) else formats
    document = {
        "name": name,
        "array": {"rows": rows, "cols": cols, "block": side},
        "format": dict(zip(("x", "w", "dy"), names, strict=True)),
        "bus": {"data_width": data_width, "ports": ports},
    }
    return from_document(document | tables)


def grouped(grouping):
    return {"block": dict.fromkeys(("x", "w", "dy"), grouping)}


# One machine for each kind of format, each of another shape; `nano` is bfp4 in squares.
FORMAT_MACHINES = {
    "bfp4_1x16": machine("bfp4_1x16", "bfp4", rows=2, side=8, **grouped("1x16")),
    "mxfp8_e4m3": machine("mxfp8", "mxfp8_e4m3", cols=2, data_width=128),
    "fp8_e5m2": machine("fp8", "fp8_e5m2", rows=2, cols=2),
    "nvfp4": machine("nvfp4_32", "nvfp4", rows=1, cols=2, side=8, data_width=32),
    "four_over_six": machine(
        "four_over_six", "nvfp4", scale=dict.fromkeys(("x", "w", "dy"), "four-over-six")
    ),
    "mxfp4_e2m1": machine("mxfp4", "mxfp4_e2m1", rows=3, cols=2, side=2, data_width=256),
}
MACHINES |= FORMAT_MACHINES

# Two ports to memory: words of the drain of one beat and of two, vectors of several beats and
# beats of several vectors; the numbers of `pico` in the first one.
PORT_MACHINES = {
    "ports": Config(
        name="ports",
        array=ArrayConfig(rows=2, cols=4, block=4),
        bus=BusConfig(data_width=128, ports=2),
    ),
    "ports_mxfp8": machine("ports_mxfp8", "mxfp8_e4m3", rows=2, cols=4, data_width=256, ports=2),
    "ports_nvfp4": machine("ports_nvfp4", "nvfp4", rows=2, cols=2, side=8, data_width=64, ports=2),
}
MACHINES |= PORT_MACHINES

# One set of numbers on three arrays and three buses: draws of state and inverse in every class, of
# second copies too.
DRAWN = {
    "rounding": {"x": "stochastic-c", "w": "stochastic-a", "dy": "stochastic-b", "kind": "lfsr3"},
    "block": {"x": "1x16"},
}
ROUNDING_MACHINES = {
    "esru": machine("esru", "bfp4", data_width=32, **DRAWN),
    "esru_2x2": machine("esru_2x2", "bfp4", rows=2, cols=2, data_width=128, **DRAWN),
    "esru_4x2": machine("esru_4x2", "bfp4", rows=4, cols=2, data_width=64, **DRAWN),
}
MACHINES |= ROUNDING_MACHINES
# Registers in the cells: every number of cycles that one has, its edge and both directions; and
# behind the memories of operands, whose words are one vector or several, in one part or two.
PIPELINE_MACHINES = {
    # All that makes one fast on an FPGA.
    "quick": machine(
        "quick", "bfp4", rows=2, cols=2, side=2, cell={"pipeline": "full", "multiplier": "dsp"},
        memory={"output_register": True},
    ),
    "full": machine("full", "bfp4", rows=2, cols=2, side=2, cell={"pipeline": "full"}),
    "full_nvfp4": machine(
        "full_nvfp4", "nvfp4", rows=1, cols=2, side=4, data_width=32, cell={"pipeline": "full"}
    ),
    "full_vectors": machine(
        "full_vectors", "mxfp8_e4m3", rows=2, side=4, cell={"pipeline": "full"}, special="poison"
    ),
    "full_edge": machine(
        "full_edge", "fp8_e5m2", cell={"pipeline": "full"},
        array={"rows": 2, "cols": 2, "block": 4, "transpose": "edge"},
        accumulator={"kind": "float", "chunk": 16},
    ),
    "products": machine("products", "fast", side=2, cell={"pipeline": "products"}),
    "registered": machine(
        "registered", "fp8_e5m2", rows=2, cols=2, side=4, ports=2, special="poison",
        memory={"output_register": True},
    ),
    "registered_nvfp4": machine(
        "registered_nvfp4", "nvfp4", cols=3, side=4, data_width=32, cell={"pipeline": "full"},
        memory={"output_register": True},
    ),
}  # fmt: skip
MACHINES |= PIPELINE_MACHINES
# Products of several lanes in one DSP block.
DSP_MACHINES = {
    "dsp25": machine(
        "dsp25", "mxfp8_e4m3", rows=1, cols=2, side=4, data_width=32,
        cell={"multiplier": "dsp25", "pipeline": "products"},
    ),
    "dsp": machine("dsp", "bfp4", rows=2, cols=1, side=4, cell={"multiplier": "dsp"}),
}  # fmt: skip
MACHINES |= DSP_MACHINES
# Float accumulators: the numbers `ibm-fp8` with short chunks, so that small products have several.
# In the first one a chunk is two slices to the east, and one slice alone to the north.
_FLOATS = {"numbers": "ibm-fp8", "accumulator": {"chunk": 16}}


def float_machine(name, rows, cols, **options) -> Config:
    """One of those, in blocks of 4."""
    return from_document({
        "name": name,
        "array": {"rows": rows, "cols": cols, "block": 4},
        "bus": options,
    } | _FLOATS)  # fmt: skip


FLOAT_MACHINES = {
    "floats": float_machine("floats", 4, 2, data_width=128, ports=2),
    "floats_1x1": float_machine("floats_1x1", 1, 1, data_width=32),
    "floats_2x2": float_machine("floats_2x2", 2, 2, data_width=64),
}
MACHINES |= FLOAT_MACHINES
# Three slices or six of a chunk, poison, and vectors that all go north, where a chunk is one slice.
FLOAT_MACHINES |= {
    "floats_odd": machine(
        "floats_odd", ("bfp5", "bfp3", "bfp4"), rows=1, cols=2, special="poison",
        accumulator={"kind": "float", "mantissa": "e6m5", "chunk": 24, "fraction": 9},
    ),
    "floats_north": machine(
        "floats_north", "mxfp8_e4m3", rows=3, cols=2, side=2, **grouped("1x16"),
        accumulator={"kind": "float", "mantissa": 23, "chunk": 12},
    ),
}  # fmt: skip
MACHINES |= FLOAT_MACHINES
# Tensors in planes: the first four have the same numbers.
ALL_WIDTHS = {"fast": {"widths": [2, 4, 6, 8]}}
PLANE_MACHINES = {
    "fast": machine("fast", "fast"),
    "fast_2x2": machine("fast_2x2", "fast", rows=2, cols=2, data_width=128),
    "fast_4x2": machine("fast_4x2", "fast", rows=4, cols=2),
    "fast_ports": machine("fast_ports", "fast", rows=2, cols=2, ports=2),
    "fast_1x8": machine("fast_1x8", "fast", rows=2, cols=2, **grouped("1x8")),
    "fast_6_8": machine("fast_6_8", "fast", rows=2, cols=1, data_width=32, **ALL_WIDTHS),
    "fast_w": machine("fast_w", ("fast", "bfp2", "fast"), cols=2, **grouped("1x16")),
}
MACHINES |= PLANE_MACHINES

STEPS_1X1 = from_document(
    {
        "name": "steps_1x1",
        "array": {"rows": 1, "cols": 1, "block": 4},
        "vector": {"enable": True, "panel_kib": 16, "draws": True},
    }
)
"""A small machine with a vector unit and random numbers, compiled once for all tests of chains and
steps."""

# Whose benches are run as a user runs them; of the second one, with two copies of X and W and a
# vector unit, every operation that there is.
BENCHED = {
    "tiny": machine("tiny", ("bfp3", "bfp5", "bfp2"), side=2, data_width=32),
    "grouped": machine(
        "tiny_1x4",
        "bfp4",
        side=2,
        block=dict.fromkeys("xw", "1x4"),
        vector={"enable": True, "panel_kib": 1},
    ),
}

SEED = 7
CLASSES = {"X": "x", "W": "w", "dY": "dy"}
TAGS = {"X": 0, "W": 1, "dY": 2}
SHAPES = {"X": "MK", "W": "KN", "dY": "MN"}
READ = {"Y": (("X", 0), ("W", 1)), "dX": (("dY", 0), ("W", 0)), "dW": (("X", 1), ("dY", 1))}
"""By result, the operands, and what is contracted: their columns (0) or their rows (1)."""
NAN = float("nan")

# Data.


def plain(rng, shape):
    """Signed, a tenth zeros, exponents within a few powers of two."""
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-3, 4, shape))
    return np.where(rng.random(shape) < 0.1, 0, values).astype(np.float32)


def wide(rng, shape):
    """Exponents far apart, from row to row and column to column too: deficits beyond F."""
    rows, cols = (rng.integers(-20, 21, side) for side in shape)
    return np.ldexp(plain(rng, shape), rows[:, None] + cols[None, :]).astype(np.float32)


def stepped(rng, shape):
    """Exponents far apart from one group of 16 to the next, so that sums meet at every distance."""
    steps = (rng.integers(-9, 10, side // 16 + 1).repeat(16)[:side] for side in shape)
    rows, cols = steps
    return np.ldexp(plain(rng, shape), rows[:, None] + cols[None, :]).astype(np.float32)


def special(rng, shape):
    """Any bit pattern: NaN, Inf, subnormals and zeros of both signs, huge and tiny."""
    bits = rng.integers(0, 2**32, shape, dtype=np.uint32)
    ends = rng.choice(np.array([0, 1, 2, 40, 215, 253, 254, 255], np.uint32), shape)
    bits = np.where(rng.random(shape) < 0.5, bits & 0x807F_FFFF | ends << 23, bits)
    named = [0, 1 << 31, 1, 0x807F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFF80_0001]
    chosen = rng.choice(np.array([*named, 0x7F7F_FFFF, 0x0080_0000], np.uint32), shape)
    return np.where(rng.random(shape) < 0.3, chosen, bits).astype(np.uint32).view(np.float32)


def long(rng, shape):
    """All positive, exponents near each other: sums of many bits, which no float holds."""
    return np.ldexp(rng.uniform(1, 2, shape), -rng.integers(0, 4, shape)).astype(np.float32)


def huge(rng, shape):
    """Products overflow: all near the top of binary32."""
    return np.ldexp(plain(rng, shape), 120).astype(np.float32)


def tiny(rng, shape):
    """Products are around the smallest normal number, where results are flushed."""
    return np.ldexp(plain(rng, shape), -65).astype(np.float32)


def ties(rng, shape):
    """Few significant bits: values between two elements, magnitudes that saturate."""
    return rng.integers(-1023, 1024, shape).astype(np.float32)


def quarters(rng, shape):
    """Quarters up to 6, and 6 in nearly every group: scales are powers of two, quotients by them
    are exact, and many lie between two elements of four bits, or a little beside the middle.
    Positive numbers lie above the quarter by up to three times the last of eleven bits, so a
    quotient beside the middle differs from it in bits that a shift loses."""
    values = rng.integers(-23, 24, shape) / 4
    values += np.where(values > 0, values * (4 * values % 4) / 1024, 0)
    return np.where(rng.random(shape) < 0.3, 6, values).astype(np.float32)


KINDS = {f.__name__: f for f in (plain, wide, stepped, special, long, huge, tiny, ties, quarters)}


def tensors(rng, sizes, kind):
    """X, W and dY for (M, K, N)."""
    length = dict(zip("MKN", sizes, strict=True))
    shape = {name: tuple(length[side] for side in sides) for name, sides in SHAPES.items()}
    with np.errstate(over="ignore"):
        return {name: KINDS[kind](rng, shape[name]) for name in SHAPES}


# The golden model judges.


def convert(device, data, step=0):
    """Every tensor once, as X, W and dY."""
    return {
        name: device.convert(array, CLASSES[name], tag=TAGS[name], step=step)
        for name, array in data.items()
    }


def multiply(device, op, operands):
    return getattr(device, op)(*(operands[name] for name in OPERATIONS[op].operand_names))


def same_bits(got, want, what):
    """AssertionError, with the first place, unless two float32 arrays have the same bits."""
    assert got.shape == want.shape, what
    differs = np.argwhere(got.view(np.uint32) != want.view(np.uint32))
    if differs.size:
        at = tuple(differs[0])
        raise AssertionError(
            f"{what}: {len(differs)} of {got.size} differ, first at {at}: "
            f"{got[at]!r} ({got.view(np.uint32)[at]:#x}), "
            f"expected {want[at]!r} ({want.view(np.uint32)[at]:#x})"
        )


def packed_image(layout, copy, tensor, planes=1):
    """The image of a copy of a golden tensor, or those of its planes, one behind the other."""
    if planes > 1:
        each = [plane_copy(copy, number, planes) for number in range(planes)]
        return np.concatenate([layout.pack(plane) for plane in each])
    return layout.pack(copy, tensor.tensor_exponent if layout.header else None)


def check_tensor(got, want, what):
    """A converted tensor on the device has the golden model's images, padding and all."""
    for number, (image, copy) in enumerate(zip(got.images, want.copies, strict=True)):
        packed = packed_image(image.layout, copy, want, image.planes)
        differs = image.data != packed
        assert not differs.any(), f"{what}: image {number}, from byte {differs.argmax()}"
    for name in ("nan", "inf", "saturated", "underflowed", "amax"):
        assert getattr(got, name) == getattr(want, name), f"{what}: {name}"


def check_result(got, want, what):
    for name, values in want.values.items():
        same_bits(got.values[name], values, f"{what} {name}")
    assert (got.exact, got.overflow) == (want.exact, want.overflow), f"{what}: exact, overflow"


def check_against_golden(device, golden, data, step=0):
    """Convert, then all four products; returns the operands and the results, by name."""
    operands, wanted = convert(device, data, step), convert(golden, data, step)
    for name, tensor in operands.items():
        check_tensor(tensor, wanted[name], name)
    results = {op: multiply(device, op, operands) for op in OPERATIONS}
    for op, result in results.items():
        check_result(result, multiply(golden, op, wanted), op)
    for name, tensor in operands.items():
        check_tensor(tensor, wanted[name], f"{name} after the products")
    return operands, results


# The independent judge: definitions in fractions, from the data and from what is stored.


def check_quantisation(device, data, operands, step=0):
    """Every stored tensor is the correct quantisation of its data."""
    numerics = device.numerics
    for name, array in data.items():
        chosen = numerics.tensor_class(CLASSES[name])
        want = oracle.quantise(
            array.tolist(),
            name=chosen.format.name,
            kind=chosen.grouping.kind,
            size=chosen.grouping.size,
            block=numerics.block,
            scale_rule=chosen.scale,
            rule=chosen.rounding,
            bits=numerics.random_bits,
            drawn=numerics.rounding_kind,
            lfsr_bits=numerics.lfsr_bits,
            seed=device.seed,
            tag=TAGS[name],
            step=step,
            overflow=chosen.overflow,
            special=numerics.special,
            folded=numerics.folds(CLASSES[name]),
        )
        got = operands[name].read()
        assert len(got.copies) == len(want.copies), name
        for copy, expected in zip(got.copies, want.copies, strict=True):
            assert copy.codes.tolist() == expected.codes, name
            assert copy.exponents.tolist() == expected.exponents, name
            assert copy.row_max.tolist() == expected.row_max, name
            assert copy.col_max.tolist() == expected.col_max, name
        for counted in ("nan", "inf", "saturated", "underflowed"):
            assert getattr(got, counted) == getattr(want, counted), f"{name}: {counted}"


def sides(operands, name):
    """Both operands of a result, rows along the contraction, as the hardware stored them."""
    (first, a), (second, b) = READ[name]
    return read(operands[first].read(), a), read(operands[second].read(), b)


def check_products(operands, results, poison=False):
    """Results are the exact products of the stored tensors, rounded once, where ``exact``;
    ``poison``: NaN where NaN or Inf reaches."""
    for op, result in results.items():
        if not result.exact:
            continue
        overflows = False
        for name, values in result.values.items():
            exact = exact_product(*sides(operands, name), poison=poison)
            overflows |= _compare(values, exact, f"{op} {name}, exact product rounded once")
        assert result.overflow == overflows, op


def check_aligned(device, operands, results):
    """Results, exact or not, are the aligned sums of the stored tensors, rounded once."""
    numerics = device.numerics
    found = {}
    for name, ((first, _), (second, _)) in READ.items():
        found[name] = aligned_product(
            *sides(operands, name),
            block=numerics.block,
            fraction=numerics.fraction,
            product_bits=numerics.product_bits(CLASSES[first], CLASSES[second]),
            poison=numerics.special == "poison",
            floats=numerics.accumulator,
        )
    for op, result in results.items():
        assert result.exact == all(found[name][1] for name in result.values), op
        overflows = False
        for name, values in result.values.items():
            overflows |= _compare(values, found[name][0], f"{op} {name}, aligned sums rounded once")
        assert result.overflow == overflows, op


def _compare(values, exact, what):
    """AssertionError unless ``values`` are the fractions rounded; whether one overflows."""
    rows, cols = values.shape
    rounded = [[_rounded(value) for value in row[:cols]] for row in exact[:rows]]
    same_bits(values, np.array([[v for v, _ in row] for row in rounded], np.float32), what)
    return any(over for row in rounded for _, over in row)


def _rounded(value):
    return (NAN, False) if value is None else binary32(Fraction(value))
