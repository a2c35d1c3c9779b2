"""``matmul``: the bits of the device, the gradients of the hardware, and what is refused."""

import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

import diastole.torch  # noqa: E402
from diastole import Device, GoldenDevice  # noqa: E402
from diastole.config.presets import PRODUCTS_ONLY  # noqa: E402
from diastole.torch import TorchGoldenDevice, matmul  # noqa: E402
from diastole_sim.golden import numpy_device as golden  # noqa: E402
from support.texts import exactly  # noqa: E402

STOCHASTIC = tuple(f'rounding.{name}="stochastic-c"' for name in ("x", "w", "dy"))
FORMATS = ["bfp4", "fp8_e4m3", "nvfp4", {"x": "mxfp8_e4m3", "w": "mxfp8_e4m3", "dy": "mxfp8_e5m2"}]


def device_of(formats="bfp4", seed=7):
    return GoldenDevice(formats=formats, seed=seed, overrides=STOCHASTIC)


def bits(values):
    return np.ascontiguousarray(values).view(np.uint32)


def equal(tensor, array):
    assert tensor.dtype == torch.float32
    assert tuple(tensor.shape) == array.shape
    return (bits(tensor.detach().cpu().numpy()) == bits(array)).all()


@pytest.fixture
def tensors(floats):
    """X (5 x 19), W (19 x 12) and dY, as arrays and as tensors with gradients."""
    arrays = floats(5, 19), floats(19, 12), floats(5, 12)
    x, w, dy = (torch.tensor(each) for each in arrays)
    return arrays, (x.requires_grad_(), w.requires_grad_(), dy)


@pytest.mark.parametrize("formats", FORMATS, ids=str)
def test_bits_of_the_device(formats, tensors):
    """Of a device that is asked itself, with the operands that it converted."""
    (x, w, dy), (tx, tw, tdy) = tensors
    y = matmul(tx, tw, device=device_of(formats), tags=(40, 51, 62), step=9)
    y.backward(tdy)
    own = device_of(formats)
    forward = own.forward(x, w, tags=(40, 51), step=9)
    held = forward.operands["X"], forward.operands["W"]
    both = own.backward(*held, dy, tags=(40, 51, 62), step=9)
    assert equal(y, forward.y)
    assert equal(tx.grad, both.dx)
    assert equal(tw.grad, both.dw)
    other = own.backward(*held, dy, tags=(40, 51, 63), step=9)
    assert not equal(tx.grad, other.dx)


