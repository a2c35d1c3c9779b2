"""Every option of `train` that a comparison may vary has an effect on the training."""

import pytest

from diastole.commands.train_options import TrainOptions
from diastole.config.file import from_document
from diastole.config.numbers import NUMBERS
from diastole.errors import BadInput
from diastole_sim.train.master import FLOAT32, Master

WITH_UNIT = from_document({"vector": {"enable": True}})
CONFIG = from_document({"format": dict.fromkeys(("x", "w", "dy"), "fast")})
EXAMPLES = {
    "precision": {"precision": "low"},
    "alpha": {"alpha": "0.5"},
    "beta": {"beta": "0.5"},
    "switch": {"precision": "low-to-high", "switch": "7"},
    "master": {"master": "bf16"},
    "master_rounding": {"master": "e6m9", "master_rounding": "nearest"},
    "master_bits": {"master": "bf16", "master_bits": "3"},
}
OF_PROGRAMS = {
    "optimizer": {"optimizer": "adam"},
    "rate": {"rate": "0.25"},
    "momentum": {"momentum": "0.25"},
    "betas": {"optimizer": "adamw", "betas": "0.5,0.75"},
    "weight_decay": {"weight_decay": "0.125"},
    "hidden": {"hidden": "3,4"},
    "activation": {"activation": "gelu"},
    "clip": {"clip": "0.5"},
    "loss_scale": {"loss_scale": "3"},
}
"""By option, settings with it: of any machine, and of one with a vector unit. One that is new in
`train` belongs here."""


def test_each_changes_the_training():
    options = TrainOptions()
    assert set(options.names) == {*EXAMPLES, *OF_PROGRAMS}
    for name, settings in EXAMPLES.items():
        without = {key: value for key, value in settings.items() if key != name}
        if name == "switch":
            without["switch"] = "8"
        assert options.read(CONFIG, settings) != options.read(CONFIG, without)


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_each_changes_the_program(name):
    options = TrainOptions()
    settings = OF_PROGRAMS[name]
    program = options.read(WITH_UNIT, settings)["program"]
    without = {key: value for key, value in settings.items() if key != name}
    assert program != options.read(WITH_UNIT, without)["program"]
    with pytest.raises(BadInput, match=r"give --set vector\.enable=true$"):
        options.read(CONFIG, settings)


@pytest.mark.parametrize("name", ["hidden", "betas"])
def test_lists_and_quoted_texts(name):
    """As a plan writes them, or --over where a value has commas."""
    options, settings = TrainOptions(), OF_PROGRAMS[name]
    plain = options.read(WITH_UNIT, settings)
    for form in ("[{}]", '"{}"'):
        assert options.read(WITH_UNIT, settings | {name: form.format(settings[name])}) == plain


def test_keys_of_the_machine_are_none():
    assert TrainOptions().read(CONFIG, {"format": "fast"}) == TrainOptions().read(CONFIG, {})


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"alpha": "3"}, "alpha: must be a number from 0 to 1, not 3"),
        ({"switch": "3"}, "--switch is of --precision low-to-high, not of fast"),
    ],
)
def test_mistakes(settings, text):
    with pytest.raises(BadInput) as caught:
        TrainOptions().read(CONFIG, settings)
    assert caught.value.problems == (text,)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_published_numbers_have_a_master(numbers):
    config = from_document({"numbers": numbers})
    options = TrainOptions()
    assert options.read(config, {})["master"] == Master(kind="e6m9", rounding="stochastic-b")
    assert options.read(config, {"master": "float32"})["master"] == FLOAT32
    nearest = options.read(config, {"master-rounding": "nearest"})["master"]
    assert nearest == Master(kind="e6m9", rounding="nearest")


def test_a_host_trains_other_tasks():
    options = TrainOptions()
    assert options.read(WITH_UNIT, {"master": "bf16"}, "text")["master"] == Master(kind="bf16")
    with pytest.raises(BadInput, match="--hidden is of perceptrons, such as digits, not text"):
        options.read(WITH_UNIT, {"hidden": "3"}, "text")
    for task in ("digits", "mine.npz"):
        assert set(options.read(WITH_UNIT, {}, task)) == {"program"}
