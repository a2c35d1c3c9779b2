"""The golden device with exact products in torch: the bits, and the reports, of numpy's."""

import copy
import gc
import pickle
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

from diastole.devices import GoldenDevice  # noqa: E402
from diastole.torch import TorchGoldenDevice  # noqa: E402
from diastole.torch.exact import has_singles, round_doubles  # noqa: E402
from diastole_sim.golden.matrix_product import round_sums  # noqa: E402

PLACES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
MIXED = {"x": "bfp4", "w": "mxfp4_e2m1", "dy": "bfp8"}
EXACT = ["bfp2", "bfp4", "bfp8", "mxint8", "mxfp4_e2m1", "nvfp4", "e2m1", MIXED]
"""Formats of which normal numbers lose no bit."""
LOSING = ["fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "bf16", "mxfp6_e3m2", "fast"]
SHAPES = [(7, 19, 33), (64, 40, 8), (1, 1, 1)]
OPERATIONS = ("forward", "dx", "dw", "backward")


def run(device, operation, tensors):
    names = {"forward": "XW", "dx": ["W", "dY"], "dw": ["X", "dY"], "backward": ["X", "W", "dY"]}
    return getattr(device, operation)(*(tensors[name] for name in names[operation]))


def same(got, want):
    assert (got.op, got.exact, got.overflow) == (want.op, want.exact, want.overflow)
    assert set(got.values) == set(want.values)
    for name, values in want.values.items():
        assert got.values[name].dtype == np.float32
        assert got.values[name].shape == values.shape
        assert (got.values[name].view(np.uint32) == values.view(np.uint32)).all(), name


def compare(formats, arrays, *, overrides=(), place="cpu", seed=3):
    """All operations; the device in torch."""
    given = {"formats": formats, "seed": seed, "overrides": overrides}
    numpys, torchs = GoldenDevice(**given), TorchGoldenDevice(**given, device=place)
    held = [
        {
            name: device.convert(array, name.lower(), tag=number, step=5)
            for number, (name, array) in enumerate(arrays.items())
        }
        for device in (numpys, torchs)
    ]
    for operation in OPERATIONS:
        want = run(numpys, operation, held[0])
        same(run(torchs, operation, held[1]), want)
    return torchs


def operands(floats, sizes, scale=1.0):
    m, k, n = sizes
    shapes = {"X": (m, k), "W": (k, n), "dY": (m, n)}
    return {name: floats(*shape) * np.float32(scale) for name, shape in shapes.items()}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("formats", EXACT, ids=str)
def test_normal_numbers(formats, sizes, place, floats):
    device = compare(formats, operands(floats, sizes), place=place)
    assert device.exact_in_torch == 5  # and none in numpy


@pytest.mark.parametrize("formats", LOSING)
def test_what_loses_bits_is_numpys(formats, floats):
    """And nothing is kept for it."""
    device = compare(formats, operands(floats, (40, 64, 24)))
    assert device.exact_in_torch > 0 or not device._decoded


@pytest.mark.parametrize("formats", [*EXACT, *LOSING], ids=str)
def test_wide_numbers(formats, floats, np_rng):
    """Exponents far apart: deficits that do not fit, groups of zeros."""
    arrays = operands(floats, (19, 33, 40))
    for array in arrays.values():
        array *= (2.0 ** np_rng.integers(-30, 30, array.shape)).astype(np.float32)
        array[np_rng.random(array.shape) < 0.2] = 0
        array[:9, :9] = 0
    compare(formats, arrays)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("exponent", [-75, -64, -63, -62, -50, 40, 62, 63, 64])
@pytest.mark.parametrize("formats", ["bfp4", "nvfp4", "mxfp4_e2m1"])
def test_results_at_the_ends_of_binary32(formats, exponent, place, floats):
    """Subnormal results, zeros and Inf: float32 is left where it would lose what doubles hold."""
    arrays = operands(floats, (19, 33, 40), 2.0**exponent)
    arrays["X"][3] *= np.float32(2.0**-9)
    arrays["W"][:, 5] *= np.float32(2.0**-7)
    compare(formats, arrays, place=place)


def test_long_sums_leave_24_bits():
    """Sums of 15 * 15 up to 2^25: in float32 alone the odd ones would be rounded on the way."""
    x = np.full((1, 150_000), 15, np.float32)
    x[0, 7::16] = 14
    arrays = {"X": x, "W": x.T.copy(), "dY": np.full((1, 1), 13, np.float32)}
    device = compare("bfp4", arrays, overrides=("accumulator.headroom=16",))
    assert device.exact_in_torch == 5
    found = device.forward(arrays["X"], arrays["W"]).y
    assert found == np.float32(int((x.astype(np.int64) ** 2).sum()))


def test_float_accumulators_are_numpys(floats):
    """Chunks are added in 6 bits, which one product would not do."""
    keys = ("accumulator.kind=float", "accumulator.mantissa=5", "accumulator.chunk=16")
    device = compare("bfp4", operands(floats, (40, 72, 56)), overrides=keys)
    assert device.exact_in_torch == 0


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize(
    "formats", ["bfp4", "mxfp4_e2m1", "nvfp4", "fp8_e5m2", "mxfp8_e4m3", "bf16"]
)
def test_specials(formats, special, floats):
    arrays = operands(floats, (19, 33, 40))
    arrays["X"][2, 3], arrays["X"][11, 0] = np.nan, np.inf
    arrays["W"][1, 1], arrays["dY"][0, 0] = -np.inf, np.nan
    compare(formats, arrays, overrides=(f'special="{special}"',))
    for array in arrays.values():
        array[:] = 0
    arrays["X"][1, 1] = np.inf
    compare(formats, arrays, overrides=(f'special="{special}"',))


@pytest.mark.parametrize("formats", ["fp8_e5m2", "fp8_e4m3"])
def test_codes_of_inf_without_one_in_the_data(formats, floats):
    """Where what is too large becomes the format's Inf or NaN."""
    arrays = operands(floats, (8, 33, 16))
    arrays["X"][:, 1] = np.float32(1.99)
    sets = [f'overflow.{name}="specification"' for name in ("x", "w", "dy")]
    sets += ['scale.x="floor"']
    for special in ("flag", "poison"):
        compare(formats, arrays, overrides=(*sets, f'special="{special}"'))


def test_all_pairs_of_codes():
    """Every element of the format by every one, one to a product."""
    numbers = np.arange(-15, 16, dtype=np.float32)
    x, w = np.zeros((2, 31, 8, 8), np.float32)
    x[:, 0, 0], w[:, 0, 0] = numbers, numbers
    x[:, 0, 1] = w[:, 1, 0] = 15  # so that no group has another exponent
    left, right = x.reshape(248, 8), w.swapaxes(0, 1).reshape(8, 248)
    device = TorchGoldenDevice(formats="bfp4")
    found = device.forward(left, right).y[::8, ::8]
    assert device.exact_in_torch == 1
    assert (found == numbers[:, None] * numbers + 15 * 15).all()


def test_doubles_where_torch_has_short_floats(floats):
    """Told to make float32's products of bfloat16, torch is not asked for any."""
    arrays = operands(floats, (64, 64, 64))
    assert has_singles()
    torch.set_float32_matmul_precision("medium")
    try:
        assert not has_singles()
        assert compare("bfp8", arrays).exact_in_torch == 5
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("place", PLACES)
def test_rounding_of_doubles(place, np_rng):
    """Ties, subnormals, overflow, zeros of both signs: as numpy's."""
    exponents = np_rng.integers(-160, 130, 20_000)
    values = np_rng.choice([-1, 1], 20_000) * np.ldexp(np_rng.integers(2**23, 2**25, 20_000), 0)
    values = np.ldexp(values + np_rng.choice([0, 0.25, 0.5], 20_000), exponents - 24)
    values = np.concatenate([values, [0.0, -0.0, 2.0**-126, -(2.0**-127), 2.0**-149, 1e300]])
    want, _ = round_sums(values.copy())
    got = round_doubles(torch.from_numpy(values).to(place)).cpu().numpy()
    assert (got.view(np.uint32) == want.view(np.uint32)).all()
    assert np.isinf(want).any()
    assert ((np.abs(values) < 2.0**-126) & (values != 0)).any()


def test_a_zero_has_no_sign():
    for zeros in ([-0.0], [0.0, -0.0]):
        got = round_doubles(torch.tensor(zeros, dtype=torch.float64)).numpy()
        assert (got.view(np.uint32) == 0).all()


@pytest.mark.parametrize("formats", ["mxint8", "mxfp4_e2m1", "nvfp4"])
def test_groups_that_are_no_numbers(formats, floats):
    """As codes from elsewhere may have them: they count as zeros."""
    results = []
    x, w = floats(9, 40), floats(40, 7)
    for kind in (GoldenDevice, TorchGoldenDevice):
        device = kind(formats=formats)
        tensor = device.convert(x, "x", tag=0)
        spoilt = []
        for stored in tensor.copies:
            exponents = stored.exponents.copy()
            exponents[3, 0] = tensor.storage.format.nan_byte
            spoilt.append(replace(stored, exponents=exponents))
        operand = replace(tensor, copies=tuple(spoilt))
        results.append(device.forward(operand, device.convert(w, "w", tag=1)))
    same(*results)
    assert device.exact_in_torch == 1
    plain = device.forward(tensor, device.convert(w, "w", tag=1))
    assert not np.array_equal(results[0].y[3], plain.y[3])


def test_stacks_are_numpys(floats):
    given = {"formats": "bfp4", "seed": 1}
    x, w = floats(3, 9, 17), floats(3, 17, 5)
    device = TorchGoldenDevice(**given)
    same(device.forward(x, w), GoldenDevice(**given).forward(x, w))
    assert device.exact_in_torch == 0


def test_a_tensor_is_decoded_once_and_forgotten_with_it(floats, monkeypatch):
    from diastole.torch import exact

    decoded = []

    def decode(tensor, number, where):
        decoded.append(tensor.tensor_class)
        return once(tensor, number, where)

    once = exact.decode
    monkeypatch.setattr(exact, "decode", decode)
    device = TorchGoldenDevice(formats="bfp4")
    first = device.forward(floats(8, 9), floats(9, 4))
    device.backward(first.operands["X"], first.operands["W"], floats(8, 4))
    assert decoded == ["x", "w", "dy"]
    assert len(device._decoded) == 2
    del first
    gc.collect()
    assert len(device._decoded) == 0


def test_copies_and_pickles(floats):
    device = TorchGoldenDevice(formats="bfp4", seed=9)
    x, w = floats(8, 9), floats(9, 4)
    want = device.forward(x, w, tags=(0, 1))
    for other in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        same(other.forward(x, w, tags=(0, 1)), want)


def test_no_such_place():
    with pytest.raises(RuntimeError, match="nonsense"):
        TorchGoldenDevice(formats="bfp4", device="nonsense")
