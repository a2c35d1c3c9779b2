"""``Conv2d``: its three products against convolutions in float64, and against its device."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Conv2d, TorchGoldenDevice, steps  # noqa: E402
from support.texts import exactly  # noqa: E402

SHAPES = [
    {"kernel_size": 3},
    {"kernel_size": 1},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": (2, 3), "stride": (3, 1), "padding": (0, 2)},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": (2, 4), "padding": "same", "dilation": (1, 2)},
    {"kernel_size": 2, "padding": "valid", "dilation": (3, 2)},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 2, "groups": 4, "dilation": 2, "bias": False},
    {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": (2, 1), "padding_mode": "circular", "stride": 2},
    {"kernel_size": (4, 2), "padding": "same", "padding_mode": "replicate", "groups": 2},
]


def names(options):
    return "-".join(f"{key}={value}" for key, value in options.items())


def integers(np_rng, *shape):
    """Which bfp8 holds exactly, whatever shares their scale: so does every sum of products here."""
    return np_rng.integers(-31, 32, shape).astype(np.float32)


def device_of(formats="bfp4", seed=7, overrides=()):
    return GoldenDevice(formats=formats, seed=seed, overrides=overrides)


def float64(plain, x, dy):
    """The result and the gradients of nn.Conv2d in float64."""
    twin = nn.Conv2d.__new__(nn.Conv2d)
    twin.__dict__.update(vars(plain))
    twin._parameters = {
        name: None if each is None else nn.Parameter(each.detach().double())
        for name, each in plain._parameters.items()
    }
    x = x.detach().double().requires_grad_()
    y = twin(x)
    y.backward(dy.double().expand_as(y))
    return [y.detach(), x.grad, *(each.grad for each in twin.parameters())]


def found(layer, x, dy):
    x = x.detach().clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    y.backward(dy.to(y.dtype).expand_as(y))
    return [y.detach(), x.grad, *(each.grad for each in layer.parameters())]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch's own
@pytest.mark.parametrize("options", SHAPES, ids=names)
@pytest.mark.parametrize("batch", [(3,), ()], ids=["batch", "one"])
def test_integers_are_convolved_exactly(options, batch, np_rng):
    """Where no operand is rounded, all three products are those of float64, in every shape."""
    plain = nn.Conv2d(4, 8, **options)
    with torch.no_grad():
        for each in plain.parameters():
            each.copy_(torch.from_numpy(integers(np_rng, *each.shape)))
    x = torch.from_numpy(integers(np_rng, *batch, 4, 9, 7))
    dy = torch.from_numpy(integers(np_rng, *plain(x).shape))
    layer = Conv2d.of(plain, device=device_of("bfp8"))
    want, got = float64(plain, x, dy), found(layer, x, dy)
    for mine, exact in zip(got, want, strict=True):
        assert mine.dtype == torch.float32
        assert mine.shape == exact.shape
        assert mine.is_contiguous()
        assert torch.equal(mine.double(), exact)


def windows(x, options):
    """What each pixel of the result sees, in loops: (groups, N * pixels, K), with zeros around."""
    size = np.broadcast_to(options["kernel_size"], 2)
    stride, dilation = (np.broadcast_to(options.get(key, 1), 2) for key in ("stride", "dilation"))
    padding, groups = np.broadcast_to(options.get("padding", 0), 2), options.get("groups", 1)
    x = np.pad(x, [(0, 0), (0, 0), *((side, side) for side in padding)])
    count, channels, high, wide = x.shape
    rows = range(0, high - (size[0] - 1) * dilation[0], stride[0])
    columns = range(0, wide - (size[1] - 1) * dilation[1], stride[1])
    own = channels // groups
    return np.array(
        [
            [
                [
                    x[n, g * own + c, row + i * dilation[0], column + j * dilation[1]]
                    for c, i, j in itertools.product(range(own), range(size[0]), range(size[1]))
                ]
                for n, row, column in itertools.product(range(count), rows, columns)
            ]
            for g in range(groups)
        ]
    )


@pytest.mark.parametrize("formats", ["bfp4", "mxfp4_e2m1", "nvfp4"])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (2, 1), "groups": 2},
    ],
    ids=names,
)
def test_products_of_the_unfolded_operands(options, formats, floats):
    """Bits of the device, and float64's sums of what it stored; the draws of each group are those
    of the layers with the numbers that follow."""
    plain = nn.Conv2d(4, 6, **options)
    overrides = tuple(f'rounding.{name}="stochastic-b"' for name in ("x", "w", "dy"))
    layer = Conv2d.of(plain, device=device_of(formats, overrides=overrides), number=5)
    x = floats(2, 4, 6, 5)
    groups, rows = plain.groups, windows(x, options)
    dy = floats(*plain(torch.from_numpy(x)).shape)
    y, dx, dw, db = (each.numpy() for each in found(layer, *map(torch.from_numpy, (x, dy))))
    weight = plain.weight.detach().numpy().reshape(groups, 6 // groups, -1)
    dy_rows = dy.reshape(2, groups, 6 // groups, -1).transpose(1, 0, 3, 2)
    dy_rows = dy_rows.reshape(groups, rows.shape[1], -1)
    own, want_y, want_dw, dx_rows = device_of(formats, overrides=overrides), [], [], []
    for group in range(groups):
        tags = tuple(4 * (5 + group) + number for number in range(3))
        forward = own.forward(rows[group], weight[group].T, tags=tags[:2])
        held = forward.operands["X"], forward.operands["W"]
        both = own.backward(*held, dy_rows[group], tags=tags)
        x_down, w_down, dy_down = (  # along the axis that the product does not sum over
            each.values(len(each.copy_values()) - 1) for each in (*held, both.operands["dY"])
        )
        sums = {
            "y": (forward.y, held[0].values() @ w_down.astype(np.float64)),
            "dx": (both.dx, both.operands["dY"].values() @ held[1].values().T.astype(np.float64)),
            "dw": (both.dw, x_down.T @ dy_down.astype(np.float64)),
        }
        for mine, exact in sums.values():
            assert np.array_equal(mine, exact.astype(np.float32))
        want_y.append(forward.y)
        want_dw.append(both.dw.T)
        dx_rows.append(both.dx)
    bias = plain.bias.detach().numpy()[:, None, None]
    pixels = np.array(want_y).transpose(0, 2, 1).reshape(6, 2, -1).swapaxes(0, 1)
    assert np.array_equal(y, pixels.reshape(y.shape) + bias)
    assert np.array_equal(dw, np.array(want_dw).reshape(dw.shape))
    assert np.allclose(db, dy.sum((0, 2, 3)), rtol=1e-5, atol=1e-5)
    places = windows(np.arange(x.size, dtype=np.float64).reshape(x.shape) + 1, options)
    sums = np.zeros(x.size + 1)
    np.add.at(sums, places.astype(int).ravel(), np.array(dx_rows, np.float64).ravel())
    assert np.allclose(dx, sums[1:].reshape(x.shape), rtol=1e-6, atol=1e-6)


def test_groups_are_layers_of_their_own():
    device = device_of()
    made = [Conv2d(4, 4, 1, groups=groups, device=device) for groups in (1, 4, 2)]
    assert [layer.number for layer in made] == [0, 1, 5]
    assert repr(made[1]).endswith("groups=4, number=1)")
    message = "number must be an integer in 0..536870908, not 536870909"
    with pytest.raises(ValueError, match=exactly(message)):
        Conv2d(4, 4, 1, groups=4, device=device, number=536870909)


@pytest.mark.parametrize("needed", list(itertools.product([True, False], repeat=3)), ids=str)
def test_gradients_that_nobody_wants(needed, floats):
    plain, x = nn.Conv2d(2, 3, 3), torch.from_numpy(floats(1, 2, 5, 5))
    layer = Conv2d.of(plain, device=device_of())
    want = found(layer, x, torch.ones(1))[1:]
    for each, need in zip((x, *layer.parameters()), needed, strict=True):
        each.requires_grad_(need)
    layer.zero_grad()
    y = layer(x)
    assert y.requires_grad == any(needed)
    if any(needed):
        y.sum().backward()
    for each, need, one in zip((x, *layer.parameters()), needed, want, strict=True):
        assert (each.grad is not None) == need
        assert not need or torch.equal(each.grad, one)


@pytest.mark.parametrize("groups", [1, 2])
def test_empty_batches(groups):
    layer = Conv2d(4, 6, 3, padding=1, groups=groups, device=device_of())
    y, dx, dw, db = found(layer, torch.zeros(0, 4, 5, 7), torch.zeros(1))
    assert y.shape == (0, 6, 5, 7)
    assert dx.shape == (0, 4, 5, 7)
    assert not dw.any()
    assert not db.any()


def test_no_channels():
    """Torch warns where such a layer is made."""
    with pytest.warns(UserWarning, match="zero-element"):
        layer = Conv2d(0, 6, 3, device=device_of())
    y, dx, dw, db = found(layer, torch.zeros(2, 0, 5, 7), torch.ones(1))
    assert torch.equal(y, layer.bias.detach()[:, None, None].expand(2, 6, 3, 5))
    assert (dx.numel(), dw.numel()) == (0, 0)
    assert torch.equal(db, torch.full((6,), 30.0))


def test_images_with_channels_last(floats):
    """And views: the same numbers, in the order in memory that nn.Conv2d gives."""
    plain, x = nn.Conv2d(4, 6, 3, padding=1), torch.from_numpy(floats(2, 4, 5, 7))
    layer = Conv2d.of(plain, device=device_of())
    want, last = layer(x), x.contiguous(memory_format=torch.channels_last)
    for given in (last, x.flip(3).flip(3), x.transpose(2, 3).contiguous().transpose(2, 3)):
        assert torch.equal(layer(given), want)
        assert layer(given).stride() == plain(given).stride()
    assert want.stride() == plain(x).stride()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_halves_are_rounded_once(kind, floats):
    """Results and gradients are those of float32, rounded at the end alone."""
    plain = nn.Conv2d(3, 5, 3, padding=1).to(kind)
    x, dy = torch.from_numpy(floats(2, 3, 8, 8)).to(kind), torch.from_numpy(floats(2, 5, 8, 8))
    layer = Conv2d.of(plain, device=device_of(), number=0)
    got = found(layer, x, dy)
    twin = Conv2d(3, 5, 3, padding=1, device=device_of(), number=0)
    twin.load_state_dict({name: each.float() for name, each in plain.state_dict().items()})
    want = found(twin, x.float(), dy.to(kind).float())
    for mine, wide in zip(got, want, strict=True):
        assert mine.dtype == kind
        assert torch.equal(mine, wide.to(kind))
    steps(layer.device).number = 0
    with torch.autocast("cpu", dtype=kind):
        y = twin(x.float())
    assert y.dtype == kind
    assert torch.equal(y, got[0])


def test_exact_products_run_in_torch(floats):
    """Of a layer without groups: its three products; a stack is numpy's."""
    device = TorchGoldenDevice(formats="bfp4")
    found(Conv2d(3, 5, 3, device=device), torch.from_numpy(floats(2, 3, 8, 8)), torch.ones(1))
    assert device.exact_in_torch == 3


