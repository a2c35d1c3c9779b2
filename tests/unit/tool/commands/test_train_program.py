"""`train` on machines with a vector unit: its options, its results, and what makes it fail."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from command_line import error
from diastole.commands import train_program
from diastole_sim.golden.golden_machine import GoldenMachine, Outcome
from diastole_sim.program.optimizer_table import OPTIMIZERS
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.verified_run import memory_needed
from diastole_sim.spec.command_errors import ERROR_MEANINGS, ErrorCode
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.train.tasks import TASKS
from support.program_machines import Clocked

UNIT = ("--set", "vector.enable=true")
TRAIN = ("train", "nano.toml", "--task", "digits", "--steps", "5", *UNIT)
GOLDEN = (*TRAIN, "--backend", "golden")


def pretend(monkeypatch, kind, change=lambda machine, program: None):
    """Lets golden machines of a kind be the hardware, after a ``change``."""

    @contextmanager
    def make_machine(execution, config, program):
        limits = train_program.program_limits(config)
        size = memory_needed(program, limits)
        machine = kind(config.numerics, limits, memory_bytes=size, seed=execution.seed)
        machine.change = lambda: change(machine, program)
        yield machine

    monkeypatch.setattr(train_program, "make_machine", make_machine)


def test_golden(diastole):
    result = diastole(*GOLDEN, "--seed", "7", "--json")
    assert result.code == 0
    record = result.json
    assert (record["task"], record["backend"]) == ("digits", "golden")
    assert (record["steps"], record["seed"]) == (5, 7)
    assert record["optimizer"] == "sgd"
    assert record["rate"] == 0.5
    assert record["hidden"] == [64]
    assert record["activation"] == "relu"
    assert record["loss_scale"] is None
    assert 100_000 < record["memory_bytes"] < 1_000_000
    assert record["master"] == "float32"
    assert 0.2 < record["accuracy"] < 1
    assert record["float_loss"] == pytest.approx(record["loss"], rel=0.1)
    assert record["cycles_total"] is record["waits"] is record["cycles"] is None
    assert len(record["weights_sha256"]) == 64
    assert result.err[-1].startswith("diastole: digits on golden: step 5 of 5, loss ")


def test_another_name_of_the_digits(diastole):
    other = ("train", "nano.toml", "--task", "digits-mlp", "--steps", "5", "--backend", "golden")
    for more in (UNIT, ()):
        plain = [word if word != "digits-mlp" else "digits" for word in other]
        pair = [diastole(*words, *more, "--json").json for words in (other, plain)]
        assert pair[0]["task"] == "digits"
        assert pair[0]["weights_sha256"] == pair[1]["weights_sha256"]


def test_people_see(diastole):
    options = ("--optimizer", "adamw", "--rate", "0.02", "--hidden", "24,16")
    result = diastole(*GOLDEN, *options, "--activation", "tanh", "--loss-scale", "-3")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("digits on golden: 5 steps in ")
    recipe = "adamw, rate 0.02 falling, betas 0.9 and 0.999, weight decay 0.01, hidden 24, 16, tanh"
    assert f"{recipe}; whole steps on the machine\n" in result.out
    assert "loss times 2^-3 at first, 2^-3 at the end" in lines
    assert not any("cycles" in line for line in lines)


@pytest.mark.parametrize("of_unit", [True, False], ids=["machine", "hosted"])
def test_a_floor_of_the_scale(diastole, of_unit):
    """Of five steps, the scale's exponent at the end: 3, or 9 by the floor from step 2 on."""
    words = GOLDEN
    if not of_unit:
        words = tuple(word for word in GOLDEN if word not in UNIT)
    plain = diastole(*words, "--loss-scale", "3", "--json").json
    assert (plain["loss_scale"], plain["loss_scale_floor"], plain["last_loss_scale"]) == (3, [], 3)
    scale = ("--loss-scale", "3", "--loss-scale-floor", "2=9,5=11")
    record = diastole(*words, *scale, "--json").json
    assert (record["loss_scale"], record["last_loss_scale"]) == (3, 9)
    assert record["loss_scale_floor"] == [[2, 9], [5, 11]]
    assert record["skipped_steps"] is None
    floors = "at least 2^9 from step 2 on, 2^11 from step 5 on"
    said = f"loss times 2^3 at first, 2^9 at the end, {floors}"
    assert said in diastole(*words, *scale).out.splitlines()


