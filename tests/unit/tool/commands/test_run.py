"""`run`: results, warnings, refusals, and the comparison with the golden model."""

from contextlib import contextmanager

import numpy as np
import pytest

from command_line import REPORTS, Faulty, error, lying, pretend
from diastole.commands import run as run_command
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import CheckFailed
from diastole_sim import quantise
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.host_device import HostDevice
from diastole_sim.host.product import Product
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.registers import WAIT_CAUSES
from support.fake_machine import FakeMachine, parameters_of

RUN = ("run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--backend", "golden")
RUN_KEYS = (
    "op backend m k n cycles convert_cycles macs utilisation read_bytes write_bytes "
    "busy_slots waits exact "
    "converted saturated underflowed verified mismatches compared"
).split()


REPORTED = 2  # exact, overflow
REPORTED_OF_A_TENSOR = 7  # NaN, Inf, saturated, underflowed, amax, scale, and what lies in padding
STORED = 3  # an exponent, the largest of its row and of its column: tensors of one block


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
    assert record["exact"] is True
    assert record["verified"] is False
    assert record["waits"] == dict.fromkeys(WAIT_CAUSES)
    assert record["busy_slots"] is None
    assert all(record[key] is None for key in ("cycles", "convert_cycles", "utilisation"))
    with np.load("b.npz") as written:
        shapes = {name: written[name].shape for name in written}
        assert shapes == results | {f"{name}_q": npz[name].shape for name in operands}
        assert all(written[name].dtype == np.float32 for name in written)
        golden = NumpyDevice(PRODUCTS_ONLY["nano"].numerics)
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


def test_run_tells_that_float_accumulators_rounded(diastole, tmp_path):
    """2^12 + 1 has 13 bits, of which three are kept."""
    x, w = np.zeros((2, 16), np.float32), np.zeros((16, 1), np.float32)
    x[0, ::8], w[0], w[8] = 1, 2**12, 1
    np.savez(tmp_path / "one.npz", X=x, W=w)
    few = ("--set", "accumulator.mantissa=2", "--set", "accumulator.chunk=16")
    said = {}
    for kind in ("integer", "float"):
        options = (*few, "--set", f"accumulator.kind={kind}", "--op", "forward")
        result = diastole(*RUN[:2], "--in", "one.npz", "--out", "o.npz", *RUN[6:], *options)
        assert (result.code, result.err) == (0, [])
        said[kind] = result.out.splitlines()[1]
        with np.load(tmp_path / "o.npz") as written:
            assert written["Y"][0, 0] == (2**12 + 1 if kind == "integer" else 2**12)
    assert said["integer"] == "every element is the product of the converted operands, rounded once"
    assert said["float"] == (
        "not exact: some products lie beyond accumulator.fraction, or beyond cell.window, or were "
        "rounded by the float accumulators"
    )


def test_run_says_what_it_converted_and_warns(diastole, tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([[np.nan, np.inf]]), W=np.ones((2, 1), np.float32))
    result = diastole(*RUN, "--op", "forward")
    assert result.code == 0
    assert result.err == [
        "diastole: X was converted from float64 to float32",
        "diastole: warning: X holds NaN (1 of 2 elements), which become +0",
        (
            "diastole: warning: X holds Inf (1 of 2 elements), which become the largest "
            "magnitude of the group (0 in a group of zeros with a scale of its own)"
        ),
    ]


def test_options_that_change_nothing_are_named(diastole, npz):
    result = diastole(*RUN, "--op", "forward", "--stalls", "3", "--verify")
    assert result.code == 0
    assert result.err == [
        "diastole: warning: --stalls changes nothing with --backend golden, which has no clock",
        "diastole: warning: --verify with --backend golden compares the golden model with itself",
    ]


def test_a_nest_is_handed_on(diastole, npz, monkeypatch):
    seen = []

    @contextmanager
    def make_device(execution, config, **options):
        seen.append(options.get("nest"))
        yield NumpyDevice(config.numerics)

    monkeypatch.setattr(run_command, "make_device", make_device)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "dx"]
    assert diastole(*arguments, "--nest", "chunk=8,outer=l").code == 0
    assert diastole(*arguments).code == 0
    assert seen == [Nest(chunk=8, outer="l"), None]
    golden = diastole(*arguments, "--nest", "chunk=8", "--backend", "golden")
    assert golden.err == [
        "diastole: warning: --nest changes nothing with --backend golden, which has no loops"
    ]


