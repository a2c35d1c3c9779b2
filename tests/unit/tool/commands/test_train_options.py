"""Every option of `train` that a comparison may vary has an effect on the training."""

from dataclasses import replace

import pytest

from diastole.commands.train_options import TrainOptions
from diastole.config.file import from_document
from diastole.config.numbers import NUMBERS
from diastole.errors import BadInput
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.master import FLOAT32, Master
from support.texts import exactly

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
    "gradient": {"gradient": "fp8_e5m2"},
}
OF_PROGRAMS = {
    "optimizer": {"optimizer": "adam"},
    "rate": {"rate": "0.25"},
    "momentum": {"momentum": "0.25"},
    "betas": {"optimizer": "adamw", "betas": "0.5,0.75"},
    "weight_decay": {"weight_decay": "0.125"},
    "trust": {"optimizer": "lars", "trust": "0.5"},
    "hidden": {"hidden": "3,4"},
    "activation": {"activation": "gelu"},
    "clip": {"clip": "0.5"},
    "accumulate": {"accumulate": "4"},
    "schedule": {"schedule": "cosine"},
    "warmup": {"warmup": "3"},
    "step_size": {"schedule": "step", "step_size": "5"},
    "gamma": {"schedule": "step", "step_size": "5", "gamma": "0.5"},
}
OF_BOTH = {
    "loss_scale": {"loss_scale": "3"},
    "loss_scale_floor": {"loss_scale": "3", "loss_scale_floor": "2=9,4=10"},
}
"""By option, settings with it: of trainings by a host, by a program, and of both. One that is new
in `train` belongs here."""


BF16 = Master(kind="bf16")


def test_each_changes_the_training():
    options = TrainOptions()
    assert set(options.names) == {*EXAMPLES, *OF_PROGRAMS, *OF_BOTH}
    for name, settings in (EXAMPLES | OF_BOTH).items():
        without = {key: value for key, value in settings.items() if key != name}
        if name == "switch":
            without["switch"] = "8"
        assert options.read(CONFIG, settings) != options.read(CONFIG, without)


@pytest.mark.parametrize("name", [*OF_PROGRAMS, *OF_BOTH])
def test_each_changes_the_program(name):
    options = TrainOptions()
    settings = (OF_PROGRAMS | OF_BOTH)[name]
    program = options.read(WITH_UNIT, settings)["program"]
    without = {key: value for key, value in settings.items() if key != name}
    if name == "step_size":
        without["step_size"] = "6"
    assert program != options.read(WITH_UNIT, without)["program"]
    if name in OF_PROGRAMS:
        assert options.read(CONFIG, settings)["program"] != options.read(CONFIG, without)["program"]
        found = options.read(CONFIG, settings | {"master": "bf16"})["program"]
        assert found == replace(options.read(CONFIG, settings)["program"], master=BF16)


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
        ({"alpha": "3"}, "alpha must be a number from 0 to 1, not 3"),
        (
            {"switch": "3"},
            ("--switch works only with --precision low-to-high, not with fast: leave --switch out"),
        ),
    ],
)
def test_mistakes(settings, text):
    with pytest.raises(BadInput) as caught:
        TrainOptions().read(CONFIG, settings)
    assert caught.value.problems == (text,)


def test_mistakes_of_a_value_alone():
    options = TrainOptions()
    assert options.mistake("rate", "-1") == "rate must be a number above 0 and at most 1000, not -1"
    assert options.mistake("master", "") == (
        'master must be one of float32, bf16, fp16, e6m9, not ""'
    )
    for name, settings in (EXAMPLES | OF_PROGRAMS | OF_BOTH).items():
        assert options.mistake(name, settings[name]) is None


@pytest.mark.parametrize("numbers", NUMBERS)
def test_published_numbers_have_a_master(numbers):
    config = from_document({"numbers": numbers, "vector": {"enable": False}})
    options = TrainOptions()
    kind, rounding = ("fp16", "nearest") if numbers == "intel-fp8" else ("e6m9", "stochastic-b")
    assert options.read(config, {})["program"].master == Master(kind=kind, rounding=rounding)
    assert options.read(config, {"master": "float32"})["program"].master == FLOAT32
    for other in ("nearest", "stochastic-a"):
        found = options.read(config, {"master-rounding": other})["program"].master
        assert found == Master(kind=kind, rounding=other)


def test_published_numbers_have_a_scale_of_the_loss():
    """Which each of the options changes; the numbers without a scale have none."""
    options, published = TrainOptions(), from_document({"numbers": "intel-fp8"})
    own = LossScaling(exponent=13, floors=((40_000, 13), (150_000, 15)))
    assert options.read(published, {})["program"].loss_scaling == own
    found = options.read(published, {"loss-scale": "5"})["program"].loss_scaling
    assert found == replace(own, exponent=5)
    found = options.read(published, {"loss-scale-floor": "7=9"})["program"].loss_scaling
    assert found == replace(own, floors=((7, 9),))
    assert options.read(published, {})["program"].gradient == "fp8_e5m2"
    assert options.read(published, {"gradient": "float32"})["program"].gradient == "float32"
    for numbers in ("ibm-fp8", "hfp8"):
        plain = options.read(from_document({"numbers": numbers}), {})["program"]
        assert (plain.loss_scaling, plain.gradient) == (None, "float32")
    text = "--loss-scale-floor needs --loss-scale X, the exponent of the first step"
    with pytest.raises(BadInput, match=exactly(text)):
        options.read(CONFIG, {"loss-scale-floor": "7=9"})


def test_a_host_trains_other_tasks():
    options = TrainOptions()
    assert options.read(WITH_UNIT, {"master": "bf16"}, "--task=text")["master"] == Master(
        kind="bf16"
    )
    with pytest.raises(
        BadInput,
        match="--hidden works only for perceptrons, such as digits, and for --graph, not for text",
    ):
        options.read(WITH_UNIT, {"hidden": "3"}, "--task=text")
    for task in ("digits", "mine.npz"):
        assert set(options.read(WITH_UNIT, {}, f"--task={task}")) == {"program"}
