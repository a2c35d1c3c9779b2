"""``report``, and the line that ``convert`` says: which layers, and their part of the work."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402
from torch.nn.utils import parametrize  # noqa: E402

from diastole import GoldenDevice  # noqa: E402
from diastole.torch import Linear, compare, convert, matmul, report, restore  # noqa: E402
from diastole.torch.coverage import share_in_percent  # noqa: E402
from support.texts import exactly  # noqa: E402


class Own(nn.Linear):
    """A type of the user's."""


class Table(nn.Module):
    """A weight of the user's, and one that multiplies no matrix."""

    def __init__(self, multiply):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 6))
        self.multiply = multiply

    def forward(self, x):
        return x @ self.weight if self.multiply else x + self.weight.sum()


class Net(nn.Module):
    """All kinds of layers."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 6)
        self.first = nn.Linear(6, 6)
        self.conv = nn.Conv1d(6, 6, 1)
        self.mix = nn.MultiheadAttention(6, 2, batch_first=True)
        self.memory = nn.GRU(6, 6, batch_first=True)
        self.norm = nn.LayerNorm((3, 6))
        self.own = Own(6, 6)
        self.bound = parametrize.register_parametrization(nn.Linear(6, 6), "weight", nn.Identity())
        self.table, self.shift = Table(True), Table(False)
        self.head = nn.Linear(6, 9)
        self.again = self.head

    def forward(self, words):
        h = self.words(words)
        h = self.first(h)
        h = self.conv(h.transpose(1, 2)).transpose(1, 2)
        h = self.mix(h, h, h)[0]
        h = self.norm(self.memory(h)[0])
        h = self.shift(self.table(self.bound(self.own(h))))
        h = h @ torch.eye(6)
        return self.again(h)


WORDS = torch.zeros(2, 3, dtype=torch.long)
COUNTS = {  # of 6 positions
    "first": 6 * 36,
    "conv": 6 * 36,
    "mix": 6 * 4 * 36 + 2 * 2 * 9 * 6,
    "memory": 6 * 6 * 36,
    "own": 6 * 36,
    "bound": 6 * 36,
    "table": 6 * 36,
    "": 6 * 36,
    "head": 6 * 54,
}
LEFT = {
    "conv": "only nn.Linear and nn.Conv2d are swapped",
    "mix": "it reads the weights of its layers itself",
    "memory": "only nn.Linear and nn.Conv2d are swapped",
    "own": "a type derived from nn.Linear or nn.Conv2d may compute something else",
    "bound": "it is parametrized; torch.nn.utils.parametrize.remove_parametrizations mends that",
    "table": "only nn.Linear and nn.Conv2d are swapped",
}
SENTENCE = (
    "swapped 2 of 8 layers, 13.5 % of the multiplications; left: memory (GRU, 32.4 %), "
    "mix (MultiheadAttention, 27 %), conv (Conv1d, 5.4 %), own (Own, 5.4 %), "
    "bound (ParametrizedLinear, 5.4 %), table (Table, 5.4 %), the model itself (Net, 5.4 %)"
)
UNCOUNTED = "diastole.torch.report(model, inputs) counts the multiplications"


def test_the_parts_are_those_worked_out_by_hand():
    assert sum(COUNTS.values()) == 6 * 216 + 1080 + 1296 + 324 == 3996
    for name, part in {"memory": 32.4, "mix": 27, "conv": 5.4}.items():
        assert round(100 * COUNTS[name] / 3996, 1) == part
    assert round(100 * (216 + 324) / 3996, 1) == 13.5


def test_a_line_at_once_with_an_example(capsys):
    net = convert(Net(), formats="bfp4", example=WORDS)
    assert capsys.readouterr() == ("", f"diastole: {SENTENCE}\n")
    found = report(net)
    assert found.sentence == SENTENCE
    assert found.multiplications == COUNTS
    assert found.share == (COUNTS["first"] + COUNTS["head"]) / sum(COUNTS.values())
    assert found.layers == {"first": 0, "head": 1}
    assert found.left == LEFT
    net(WORDS)
    assert capsys.readouterr() == ("", "")
    assert report(net, words=WORDS) == found


def test_a_line_after_the_first_forward_pass_without(capsys):
    net = convert(Net(), formats="bfp4")
    names = "conv (Conv1d), mix (MultiheadAttention), memory (GRU), own (Own), "
    names += "bound (ParametrizedLinear), table (Table), shift (Table)"
    said = f"diastole: swapped 2 of 9 layers; left: {names}; "
    said += "the first forward pass that is not compiled counts the multiplications\n"
    assert capsys.readouterr() == ("", said)
    before = report(net)
    assert (before.multiplications, before.share) == (None, None)
    assert before.left == LEFT | {"shift": LEFT["table"]}
    want = net(WORDS)
    assert capsys.readouterr() == ("", f"diastole: {SENTENCE}\n")
    assert report(net).multiplications == COUNTS
    assert torch.equal(net(WORDS), want)
    assert capsys.readouterr() == ("", "")
    assert not net._forward_hooks
    assert not net._forward_pre_hooks


def test_the_table():
    net = nn.Sequential(nn.Linear(4, 2000), nn.Conv1d(2000, 1, 1), nn.ReLU(), nn.Linear(1, 3))
    convert(net, formats="bfp4", names=["*", "!3"])
    assert str(report(net)).splitlines() == [
        f"swapped 1 of 3 layers; left: 1 (Conv1d), 3 (Linear); {UNCOUNTED}",
        "layer  type    share  state",
        "0      Linear         swapped, number 0",
        "1      Conv1d         left: only nn.Linear and nn.Conv2d are swapped",
        "3      Linear         left: convert has not chosen it",
    ]
    net = nn.Sequential(nn.Linear(4, 2000), nn.Flatten(), nn.Linear(2000, 1))
    net = nn.Sequential(net, nn.Linear(1, 3))
    convert(net, formats="bfp4", names=["*", "!1"], example=torch.ones(5, 4))
    assert str(report(net)).splitlines() == [
        "swapped 2 of 3 layers, > 99.9 % of the multiplications; left: 1 (Linear, < 0.1 %)",
        "layer  type    share    state",
        "0.0    Linear  80 %     swapped, number 0",
        "0.2    Linear  20 %     swapped, number 1",
        "1      Linear  < 0.1 %  left: convert has not chosen it",
    ]


@pytest.mark.parametrize(
    "part, text",
    [
        (0, "0 %"),
        (1e-9, "< 0.1 %"),
        (0.002, "0.2 %"),
        (0.12345, "12.3 %"),
        (0.5, "50 %"),
        (0.9989, "99.9 %"),
        (0.99999, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent(part, text):
    assert share_in_percent(part) == text


def test_many_layers_are_named_in_the_table():
    layers = nn.Sequential(*(nn.Linear(2, 2) for _ in range(14)))
    found = report(convert(layers, formats="bfp4", names="0"))
    assert found.sentence == (
        "swapped 1 of 14 layers; left: "
        + ", ".join(f"{number} (Linear)" for number in range(1, 11))
        + f", and 3 more, which diastole.torch.report(model) names; {UNCOUNTED}"
    )
    assert len(str(found).splitlines()) == 16


def test_a_model_of_convolutions(capsys):
    """What a report of Linear alone hid: the layer that is swapped is next to nothing."""
    net = nn.Sequential(nn.Conv1d(3, 64, 9, padding=4), nn.Flatten(), nn.Linear(64 * 32, 10))
    x = torch.ones(4, 3, 32)
    found = compare(net, lambda model, number: model(x).sum(), ["bfp4"], steps=1)
    conv, head = 4 * 32 * 64 * 27, 4 * 2048 * 10
    assert round(100 * conv / (conv + head), 1) == 73
    assert str(found).splitlines()[-1] == (
        "swapped 1 of 2 layers, 27 % of the multiplications; left: 0 (Conv1d, 73 %)"
    )


def test_a_product_of_the_users_on_a_device_is_none_that_is_left():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            return matmul(self.layer(x), torch.eye(6), device=device)

    device = GoldenDevice(formats="bfp4")
    net = convert(Mixed(), device=device, example=torch.ones(2, 6))
    assert report(net).share == 1


def test_a_layer_that_is_called_past_the_swap_is_seen():
    """The list is no module, so what it holds is not swapped; the model multiplies all the same."""

    class Past(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)
            self.calls = [self.layer]

        def forward(self, x):
            return self.calls[0](x)

    net = convert(Past(), formats="bfp4")
    net(torch.ones(2, 6))
    assert report(net).sentence == (
        "swapped 1 of 1 layers, 0 % of the multiplications; left: the model itself (Past, 100 %)"
    )


@pytest.mark.parametrize("example", [None, torch.ones(0, 4)], ids=["none", "empty"])
def test_what_did_not_run_is_counted_in_the_next_pass(example, capsys):
    net, x = nn.Sequential(nn.Linear(4, 6)), torch.ones(2, 4)
    convert(net, formats="bfp4", example=example)
    net(x[:0])
    with pytest.raises(ValueError, match="must be"):
        net(torch.ones(2, 5))
    assert report(net).share is None
    assert capsys.readouterr().err == (
        "diastole: swapped 1 of 1 layers; left: nothing; "
        "the first forward pass that is not compiled counts the multiplications\n"
    )
    net(x)
    assert report(net).share == 1
    assert capsys.readouterr().err == (
        "diastole: swapped 1 of 1 layers, 100 % of the multiplications; left: nothing\n"
    )


def test_a_pass_that_was_interrupted_is_begun_again():
    class Stop(nn.Module):
        def forward(self, x):
            if not x.any():
                raise KeyboardInterrupt
            return x

    net = convert(nn.Sequential(nn.Linear(4, 6, bias=False), Stop()), formats="bfp4")
    with pytest.raises(KeyboardInterrupt):
        net(torch.zeros(2, 4))
    net(torch.ones(2, 4))
    assert report(net).multiplications == {"0": 2 * 4 * 6}
    assert not nn.modules.module._global_forward_hooks


def test_copies_count_for_themselves(capsys):
    net, x = convert(nn.Sequential(nn.Linear(4, 6)), formats="bfp4"), torch.ones(2, 4)
    twins = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    capsys.readouterr()
    for twin in (*twins, net):
        twin(x)
        assert capsys.readouterr().err.count("100 % of the multiplications") == 1
        assert report(twin).multiplications == {"0": 48}
        assert not twin._forward_hooks
    assert report(copy.deepcopy(net)).multiplications == {"0": 48}


def test_models_within_a_model(capsys):
    """Each that was converted says its own, in a pass of its own."""
    inner = convert(nn.Sequential(nn.Linear(4, 6)), formats="bfp4")
    net = convert(nn.Sequential(inner, nn.Linear(6, 2)), formats="bfp8")
    x = torch.ones(2, 4)
    net(x)
    assert report(net).multiplications == {"0.0": 48, "1": 24}
    assert report(inner).share is None
    net(x)
    assert report(inner).multiplications == {"0": 48}
    restore(net)
    assert not [each for each in net.modules() if isinstance(each, Linear)]
    assert report(inner).share is None


@pytest.mark.filterwarnings("ignore")  # torch's own
def test_a_compiled_model_runs_uncounted():
    net, x = convert(nn.Sequential(nn.Linear(4, 6)), formats="bfp4"), torch.ones(2, 4)
    compiled = torch.compile(net, backend="eager")
    found = [compiled(x) for _ in range(2)]
    assert report(net).share is None
    assert torch.equal(found[0], net(x))
    assert torch.equal(found[1], found[0])
    assert report(net).share == 1
    torch._dynamo.reset()


def test_a_part_that_is_compiled_counts(capsys):
    """In the first pass nothing runs compiled, though all of the part must be."""
    part = nn.Sequential(nn.Linear(4, 6))
    inner = torch.compile(part, backend="eager", fullgraph=True)
    net = convert(nn.Sequential(inner, nn.Linear(6, 2)), formats="bfp4", names="1")
    net(torch.ones(2, 4))
    assert report(net).multiplications == {"0._orig_mod.0": 48, "1": 24}
    torch._dynamo.reset()


def test_what_cannot_be_counted_is_named(capsys):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            x = self.layer(x)
            return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")

    net = convert(Mixed(), formats="bfp4")
    capsys.readouterr()
    net(torch.ones(2, 6))
    sentence = (
        "swapped 1 of 1 layers, 100 % of the multiplications; left: nothing; "
        "not counted: aten._cdist_forward"
    )
    assert capsys.readouterr().err == f"diastole: {sentence}\n"
    assert report(net).unknown == ("aten._cdist_forward",)
    x = torch.ones(3, 2)
    found = report(nn.PairwiseDistance(), x, x)
    assert (found.multiplications, found.unknown) == (None, ())


def test_a_model_that_multiplies_by_unknown_functions_alone():
    class Distances(nn.Module):
        def forward(self, x):
            return torch.cdist(x, x)

    found = report(Distances(), torch.ones(2, 6))
    assert (found.share, found.multiplications) == (None, {})
    assert found.sentence == (
        "swapped 0 of 0 layers; left: nothing; not counted: aten._cdist_forward"
    )


def test_examples():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 6)

        def forward(self, x, y=None):
            return self.layer(x if y is None else x + y)

    x = torch.ones(2, 4)
    for example in (x, (x,), (x, x), {"x": x, "y": x}):
        assert report(convert(Pair(), formats="bfp4", example=example)).share == 1
    net = Pair()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        convert(net, formats="bfp4", example=torch.ones(2, 5))
    assert type(net.layer) is nn.Linear


def test_a_report_of_what_is_not_converted():
    found = report(Net(), WORDS)
    assert (found.share, found.devices, found.layers) == (0, (), {})
    assert found.sentence.startswith("swapped 0 of 8 layers, 0 % of the multiplications; left: mem")
    with pytest.raises(TypeError, match=exactly("model must be a torch.nn.Module, not list")):
        report([])
    assert report(nn.LazyLinear(3)).left == {
        "": "it has no shape before its first forward pass; convert after it"
    }
