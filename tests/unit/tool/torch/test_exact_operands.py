"""Types of operands and results, and what cannot be an operand: all of it said in words."""

import copy
import io
import warnings

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Conv2d, Linear, convert, matmul, report, restore  # noqa: E402
from support.texts import exactly  # noqa: E402

HALVES = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16}
INSTEAD = "diastole.torch.restore(model) gives the layers of torch back, for which it works"
FUNC = (
    "vmap, grad, jvp and the other functions of torch.func cannot differentiate or batch "
    "the work of a device: "
    "layers and matmul take axes in front, matmul a stack of w too, and backward() gives "
    "the gradients"
)
RECORD = f"and the ONNX export that uses it, cannot record a product of a device: {INSTEAD}"
EXPORT, TRACE = f"torch.export, {RECORD}", f"torch.jit.trace, {RECORD}"
READS = "must be float32, which is what a machine reads, or bfloat16 or float16, not"


def device_of(formats="bfp4", seed=7):
    overrides = tuple(f'rounding.{name}="stochastic-c"' for name in ("x", "w", "dy"))
    return GoldenDevice(formats=formats, seed=seed, overrides=overrides)


def narrow(array, kind):
    """Rounded to the type by ml_dtypes or numpy, once, in float32."""
    return array.astype(HALVES[kind]).astype(np.float32)


def wide(tensor):
    return tensor.detach().float().numpy()


@pytest.mark.parametrize("kind", list(HALVES), ids=str)
def test_halves_are_read_exactly_and_rounded_once(kind, floats):
    """Result and gradients: those of the device in float32, rounded to the type of the operands."""
    x, w, dy = (narrow(floats(*shape), kind) for shape in ((5, 19), (19, 12), (5, 12)))
    tx, tw, tdy = (torch.tensor(each).to(kind) for each in (x, w, dy))
    tx.requires_grad_(), tw.requires_grad_()
    y = matmul(tx, tw, device=device_of("bfp8"))
    y.backward(tdy)
    own = device_of("bfp8")
    forward = own.forward(x, w, tags=(0, 1))
    both = own.backward(*(forward.operands[name] for name in "XW"), dy, tags=(0, 1, 2))
    for mine, want in ((y, forward.y), (tx.grad, both.dx), (tw.grad, both.dw)):
        assert mine.dtype == kind
        assert np.array_equal(wide(mine), narrow(want, kind))
        assert not np.array_equal(wide(mine), want)


@pytest.mark.parametrize("kind", list(HALVES), ids=str)
def test_the_bias_is_added_before_the_rounding(kind, floats):
    layer = Linear(19, 6, device=device_of("bfp8"), number=0).to(kind)
    x = torch.from_numpy(floats(5, 19))
    y = layer(x.to(kind))
    forward = device_of("bfp8").forward(narrow(x.numpy(), kind), wide(layer.weight).T, tags=(0, 1))
    assert y.dtype == kind
    assert np.array_equal(wide(y), narrow(forward.y + wide(layer.bias), kind))
    assert not np.array_equal(wide(y), narrow(narrow(forward.y, kind) + wide(layer.bias), kind))
    y.sum().backward()
    assert layer.bias.grad.dtype == kind
    assert (layer.bias.grad == 5).all()


@pytest.mark.parametrize("kind", list(HALVES), ids=str)
@pytest.mark.parametrize("given", [torch.float32, *HALVES], ids=str)
def test_autocast(given, kind, floats):
    """The result has the type of autocast, rounded once; operands of any type are read as they
    are, and gradients have the types of the operands."""
    layer = Linear(19, 6, device=device_of(), number=0)
    x = torch.from_numpy(floats(5, 19)).to(given)
    plain = nn.Linear(19, 6)
    plain.load_state_dict(layer.state_dict())
    x.requires_grad_()
    with torch.autocast("cpu", dtype=kind):
        y, want = layer(x), plain(x)
        assert matmul(x, layer.weight.t(), device=device_of()).dtype == kind
    assert y.dtype == want.dtype == kind
    own = device_of()
    forward = own.forward(wide(x), wide(layer.weight).T, tags=(0, 1))
    assert np.array_equal(wide(y), narrow(forward.y + wide(layer.bias), kind))
    dy = torch.from_numpy(floats(5, 6)).to(kind)
    y.backward(dy)
    both = own.backward(*(forward.operands[name] for name in "XW"), wide(dy), tags=(0, 1, 2))
    assert (x.grad.dtype, layer.weight.grad.dtype) == (given, torch.float32)
    assert np.array_equal(layer.weight.grad.numpy(), both.dw.T)
    assert torch.equal(x.grad, torch.from_numpy(both.dx).to(given))


