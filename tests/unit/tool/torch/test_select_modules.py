"""Names: patterns that choose layers, and what is said where they choose none."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402

from diastole.torch import convert, report  # noqa: E402
from diastole.torch.device_layers import DeviceLayer  # noqa: E402
from support.texts import exactly  # noqa: E402


class Model(nn.Module):
    """Two blocks with linear layers, one of them used twice, and others beside them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2))
        self.again = self.blocks[0][0]
        self.conv = nn.Conv1d(8, 8, 1)
        self.image = nn.Conv2d(8, 8, 1)
        self.last = nn.Linear(8, 3, bias=False)


@pytest.fixture
def model():
    return Model()


ALL = ["first", "blocks.0.0", "blocks.1.0", "image", "last"]


@pytest.mark.parametrize(
    "names, found",
    [
        ("*", ALL),
        (["*", "!last"], ALL[:-1]),
        (["!last", "*"], ALL[:-1]),
        ("!last", ALL[:-1]),
        (["!last", "!image"], ALL[:-2]),
        (["*", "!blocks.*"], ["first", "image", "last"]),
        (["*", "!again"], ["first", "blocks.1.0", "image", "last"]),
        (["*", "!conv"], ALL),
        (["blocks.*", "!blocks.1.*"], ["blocks.0.0"]),
        (["*", "!blocks"], ["first", "image", "last"]),
        (["blocks", "!*.1"], ["blocks.0.0"]),
        ("blocks.?", ["blocks.0.0", "blocks.1.0"]),
        ({"last": 1}, ["last"]),
        ("last", ["last"]),
        ("blocks.*", ["blocks.0.0", "blocks.1.0"]),
        (["last", "f*"], ["first", "last"]),
        ("*[!t]", ["blocks.0.0", "blocks.1.0", "image"]),
    ],
)
def test_names_choose(names, found, model):
    assert list(report(convert(model, formats="bfp4", names=names)).layers) == found


NO = "matches no nn.Linear and no nn.Conv2d"


@pytest.mark.parametrize(
    "names, message",
    [
        (
            "head",
            f"names: 'head' {NO}; there is first, blocks.0.0, blocks.1.0, again, image, last",
        ),
        ("conv", f"names: 'conv' {NO}, but conv, a Conv1d"),
        (("last", "b*.1.1"), f"names: 'b*.1.1' {NO}, but blocks.1.1, a ReLU"),
        (
            ["*", "!lasts"],
            f"names: '!lasts' {NO}; there is first, blocks.0.0, blocks.1.0, again, image, last",
        ),
        (
            ["*", "!heads"],
            f"names: '!heads' {NO}; there is first, blocks.0.0, blocks.1.0, again, image, last",
        ),
        (["last", "!last"], "names leave nothing to swap: last, !last"),
        ([], "names must have a pattern or more, as '*', not none"),
    ],
)
def test_names_that_leave_nothing(names, message, model):
    with pytest.raises(ValueError, match=exactly(message)):
        convert(model, formats="bfp4", names=names)
    assert not [each for each in model.modules() if isinstance(each, DeviceLayer)]


@pytest.mark.parametrize("names", [3, None, ["*", 3]])
def test_names_that_are_no_names(names, model):
    message = f"names must be a pattern, as '*', or a list of patterns, not {names!r}"
    with pytest.raises(TypeError, match=exactly(message)):
        convert(model, formats="bfp4", names=names)


def test_models_that_have_nothing():
    with pytest.raises(ValueError, match=exactly(f"names: '*' {NO}, but 0, a ReLU")):
        convert(nn.Sequential(nn.ReLU()), formats="bfp4")
    layers = nn.Sequential(*(nn.Linear(2, 2) for _ in range(12)))
    message = f"names: 'x' {NO}; there is 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    with pytest.raises(ValueError, match=exactly(message)):
        convert(layers, formats="bfp4", names="x")


def test_what_is_swapped_already(model):
    convert(model, formats="bfp4", names=["first", "last"])
    message = f"names: '[fcl]*' {NO}, but first, a Linear of diastole.torch, "
    message += "last, a Linear of diastole.torch, conv, a Conv1d"
    with pytest.raises(ValueError, match=exactly(message)):
        convert(model, formats="bfp4", names="[fcl]*")
    convert(model, formats="bfp8", names=["*", "!last"])
    assert model.last.device is model.first.device is not model.image.device
