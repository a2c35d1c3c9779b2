"""Multiplications that are counted, against numbers worked out by hand."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import convert, matmul, report, steps  # noqa: E402
from diastole.torch.multiplications import Counting, count_pass  # noqa: E402


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def counted(model, *given):
    model = model if isinstance(model, nn.Module) else Function(model)
    return count_pass(model, given, {}).total


def ones(*shape):
    return torch.ones(shape)


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch's own
@pytest.mark.parametrize(
    "model, given, count",
    [
        (torch.matmul, (ones(3, 4), ones(4, 5)), 3 * 4 * 5),
        (torch.matmul, (ones(2, 3, 4), ones(2, 4, 5)), 2 * 3 * 4 * 5),
        (torch.matmul, (ones(3, 4), ones(4)), 3 * 4),
        (torch.matmul, (ones(4), ones(4)), 4),
        (torch.mv, (ones(3, 4), ones(4)), 3 * 4),
        (torch.addmv, (ones(3), ones(3, 4), ones(4)), 3 * 4),
        (torch.vdot, (ones(4), ones(4)), 4),
        (torch.addmm, (ones(5), ones(3, 4), ones(4, 5)), 3 * 4 * 5),
        (torch.baddbmm, (ones(2, 3, 5), ones(2, 3, 4), ones(2, 4, 5)), 2 * 3 * 4 * 5),
        (torch.addbmm, (ones(3, 5), ones(2, 3, 4), ones(2, 4, 5)), 2 * 3 * 4 * 5),
        (torch._int_mm, (ones(17, 8).to(torch.int8), ones(8, 8).to(torch.int8)), 17 * 8 * 8),
        (
            lambda a, b: torch.einsum("bij,kj->bik", a, b),
            (ones(2, 3, 4), ones(5, 4)),
            2 * 3 * 4 * 5,
        ),
        (functional.linear, (ones(2, 3, 4), ones(5, 4), ones(5)), 2 * 3 * 4 * 5),
        (nn.Bilinear(3, 4, 5), (ones(2, 3), ones(2, 4)), 2 * 2 * 3 * 4 * 5),
        (nn.Conv1d(4, 6, 3, groups=2), (ones(2, 4, 9),), 2 * 7 * 6 * 2 * 3),
        (nn.Conv2d(4, 6, (3, 2), stride=2, padding=1), (ones(2, 4, 9, 8),), 2 * 5 * 5 * 6 * 4 * 6),
        (nn.Conv3d(2, 3, 2), (ones(1, 2, 3, 3, 3),), 8 * 3 * 2 * 8),
        (nn.ConvTranspose2d(4, 6, 3), (ones(2, 4, 5, 5),), 2 * 25 * 4 * 6 * 9),
        (nn.RNN(4, 6), (ones(7, 2, 4),), 7 * 2 * (4 * 6 + 6 * 6)),
        (nn.GRU(4, 6, bidirectional=True), (ones(7, 2, 4),), 2 * 7 * 2 * 3 * (4 * 6 + 6 * 6)),
        (nn.LSTM(4, 6), (ones(7, 2, 4),), 7 * 2 * 4 * (4 * 6 + 6 * 6)),
        (
            nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True),
            (ones(2, 7, 4),),
            2 * 7 * 2 * 4 * (4 * 6 + 6 * 6 + 12 * 6 + 6 * 6),
        ),
        (nn.LSTM(4, 6, proj_size=2), (ones(7, 2, 4),), 7 * 2 * (24 * 4 + 24 * 2 + 2 * 6)),
        (nn.LSTMCell(4, 6), (ones(2, 4),), 2 * 4 * (4 * 6 + 6 * 6)),
        (nn.Embedding(9, 4), (torch.zeros(2, 3, dtype=torch.long),), 0),
        (nn.LayerNorm((3, 4)), (ones(2, 3, 4),), 0),
        (torch.mul, (ones(3, 4), ones(3, 4)), 0),
    ],
    ids=lambda each: str(getattr(each, "__name__", each))[:24],
)
def test_functions_and_layers(model, given, count):
    assert counted(model, *given) == count
    with torch.inference_mode():
        assert counted(model, *given) == count


def attention(batch, length, width):
    """Projections of query, key, value and result, and two products for each pair."""
    return batch * (4 * length * width**2 + 2 * length**2 * width)


@pytest.mark.parametrize("training", [True, False], ids=["training", "fast path"])
@pytest.mark.parametrize("weights", [True, False], ids=["weights", "no weights"])
def test_attention(weights, training):
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).train(training), ones(3, 5, 8)
    model = Function(lambda x: layer(x, x, x, need_weights=weights))
    assert counted(model, x) == attention(3, 5, 8)


def test_attention_of_two_lengths():
    query, key, value = ones(3, 2, 5, 4), ones(3, 2, 7, 4), ones(3, 2, 7, 6)
    count = counted(functional.scaled_dot_product_attention, query, key, value)
    assert count == 3 * 2 * 5 * 7 * (4 + 6)


@pytest.mark.parametrize("training", [True, False], ids=["training", "fast path"])
def test_encoders(training):
    layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True).train(training)
    assert counted(layer, ones(3, 5, 8)) == attention(3, 5, 8) + 3 * 5 * 2 * 8 * 32
    mask = torch.zeros(3, 5, dtype=torch.bool)
    count = count_pass(layer, (ones(3, 5, 8),), {"src_key_padding_mask": mask}).total
    assert count == attention(3, 5, 8) + 3 * 5 * 2 * 8 * 32


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_sequences():
    """What an encoder makes of padding: sequences of 2 and 5."""
    layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    mask = torch.arange(5) >= torch.tensor([[2], [5]])
    count = count_pass(encoder, (ones(2, 5, 8),), {"src_key_padding_mask": mask}).total
    each = [attention(1, length, 8) + length * 2 * 8 * 32 for length in (2, 5)]
    assert count == sum(each)


class Net(nn.Module):
    """Products in layers, in the model itself, on a device, and in a module it does not own."""

    def __init__(self, device):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout()
        self.last = nn.Linear(6, 3)
        self.device, self.hidden = device, [nn.Linear(3, 2)]

    def forward(self, x):
        h = self.drop(self.norm(self.inner(x)))
        y = self.last(h @ torch.eye(6))
        y = self.hidden[0](y)
        return matmul(y, torch.eye(2), device=self.device, tags=(0, 1, 2))


def test_who_asks_for_them():
    device = GoldenDevice(formats="bfp4")
    net = Net(device)
    tally = count_pass(net, (ones(5, 4),), {})
    assert tally.elsewhere == {"inner.0": 5 * 4 * 6, "": 5 * 6 * 6 + 5 * 3 * 2, "last": 5 * 6 * 3}
    assert tally.on_device == {"": 5 * 2 * 2}
    convert(net, device=device, names="last")
    with Counting(net) as counting:
        net(ones(5, 4)).sum().backward()
        torch.ones(9, 9) @ torch.ones(9, 9)
    assert counting.tally.on_device == {"": 5 * 2 * 2, "last": 5 * 6 * 3}
    assert counting.tally.elsewhere == {"inner.0": 5 * 4 * 6, "": 5 * 6 * 6 + 5 * 3 * 2}
    assert report(net, ones(5, 4)).share == (20 + 90) / (20 + 90 + 120 + 180 + 30)


def test_measuring_leaves_nothing_behind():
    """Nor asks it a device for anything."""
    device = GoldenDevice(formats="bfp4")
    net = convert(Net(device), device=device)
    net(ones(5, 4)).sum().backward()
    net.zero_grad()
    state, random = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    device.forward = device.dx = device.dw = device.backward = device.convert = None
    first = report(net, x=ones(5, 4))
    assert first.multiplications == report(net, ones(5, 4)).multiplications
    for name, value in net.state_dict().items():
        assert torch.equal(value, state[name])
    assert torch.equal(torch.get_rng_state(), random)
    assert all(each.grad is None for each in net.parameters())
    assert steps(device).number == 0
    assert not nn.modules.module._global_forward_hooks


def test_a_pass_that_is_computed_again_counts_once():
    """As gradient checkpointing does within the backward pass."""
    layer = nn.Linear(4, 6)
    net = nn.Sequential(layer, Function(lambda h: checkpoint(layer2, h, use_reentrant=False)))
    layer2 = nn.Linear(6, 6)
    with Counting(net) as counting:
        net(ones(5, 4)).sum().backward()
    assert counting.tally.elsewhere == {"0": 5 * 4 * 6, "1": 5 * 6 * 6}


def test_an_error_in_the_model_passes_and_ends_the_counting():
    net = nn.Sequential(nn.Linear(4, 6), nn.Linear(4, 6))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        report(net, ones(5, 4))
    assert not nn.modules.module._global_forward_hooks
    net[1] = nn.Linear(6, 2)
    assert counted(net, ones(5, 4)) == 5 * 4 * 6 + 5 * 6 * 2
