"""``Linear``: the bits of its device, its number, and what it shares with the layer it is of."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Conv2d, Linear, steps  # noqa: E402
from support.texts import exactly  # noqa: E402


def device_of(formats="bfp4", seed=3):
    return GoldenDevice(formats=formats, seed=seed)


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


def test_one_layer_alone(floats):
    plain = nn.Linear(9, 4)
    own = Linear.of(plain, device=device_of())
    assert own.weight is plain.weight
    x = floats(3, 9)
    want = device_of().forward(x, plain.weight.detach().numpy().T, tags=(0, 1)).y
    assert np.array_equal(
        own(torch.from_numpy(x)).detach().numpy(), want + plain.bias.detach().numpy()
    )


def test_what_a_layer_shares(floats):
    """Hooks that are taken away on one of both are gone on the other."""
    plain, seen = nn.Linear(9, 4), []
    handle = plain.register_forward_hook(lambda *_: seen.append(1))
    own, x = Linear.of(plain, device=device_of()), torch.from_numpy(floats(3, 9))
    own(x)
    handle.remove()
    own(x)
    assert seen == [1]
    plain.weight = nn.Parameter(torch.zeros(4, 9))
    assert own.weight is plain.weight


def test_restored_alone():
    plain = nn.Linear(9, 4)
    own = Linear.of(plain, device=device_of()).eval()
    assert own.restored() is plain
    assert not plain.training
    assert vars(plain).keys() == vars(nn.Linear(9, 4)).keys()
    assert not plain._forward_pre_hooks


@pytest.mark.parametrize("kind, sizes", [(Linear, (9, 4)), (Conv2d, (2, 4, 3))])
def test_restored_without_an_origin(kind, sizes, floats):
    own = kind(*sizes, device=device_of())
    plain = own.restored()
    assert type(plain) is kind.plain
    assert plain.weight is own.weight
    assert vars(plain).keys() == vars(kind.plain(*sizes)).keys()


@pytest.mark.parametrize("made", [Linear(4, 4, device=device_of()), None], ids=["own", "swapped"])
def test_pickles_keep_layers_and_the_step(made, floats):
    """And so the draws that come next."""
    device = made.device if made else device_of()
    layer = made or Linear.of(nn.Linear(4, 4), device=device)
    net, x = nn.Sequential(layer, Linear(4, 4, device=device)), torch.from_numpy(floats(3, 4))
    net(x).sum().backward()
    steps(device).number = 6
    again = pickle.loads(pickle.dumps(net))
    twin = again[0].device
    assert again[1].device is twin
    assert twin is not device
    assert steps(twin).number == 6
    assert Linear(4, 4, device=twin).number == 2
    assert torch.equal(again(x), net(x))
    net.zero_grad()
    for each in (net, again):
        each(x).sum().backward()
    for mine, own in zip(again.parameters(), net.parameters(), strict=True):
        assert torch.equal(mine.grad, own.grad)


def test_a_machine_in_simulation_is_not_pickled():
    from diastole_sim.host.host_device import HostDevice

    layer = Linear(4, 4, device=device_of())
    layer.machine.device = HostDevice.__new__(HostDevice)
    message = (
        "a model on a machine in simulation cannot be pickled: "
        "save model.state_dict(), or diastole.torch.restore(model) first"
    )
    with pytest.raises(TypeError, match=exactly(message)):
        pickle.dumps(layer)


def test_old_weight_norm_and_its_hook(floats):
    """The hook computes the weight, an attribute, before each forward pass."""
    with pytest.warns(FutureWarning):
        plain = torch.nn.utils.weight_norm(nn.Linear(9, 4))
    own, x = Linear.of(plain, device=device_of("bfp8")), torch.from_numpy(floats(3, 9))
    with torch.no_grad():
        plain.weight_g.mul_(2)
    assert torch.allclose(own(x), plain(x), atol=0.1)
    own(x).sum().backward()
    assert plain.weight_g.grad is not None


def test_old_weight_norm_that_is_removed_before_the_layer_is_restored():
    """The parameter is the weight then, and no attribute of before hides it."""
    with pytest.warns(FutureWarning):
        plain = torch.nn.utils.weight_norm(nn.Linear(9, 4))
    own = Linear.of(plain, device=device_of())
    torch.nn.utils.remove_weight_norm(own)
    with torch.no_grad():
        own.weight.fill_(3)
    assert own.restored() is plain
    assert isinstance(plain.weight, nn.Parameter)
    assert torch.equal(plain.weight, torch.full((4, 9), 3.0))


def test_parameters_of_two_layers(floats):
    """Tied weights get both gradients: that of the table and that of the device."""
    table, head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
    head.weight = table.weight
    layer, dy = Linear.of(head, device=device_of(), number=0), floats(2, 7)
    layer(table(torch.tensor([1, 2]))).backward(torch.from_numpy(dy))
    weight, own = table.weight.detach().numpy(), device_of()
    forward = own.forward(weight[1:3], weight.T, tags=(0, 1))
    both = own.backward(*(forward.operands[name] for name in "XW"), dy, tags=(0, 1, 2))
    want = both.dw.T.copy()
    want[1:3] += both.dx
    assert np.array_equal(table.weight.grad.numpy(), want)