def test_run_verify_finds_one_wrong_bit(diastole, npz, monkeypatch):
    pretend(monkeypatch, run_command, Faulty)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "forward"]
    result = diastole(*arguments, "--verify", "--json")
    assert result.code == 1
    assert result.json["verified"] is False
    compared = 21 + 15 + 35 + REPORTED + 2 * (STORED + REPORTED_OF_A_TENSOR)
    assert (result.json["mismatches"], result.json["compared"]) == (1, compared)
    assert result.json["reports_differ"] == []
    assert len(result.err) == 1
    start = (
        f"diastole: error: 1 of {compared} elements and reported values differ from the golden "
        "model; first mismatch: tensor Y, index [1, 2]: "
    )
    assert result.err[0].startswith(start)


def test_run_verify_of_a_good_device(diastole, npz, monkeypatch):
    pretend(monkeypatch, run_command, NumpyDevice)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "backward"]
    result = diastole(*arguments, "--verify", "--json")
    assert (result.code, result.err) == (0, [])
    assert result.json["verified"] is True
    compared = 2 * (15 + 35) + 21 + REPORTED + 3 * (STORED + REPORTED_OF_A_TENSOR)
    assert (result.json["mismatches"], result.json["compared"]) == (0, compared)
    told = diastole(*arguments, "--verify").out.splitlines()[-2]
    assert told == (
        f"{compared} elements and reported values equal to the golden model, bit for bit"
    )


@pytest.mark.parametrize(
    "report, of",
    [
        (report, of)
        for report in REPORTS
        for of in (("backward",) if report in ("exact", "overflow") else ("x", "w", "dy"))
    ],
)
@pytest.mark.sampled(3)
def test_run_verify_finds_one_wrong_report(diastole, npz, monkeypatch, report, of):
    good = NumpyDevice(PRODUCTS_ONLY["nano"].numerics).backward(*(npz[n] for n in ("X", "W", "dY")))
    name = {"x": "X", "w": "W", "dy": "dY"}.get(of, of)
    told = getattr(good.operands.get(name, good), report)
    pretend(monkeypatch, run_command, lying(report, of))
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "backward"]
    result = diastole(*arguments, "--verify", "--json")
    assert (result.code, result.json["verified"], result.json["mismatches"]) == (1, False, 1)
    words = f"{report} of {name} is {REPORTS[report](told)}, expected {told}"
    assert result.json["reports_differ"] == [words]
    assert len(result.err) == 1
    assert result.err[0].endswith(
        f"elements and reported values differ from the golden model; {words}"
    )


def test_run_verify_tells_every_wrong_report(diastole, npz, monkeypatch):
    class Two(lying("saturated", "x"), lying("overflow", "forward")):
        pass

    pretend(monkeypatch, run_command, Two)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "forward"]
    result = diastole(*arguments, "--verify")
    assert result.code == 1
    assert result.err[0].endswith("; saturated of X is 1, expected 0")
    assert result.err[1:] == error("overflow of forward is True, expected False")


class Hung(NumpyDevice):
    def forward(self, x, w, **options):
        raise CheckFailed("the hardware hung")


def test_run_on_hardware_that_hangs(diastole, npz, monkeypatch, tmp_path):
    pretend(monkeypatch, run_command, Hung)
    arguments = ["run", "nano.toml", "--in", "a.npz", "--out", "b.npz", "--op", "forward"]
    result = diastole(*arguments)
    assert (result.code, result.err) == (1, error("the hardware hung"))
    assert not (tmp_path / "b.npz").exists()


# Two copies, codes and scales.


def change(**keys):
    """``--set`` for every key, in blocks of 4."""
    pairs = {"array.block": 4, **{key.replace("__", "."): value for key, value in keys.items()}}
    return [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]


def all_of(kind, **keys):
    return change(format__x=kind, format__w=kind, format__dy=kind, accumulator__fraction=9, **keys)


def load(path="b.npz"):
    with np.load(path) as file:
        return {name: file[name] for name in file}


@pytest.fixture
def hardware(monkeypatch, tmp_path):
    """The device above the registers, on a machine of numpy."""

    def device(numerics, seed):
        parameters = parameters_of(numerics.to_dict(), 64)
        product = Product(
            directory=tmp_path,
            name="fake",
            top="fake",
            sources=(),
            ports=(),
            data_width=64,
            manifest={"config_sha256": "0123456789abcdef", "parameters": parameters},
        )
        return HostDevice(FakeMachine(product), seed=seed)

    pretend(monkeypatch, run_command, device)


RTL = ("run", "nano.toml", "--in", "a.npz", "--out", "b.npz")


