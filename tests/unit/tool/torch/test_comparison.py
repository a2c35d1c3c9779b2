"""``compare``: copies of a model in several formats, from the same weights and the same draws."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402

import diastole.torch  # noqa: E402
from diastole.torch import Comparison, Linear, compare, convert  # noqa: E402
from support.texts import exactly  # noqa: E402

STEPS = 12


@pytest.fixture
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1))


@pytest.fixture
def batches(floats):
    x = torch.from_numpy(floats(STEPS, 32, 8))
    return x, x[..., :1] * x[..., 1:2]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.5)


def trained(model, batches, formats):
    """The loop as a user writes it."""
    model = copy.deepcopy(model)
    if formats is not None:
        convert(model, formats=formats, seed=5)
    optimizer, losses = sgd(model.parameters()), []
    torch.manual_seed(5)
    for x, y in zip(*batches, strict=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def test_losses_of_every_format_beside_float32(model, batches):
    def step(model, number):
        x, y = batches[0][number], batches[1][number]
        return nn.functional.mse_loss(model(x), y)

    before = copy.deepcopy(model.state_dict())
    chosen = {"four bits": "bfp4", "two": {"x": "bfp2", "w": "bfp2", "dy": "bfp2"}}
    state = torch.get_rng_state()
    found = compare(model, step, chosen, steps=STEPS, optimizer=sgd, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert list(found.losses) == list(found.models) == ["float32", "four bits", "two"]
    for name, formats in ({"float32": None} | chosen).items():
        losses, own = trained(model, batches, formats)
        assert found.losses[name] == losses
        for mine, want in zip(found.models[name].parameters(), own.parameters(), strict=True):
            assert torch.equal(mine, want)
    assert len({tuple(losses) for losses in found.losses.values()}) == 3
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert not [each for each in model.modules() if isinstance(each, Linear)]


def test_without_an_optimiser_the_step_does_all(model, batches):
    """Here: nothing but to look."""
    seen = []

    def step(model, number):
        seen.append(number)
        with torch.no_grad():
            return float(nn.functional.mse_loss(model(batches[0][0]), batches[1][0]))

    found = compare(model.eval(), step, ["bfp2", ("bfp4", "bfp4", "bfp4")], steps=2)
    assert seen == [0, 1] * 3
    assert list(found.losses) == ["float32", "bfp2", "('bfp4', 'bfp4', 'bfp4')"]
    for losses in found.losses.values():
        assert losses[0] == losses[1]


def test_names_choose_layers(model, batches):
    found = compare(model, lambda model, number: 0.0, "bfp4", steps=1, names="3")
    kinds = [type(each) for each in found.models["bfp4"]]
    assert kinds == [nn.Linear, nn.Dropout, nn.Tanh, Linear]


def test_the_table():
    losses = {"float32": [3.0, *[2.0] * 10], "bfp4": [3.25, *[2.1] * 10]}
    layers = nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 1))
    report = diastole.torch.report(convert(layers, formats="bfp4"))
    found = Comparison(losses=losses, models={}, report=report)
    uncounted = "diastole.torch.report(model, inputs) counts the multiplications"
    assert str(found).splitlines() == [
        "format   first loss  mean of last 10  over float32",
        "float32           3                2",
        "bfp4           3.25              2.1        +5.00%",
        f"swapped 1 of 2 layers; left: 1 (Conv1d); {uncounted}",
    ]


def test_what_is_left_is_said_with_its_part(floats):
    """Counted in the first step, of the model alone: neither its gradients, nor what a step does
    besides, nor what devices do with torch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 6), nn.Linear(6, 6))
    x, teacher = torch.from_numpy(floats(5, 2, 8)), nn.Linear(16, 6)

    def step(model, number):
        return nn.functional.mse_loss(model(x), teacher(x.flatten(1)))

    found = compare(net, step, ["bfp4", "bfp8"], steps=2, optimizer=sgd, names=["*", "!3"])
    conv, middle, last = 5 * 6 * 4 * 2 * 3, 5 * 24 * 6, 5 * 6 * 6
    assert dict(found.report.multiplications) == {"0": conv, "2": middle, "3": last}
    assert found.report.share == middle / (conv + middle + last)
    assert str(found).splitlines()[-1] == (
        "swapped 1 of 3 layers, 44.4 % of the multiplications; "
        "left: 0 (Conv1d, 44.4 %), 3 (Linear, 11.1 %)"
    )


def test_nothing_is_printed(model, batches, capsys):
    compare(model, lambda model, number: model(batches[0][0]).sum(), "bfp4", steps=1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("formats", [["bfp4"], ["bfp4", "bfp8"]], ids=str)
def test_the_layer_that_is_the_model(formats, floats):
    x = torch.from_numpy(floats(5, 6))
    found = compare(nn.Linear(6, 2), lambda model, n: model(x).sum(), formats, steps=1)
    assert {type(each) for each in list(found.models.values())[1:]} == {Linear}
    assert found.report.share == 1


@pytest.mark.parametrize(
    "change, name",
    [
        (lambda net: net.bfloat16(), "bfloat16"),
        (lambda net: net[2].bfloat16(), "bfloat16 and float32"),
    ],
)
def test_a_model_of_another_type_is_not_called_float32(change, name, floats):
    class Cast(nn.Module):
        def forward(self, x):
            return x.bfloat16()

    net, x = nn.Sequential(nn.Linear(6, 4), Cast(), nn.Linear(4, 2)), torch.from_numpy(floats(5, 6))
    change(net)

    def step(model, number):
        return model(x.to(model[0].weight.dtype)).float().square().mean()

    found = compare(net, step, "bfp8", steps=2, optimizer=sgd)
    assert list(found.losses) == [name, "bfp8"]
    assert str(found).splitlines()[0].endswith(f"over {name}")
    with pytest.raises(ValueError, match=f"beside {name}, not"):
        compare(net, step, {name: "bfp8"})


def test_a_format_that_fails_is_named(model):
    def step(model, number):
        if any(isinstance(each, Linear) for each in model.modules()):
            raise ArithmeticError("lost")
        return 1.0

    with pytest.raises(ArithmeticError, match="lost") as caught:
        compare(model, step, ["bfp4"], steps=1)
    assert caught.value.__notes__ == ["in the format bfp4"]


@pytest.mark.parametrize("formats", [[], {}, ["float32"], {"float32": "bfp4"}])
def test_formats_that_are_none(formats, model):
    message = f"formats must name one or more, beside float32, not {formats!r}"
    with pytest.raises(ValueError, match=exactly(message)):
        compare(model, lambda model, number: 0.0, formats, steps=1)


def test_what_is_refused_is_so_before_anything_runs(model):
    def step(model, number):
        raise AssertionError

    with pytest.raises(ValueError, match="no_format"):
        compare(model, step, ["bfp4", "no_format"], steps=1)
    with pytest.raises(ValueError, match=exactly("steps must be an integer in 1..1000000, not 0")):
        compare(model, step, ["bfp4"], steps=0)
    message = "names: 'head' matches no nn.Linear and no nn.Conv2d; there is 0, 3"
    with pytest.raises(ValueError, match=exactly(message)):
        compare(model, step, ["bfp4"], steps=1, names="head")
    convert(model, formats="bfp4")
    message = "model must be one that is not converted; swapped are 0, 3"
    with pytest.raises(ValueError, match=exactly(message)):
        compare(model, step, ["bfp4"], steps=1)
