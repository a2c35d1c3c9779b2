"""`run`: results, warnings, refusals, and the comparison with the golden model."""

import numpy as np
import pytest

from command_line import Faulty, error, pretend
from diastole.commands import run as run_command
from diastole.errors import CheckFailed
from diastole.presets import PRESETS
from diastole_sim.golden.machine import GoldenDevice

RUN = ("run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--backend", "golden")
RUN_KEYS = (
    "op backend m k n cycles convert_cycles macs utilisation read_bytes write_bytes stalls exact "
    "saturated verified mismatches compared"
).split()


@pytest.mark.parametrize(
    "op, results, operands",
    [
        ("forward", {"Y": (3, 7)}, ["X", "W"]),
        ("dx", {"dX": (3, 5)}, ["W", "dY"]),
        ("dw", {"dW": (5, 7)}, ["X", "dY"]),
        ("backward", {"dX": (3, 5), "dW": (5, 7)}, ["X", "W", "dY"]),
    ],
)
def test_run_writes_results_and_operands(diastole, npz, op, results, operands):
    result = diastole(*RUN, "--op", op, "--json")
    assert (result.code, result.err) == (0, [])
    record = result.json
    assert set(RUN_KEYS) <= set(record)
    assert (record["op"], record["backend"]) == (op, "golden")
    assert (record["m"], record["k"], record["n"]) == (3, 5, 7)
    assert record["macs"] == 105 * len(results)
    assert record["exact"] is True and record["verified"] is False
    assert record["stalls"] == dict.fromkeys(("load", "store", "accumulator", "turn"))
    assert all(record[key] is None for key in ("cycles", "convert_cycles", "utilisation"))
    with np.load("b.npz") as written:
        shapes = {name: written[name].shape for name in written}
        assert shapes == results | {f"{name}_q": npz[name].shape for name in operands}
        assert all(written[name].dtype == np.float32 for name in written)
        golden = GoldenDevice(PRESETS["nano"].numerics)
        expected = getattr(golden, op)(*(npz[name] for name in operands))
        for name in results:
            assert np.array_equal(written[name], expected.values[name])


def test_run_draws_from_the_seed(diastole, npz):
    written = []
    for seed in (0, 0, 1):
        assert diastole(*RUN, "--op", "dw", "--seed", seed).code == 0
        with np.load("b.npz") as file:
            written.append(file["dY_q"])
    assert np.array_equal(written[0], written[1])
    assert not np.array_equal(written[0], written[2])


def test_run_takes_overrides(diastole, npz):
    assert diastole(*RUN, "--op", "forward", "--set", "format.x=bfp2").code == 0
    with np.load("b.npz") as file:
        assert len(np.unique(np.abs(file["X_q"]))) <= 4


def test_run_says_what_it_converted_and_warns(diastole, tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([[np.nan, np.inf]]), W=np.ones((2, 1), np.float32))
    result = diastole(*RUN, "--op", "forward")
    assert result.code == 0
    assert result.err == [
        "diastole: X was converted from float64 to float32",
        "diastole: warning: X holds NaN (1 of 2 elements), taken as +0",
        "diastole: warning: X holds Inf (1 of 2 elements), taken as the largest magnitude of its "
        "block",
    ]


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"X": (3, 5), "W": (6, 7)}, "K is 5 in X (3 x 5) but 6 in W (6 x 7)"),
        ({"X": (3, 5)}, "a.npz: has no array W (it has X)"),
        (
            {"X": (3, 0), "W": (0, 7)},
            "a.npz: X must not have an empty axis (its shape is (3, 0))",
        ),
    ],
)
def test_run_refuses_and_leaves_no_file(diastole, tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **{name: np.zeros(shape) for name, shape in arrays.items()})
    result = diastole(*RUN, "--op", "forward")
    assert (result.code, result.out, result.err[:1]) == (2, "", error(message))
    assert not (tmp_path / "b.npz").exists()


def test_run_refuses_a_contraction_that_is_too_long(diastole, npz, tmp_path):
    overrides = ["--set", "accumulator.headroom=1", "--set", "array.block=2"]
    result = diastole(*RUN, "--op", "forward", *overrides)
    assert (result.code, result.err) == (
        2,
        error(
            "the contraction of Y over K = 5 must be at most 2^accumulator.headroom = 2 blocks of "
            "2, not 3"
        ),
    )
    assert not (tmp_path / "b.npz").exists()


def test_run_golden_has_no_waves(diastole, npz, tmp_path):
    result = diastole(*RUN, "--op", "forward", "--trace", "waves.vcd")
    assert (result.code, result.err) == (
        2,
        error("--trace needs --backend rtl: the golden model has no waves"),
    )
    assert not (tmp_path / "b.npz").exists()


def test_options_that_change_nothing_are_named(diastole, npz):
    result = diastole(*RUN, "--op", "forward", "--stalls", "3", "--verify")
    assert result.code == 0
    assert result.err == [
        "diastole: warning: --stalls changes nothing with --backend golden, which has no clock",
        "diastole: warning: --verify with --backend golden compares the golden model with itself",
    ]


def test_run_verify_finds_one_wrong_bit(diastole, npz, monkeypatch):
    pretend(monkeypatch, run_command, Faulty)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "forward"]
    result = diastole(*arguments, "--verify", "--json")
    assert result.code == 1
    assert result.json["verified"] is False
    assert (result.json["mismatches"], result.json["compared"]) == (1, 21 + 15 + 35)
    assert len(result.err) == 1
    start = "diastole: error: 1 of 71 elements differ from the golden model; first Y[1, 2] = "
    assert result.err[0].startswith(start)


def test_run_verify_of_a_good_device(diastole, npz, monkeypatch):
    pretend(monkeypatch, run_command, GoldenDevice)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "backward"]
    result = diastole(*arguments, "--verify", "--json")
    assert (result.code, result.err) == (0, [])
    assert result.json["verified"] is True
    assert (result.json["mismatches"], result.json["compared"]) == (0, 2 * (15 + 35) + 21)


def test_compare_sees_the_sign_of_zero():
    zero = np.zeros((1, 1), np.float32)
    assert run_command.compare({"Y": zero}, {"Y": -zero}).mismatches == 1


class Hung(GoldenDevice):
    def forward(self, x, w, **options):
        raise CheckFailed("the hardware hung")


def test_run_on_hardware_that_hangs(diastole, npz, monkeypatch, tmp_path):
    pretend(monkeypatch, run_command, Hung)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "forward"]
    result = diastole(*arguments)
    assert (result.code, result.err) == (1, error("the hardware hung"))
    assert not (tmp_path / "b.npz").exists()