def test_bits_of_the_generated_verilog(floats):
    """A machine in simulation gives them too, and is not asked for more than is needed."""
    config = PRODUCTS_ONLY["pico"]
    x, w, dy = floats(5, 9), floats(9, 6), floats(5, 6)
    found = []
    with Device(config, seed=3) as machine:
        for device in (machine, GoldenDevice(config, seed=3)):
            tx, tw = (torch.tensor(each, requires_grad=True) for each in (x, w))
            y = matmul(tx, tw, device=device)
            y.backward(torch.from_numpy(dy))
            found.append([bits(each.detach().numpy()) for each in (y, tx.grad, tw.grad)])
    for one, other in zip(*found, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("formats", FORMATS, ids=str)
def test_gradients_of_the_dequantised_operands(formats, tensors):
    """Autograd in float64 on what is stored: the same within the last rounding, where exact."""
    (x, w, dy), (tx, tw, tdy) = tensors
    device = device_of(formats)
    y = matmul(tx, tw, device=device, tags=(0, 1, 2), step=0)
    y.backward(tdy)
    # Each product reads the copy whose groups lie along its contraction.
    along = {"Y": ("k", "k"), "dX": ("n", "n"), "dW": ("m", "m")}
    stored = {}
    for name, array, tag in (("x", x, 0), ("w", w, 1), ("dy", dy, 2)):
        values = device.convert(array, name, tag=tag, step=0).copy_values()
        stored[name] = {axis: torch.from_numpy(each).double() for axis, each in values.items()}

    def of(name, axis):
        return stored[name].get(axis, stored[name].get("")).requires_grad_()

    results = {"Y": y, "dX": tx.grad, "dW": tw.grad}
    wide_x, wide_w = of("x", "k"), of("w", "k")
    wide_y = wide_x @ wide_w
    (dx,) = torch.autograd.grad(wide_x @ of("w", "n"), wide_x, of("dy", "n").detach())
    (dw,) = torch.autograd.grad(of("x", "m") @ wide_w, wide_w, of("dy", "m").detach())
    assert set(along) == set(results)
    for name, want in zip(results, (wide_y, dx, dw), strict=True):
        error = (results[name].double() - want).abs().max() / want.abs().max()
        assert error < 2.0 ** (-24 if formats in ("bfp4", "nvfp4") else -11), name


def test_axes_in_front_are_one(floats):
    """One product of all rows: one conversion, with one draw for each place."""
    x, w, dy = floats(2, 3, 4, 19), floats(19, 12), floats(2, 3, 4, 12)
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    y = matmul(tx, tw, device=device_of())
    y.backward(torch.from_numpy(dy))
    own = device_of()
    forward = own.forward(x.reshape(24, 19), w, tags=(0, 1))
    held = forward.operands["X"], forward.operands["W"]
    both = own.backward(*held, dy.reshape(24, 12), tags=(0, 1, 2))
    assert equal(y, forward.y.reshape(2, 3, 4, 12))
    assert equal(tx.grad, both.dx.reshape(2, 3, 4, 19))
    assert equal(tw.grad, both.dw)
    assert equal(
        matmul(tx[0, 0, 0], tw, device=device_of()), own.forward(x[0, 0, :1], w, tags=(0, 1)).y[0]
    )


def test_a_stack_of_weights_is_a_stack_of_products(floats):
    x, w, dy = floats(4, 5, 9), floats(2, 1, 9, 6), floats(2, 4, 5, 6)
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    device = device_of()
    y = matmul(tx, tw, device=device)
    y.backward(torch.from_numpy(dy))
    own = device_of()
    forward = own.forward(x, w, tags=(0, 1))
    both = own.backward(forward.operands["X"], forward.operands["W"], dy, tags=(0, 1, 2))
    assert equal(y, forward.y)
    assert equal(tx.grad, torch.from_numpy(both.dx).sum_to_size(4, 5, 9).numpy())
    assert equal(tw.grad, torch.from_numpy(both.dw).sum_to_size(2, 1, 9, 6).numpy())
    # Eight products: the next call is the ninth, in the next step.
    assert equal(
        matmul(tx[0], tw[0, 0], device=device), own.forward(x[0], w[0, 0], tags=(32, 33), step=1).y
    )


def test_views_of_all_kinds(floats):
    """Transposed, sliced, expanded, reversed: what counts is what they say."""
    x, w = floats(19, 10), floats(12, 38)
    tx, tw = torch.from_numpy(x).t(), torch.from_numpy(w).t()[::2]
    y = matmul(tx, tw, device=device_of())
    assert equal(y, device_of().forward(x.T, w.T[::2], tags=(0, 1)).y)
    wide = torch.ones(1, 19).expand(6, 19)
    assert equal(
        matmul(wide, tw, device=device_of()),
        device_of().forward(np.ones((6, 19)), w.T[::2], tags=(0, 1)).y,
    )
    leaf = torch.zeros(5, 19, requires_grad=True)
    matmul(leaf, tw, device=device_of()).sum().backward()  # dY is expanded from one number
    own = device_of()
    held = own.convert(w.T[::2], "w", tag=1)
    want = own.dx(held, np.ones((5, 12), np.float32), tags=(1, 2)).dx
    assert equal(leaf.grad, want)


class Counting(golden.NumpyDevice):
    """Notes what it is asked for."""

    def __init__(self):
        super().__init__(device_of().numerics, 7)
        self.asked = []

    def _run(self, name, given, tags, step):
        self.asked.append(name)
        return super()._run(name, given, tags, step)


@pytest.mark.parametrize(
    "need_x, need_w, asked",
    [
        (True, True, ["forward", "backward"]),
        (True, False, ["forward", "dx"]),
        (False, True, ["forward", "dw"]),
    ],
)
def test_gradients_that_nobody_wants(need_x, need_w, asked, floats):
    x, w, dy = floats(5, 9), floats(9, 6), floats(5, 6)
    device = Counting()
    tx, tw = torch.tensor(x, requires_grad=need_x), torch.tensor(w, requires_grad=need_w)
    matmul(tx, tw, device=device).backward(torch.from_numpy(dy))
    assert device.asked == asked
    own = device_of()
    forward = own.forward(x, w, tags=(0, 1))
    held = forward.operands["X"], forward.operands["W"]
    both = own.backward(*held, dy, tags=(0, 1, 2))
    for tensor, needed, want in ((tx, need_x, both.dx), (tw, need_w, both.dw)):
        assert (tensor.grad is not None) == needed
        assert not needed or equal(tensor.grad, want)


def test_without_gradients(floats):
    x, w = torch.from_numpy(floats(5, 9)), torch.from_numpy(floats(9, 6)).requires_grad_()
    device = Counting()
    with torch.no_grad():
        y = matmul(x, w, device=device)
    assert not y.requires_grad
    assert not matmul(x, w.detach(), device=device).requires_grad
    assert device.asked == ["forward"] * 2


def test_no_gradients_of_gradients(tensors):
    _, (x, w, dy) = tensors
    y = matmul(x, w, device=device_of())
    (dx,) = torch.autograd.grad(y, x, dy.requires_grad_(), create_graph=True)
    said = "trying to differentiate twice a function that was marked with @once_differentiable"
    with pytest.raises(RuntimeError, match=said):
        dx.sum().backward()


def test_calls_with_tags_draw_the_same(tensors):
    """Until the next step; without tags every call is a layer of its own."""
    _, (x, w, _) = tensors
    device, tags = device_of(), (0, 1, 2)
    first = matmul(x, w, device=device, tags=tags)
    assert torch.equal(matmul(x, w, device=device, tags=tags), first)
    assert not torch.equal(matmul(x, w, device=device, tags=tags, step=1), first)
    assert torch.equal(matmul(x, w, device=device), first)
    assert not torch.equal(matmul(x, w, device=device), first)
    first.sum().backward()
    assert not torch.equal(matmul(x, w, device=device, tags=tags), first)


def test_the_gradient_twice_from_one_graph(tensors):
    """The same draws: the same bits."""
    _, (x, w, dy) = tensors
    y = matmul(x, w, device=device_of())
    first = torch.autograd.grad(y, (x, w), dy, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(y, (x, w), dy), strict=True):
        assert torch.equal(one, other)


def test_a_weight_that_changes_before_the_backward_pass(tensors):
    """What was converted counts."""
    (x, w, dy), (tx, tw, tdy) = tensors
    y = matmul(tx, tw, device=device_of())
    with torch.no_grad():
        tw.add_(1)
    y.backward(tdy)
    own = device_of()
    forward = own.forward(x, w, tags=(0, 1))
    want = own.dx(forward.operands["W"], dy, tags=(1, 2)).dx
    assert equal(tx.grad, want)


@pytest.mark.parametrize(
    "x, w",
    [((0, 9), (9, 6)), ((5, 0), (0, 6)), ((5, 9), (9, 0)), ((2, 0, 9), (9, 6)), ((0,), (0, 6))],
)
def test_empty_axes(x, w):
    """Empty results, or zeros; a layer and a step as of any other."""
    device = device_of()
    tx, tw = (torch.ones(shape, requires_grad=True) for shape in (x, w))
    y = matmul(tx, tw, device=device)
    want = torch.matmul(tx.detach(), tw.detach())
    assert torch.equal(y.detach(), want)
    y.sum().backward()
    assert (tx.grad.shape, tw.grad.shape) == (tx.shape, tw.shape)
    assert not tx.grad.any()
    assert not tw.grad.any()
    matmul(tx, tw, device=device)
    assert diastole.torch.steps(device).number == 1
    assert diastole.torch.Linear(2, 2, device=device).number == 2


@pytest.mark.parametrize(
    "x, w",
    [((0, 5, 9), (2, 0, 9, 6)), ((2, 0, 9), (2, 9, 6)), ((1, 5, 9), (0, 9, 6)), ((9,), (2, 9, 6))],
)
def test_empty_stacks_and_stacks_of_vectors(x, w):
    tx, tw = (torch.ones(shape, requires_grad=True) for shape in (x, w))
    y = matmul(tx, tw, device=device_of("bfp8"))
    assert torch.equal(y.detach(), torch.matmul(tx.detach(), tw.detach()))
    y.sum().backward()
    assert (tx.grad.shape, tw.grad.shape) == (tx.shape, tw.shape)


def test_what_is_refused(floats):
    x, w, device = torch.zeros(5, 9), torch.zeros(9, 6), device_of()
    for given, shapes in (((x, w.t()), "(5, 9) and (6, 9)"), ((x, w[:, 0]), "(5, 9) and (9,)")):
        message = f"x must be (..., K) and w (K, N), or (..., K, N) in a stack, not {shapes}"
        with pytest.raises(ValueError, match=exactly(message)):
            matmul(*given, device=device)
    for wrong in ("cpu", GoldenDevice, None):
        message = f"device must be a diastole.GoldenDevice or a diastole.Device, not {wrong!r:.60}"
        with pytest.raises(TypeError, match=exactly(message)):
            matmul(x, w, device=wrong)
    with pytest.raises(
        ValueError, match=exactly("tags must be 3 integers, for X, W and dY, not (1, 2)")
    ):
        matmul(x, w, device=device, tags=(1, 2))
    with pytest.raises(
        ValueError, match=re.escape("tag must be an integer in 0..4294967295, not -1")
    ):
        matmul(x, w, device=device, tags=(-1, 2, 3))


def test_a_contraction_that_the_machine_cannot_hold():
    device = GoldenDevice(formats="bfp4", overrides=("accumulator.headroom=1",))
    x, w = torch.zeros(2, 17), torch.zeros(17, 3)
    with pytest.raises(ValueError, match="17") as caught:
        matmul(x, w, device=device)
    with pytest.raises(ValueError, match="17") as wanted:
        device.forward(x, w)
    assert str(caught.value) == str(wanted.value)


def test_what_is_compiled_leaves_it_out(tensors):
    _, (x, w, dy) = tensors

    def twice(x, w):
        return matmul(x * 2, w, device=device) + 1

    device = device_of()
    with warnings.catch_warnings(action="ignore"):  # torch's own
        compiled = torch.compile(twice, backend="eager")(x, w)
    device = device_of()
    assert torch.equal(compiled, twice(x, w))
    compiled.backward(dy)
    assert x.grad is not None


def test_a_plain_device_has_exact_products_in_torch(tensors):
    """And keeps its own; one that somebody derived is asked itself."""
    from diastole.torch.steps import uses_of

    _, (x, w, dy) = tensors
    device = GoldenDevice(formats="bfp4", seed=1)
    matmul(x, w, device=device).backward(dy)
    assert uses_of(device).stand_in.exact_in_torch == 3
    assert type(device) is GoldenDevice
    assert uses_of(Counting()).stand_in is None
    assert uses_of(TorchGoldenDevice(formats="bfp4")).stand_in is None
    assert "torch" in diastole.torch.__doc__


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")
def test_tensors_on_a_gpu(tensors):
    """They come and go; the products run where the device says."""
    _, (x, w, dy) = tensors
    matmul(x, w, device=device_of()).backward(dy)
    there = [each.detach().cuda().requires_grad_() for each in (x, w)]
    device = TorchGoldenDevice(formats="bfp4", seed=7, overrides=STOCHASTIC, device="cuda")
    y = matmul(*there, device=device)
    assert y.is_cuda
    y.backward(dy.cuda())
    for mine, own in zip(there, (x, w), strict=True):
        assert torch.equal(mine.grad.cpu(), own.grad)
    assert device.exact_in_torch == 3