def test_every_copy_is_written_and_compared(diastole, npz, hardware):
    result = diastole(*RTL, "--op", "backward", *all_of("mxfp4_e2m1"), "--verify", "--json")
    assert (result.code, result.err) == (0, [])
    written = load()
    names = {"X_q_k": "X", "X_q_m": "X", "W_q_n": "W", "W_q_k": "W", "dY_q_n": "dY", "dY_q_m": "dY"}
    assert set(written) == {"dX", "dW", *names}
    assert all(written[name].shape == npz[of].shape for name, of in names.items())
    assert (written["dY_q_n"] != written["dY_q_m"]).any()  # each has draws of its own
    elements = 15 + 35 + 2 * (15 + 35 + 21)
    lines = 4 + 8 + 8 + 8 + 4 + 8  # rows in whole blocks: of X and its transpose, W, dY
    padding = 3  # of second copies
    reported = REPORTED + 3 * REPORTED_OF_A_TENSOR + padding
    assert result.json["compared"] == elements + 2 * lines + reported
    assert result.json["convert_cycles"] == 3000


def test_a_wrong_second_copy_is_found(diastole, npz, hardware, monkeypatch):
    monkeypatch.setattr(FakeMachine, "sabotage", "second copy")
    arguments = [*RTL, "--op", "forward", *all_of("mxfp4_e2m1")]
    result = diastole(*arguments, "--verify", "--json")
    assert result.code == 1
    assert "differ from the golden model; first mismatch: tensor X_q_m, index " in result.err[0]
    assert result.json["mismatches"] > 0
    assert result.json["reports_differ"] == ["exact of forward is False, expected True"]


def test_underflowed_is_told(diastole, tmp_path):
    x = np.array([[1, 2.0**-30, 0, 0]], np.float32)
    np.savez(tmp_path / "a.npz", X=x, W=np.ones((4, 1), np.float32))
    result = diastole(*RUN, "--op", "forward", "--json")
    found = [result.json[name] for name in ("underflowed", "saturated", "converted")]
    assert found == [1, 0, 8]
    assert "1 of 8 elements became zeros when converted" in diastole(*RUN, "--op", "forward").out


FAST = [word for name in ("x", "w", "dy") for word in ("--set", f"format.{name}=fast")]


@pytest.mark.parametrize("op", ["forward", "dx", "dw", "backward"])
def test_run_in_fast(diastole, npz, op):
    """In the widest of its widths; what the monitor counted is told of every operand."""
    result = diastole(*RUN, "--op", op, *FAST, "--json")
    assert (result.code, result.err) == (0, [])
    seen = result.json["improvement"]
    assert list(seen) == list(OPERATIONS[op].operand_names)
    plain = diastole(*RUN, "--op", op, "--json").json
    assert plain["improvement"] == {}
    assert all(0 < counted["num"] < counted["den"] for counted in seen.values())


CODED = {
    "mxfp8_e4m3": ("mxfp8_e4m3 1x32", {"k": ((3, 5), (3, 1)), "m": ((3, 5), (1, 5))}),
    "mxint8": ("mxint8 1x32", {"k": ((3, 5), (3, 1)), "m": ((3, 5), (1, 5))}),
    "nvfp4": ("nvfp4 1x16", {"k": ((3, 5), (3, 1)), "m": ((3, 5), (1, 5))}),
    "bfp4": ("bfp4 4x4", {"": ((3, 5), (1, 2))}),
    "fp8_e5m2": ("fp8_e5m2 tensor", {"": ((3, 5), None)}),
    "bf16": ("bf16 tensor", {"": ((3, 5), None)}),
}


@pytest.mark.parametrize("backend", ["golden", "rtl"])
@pytest.mark.parametrize("kind", CODED)
def test_codes_are_written_and_read(diastole, npz, hardware, kind, backend):
    """What is written is what ``quantise`` says, and gives the same results when it is read."""
    text, copies = CODED[kind]
    run = [*RTL[:2], "--op", "backward", *all_of(kind), "--backend", backend, "--codes"]
    assert diastole(*run, "--in", "a.npz", "--out", "b.npz").code == 0
    written = load()
    assert written["X_format"].item() == text
    for axis, (shape, scales) in copies.items():
        suffix = axis and f"_{axis}"
        grouping = {"grouping": "4x4"} if kind == "bfp4" else {}
        wanted = quantise(npz["X"], kind, axis=0 if axis == "m" else 1, **grouping)
        codes = written[f"X_codes{suffix}"]
        assert codes.shape == shape
        assert codes.dtype == wanted.codes.dtype
        assert np.array_equal(codes, wanted.codes)
        if scales is None:
            assert f"X_scales{suffix}" not in written
        else:
            assert written[f"X_scales{suffix}"].shape == scales
            assert np.array_equal(written[f"X_scales{suffix}"], wanted.scales)
        same = wanted.values().view(np.uint32) == written[f"X_q{suffix}"].view(np.uint32)
        assert same.all()
        assert ("X_tensor_scale" in written) == (wanted.tensor_scale is not None)
        assert written.get("X_tensor_scale") == wanted.tensor_scale
    assert diastole(*run, "--in", "b.npz", "--out", "c.npz").code == 0
    again = load("c.npz")
    assert set(again) == set(written)
    for name, array in written.items():
        assert np.array_equal(again[name], array), name


