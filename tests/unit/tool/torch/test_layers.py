"""``Linear`` and ``convert``: bits, what is shared, what is swapped, and what is left."""

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Linear, TorchGoldenDevice, convert, steps  # noqa: E402
from support.texts import exactly  # noqa: E402


def device_of(formats="bfp4", seed=3):
    return GoldenDevice(formats=formats, seed=seed)


class Model(nn.Module):
    """Two blocks with linear layers, one of them used twice, and others beside them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2))
        self.again = self.blocks[0][0]
        self.conv = nn.Conv1d(8, 8, 1)
        self.last = nn.Linear(8, 3, bias=False)

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        return self.last(self.again(h))


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Model()


def test_a_layer_is_the_products_of_its_device(floats):
    layer = Linear(9, 5, device=device_of(), number=6)
    x, dy = floats(2, 4, 9), floats(2, 4, 5)
    tx = torch.tensor(x, requires_grad=True)
    y = layer(tx)
    y.backward(torch.from_numpy(dy))
    own, w = device_of(), layer.weight.detach().numpy().T
    forward = own.forward(x.reshape(8, 9), w, tags=(24, 25))
    held = forward.operands["X"], forward.operands["W"]
    both = own.backward(*held, dy.reshape(8, 5), tags=(24, 25, 26))
    bias = layer.bias.detach().numpy()
    assert np.array_equal(y.detach().numpy(), (forward.y + bias).reshape(2, 4, 5))
    assert np.array_equal(tx.grad.numpy(), both.dx.reshape(2, 4, 9))
    assert np.array_equal(layer.weight.grad.numpy(), both.dw.T)
    assert np.array_equal(layer.bias.grad.numpy(), torch.from_numpy(dy).sum((0, 1)).numpy())


def test_layers_of_a_device_are_numbered():
    device, other = device_of(), device_of()
    made = [Linear(2, 2, device=each) for each in (device, device, other, device)]
    assert [layer.number for layer in made] == [0, 1, 0, 2]
    assert Linear(2, 2, device=device, number=40).number == 40
    with pytest.raises(
        ValueError, match=exactly("number must be an integer in 0..536870911, not -1")
    ):
        Linear(2, 2, device=device, number=-1)


def test_an_optimiser_trains_it():
    torch.manual_seed(0)
    net = nn.Sequential(
        Linear(8, 16, device=device_of()), nn.ReLU(), Linear(16, 1, device=device_of())
    )
    x = torch.randn(64, 8)
    y = x[:, :1] * x[:, 1:2]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_all_are_swapped_and_parameters_are_shared(model):
    before = dict(model.named_parameters(remove_duplicate=False))
    old = model.first
    swapped = convert(model, formats="bfp4", seed=4)
    assert dict(swapped.layers) == {
        "first": 0,
        "blocks.0.0": 1,
        "blocks.1.0": 2,
        "again": 1,
        "last": 3,
    }
    assert model.again is model.blocks[0][0]
    assert {type(model.get_submodule(name)) for name in swapped.layers} == {Linear}
    assert type(model.conv) is nn.Conv1d
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert type(old) is nn.Linear
    assert not old._forward_pre_hooks  # what the new one has of its own
    assert model.first._parameters is not old._parameters
    assert old.weight is model.first.weight
    assert (swapped.device.seed, type(swapped.device)) == (4, TorchGoldenDevice)
    assert swapped.steps is steps(swapped.device)
    assert str(swapped) == (
        "first: swapped, number 0\nblocks.0.0: swapped, number 1\nblocks.1.0: swapped, number 2\n"
        "again: swapped, number 1\nlast: swapped, number 3"
    )
    assert repr(model.last) == "Linear(in_features=8, out_features=3, bias=False, number=3)"
    assert set(model.state_dict()) == set(Model().state_dict())
    Model().load_state_dict(model.state_dict())


def test_the_swapped_model_computes_with_the_device(model, floats):
    x = torch.from_numpy(floats(5, 6))
    plain = copy.deepcopy(model)
    device = device_of()
    convert(model, device=device)
    h, own = x.numpy(), device_of()
    layers = [("first", 0), ("blocks.0.0", 1), ("blocks.1.0", 2), ("again", 1), ("last", 3)]
    for name, number in layers:
        layer = plain.get_submodule(name)
        w = layer.weight.detach().numpy().T
        h = own.forward(h, w, tags=(4 * number, 4 * number + 1)).y
        if layer.bias is not None:
            h = h + layer.bias.detach().numpy()
        if name.startswith("blocks"):
            h = np.maximum(h, 0)
    assert np.array_equal(model(x).detach().numpy(), h)


@pytest.mark.parametrize(
    "names, found",
    [
        ("last", ["last"]),
        ("blocks.*", ["blocks.0.0", "blocks.1.0"]),
        (["last", "f*"], ["first", "last"]),
        ("*[!t]", ["blocks.0.0", "blocks.1.0", "again"]),
    ],
)
def test_names_choose(names, found, model):
    assert list(convert(model, formats="bfp4", names=names).layers) == found


def test_names_that_match_nothing(model):
    cases = {
        "head": (
            "names: 'head' matches no nn.Linear; there is first, blocks.0.0, blocks.1.0, "
            "again, last"
        ),
        "conv": "names: 'conv' matches no nn.Linear, but conv, a Conv1d",
        ("last", "blocks.?"): (
            "names: 'blocks.?' matches no nn.Linear, but blocks.0, a Sequential, "
            "blocks.1, a Sequential"
        ),
    }
    for names, message in cases.items():
        with pytest.raises(ValueError, match=exactly(message)):
            convert(model, formats="bfp4", names=names)
    assert not [each for each in model.modules() if isinstance(each, Linear)]
    with pytest.raises(ValueError, match=exactly("names: '*' matches no nn.Linear, but 0, a ReLU")):
        convert(nn.Sequential(nn.ReLU()), formats="bfp4")
    convert(model, formats="bfp4", names=["first", "last"])
    message = "names: '[fcl]*' matches no nn.Linear, but first, a Linear of diastole.torch, "
    message += "last, a Linear of diastole.torch, conv, a Conv1d"
    with pytest.raises(ValueError, match=exactly(message)):
        convert(model, formats="bfp4", names="[fcl]*")


def test_what_is_refused(model):
    cases = [
        ({}, ValueError, "formats must be given, or a device of Diastole"),
        (
            {"formats": "bfp4", "device": device_of()},
            ValueError,
            "formats must be absent: the device has its own, not 'bfp4'",
        ),
        (
            {"device": 3},
            TypeError,
            "device must be a diastole.GoldenDevice or a diastole.Device, not 3",
        ),
    ]
    for given, kind, message in cases:
        with pytest.raises(kind, match=exactly(message)):
            convert(model, **given)
    with pytest.raises(TypeError, match=exactly("model must be a torch.nn.Module, not list")):
        convert([model], formats="bfp4")
    message = "model is a Linear itself, which has no place to swap: Linear.of(model)"
    with pytest.raises(ValueError, match=exactly(message)):
        convert(model.last, formats="bfp4")
    model.last.half()
    with pytest.raises(ValueError, match=exactly("last must hold float32, not torch.float16")):
        convert(model, formats="bfp4")
    assert not [each for each in model.modules() if isinstance(each, Linear)]


def test_a_second_device_for_what_is_left(model):
    one = convert(model, formats="bfp4", names="first")
    rest = convert(model, formats="mxfp8_e4m3")
    assert list(rest.layers) == ["blocks.0.0", "blocks.1.0", "again", "last"]
    assert dict(rest.skipped) == {"first": "left, it is a Linear of diastole.torch"}
    assert model.first.device is one.device
    assert model.last.device is rest.device


def test_hooks_and_modes_stay(model, floats):
    seen = []
    model.first.register_forward_hook(lambda module, given, result: seen.append(result.shape))
    model.eval()
    model.first.weight.requires_grad_(False)
    convert(model, formats="bfp4")
    assert not model.first.training
    assert not model.first.weight.requires_grad
    model(torch.from_numpy(floats(5, 6))).sum().backward()
    assert seen == [(5, 8)]
    assert model.first.weight.grad is None
    assert model.first.bias.grad is not None


def test_a_layer_in_a_transformer_computes_where_gradients_are_off(floats):
    """Torch has a faster way there, which reads weights and calls no layer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()
    swapped = convert(layer, formats="mxfp4_e2m1")
    assert list(swapped.layers) == ["linear1", "linear2"]
    assert list(swapped.skipped) == ["self_attn.out_proj"]
    assert "left, it is a NonDynamicallyQuantizableLinear" in str(swapped)
    x = torch.from_numpy(floats(2, 5, 16))
    before = swapped.device.exact_in_torch
    with torch.no_grad():
        off = layer(x)
    assert swapped.device.exact_in_torch == before + 2
    assert torch.allclose(off, layer(x), atol=1e-6)


