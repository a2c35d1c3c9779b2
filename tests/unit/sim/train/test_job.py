"""The training job on the golden model: it learns, repeats itself, and sees a wrong bit."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from command_line import REPORTS, lying
from diastole_sim.device.interface import CommandCounters
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train import host, run_task
from diastole_sim.train.job import minibatches
from diastole_sim.train.report import write_picture
from diastole_sim.train.session import Session
from diastole_sim.train.tasks import load_digits, split
from support.host_perceptron import Perceptron, digits_by_host
from support.sweep import sweep

CLASSES = {name: {"format": "bfp4", "rounding": "nearest"} for name in ("x", "w")}
NANO = Numerics.from_dict(
    CLASSES
    | {"dy": {"format": "bfp4", "rounding": "stochastic-b"}}
    | {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 14}
)
KEYS = (
    "task backend steps seed loss accuracy float_accuracy cycles macs utilisation weights_sha256 "
    "verified mismatches compared seconds converted saturated underflowed products inexact_products"
).split()


def train(device=None, seed=0, **given):
    device = NumpyDevice(NANO, seed) if device is None else device
    return run_task(digits_by_host(), device, backend="golden", seed=seed, **given)


@pytest.fixture(scope="module", params=[1, sweep(3)], ids="seeds {}".format)
def full(request):
    """Of some of the five seeds that ``pytest bench -k mean_accuracy`` trains with."""
    return [train(seed=seed) for seed in range(request.param)]


def test_accuracy_that_is_promised(full):
    accuracies = [result.accuracy for result in full]
    float_mean = sum(result.float_accuracy for result in full) / len(full)
    mean = sum(accuracies) / len(accuracies)
    assert accuracies[0] >= 0.95, accuracies
    assert mean >= 0.96, accuracies
    assert mean >= float_mean - 0.015, (accuracies, float_mean)


def test_every_product_was_exact(full):
    assert [result.inexact_products for result in full] == [0] * len(full)


@pytest.mark.parametrize("steps", [20, sweep(300)])
def test_the_same_seed_gives_the_same_weights(steps):
    one, again = (train(seed=1, steps=steps) for _ in range(2))
    assert again.weights_sha256 == one.weights_sha256
    assert again.history == one.history


def test_every_seed_gives_other_weights():
    assert len({train(seed=seed, steps=5).weights_sha256 for seed in range(3)}) == 3


def test_the_roundings_draws_matter():
    results = [train(NumpyDevice(NANO, seed), steps=2) for seed in (0, 1)]
    assert results[0].weights_sha256 != results[1].weights_sha256


@pytest.mark.parametrize(
    "seed, want",
    [
        (0, "a2dd0ce6dc33a89da8295441c2c97bf6ed1ce2455dcd8066c9f3e7fec487d9e4"),
        (7, "ad42df0046be63d2dd7767dc73a2c1c3db4f5d23137e5c8665678ef415c67642"),
    ],
)
def test_weights_after_three_steps(seed, want):
    """What every computer must get; changes only with the numbers that are promised."""
    assert train(steps=3, seed=seed).weights_sha256 == want


def test_the_seed_decides_weights_split_and_order():
    """Each alone, under the same draws of the roundings: nothing is left of another seed."""
    training, held_out = split(load_digits(), seed=7)
    first = next(minibatches(training, 64, seed=7))
    network = Perceptron((64, 64, 10), seed=7)
    session = Session(NumpyDevice(NANO, 0))
    rate = host.learning_rate(0.5, 0, 1)
    network.train_step(session, first, step=0, rate=rate, momentum=0.8)
    result = train(NumpyDevice(NANO, 0), seed=7, steps=1)
    assert result.weights_sha256 == network.sha256()
    assert (result.loss, result.accuracy) == network.evaluate(session, held_out, step=0)


def test_result_without_clock_and_reference():
    result = train(steps=2)
    record = result.to_json()
    assert record["loss_scale_floor"] is None
    assert set(KEYS) <= set(record)
    assert json.loads(json.dumps(record)) == record
    # two steps on 64 samples, forward and backward but for the first dX; 360 samples held out
    assert record["macs"] == (2 * 64 * 2 + 360) * 64 * 64 + (2 * 64 * 3 + 360) * 64 * 10
    assert (record["cycles"], record["utilisation"]) == (None, None)
    assert (record["verified"], record["compared"], record["mismatches"]) == (False, 0, 0)
    assert (record["steps"], record["seed"], record["task"]) == (2, 0, "digits")
    assert result.history.held_out == [(2, result.loss, result.accuracy)]
    assert len(result.history.losses) == len(result.float_history.losses) == 2


OF_A_TENSOR = 7  # NaN, Inf, saturated, underflowed, amax, scale, and what lies in the padding
OF_A_PRODUCT = 2  # exact, overflow


def beside(rows, columns):
    """Exponents of blocks of 8, and the largest of each row and column of them."""
    high, wide = -(-rows // 8), -(-columns // 8)
    return high * wide + high + wide


def test_verification_compares_everything():
    result = train(steps=2, reference=NumpyDevice(NANO, 0))
    sizes = {"in": 64 * 64, "hidden": 64 * 64, "w0": 64 * 64, "w1": 64 * 10, "out": 64 * 10}
    step = 2 * (sizes["in"] + sizes["hidden"]) - sizes["in"]  # X0, and X1 with Y0
    step += 2 * sizes["w0"] + 2 * sizes["w1"] + 2 * sizes["out"]  # W and dW; Y1 and dY1
    step += 2 * sizes["hidden"]  # dX1 and dY0
    held_out = 360 * (64 + 64 + 64 + 10) + sizes["w0"] + sizes["w1"]
    stored = 5 * beside(64, 64) + 2 * beside(64, 10) - beside(64, 64)  # X, W, X, dY; W, dY
    stored_held_out = 2 * beside(360, 64) + beside(64, 64) + beside(64, 10)
    reports = 6 * OF_A_TENSOR + 4 * OF_A_PRODUCT, 4 * OF_A_TENSOR + 2 * OF_A_PRODUCT
    want = 2 * (step + stored + reports[0]) + held_out + stored_held_out + reports[1]
    assert result.compared == want
    assert (result.verified, result.mismatches, result.first_mismatch) == (True, 0, None)
    assert result.reports_differ == []


MX = {"format": "mxfp4_e2m1", "rounding": "nearest", "scale": "floor"}  # so that some saturate
VECTORS = Numerics.from_dict(
    {"x": MX, "w": MX, "dy": MX | {"rounding": "stochastic-b"}}
    | {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 14}
)


def test_every_copy_is_compared():
    """Two copies of each operand; and a wrong second one is named."""
    once = train(steps=1, reference=NumpyDevice(NANO, 0)).compared
    result = train(NumpyDevice(VECTORS, 0), steps=1, reference=NumpyDevice(VECTORS, 0))
    operands = (64 + 360) * (64 + 64) + 2 * (64 * 64 + 64 * 10) + 64 * (64 + 10)
    shapes = [(64, 64)] * 5 + [(64, 10)] * 3 + [(360, 64)] * 2
    for rows, columns in shapes:
        operands -= beside(rows, columns)
        for lines, length in ((rows, columns), (columns, rows)):
            lines += -lines % 8
            operands += lines * -(-length // 32) + lines  # exponents, and the largest of each line
    operands += len(shapes)  # padding
    assert (result.verified, result.compared) == (True, once + operands)

    class Odd(NumpyDevice):
        def convert(
            self, array, tensor_class, *, tag, step=0, scale=None, width=None, overlap=False
        ):
            tensor = super().convert(array, tensor_class, tag=tag, step=step)
            if tensor_class == "w":
                tensor.copies[1].codes.flags.writeable = True
                tensor.copies[1].codes[3, 5] ^= 8
            return tensor

    first = train(Odd(VECTORS, 0), steps=1, reference=NumpyDevice(VECTORS, 0)).first_mismatch
    assert (first.tensor, first.index) == ("layer0.W_q_k", (5, 3))


def test_underflowed_elements_are_counted():
    counted = []

    class Counting(NumpyDevice):
        def convert(self, *given, **named):
            tensor = super().convert(*given, **named)
            counted.append((tensor.saturated, tensor.underflowed, 2 * tensor.values().size))
            return tensor

    result = train(Counting(VECTORS, 0), steps=1)
    found = result.saturated, result.underflowed, result.converted
    assert found == tuple(map(sum, zip(*counted, strict=True)))
    assert result.underflowed > 0 < result.saturated


class Wrapped:
    """A golden device whose results pass through a function; ``calls`` counts by operation."""

    def __init__(self, change):
        self.device, self.change, self.calls = NumpyDevice(NANO, 0), change, {}

    def _call(self, op, *operands, **given):
        self.calls[op] = self.calls.get(op, 0) + 1
        return self.change(op, self.calls[op] - 1, getattr(self.device, op)(*operands, **given))

    total_cycles = None

    def convert(self, array, tensor_class, *, tag, step=0, width=None, overlap=False):
        return self._call("convert", array, tensor_class, tag=tag, step=step)

    def forward(self, x, w):
        return self._call("forward", x, w)

    def dw(self, x, dy):
        return self._call("dw", x, dy)

    def backward(self, x, w, dy):
        return self._call("backward", x, w, dy)


@pytest.mark.parametrize(
    "op, call, name, tensor, step, index",
    [
        ("forward", 2, "Y", "layer0.Y", 1, (63, 7)),
        ("forward", 7, "Y", "layer3.Y", 2, (359, 9)),  # the held-out samples
        ("backward", 1, "dX", "layer1.dX", 1, (5, 60)),
        ("backward", 0, "dW", "layer1.dW", 0, (0, 0)),
        ("dw", 2, "dW", "layer0.dW", 2, (17, 33)),
    ],
)
def test_one_wrong_bit_is_found(op, call, name, tensor, step, index):
    def flip(this_op, this_call, result):
        if (this_op, this_call) == (op, call):
            result.values[name].view(np.uint32)[index] ^= 1
            seen.append(result.values[name][index])
        return result

    seen = []
    result = train(Wrapped(flip), steps=3, reference=NumpyDevice(NANO, 0))
    first = result.first_mismatch
    assert (first.tensor, first.step, first.index) == (tensor, step, index)
    assert first.actual == seen[0]
    assert abs(int(first.actual.view(np.uint32)) - int(first.expected.view(np.uint32))) == 1
    assert (result.verified, result.mismatches) == (False, 1)
    row, column = index
    pattern = (
        rf"first mismatch: tensor {tensor}, step {step}, index \[{row}, {column}\]: "
        r"\S+ \(0x[0-9a-f]{8}\), expected \S+ \(0x[0-9a-f]{8}\)"
    )
    assert re.fullmatch(pattern, str(first)), str(first)
    assert result.to_json()["first_mismatch"] == str(first)


@pytest.mark.parametrize("report", REPORTS)
def test_one_wrong_report_is_found(report):
    """In the second step; what comes after it is right again."""
    op, of = ("backward", "layer1.backward") if report in ("exact", "overflow") else (None, None)
    calls, told = (1, []) if op else (9, [])  # the dY of layer 1, among six conversions a step

    def lie(this_op, this_call, result):
        if (this_op, this_call) != (op or "convert", calls + (0 if op else 1)):
            return result
        told.append(getattr(result, report))
        return replace(result, **{report: REPORTS[report](told[0])})

    result = train(Wrapped(lie), steps=3, reference=NumpyDevice(NANO, 0))
    words = (
        f"{report} of {of or 'layer1.dY'} in step 1 is {REPORTS[report](told[0])}, "
        f"expected {told[0]}"
    )
    assert (result.verified, result.mismatches) == (False, 1)
    assert (str(result.first_mismatch), result.reports_differ) == (words, [words])
    record = result.to_json()
    assert (record["first_mismatch"], record["reports_differ"]) == (words, [words])


def test_a_report_that_lies_always_is_told_once():
    result = train(lying("saturated", "w")(NANO, 0), steps=3, reference=NumpyDevice(NANO, 0))
    assert result.mismatches == 2 * 3 + 2
    layers = [line.partition(" is ")[0] for line in result.reports_differ]
    assert layers == [
        "saturated of layer0.W in step 0",
        "saturated of layer1.W in step 0",
        "saturated of layer2.W in step 2",  # of the held-out samples
        "saturated of layer3.W in step 2",
    ]


def test_a_wrong_operand_is_found():
    """Another seed rounds dY differently; nothing that is converted before may differ."""
    result = train(NumpyDevice(NANO, 1), steps=1, reference=NumpyDevice(NANO, 0))
    assert result.first_mismatch.tensor == "layer1.dY_q"
    assert result.first_mismatch.step == 0
    assert result.mismatches > 1


def test_a_device_that_returns_nonsense_is_compared_to_the_end():
    def spoil(op, call, result):
        if op == "forward" and call == 2:
            result.values["Y"][:] = np.float32("nan")
        return result

    result = train(Wrapped(spoil), steps=3, reference=NumpyDevice(NANO, 0))
    assert result.first_mismatch.tensor == "layer0.Y"
    assert result.mismatches == 64 * 64


@pytest.mark.parametrize("steps", [1, 3])
def test_a_training_that_diverges_is_told_by_step_and_tensor(steps):
    """Its loss is finite in step 0, its weights are not."""
    task = replace(digits_by_host(), rate=np.inf, momentum=0.0)
    with np.errstate(all="ignore"):
        result = run_task(task, NumpyDevice(NANO, 0), backend="golden", steps=steps)
    assert np.isfinite(result.history.losses[0])
    assert next(iter(result.history.not_finite)) == "weights[0]"
    form = r"step 0: weights\[0\] has (\d+) NaN and (\d+) Inf among 4096 numbers"
    counts = re.fullmatch(form, result.not_finite[0]).groups()
    assert sum(map(int, counts)) == 4096  # Inf times gradients, some of which are 0
    assert result.to_json()["not_finite"] == result.not_finite
    assert "float32: step 0: weights[0] has " in "".join(result.not_finite)


@pytest.mark.parametrize(
    "tensor, name", [("Y", "layer 1 Y"), ("dX", "layer 1 dX"), ("dW", "layer 1 dW")]
)
def test_the_first_tensor_that_is_not_finite(tensor, name):
    """Before the loss, or the weights, that follow from it. Layer 1 is the last."""

    def spoil(op, call, result):
        if (op, call) == (("forward", 1) if tensor == "Y" else ("backward", 0)):
            result.values[tensor].flat[3] = np.inf
        return result

    with np.errstate(all="ignore"):
        result = train(Wrapped(spoil), steps=2)
    first = next(iter(result.history.not_finite.values()))
    assert first.startswith(f"step 0: {name} has 1 Inf among ")
    assert len([each for each in result.history.not_finite if each.startswith("layer ")]) == 1


def test_the_first_tensor_of_an_evaluation():
    """Its samples have a NaN; those of the training have none."""
    task = digits_by_host()
    training, held_out = task.split(task.load(), seed=0)
    held_out.inputs[3, 5] = np.nan
    spoilt = replace(task, split=lambda *_, **__: (training, held_out))
    result = run_task(spoilt, NumpyDevice(NANO, 0), backend="golden", steps=1)
    assert next(iter(result.history.not_finite.values())) == (
        f"step 0: layer 0 X of the held-out samples has 1 NaN among {held_out.inputs.size} numbers"
    )


def test_utilisation_is_of_the_product_commands():
    def count(op, call, result):
        if op == "convert":
            return result
        nothing = {
            "convert_cycles": 0,
            "read_bytes": 0,
            "write_bytes": 0,
            "busy_slots": 0,
            "waits": {},
        }
        counters = CommandCounters(cycles=1000, total_cycles=7000, **nothing)
        object.__setattr__(result, "counters", counters)
        return result

    result = train(Wrapped(count), steps=2, multipliers=256)
    assert result.cycles == (2 * 4 + 2) * 1000
    assert result.utilisation == result.macs / (result.cycles * 256)


def test_progress_is_told_after_every_step():
    seen = []
    result = train(steps=3, progress=lambda *state: seen.append(state))
    assert [state[:2] for state in seen] == [(1, 3), (2, 3), (3, 3)]
    assert [state[2] for state in seen] == result.history.losses


@pytest.mark.parametrize("steps", [0, -3, 1_000_001])
def test_steps_out_of_range(steps):
    with pytest.raises(ValueError, match=f"^steps must be an integer in 1..1000000, not {steps}$"):
        train(steps=steps)


def test_picture(full, tmp_path):
    write_picture(full[0], tmp_path / "train.png")
    assert (tmp_path / "train.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
