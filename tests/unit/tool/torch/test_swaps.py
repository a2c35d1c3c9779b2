"""``convert`` and ``restore``: what is shared, what is swapped, and what comes back."""

import copy
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402
from torch.nn.utils import parametrize  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import (  # noqa: E402
    Conv2d,
    Linear,
    TorchGoldenDevice,
    convert,
    report,
    restore,
)
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


def test_all_are_swapped_and_parameters_are_shared(model):
    before = dict(model.named_parameters(remove_duplicate=False))
    old = model.first
    assert convert(model, formats="bfp4", seed=4) is model
    swapped = {name: each for name, each in model.named_modules() if isinstance(each, Linear)}
    numbers = {"first": 0, "blocks.0.0": 1, "blocks.1.0": 2, "last": 3}
    assert {name: each.number for name, each in swapped.items()} == numbers
    assert dict(report(model).layers) == numbers
    assert model.again is model.blocks[0][0]
    assert type(model.conv) is nn.Conv1d
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert type(old) is nn.Linear
    assert old.weight is model.first.weight
    (device,) = report(model).devices
    assert all(each.device is device for each in swapped.values())
    assert (device.seed, type(device)) == (4, TorchGoldenDevice)
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


def test_what_is_refused(model):
    cases = [
        ({}, ValueError, "formats must be given, or a device of Diastole"),
        (
            {"formats": "bfp4", "device": device_of()},
            ValueError,
            "formats must be left out, not 'bfp4': the device already has formats",
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
    with pytest.raises(TypeError, match=exactly("model must be a torch.nn.Module, not list")):
        restore([model])
    model.last.double()
    message = "last must hold float32, bfloat16 or float16, not torch.float64"
    with pytest.raises(ValueError, match=exactly(message)):
        convert(model, formats="bfp4")
    assert not [each for each in model.modules() if isinstance(each, Linear)]


def test_a_second_device_for_what_is_left(model):
    convert(model, formats="bfp4", names="first")
    one = model.first
    convert(model, formats="mxfp8_e4m3")
    assert model.first is one
    assert report(model).devices == (one.device, model.last.device)
    assert dict(report(model).layers) == {"first": 0, "blocks.0.0": 0, "blocks.1.0": 1, "last": 2}


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
    convert(layer, formats="mxfp4_e2m1")
    assert list(report(layer).layers) == ["linear1", "linear2"]
    x, device = torch.from_numpy(floats(2, 5, 16)), layer.linear1.device
    before = device.exact_in_torch
    with torch.no_grad():
        off = layer(x)
    assert device.exact_in_torch == before + 2
    assert torch.allclose(off, layer(x), atol=1e-6)


def test_nested_tensors_are_refused_in_words(floats):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    convert(encoder, formats="bfp4")
    mask = torch.tensor([[False] * 3 + [True] * 2] * 2)
    message = (
        "input must be a dense tensor, not a nested one "
        "(nn.TransformerEncoder makes those unless enable_nested_tensor=False)"
    )
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        with pytest.raises(TypeError, match=exactly(message)):
            encoder(torch.from_numpy(floats(2, 5, 16)), src_key_padding_mask=mask)


def test_a_copy_of_a_model_shares_the_device(model, floats):
    convert(model, formats="bfp4")
    twin = copy.deepcopy(model)
    assert twin.last.device is model.last.device
    assert twin.last.weight is not model.last.weight
    assert twin.last.number == model.last.number
    x = torch.from_numpy(floats(5, 6))
    assert torch.equal(twin(x), model(x))


class Own(nn.Linear):
    """Of a type that is not swapped."""


class Pixels(nn.Module):
    """A convolution, a layer of a type of the user's, and a head."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.own = Own(18, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.own(self.norm(self.conv(x)).flatten(1)))


def trained(model, x, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return model


def test_restore_gives_the_very_modules_back_trained(floats):
    torch.manual_seed(0)
    model, x = Pixels(), torch.from_numpy(floats(4, 1, 3, 3))
    before = dict(model.named_modules())
    kinds = {name: type(each) for name, each in before.items()}
    first = copy.deepcopy(model.state_dict())
    keys = {name: set(vars(each)) for name, each in before.items()}
    convert(model, formats="bfp4")
    assert (type(model.conv), type(model.head)) == (Conv2d, Linear)
    trained(model, x)
    model.eval()
    after = copy.deepcopy(model.state_dict())
    assert restore(model) is model
    assert dict(model.named_modules()) == before
    assert {name: type(each) for name, each in model.named_modules()} == kinds
    assert {name: set(vars(each)) for name, each in model.named_modules()} == keys
    for name, value in model.state_dict().items():
        assert torch.equal(value, after[name])
    assert not torch.equal(after["conv.weight"], first["conv.weight"])
    assert not any(each.training for each in model.modules())
    plain = Pixels()
    plain.load_state_dict(after)
    assert torch.equal(model(x), plain.eval()(x))
    for each in model.modules():
        assert not each._forward_hooks
        assert not each._forward_pre_hooks
    assert restore(model) is model


def test_restore_has_parameters_that_were_replaced(floats):
    model, x = Pixels(), torch.from_numpy(floats(4, 1, 3, 3))
    plain = model.head
    convert(model, formats="bfp4")
    state = {name: value + 1 for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    model.head.bias = None
    seen = []
    model.head.register_forward_hook(lambda *_: seen.append(1))
    restore(model)
    assert model.head is plain
    assert torch.equal(plain.weight, state["head.weight"])
    assert plain.bias is None
    model(x)
    assert seen == [1]


def test_restored_copies_are_copies():
    model = convert(Pixels(), formats="bfp4")
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        restore(twin)
        assert type(twin.head) is nn.Linear
        assert twin.head.weight is not model.head.weight
        assert torch.equal(twin.head.weight, model.head.weight)
        assert type(model.head) is Linear


def test_restore_of_layers_with_two_names(model):
    plain = model.again
    restore(convert(model, formats="bfp4"))
    assert model.again is model.blocks[0][0] is plain


def test_a_layer_that_is_the_model(floats):
    plain, x = nn.Linear(6, 3), torch.from_numpy(floats(2, 6))
    own = convert(plain, formats="bfp4")
    assert type(own) is Linear
    assert own.weight is plain.weight
    net = nn.Sequential(own)
    net(x)
    restore(net)
    assert net[0] is plain
    assert vars(plain).keys() == vars(nn.Linear(6, 3)).keys()
    assert not plain._forward_hooks
    assert type(restore(convert(nn.Conv2d(1, 2, 3), formats="bfp4"))) is nn.Conv2d


def test_what_is_parametrized_since_is_refused(floats):
    model = convert(Pixels(), formats="bfp4")
    parametrize.register_parametrization(model.head, "weight", nn.Identity())
    model(torch.from_numpy(floats(4, 1, 3, 3)))
    message = (
        "head must be a layer of diastole.torch, not a ParametrizedLinear, which is derived from "
        "one: torch.nn.utils.parametrize.remove_parametrizations undoes parametrizations"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        restore(model)
    assert type(model.conv) is Conv2d
    parametrize.remove_parametrizations(model.head, "weight")
    assert type(restore(model).head) is nn.Linear


def test_halves_are_swapped(floats):
    model, x = Pixels().bfloat16(), torch.from_numpy(floats(4, 1, 3, 3)).bfloat16()
    want = model(x)
    found = convert(model, formats="bfp8")(x)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found, want, atol=0.1)
    found.sum().backward()
    assert {each.grad.dtype for each in model.parameters()} == {torch.bfloat16}


def test_a_data_parallel_model_without_a_card(model, floats):
    """The one process computes all of it."""
    x = torch.from_numpy(floats(5, 6))
    convert(model, formats="bfp4")
    assert torch.equal(nn.DataParallel(model)(x), model(x))
    wrapped = convert(nn.DataParallel(restore(model)), formats="bfp4", names="module.l*")
    assert type(wrapped.module.last) is Linear


def test_replicas_of_a_model_compute_in_threads(model, floats):
    """As nn.DataParallel has them on several cards; the bits are those of one thread."""
    from concurrent.futures import ThreadPoolExecutor

    convert(model, device=device_of())
    xs = [torch.from_numpy(floats(5, 6)) for _ in range(8)]
    want = [model(x) for x in xs]
    replicas = [each._replicate_for_data_parallel() for each in [model.first] * 8]
    for each in replicas:
        each.weight, each.bias = model.first.weight, model.first.bias
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda pair: pair[0](pair[1]), zip(replicas, xs, strict=True)))
        whole = list(threads.map(model, xs))
    for one, x in zip(found, xs, strict=True):
        assert torch.equal(one, model.first(x))
    for one, other in zip(whole, want, strict=True):
        assert torch.equal(one, other)