def test_it_trains(np_rng):
    """To tell horizontal from vertical edges."""
    torch.manual_seed(0)
    device = device_of()
    net = nn.Sequential(
        Conv2d(1, 4, 3, device=device), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1), nn.Flatten(0)
    )
    x = torch.from_numpy(np.repeat(np_rng.standard_normal((64, 1, 8, 1)), 8, 3).astype(np.float32))
    y = torch.from_numpy((np_rng.random(64) < 0.5).astype(np.float32))
    x = torch.where(y[:, None, None, None] > 0, x, x.transpose(2, 3))
    net(x)
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.02), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


SMALL = "input must have at least the 5 x 5 pixels that the kernel spans,"


@pytest.mark.parametrize(
    "shape, message",
    [
        ((2, 4, 5, 5), "input must be (N, 3, rows, columns), or without N, not (2, 4, 5, 5)"),
        ((5, 5), "input must be (N, 3, rows, columns), or without N, not (5, 5)"),
        ((2, 3, 4, 9), f"{SMALL} not 4 x 9 with its padding"),
    ],
)
def test_images_that_do_not_fit(shape, message):
    layer = Conv2d(3, 4, 3, dilation=2, device=device_of())
    with pytest.raises(ValueError, match=exactly(message)):
        layer(torch.zeros(shape))