def test_what_optimisers_are_told(diastole):
    plain = diastole(*GOLDEN, "--json").json
    assert plain["betas"] is None
    assert plain["weight_decay"] == 0
    words = ("--momentum", "0", "--weight-decay", "0.25")
    told = diastole(*GOLDEN, *words, "--json").json
    assert (told["momentum"], told["weight_decay"]) == (0, 0.25)
    assert told["weights_sha256"] != plain["weights_sha256"]
    lines = diastole(*GOLDEN, *words, "--seed", "0").out.splitlines()
    assert any(line.startswith("sgd, rate 0.5 falling, weight decay 0.25, h") for line in lines)
    words = ("--optimizer", "adam", "--betas", "0.5,0.75")
    told = diastole(*GOLDEN, *words, "--json").json
    assert (told["momentum"], told["betas"], told["weight_decay"]) == (None, [0.5, 0.75], 0)
    adam = diastole(*GOLDEN, *words[:2], "--json").json
    assert told["weights_sha256"] != adam["weights_sha256"]
    words = ("--optimizer", "rmsprop", "--momentum", "0.5")
    assert "rmsprop, rate 0.01 falling, momentum 0.5, hidden 64" in diastole(*GOLDEN, *words).out
    words = ("--optimizer", "nesterov", "--clip", "0.5")
    said = "nesterov, rate 0.5 falling, momentum 0.8, gradients' norm at most 0.5, hidden 64"
    assert said in diastole(*GOLDEN, *words).out


def test_weights_that_are_nan_after_the_last_step(diastole, monkeypatch):
    """The loss of the step is finite, the update is not."""

    class Diverging(Sgd):
        def of_step(self, step):
            return {"-lr_t": np.nan if step == 4 else -0.5}

    diverging = replace(OPTIMIZERS["sgd"], make=Diverging)
    monkeypatch.setitem(OPTIMIZERS, "sgd", diverging)
    result = diastole(*GOLDEN, "--json")
    assert result.code == 1
    assert result.json["loss"] is None
    assert result.json["not_finite"][0] == "step 4: 0.weight has 4096 NaN among 4096 numbers"
    assert result.err[-2] == (
        "diastole: error: step 4: 0.weight has 4096 NaN among 4096 numbers; from then on or later "
        "also 0.bias, 2.weight, 2.bias, the matrix of held-out logits, "
        "the held-out loss"
    )


def test_verified_with_a_clock(diastole, monkeypatch):
    pretend(monkeypatch, Clocked)
    result = diastole(*TRAIN, "--verify", "--json")
    assert result.code == 0
    record = result.json
    assert record["backend"] == "rtl"
    assert record["verified"] is True
    assert record["mismatches"] == 0 < record["compared"]
    assert sum(record["waits"].values()) + record["busy_slots"] == record["cycles_total"]
    assert set(record["waits"]) == set(WAIT_REGISTERS)
    assert sum(each["cycles_total"] for each in record["commands"]) == record["cycles_total"]
    assert record["utilisation"] == record["macs"] / (256 * record["cycles"])
    plain = diastole(*TRAIN, "--json").json
    assert plain["weights_sha256"] == record["weights_sha256"]
    assert plain["commands"] is None
    golden = diastole(*GOLDEN, "--json").json
    assert golden["weights_sha256"] == record["weights_sha256"]
    (line,) = (line for line in diastole(*TRAIN).out.splitlines() if "cycles of" in line)
    assert line.startswith(f"{plain['cycles_total']} cycles of training, ")
    assert line.endswith(" a step: 60.0% busy, 40.0% waiting for load")


def test_a_wrong_bit_is_found(diastole, monkeypatch):
    class Wrong(GoldenMachine):
        def run_at(self, address, count):
            outcome = super().run_at(address, count)
            if self.step == 2:
                self.tables.panel[0, 0] += 1
            return outcome

    pretend(monkeypatch, Wrong)
    result = diastole(*TRAIN, "--verify", "--json")
    assert result.code == 1
    record = result.json
    assert record["verified"] is False
    assert record["mismatches"] > 0
    (line,) = (line for line in result.err if "elements and reported values differ" in line)
    assert line.startswith(f"diastole: error: {record['mismatches']} of ")
    assert "first mismatch: tensor " in line
    assert " step 2, index [" in line


class Spoilt(Clocked):
    """Is changed before what begins in step 2."""

    def run_at(self, address, count):
        if self.step == 2:
            self.change()
        return super().run_at(address, count)


@pytest.mark.parametrize("verify", [(), ("--verify",)], ids=["plain", "verify"])
def test_a_loss_that_is_not_finite(diastole, monkeypatch, verify):
    def change(machine, program):
        area = program.areas["2.bias"]
        nans = np.full(10, np.nan, np.float32).view(np.uint8)
        machine.memory.write(area.address, nans)

    monkeypatch.setitem(TASKS, "digits", replace(TASKS["digits"], evaluate_every=2))
    pretend(monkeypatch, Spoilt, change)
    result = diastole(*TRAIN, *verify)
    assert result.code == 1
    last = result.err[-1]
    assert last.startswith("diastole: error: step 2: the loss is NaN or Inf, and command ")
    first = "step 2: 2.bias has 10 NaN among 10 numbers"
    assert ", chain, stopped the machine; the first value that is not finite: " in last
    assert f": {first}; cycles_total " in last
    assert " wait_load " in last
    assert ("first mismatch: " in last) == bool(verify)