def test_codes_and_floats_go_together(diastole, npz, hardware):
    run = [*RTL[:2], "--op", "forward", *all_of("mxfp8_e4m3"), "--codes"]
    assert diastole(*run, "--in", "a.npz", "--out", "b.npz").code == 0
    written = load()
    coded = {name: array for name, array in written.items() if name.startswith("X_")}
    np.savez("c.npz", W=npz["W"], **coded)
    assert diastole(*run, "--in", "c.npz", "--out", "d.npz", "--verify").code == 0
    assert np.array_equal(load("d.npz")["Y"], written["Y"])


def test_codes_that_are_wrong_leave_no_file(diastole, npz, tmp_path):
    run = [*RTL[:2], "--op", "forward", *all_of("mxfp8_e4m3"), "--codes", "--backend", "golden"]
    assert diastole(*run, "--in", "a.npz", "--out", "b.npz").code == 0
    arrays = load()
    del arrays["W_codes_k"]
    arrays["X_scales_k"] = arrays["X_scales_k"].astype(np.int32)
    np.savez("c.npz", **arrays)
    result = diastole(*run, "--in", "c.npz", "--out", "d.npz")
    assert (result.code, result.out) == (2, "")
    assert result.err == [
        *error(
            "c.npz: X_scales_k must be uint8 of shape (3, 1) for mxfp8_e4m3 1x32, "
            "not int32 of shape (3, 1)"
        ),
        *error(f"c.npz: has no array W_codes_k; the arrays of the file are {', '.join(arrays)}"),
    ]
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize("backend", ["golden", "rtl"])
def test_codes_of_what_has_none_are_refused_before_anything_is_done(
    diastole, npz, hardware, tmp_path, backend
):
    """A format without NaN, under the scale of the tensor: nothing could say it."""
    npz["X"][0, 1], npz["X"][2, 2] = np.nan, np.inf
    np.savez("a.npz", **npz)
    run = [*RTL, "--op", "forward", *all_of("e3m4"), "--backend", backend]
    result = diastole(*run, "--set", "special=poison", "--codes")
    assert (result.code, result.out) == (2, "")
    assert result.err == error(
        "X holds NaN or Inf (2 of 15 elements), for which e3m4 tensor has no code: give finite "
        'numbers, leave --codes out, or set special to "flag"'
    )
    assert not (tmp_path / "b.npz").exists()
    assert diastole(*run, "--set", "special=poison", "--verify").code == 0
    assert np.isnan(load()["Y"][:2]).all()
    assert diastole(*run, "--codes").code == 0
    written = load()
    np.savez("a.npz", **{name: array for name, array in written.items() if name[0] in "XW"})
    assert "X_codes" in written
    del written["X_q"], written["W_q"], written["Y"]
    np.savez("a.npz", **written)
    assert diastole(*run, "--set", "special=poison", "--codes").code == 0


def test_codes_of_a_machine_that_is_wrong(diastole, npz, hardware, monkeypatch, tmp_path):
    monkeypatch.setattr(FakeMachine, "sabotage", "second copy")
    result = diastole(*RTL, "--op", "forward", *all_of("mxfp8_e4m3"), "--codes")
    assert result.code == 1
    assert (
        "stored elements have no code in mxfp8_e4m3 under the scales of the tensor" in result.err[0]
    )
    assert not (tmp_path / "b.npz").exists()