def test_training_with_autocast_and_a_scaler(floats):
    net = nn.Sequential(Linear(8, 8, device=device_of()), nn.ReLU())
    x = torch.from_numpy(floats(4, 8))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net[0].weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = net(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert net[0].weight.dtype == torch.float32
    assert not torch.equal(net[0].weight, before)


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (
            lambda x, w: (x.double(), w),
            TypeError,
            f"x {READS} torch.float64: convert it with .float()",
        ),
        (
            lambda x, w: (x, w.int()),
            TypeError,
            f"w {READS} torch.int32: convert it with .float()",
        ),
        (
            lambda x, w: (x, w.cfloat()),
            TypeError,
            f"w {READS} torch.complex64: convert it with .float()",
        ),
        (
            lambda x, w: (x.half(), w),
            TypeError,
            "x and w must have one type where autocast is off, not torch.float16 and torch.float32",
        ),
        (lambda x, w: (x.numpy(), w), TypeError, "x must be a tensor of torch, not ndarray"),
        (
            lambda x, w: (x.to_sparse(), w),
            TypeError,
            "x must be a dense tensor, not one of layout torch.sparse_coo",
        ),
        (
            lambda x, w: (x.to("meta"), w),
            RuntimeError,
            "x must hold numbers: a tensor on the device meta has none",
        ),
        (
            lambda x, w: (x, w.to("meta")),
            RuntimeError,
            "w must hold numbers: a tensor on the device meta has none",
        ),
    ],
)
def test_operands_that_are_refused(change, kind, message):
    with pytest.raises(kind, match=exactly(message)):
        matmul(*change(torch.zeros(5, 9), torch.zeros(9, 6)), device=device_of())


def test_a_tensor_that_wraps_others_is_refused():
    from torch.testing._internal.two_tensor import TwoTensor

    message = "input must be a plain tensor, not a TwoTensor, which wraps others"
    with pytest.raises(TypeError, match=exactly(message)):
        Linear(9, 4, device=device_of())(TwoTensor(torch.zeros(2, 9), torch.zeros(2, 9)))


def test_a_subclass_that_is_a_tensor_is_taken(floats):
    class Named(torch.Tensor):
        pass

    layer, x = Linear(9, 4, device=device_of()), torch.from_numpy(floats(2, 9))
    assert torch.equal(layer(x.as_subclass(Named)).as_subclass(torch.Tensor), layer(x))


LAYERS = {
    "linear": (lambda: Linear(8, 4, device=device_of()), (3, 8)),
    "conv": (lambda: Conv2d(2, 4, 3, device=device_of()), (3, 2, 5, 5)),
}


def forward_mode(net, x):
    with torch.autograd.forward_ad.dual_level():
        return net(torch.autograd.forward_ad.make_dual(x, x))


def make_fx(net, x):
    return torch.fx.experimental.proxy_tensor.make_fx(net)(x)


def onnx_by_trace(net, x):
    torch.onnx.export(net, (x,), io.BytesIO(), dynamo=False)


def fake(net, x):
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return net(mode.from_tensor(x))


