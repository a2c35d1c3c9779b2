"""Parts of converted tensors, and what several machines make of them: the bits of the whole."""

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.golden.sharing import cut, join_results, parts_of, share
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.part import ProductPart, free_axes
from support.numerics import make_numerics

SIZES = {"m": 75, "n": 70, "k": 83}
KINDS = {
    "squares": {"formats": "bfp4"},
    "large squares": {"formats": "bfp3", "groupings": "16x16"},
    "vectors": {"formats": ("bfp4", "bfp3", "bfp2"), "groupings": ("1x16", "1x32", "4x4")},
    "mx": {"formats": "mxfp8_e4m3"},
    "two levels": {"formats": "nvfp4"},
    "tensor": {"formats": "fp8_e4m3"},
}
PARTED = [(op, axis) for op, operation in OPERATIONS.items() for axis in free_axes(operation)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "_"))
def machine(request):
    return NumpyDevice(make_numerics(block=4, **KINDS[request.param]), seed=3)


def convert(machine, rng):
    """Operands that are signed and far apart, from row to row and from column to column."""
    found = {}
    for tensor in OPERATIONS["backward"].operands:
        shape = tuple(SIZES[axis] for axis in tensor.axes)
        rows, cols = (rng.integers(-6, 7, side) for side in shape)
        values = np.ldexp(rng.standard_normal(shape), rows[:, None] + cols).astype(np.float32)
        found[tensor.name] = machine.convert(values, tensor.tensor_class, tag=tensor.number, step=2)
    return found


def multiply(machine, op, operands):
    return getattr(machine, op)(*(operands[name] for name in OPERATIONS[op].operand_names))


@pytest.mark.parametrize("op, axis", PARTED)
@pytest.mark.sampled(3)
def test_parts_are_the_whole(op, axis, machine, np_rng):
    operands = convert(machine, np_rng)
    whole = multiply(machine, op, operands)
    shared = share([machine] * 2, op, operands, axis)
    assert list(shared.values) == list(whole.values)
    for name, values in whole.values.items():
        assert shared.values[name].tobytes() == values.tobytes()
    assert len(shared.parts) == 2
    again = join_results(OPERATIONS[op], shared.parts, axis)
    assert all(values.tobytes() == again[name].tobytes() for name, values in whole.values.items())
    assert shared.exact == all(part.exact for part in shared.parts)


def test_reports_are_those_of_any_part(np_rng):
    """The last of four has products too large, and others too small beside them."""
    machine = NumpyDevice(make_numerics(block=4, formats="bfp4", fraction=3))
    x = np.ones((16, 8), np.float32)
    x[12:, :4] = 2.0**100
    w = np.full((8, 4), 2.0**100, np.float32)
    operands = {"X": machine.convert(x, "x", tag=0), "W": machine.convert(w, "w", tag=1)}
    shared = share([machine] * 4, "forward", operands, "m")
    assert shared.overflow
    assert [part.overflow for part in shared.parts] == [False, False, False, True]
    assert not shared.exact
    assert [part.exact for part in shared.parts] == [True, True, True, False]
    assert np.isinf(shared.values["Y"][12:]).all()


def test_a_cut_has_the_elements_of_the_whole(machine, np_rng):
    """Its values, its bytes as they are stored, and what is known of the whole."""
    tensor = convert(machine, np_rng)["X"]
    for axis, (first, last) in ((0, (32, 64)), (1, (64, 83)), (0, (64, 75)), (1, (0, 32))):
        part = cut(tensor, axis, first, last)
        kept = (slice(first, last), slice(None)) if axis == 0 else (slice(None), slice(first, last))
        assert part.shape == tensor.values()[kept].shape
        layouts = image_layouts(part.storage, part.shape, block=part.block, data_width=64)
        for number, (copy, layout) in enumerate(zip(part.copies, layouts, strict=True)):
            values = tensor.values(number)[kept]
            assert part.values(number).tobytes() == np.ascontiguousarray(values).tobytes()
            assert copy.shape == (layout.rows, layout.cols)
            back, _ = layout.unpack(
                layout.pack(copy, part.tensor_exponent if layout.header else None)
            )
            assert np.array_equal(back.codes, copy.codes)
            assert np.array_equal(back.exponents, copy.exponents)
        for name in ("amax", "saturated", "underflowed", "nan", "tensor_exponent", "tensor_class"):
            assert getattr(part, name) == getattr(tensor, name)


def test_maxima_along_the_other_axis_are_those_of_the_whole(np_rng):
    machine = NumpyDevice(make_numerics(block=4, formats="bfp4"))
    tensor = convert(machine, np_rng)["X"]
    (whole,), (part,) = tensor.copies, cut(tensor, 0, 8, 24).copies
    assert np.array_equal(part.row_max, whole.row_max[2:6])
    assert np.array_equal(part.col_max, whole.col_max)
    (part,) = cut(tensor, 1, 80, 83).copies
    assert np.array_equal(part.col_max, whole.col_max[20:])
    assert np.array_equal(part.row_max, whole.row_max)


def test_what_has_no_part_of_the_axis_is_given_whole(np_rng):
    machine = NumpyDevice(make_numerics(block=4, formats="bfp4"))
    operands = convert(machine, np_rng)
    part = ProductPart(axis="m", index=1, count=3)
    own = parts_of(OPERATIONS["forward"], operands, part, machine.numerics)
    assert own["W"] is operands["W"]
    assert own["X"].shape == (24, SIZES["k"])