def test_nested_tensors_are_refused_in_words(floats):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    convert(encoder, formats="bfp4")
    mask = torch.tensor([[False] * 3 + [True] * 2] * 2)
    message = (
        "x must be a dense tensor, not a nested one "
        "(nn.TransformerEncoder makes those unless enable_nested_tensor=False)"
    )
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        with pytest.raises(TypeError, match=exactly(message)):
            encoder(torch.from_numpy(floats(2, 5, 16)), src_key_padding_mask=mask)


def test_a_copy_of_a_model_shares_the_device(model, floats):
    swapped = convert(model, formats="bfp4")
    twin = copy.deepcopy(model)
    assert twin.last.device is swapped.device
    assert twin.last.weight is not model.last.weight
    assert twin.last.number == model.last.number
    x = torch.from_numpy(floats(5, 6))
    assert torch.equal(twin(x), model(x))


def test_one_layer_alone(floats):
    plain = nn.Linear(9, 4)
    own = Linear.of(plain, device=device_of())
    assert own.weight is plain.weight
    x = floats(3, 9)
    want = device_of().forward(x, plain.weight.detach().numpy().T, tags=(0, 1)).y
    assert np.array_equal(
        own(torch.from_numpy(x)).detach().numpy(), want + plain.bias.detach().numpy()
    )