CANNOT = {
    "vmap": (lambda net, x: torch.vmap(net)(x[None]), FUNC),
    "grad": (lambda net, x: torch.func.grad(lambda x: net(x).sum())(x), FUNC),
    "jacrev": (lambda net, x: torch.func.jacrev(net)(x), FUNC),
    "jvp": (lambda net, x: torch.func.jvp(net, (x,), (x,)), FUNC),
    "forward mode": (
        forward_mode,
        "a device has no forward mode of autograd: call backward() instead",
    ),
    "export": (lambda net, x: torch.export.export(net, (x,), strict=False), EXPORT),
    "make_fx": (make_fx, EXPORT),
    "fake": (fake, EXPORT),
    "trace": (lambda net, x: torch.jit.trace(net, (x,)), TRACE),
    "onnx": (onnx_by_trace, TRACE),
    "script": (
        lambda net, x: torch.jit.script(net),
        f"torch.jit.script cannot compile a product of a device: {INSTEAD}",
    ),
    "fx": (
        lambda net, x: torch.fx.symbolic_trace(net),
        f"torch.fx cannot trace a product of a device: {INSTEAD}",
    ),
}


@pytest.mark.filterwarnings("ignore")  # torch's own, of what it gives up
@pytest.mark.parametrize("what", CANNOT)
@pytest.mark.parametrize("layer", LAYERS)
def test_what_cannot_be_done_says_so(what, layer, floats):
    make, shape = LAYERS[layer]
    run, message = CANNOT[what]
    with pytest.raises(RuntimeError, match=exactly(message)):
        run(nn.Sequential(make()), torch.from_numpy(floats(*shape)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", CANNOT)
@pytest.mark.parametrize("layer", LAYERS)
def test_what_cannot_be_done_ends_no_counting(what, layer, floats):
    """Of a first forward pass: the next one is counted."""
    make, shape = LAYERS[layer]
    run, message = CANNOT[what]
    net = convert(nn.Sequential(make().restored()), formats="bfp4")
    x = torch.from_numpy(floats(*shape))
    with pytest.raises(RuntimeError, match=exactly(message)):
        run(net, x)
    net(x)
    assert report(net).share == 1
    assert not net._forward_hooks


@pytest.mark.parametrize("layer", LAYERS)
def test_compiling_leaves_layers_out_unless_nothing_may_be(layer, floats):
    make, shape = LAYERS[layer]
    net, x = nn.Sequential(make(), nn.ReLU()), torch.from_numpy(floats(*shape))
    with warnings.catch_warnings(action="ignore"):
        compiled = torch.compile(net, backend="eager")
        assert torch.equal(compiled(x), net(x))
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
            torch.compile(net, backend="eager", fullgraph=True)(x)
        said = "a product of a device cannot be compiled or exported: "
        said += f"torch.compile leaves it out unless fullgraph=True; {INSTEAD}"
        assert said in str(caught.value)
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
            torch.export.export(net, (x,), strict=True)
        assert said in str(caught.value)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", ["export", "trace", "script", "vmap", "fx"])
def test_what_is_restored_can_do_all(what, floats):
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(36, 2))
    x = torch.from_numpy(floats(3, 2, 5, 5))
    want = net(x)
    convert(net, formats="bfp4")(x)
    CANNOT[what][0](restore(net), x)
    assert torch.equal(net(x), want)


def test_no_gradients_of_gradients_of_a_layer(floats):
    layer, x = LAYERS["conv"][0](), torch.from_numpy(floats(3, 2, 5, 5)).requires_grad_()
    (dx,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        dx.sum().backward()


def test_functional_calls_and_copies(floats):
    """Other parameters for one call, as torch.func has them without a transform."""
    layer, x = LAYERS["linear"][0](), torch.from_numpy(floats(3, 8))
    other = {name: each.detach() * 2 for name, each in layer.named_parameters()}
    twin = copy.deepcopy(layer)
    twin.load_state_dict(other)
    assert torch.equal(torch.func.functional_call(layer, other, (x,)), twin(x))


def test_distributed_data_parallel(floats, tmp_path):
    """A group of a single process gives the gradients of a run without a group."""
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("this torch has no torch.distributed")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        layer, x = LAYERS["conv"][0](), torch.from_numpy(floats(3, 2, 5, 5))
        layer(x).sum().backward()
        want = [each.grad.clone() for each in layer.parameters()]
        layer.zero_grad()
        from diastole.torch import steps

        steps(layer.device).number = 0
        wrapped = nn.parallel.DistributedDataParallel(layer)
        wrapped(x).sum().backward()
        for each, one in zip(layer.parameters(), want, strict=True):
            assert torch.equal(each.grad, one)
    finally:
        dist.destroy_process_group()
