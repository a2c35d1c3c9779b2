"""Steps: when the next one begins, and that what computes again has the same draws."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Linear, matmul, steps  # noqa: E402
from diastole.torch.steps import _uses  # noqa: E402
from support.texts import exactly  # noqa: E402

STOCHASTIC = tuple(f'rounding.{name}="stochastic-b"' for name in ("x", "w", "dy"))


@pytest.fixture
def device():
    return GoldenDevice(formats="bfp4", seed=5, overrides=STOCHASTIC)


def layers(device, count=3, size=16):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(Linear(size, size, device=device) for _ in range(count)))


def test_a_step_begins_with_the_forward_pass_after_a_backward_pass(device, floats):
    model, x = layers(device), torch.from_numpy(floats(8, 16))
    found = []
    for number in range(3):
        assert steps(device).number == max(0, number - 1)
        y = model(x)
        assert steps(device).number == number
        assert torch.equal(model(x), y)  # a second one is of the same step
        with torch.no_grad():
            assert torch.equal(model(x), y)
        found.append(y.detach())
        y.sum().backward()
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


def test_every_layer_draws_by_its_number_and_the_step(device, floats):
    model, x = layers(device, 2), torch.from_numpy(floats(8, 16))
    model(x).sum().backward()
    y = model(x)
    own = GoldenDevice(formats="bfp4", seed=5, overrides=STOCHASTIC)
    h = x.numpy()
    for number, layer in enumerate(model):
        assert layer.number == number
        weight = layer.weight.detach().numpy().T
        h = own.forward(h, weight, tags=(4 * number, 4 * number + 1), step=1).y
        h = h + layer.bias.detach().numpy()
    assert torch.equal(y, torch.from_numpy(h))


def test_the_step_of_a_backward_pass_is_that_of_its_forward_pass(device, floats):
    """Two graphs of one step, used one after the other."""
    x, w = (torch.from_numpy(floats(8, 16)[:, :8]) for _ in range(2))
    leaf = x.clone().requires_grad_()
    tags = {"device": device, "tags": (0, 1, 2)}
    one, other = matmul(leaf, w.t(), **tags), matmul(leaf, w.t(), **tags)
    dy = torch.from_numpy(floats(8, 8))
    (first,) = torch.autograd.grad(one, leaf, dy)
    matmul(leaf, w.t(), **tags)
    assert steps(device).number == 1
    (second,) = torch.autograd.grad(other, leaf, dy)
    assert torch.equal(first, second)
    (third,) = torch.autograd.grad(matmul(leaf, w.t(), **tags), leaf, dy)
    assert steps(device).number == 2
    assert not torch.equal(first, third)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_changes_no_bit(reentrant, floats):
    """Forward passes inside the backward pass are of the step of the first one."""
    x, dy = torch.from_numpy(floats(8, 16)), torch.from_numpy(floats(8, 16))
    gradients = []
    for saved in (False, True):
        device = GoldenDevice(formats="bfp4", seed=5, overrides=STOCHASTIC)
        model = layers(device)
        for number in range(3):
            inputs = x.clone().requires_grad_()
            h = inputs
            for layer in model:
                part = torch.nn.Sequential(layer, torch.nn.Tanh())
                h = checkpoint(part, h, use_reentrant=reentrant) if saved else part(h)
            h.backward(dy)
            assert steps(device).number == number
        gradients.append([inputs.grad, *(each.grad for each in model.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_training_is_resumed_at_its_step(device, floats):
    model, x = layers(device, 1), torch.from_numpy(floats(8, 16))
    for _ in range(4):
        y = model(x)
        y.sum().backward()
    again = GoldenDevice(formats="bfp4", seed=5, overrides=STOCHASTIC)
    other = layers(again, 1)
    steps(again).number = 3
    assert torch.equal(other(x), y)
    assert repr(steps(again)) == "Steps(number=3)"
    with pytest.raises(
        ValueError, match=exactly("step must be an integer in 0..4294967295, not -1")
    ):
        steps(again).number = -1


def test_a_step_set_after_a_backward_pass_is_the_next_one(device, floats):
    model, x = layers(device, 1), torch.from_numpy(floats(8, 16))
    model(x).sum().backward()
    steps(device).number = 7
    model(x)
    assert steps(device).number == 7


def test_devices_count_apart_and_are_forgotten(floats):
    x = torch.from_numpy(floats(8, 16))
    one, other = (GoldenDevice(formats="bfp4") for _ in range(2))
    for _ in range(2):
        layers(one, 1)(x).sum().backward()
    assert (steps(one).number, steps(other).number) == (1, 0)
    gc.collect()
    before = len(_uses)
    del one
    gc.collect()
    assert len(_uses) == before - 1