@pytest.mark.parametrize(
    "code, exit_code, said",
    [
        (ErrorCode.TOO_LONG, 2, "the work is too large for the hardware: step 0, command 3: "),
        (ErrorCode.TOO_LARGE, 2, "the work is too large for the hardware: step 0, command 3: "),
        (ErrorCode.WRITE_RESPONSE, 1, "step 0, command 3: "),
    ],
)
def test_other_errors(diastole, monkeypatch, code, exit_code, said):
    class Refusing(GoldenMachine):
        def run_at(self, address, count):
            return Outcome(error=code, index=3)

    pretend(monkeypatch, Refusing)
    result = diastole(*TRAIN)
    assert (result.code, result.err) == (exit_code, error(said + ERROR_MEANINGS[code]))


def test_a_panel_that_is_just_large_enough(diastole):
    assert diastole(*GOLDEN, "--set", "vector.panel_kib=4").code == 0


FAST = [word for cls in ("x", "w", "dy") for word in ("--set", f"format.{cls}=fast")]


def test_widths_that_the_machine_decides(diastole):
    record = diastole(*GOLDEN, *FAST, "--json").json
    assert record["precision"] == "fast"
    assert 1 < record["mean_passes"] < 4
    assert set(record["pass_shares"]) <= {"1", "2", "4"}
    assert record["widths"].keys() == {
        f"layer{n}.{name}" for n in range(2) for name in ("X", "W", "dY")
    }
    assert all(len(each) == 5 and each[0] == "4" for each in record["widths"].values())
    asked = diastole(*GOLDEN, *FAST, "--precision", "fast", "--alpha", "0.6", "--json").json
    assert asked["weights_sha256"] == record["weights_sha256"]
    always = diastole(*GOLDEN, *FAST, "--alpha", "0", "--beta", "0", "--json").json
    assert always["mean_passes"] == 4


def test_decisions_are_those_of_a_host(diastole):
    """The steps of a host round functions and sums in a different way. With these seeds and steps,
    all decisions agree nevertheless."""
    words = ("train", "nano.toml", "--task", "digits", "--steps", "16", "--backend", "golden")
    host, machine = (
        diastole(*words, *FAST, "--set", f"vector.enable={unit}", "--json").json
        for unit in ("false", "true")
    )
    assert machine["widths"] == host["widths"]
    assert machine["mean_passes"] == host["mean_passes"]
    assert machine["pass_shares"] == host["pass_shares"]
    assert any("42" in each for each in host["widths"].values())


@pytest.mark.parametrize("kind, passes", [("low", 1), ("high", 4)])
def test_widths_that_stay(diastole, kind, passes):
    result = diastole(*GOLDEN, *FAST, "--precision", kind)
    (line,) = (line for line in result.out.splitlines() if line.startswith("precision"))
    assert line == (
        f"precision {kind}: {passes:.2f} passes by MACs (products: 100% of {passes} passes)"
    )


def test_widths_that_no_machine_chooses(diastole):
    record = diastole(*GOLDEN, *FAST, "--set", "fast.widths=[4]", "--json").json
    assert record["precision"] is record["widths"] is None


def test_weights_of_published_numbers(diastole):
    numbers = ("--set", "numbers=ibm-fp8")
    assert diastole(*GOLDEN, *numbers).code == 2
    without = tuple(word for word in GOLDEN if word not in UNIT)
    record = diastole(*without, *numbers, "--json").json
    assert (record["master"], record["optimizer"], record["hosted"]) == ("e6m9", "sgd", True)


@pytest.mark.parametrize(
    "words", [(), ("--optimizer", "adam", "--hidden", "8,8"), ("--memory", "90")]
)
def test_one_result_with_and_without_a_vector_unit(diastole, words):
    """The numbers are equal. The place of parameters, in the panel or in memory, may differ."""
    without = tuple(word for word in GOLDEN if word not in UNIT)
    one, other = (diastole(*given, *words, "--json").json for given in (GOLDEN, without))
    assert (one["hosted"], other["hosted"]) == (False, True)
    differing = {name for name in one if one[name] != other.get(name)}
    assert differing <= {"hosted", "seconds", "memory_bytes", "steps_in_memory"}
    assert len(one["weights_sha256"]) == 64