@pytest.mark.parametrize("backend", ["golden", "rtl"])
@pytest.mark.parametrize("kind", ["fp8_e4m3", "nvfp4"])
def test_given_scales(diastole, npz, hardware, kind, backend):
    np.savez("a.npz", X_scale=4, **npz)
    given = all_of(kind, scale__source="host")
    run = [*RTL, "--op", "forward", *given, "--backend", backend, "--codes"]
    assert diastole(*run).code == 0
    written = load()
    assert (written["X_tensor_scale"], written["W_tensor_scale"]) == (4.0, 1.0)
    wanted = quantise(npz["X"], kind, tensor_scale=4.0, axis=1)
    suffix = "_k" if kind == "nvfp4" else ""
    assert np.array_equal(written[f"X_codes{suffix}"], wanted.codes)
    np.savez("a.npz", X_scale=3, **npz)
    result = diastole(*run)
    assert result.code == 2
    assert "a.npz: X_scale must be a power of two in 2^-" in result.err[0]


@pytest.mark.parametrize(
    "op, axis, count", [("forward", "m", 3), ("dx", "k", 2), ("dw", "n", 2), ("backward", "k", 2)]
)
def test_parts_are_the_whole(op, axis, count, diastole, tmp_path):
    rng = np.random.default_rng(1)
    shapes = {"X": (21, 15), "W": (15, 13), "dY": (21, 13)}
    data = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    np.savez(tmp_path / "a.npz", **data)
    assert diastole(*RUN, "--op", op).code == 0
    with np.load("b.npz") as file:
        whole = {name: file[name] for name in OPERATIONS[op].result_names}
    parts = []
    for index in range(count):
        result = diastole(
            *RUN, "--op", op, "--json", "--verify", "--part", f"{axis},{index},{count}"
        )
        assert (result.code, result.json["part"]) == (0, f"{axis},{index},{count}")
        assert result.json["verified"]
        parts.append(result.json[axis])
        with np.load("b.npz") as file:
            for tensor in OPERATIONS[op].results:
                along, end = tensor.axes.index(axis), sum(parts)
                expected = whole[tensor.name].take(range(end - parts[-1], end), along)
                assert np.array_equal(file[tensor.name], expected)
    assert sum(parts) == {"m": 21, "k": 15, "n": 13}[axis]


def test_a_part_in_codes(diastole, npz):
    """They are those of the part, and go on from there to the same result."""
    assert diastole(*RUN, "--op", "dx", "--codes", "--part", "m,0,1").code == 0
    with np.load("b.npz") as file:
        whole = dict(file)
    np.savez("a.npz", **{name: whole[name] for name in whole if not name.endswith(("dX", "_q"))})
    assert diastole(*RUN, "--op", "dx", "--codes", "--part", "m,0,1").code == 0
    with np.load("b.npz") as file:
        assert np.array_equal(file["dX"], whole["dX"])


NVFP4 = [word for name in ("x", "w", "dy") for word in ("--set", f"format.{name}=nvfp4")]


def test_numbers_that_float32_does_not_reach(diastole, tmp_path):
    """T = 117 is the smallest with amax <= 2688 * 2^T, and 341.3 = amax / (6 * 2^117) is nearer to
    352 than to 320; 5.8 becomes 6, and 6 * 352 * 2^117 = 1.03 * 2^128. Times 2^-112, which W has
    beside 2688 = 6 * 448, it is a float32."""
    x, w = np.full((4, 16), np.finfo(np.float32).max), np.eye(16) * 2688 * 2.0**-112
    np.savez(tmp_path / "a.npz", X=x, W=w, dY=np.ones((4, 16), np.float32))
    words = (*RUN, *NVFP4, "--op")
    record = diastole(*words, "forward", "--json").json
    assert record["beyond_float32"] == {"X": 2 * 64}, "both copies"
    assert (record["inf"], record["overflow"], record["saturated"]) == ([], False, 0)
    with np.load("b.npz") as written:
        assert np.isinf(written["X_q_k"]).all()
        assert np.all(written["Y"] == 6 * 352 * 2688 * 2.0**5)
    out = diastole(*words, "forward").out
    assert (
        "X_q has Inf for 128 elements: the machine stores and multiplies finite numbers beyond"
        in out
    )
    assert diastole(*words, "dx", "--json").json["beyond_float32"] == {}


def test_an_inf_that_is_stored_is_no_such_number(diastole, tmp_path):
    """E5M2 has a code for it, and its flag."""
    np.savez(tmp_path / "a.npz", X=np.array([[np.inf, 1]]), W=np.ones((2, 2), np.float32))
    chosen = ("--set", "format.x=fp8_e5m2", "--set", "special=poison")
    record = diastole(*RUN, *chosen, "--op", "forward", "--json").json
    assert (record["inf"], record["beyond_float32"]) == (["X"], {})
