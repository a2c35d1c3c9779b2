"""The device above the registers, with numpy in the place of the hardware."""

import gc
import json

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.errors import CommandError, HardwareHang, ProductError, ProtocolError
from diastole_sim.host.host_device import HostDevice
from diastole_sim.host.product import Product
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.registers import WAIT_CAUSES
from support import fake_machine
from support.fake_machine import FakeMachine, parameters_of
from support.texts import exactly

NUMERICS = {
    "block": 4,
    "x": {"format": "bfp4", "rounding": "nearest"},
    "w": {"format": "bfp5", "rounding": "nearest"},
    "dy": {"format": "bfp3", "rounding": "stochastic-b"},
    "random_bits": 8,
    "fraction": 18,
    "headroom": 4,
}


def of(source="current", fraction=18, special="flag", **chosen):
    """Numerics with all classes of one kind."""
    chosen = {"rounding": "nearest"} | chosen
    return NUMERICS | {
        "x": chosen,
        "w": chosen,
        "dy": chosen | {"rounding": "stochastic-b"},
        "source": source,
        "fraction": fraction,
        "special": special,
    }


KINDS = {
    "bfp": NUMERICS,
    "large-squares": of(format="bfp4", grouping="8x8"),
    "vectors": of(format="bfp4", grouping="1x8"),
    "fp8": of(format="fp8_e4m3"),
    "bf16": of(format="bf16"),
    "mx": of(format="mxfp8_e4m3"),
    "mxfp6-poison": of(format="mxfp6_e3m2", special="poison"),
    "nvfp4": of(format="nvfp4"),
    "vectors-but-dy": of(format="mxfp4_e2m1") | {"dy": NUMERICS["dy"]},
}


@pytest.fixture
def make(copier):
    """``make(numerics)``: a device and a golden one, of one seed."""
    devices = []

    def make(numerics, seed=7):
        path = copier(128) / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["parameters"] |= parameters_of(numerics, 128)
        path.write_text(json.dumps(manifest))
        devices.append(HostDevice(FakeMachine(Product.load(path.parent)), seed=seed))
        return devices[-1], NumpyDevice(Numerics.from_dict(numerics), seed=seed)

    yield make
    for device in devices:
        device.close()
        assert device.machine.closed


@pytest.fixture
def folder(make):
    return make(NUMERICS)[0].product.directory


@pytest.fixture
def device(make):
    return make(NUMERICS)[0]


@pytest.fixture
def golden():
    return NumpyDevice(Numerics.from_dict(NUMERICS), seed=7)


def tensors(m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=size).astype(np.float32) for size in ((m, k), (k, n), (m, n)))


def same(got, wanted):
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert (got.view(np.uint32) == wanted.view(np.uint32)).all()


def same_tensor(got, wanted):
    """What the golden model converted, every copy of it, and what is known of it."""
    copies, expected = got.copy_values(), wanted.copy_values()
    assert list(copies) == list(expected)
    for name, values in expected.items():
        same(copies[name], values)
    same(got.values(), wanted.values())
    known = "shape tensor_class nan inf saturated underflowed stored amax"
    for name in known.split():
        assert getattr(got, name) == getattr(wanted, name), name
    read = got.read()
    assert (read.storage, read.block, read.amax) == (wanted.storage, wanted.block, wanted.amax)
    assert read.tensor_exponent == wanted.tensor_exponent
    for stored, copy in zip(read.copies, wanted.copies, strict=True):
        assert (stored.transposed, stored.shape) == (copy.transposed, copy.shape)
        assert not stored.folds.any()
        for name in ("codes", "exponents", "row_max", "col_max"):
            assert np.array_equal(getattr(stored, name), getattr(copy, name)), name


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 5, 7), (17, 34, 9)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_products_equal_the_model(make, kind, m, k, n):
    device, golden = make(KINDS[kind])
    x, w, dy = tensors(m, k, n)
    for got, wanted in (
        (device.forward(x, w), golden.forward(x, w)),
        (device.dx(w, dy, step=5), golden.dx(w, dy, step=5)),
        (device.dw(x, dy, tags=(8, 10)), golden.dw(x, dy, tags=(8, 10))),
        (device.backward(x, w, dy), golden.backward(x, w, dy)),
    ):
        assert got.op == wanted.op
        assert set(got.values) == set(wanted.values)
        for name, tensor in wanted.values.items():
            same(got.values[name], tensor)
        for name, tensor in wanted.operands.items():
            same_tensor(got.operands[name], tensor)
        assert (got.exact, got.overflow) == (wanted.exact, wanted.overflow)


def test_stacks_equal_the_model(make):
    """On the machine one product after the other, counted together."""
    device, golden = make(of(format="fp8_e4m3"))
    (x, dy), w = (
        (np.random.default_rng(1).normal(size=(3, 4, 5)) for _ in range(2)),
        np.ones((5, 5)),
    )
    x, dy, w = (each.astype(np.float32) for each in (x, dy, w))
    got, wanted = (each.backward(x, w, dy, step=3) for each in (device, golden))
    assert got.dx.shape == (3, 4, 5)
    for name, tensor in wanted.values.items():
        same(got.values[name], tensor)
    for name, tensor in wanted.operands.items():
        same(got.operands[name].values(), tensor.values())
    opcodes = [command.opcode for command in device.machine.executed]
    assert opcodes == [Opcode.CONVERT] * 7 + [Opcode.BACKWARD] * 3
    assert sorted(command.tag for command in device.machine.executed[:7]) == [0, 1, 2, 4, 6, 8, 10]
    one = device.backward(x[0], got.operands["W"], dy[0]).counters
    assert got.counters.cycles == 3 * one.cycles
    assert got.counters.convert_cycles == 7 * one.convert_cycles / 2


OUTLIERS = np.array([[1.0, 2.0**-20, -(2.0**-40), 3e38], [0, np.nan, -np.inf, 0.0]], np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_a_tensor(make, kind):
    """Here something saturates or underflows, and there are NaN and Inf."""
    device, golden = make(KINDS[kind])
    for name in ("x", "w", "dy"):
        for array in (OUTLIERS, OUTLIERS[:1], 0 * OUTLIERS[:1], 1.97 * OUTLIERS[:, :1]):
            same_tensor(device.convert(array, name, tag=5), golden.convert(array, name, tag=5))


def test_each_product_reads_its_copies(make):
    """A broken copy changes exactly the products that read the copy."""
    device, golden = make(KINDS["vectors"])
    data = dict(zip(("x", "w", "dy"), tensors(9, 17, 10), strict=True))
    wanted = {name: golden.convert(array, name, tag=0) for name, array in data.items()}
    readers = {
        ("x", 0): {"forward"},
        ("x", 1): {"dw", "backward"},
        ("w", 0): {"dx", "backward"},
        ("w", 1): {"forward"},
        ("dy", 0): {"dx", "backward"},
        ("dy", 1): {"dw", "backward"},
    }
    for (name, copy), spoilt in readers.items():
        held = {each: device.upload(tensor) for each, tensor in wanted.items()}
        held[name].images[copy].data[:] = 0
        found = set()
        for op, operation in OPERATIONS.items():
            classes = [operand.tensor_class for operand in operation.operands]
            got = getattr(device, op)(*(held[each] for each in classes))
            right = getattr(golden, op)(*(wanted[each] for each in classes))
            if any((got.values[k] != value).any() for k, value in right.values.items()):
                found.add(op)
        assert found == spoilt, (name, copy)


@pytest.mark.parametrize("kind, unit", [("fp8_e4m3", 8), ("fp8_e5m2", 15), ("nvfp4", 0)])
def test_given_scales(make, kind, unit):
    device, golden = make(of(format=kind, source="host"))
    bias = 138 if kind == "nvfp4" else 127
    array = next(tensors(5, 6, 7)) * np.float32(100)
    for scale in (None, -100, unit, unit + 3, 100):
        got = device.convert(array, "x", tag=0, scale=scale)
        same_tensor(got, golden.convert(array, "x", tag=0, scale=scale))
        exponent = unit if scale is None else scale
        assert got.tensor_exponent == exponent
        assert device.machine.executed[-1].scale == exponent + bias
    with pytest.raises(ValueError, match=f"scale's exponent must be an integer in {1 - bias}.."):
        device.convert(array, "x", tag=0, scale=-bias)


@pytest.mark.parametrize("kind", ["fp8_e4m3", "nvfp4"])
def test_delayed_scales(make, kind):
    """The scale is that of the step before, of the same class and tag, if that was not zero; what
    follows in one step has the scale of its first."""
    device, golden = make(of(format=kind, source="delayed"))
    array = next(tensors(5, 6, 7))
    fields = []
    for step, factor, name, tag in (
        (0, 1, "x", 0),
        (1, 1000, "x", 0),
        (1, 1, "w", 0),
        (1, 0, "x", 1),
        (1, 1, "x", 0),
        (2, 1, "x", 0),
        (2, 2**20, "x", 1),
        (3, 1, "x", 0),
        (4, 1, "x", 1),
    ):
        scaled = array * np.float32(factor)
        got = device.convert(scaled, name, tag=tag, step=step)
        same_tensor(got, golden.convert(scaled, name, tag=tag, step=step))
        fields.append(device.machine.executed[-1].scale)
    first, later = fields[1], fields[5]
    assert later in (first + 9, first + 10)
    assert fields == [0, first, 0, 0, first, later, 0, first, first + 20]


def test_scales_that_have_no_place(make):
    for numerics in (KINDS["bfp"], KINDS["fp8"], of(format="bf16", source="host")):
        device, _ = make(numerics)
        with pytest.raises(ValueError, match="scale must be left out: this device takes no scale"):
            device.convert(np.ones((2, 2), np.float32), "x", tag=0, scale=0)


def test_tensors_are_converted_once(device, golden):
    x, w, dy = tensors(9, 10, 11)
    held = [
        device.convert(array, name, tag=tag, step=3)
        for tag, (name, array) in enumerate((("x", x), ("w", w), ("dy", dy)))
    ]
    wanted = [
        golden.convert(array, name, tag=tag, step=3)
        for tag, (name, array) in enumerate((("x", x), ("w", w), ("dy", dy)))
    ]
    same(device.forward(held[0], held[1]).y, golden.forward(wanted[0], wanted[1]).y)
    result = device.backward(*held)
    same(result.dx, golden.backward(*wanted).dx)
    assert result.counters.convert_cycles == 0
    opcodes = [command.opcode for command in device.machine.executed]
    assert opcodes == [Opcode.CONVERT] * 3 + [Opcode.FORWARD, Opcode.BACKWARD]


def test_upload(device, golden):
    x, w, _ = tensors(9, 10, 11)
    wanted = golden.forward(x, w)
    uploaded = [device.upload(wanted.operands[name]) for name in ("X", "W")]
    same(device.forward(*uploaded).y, wanted.y)
    assert len(device.machine.executed) == 1
    other = NumpyDevice(Numerics.from_dict(NUMERICS | {"block": 8}))
    with pytest.raises(
        ValueError,
        match=exactly(
            "the tensor is stored as bfp4 in groups of 8x8 and blocks of 8 (nearest, "
            "floor, saturate), but this device stores bfp4 in groups of 4x4 and blocks of "
            "4 (nearest, floor, saturate)"
        ),
    ):
        device.upload(other.convert(x, "x", tag=0))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_uploaded_is_read(make, kind):
    device, golden = make(KINDS[kind])
    wanted = golden.convert(next(tensors(9, 70, 11)), "x", tag=0)
    uploaded = device.upload(wanted)
    same_tensor(uploaded, wanted)
    assert uploaded.convert_cycles == 0


def test_counters(device):
    counters = device.forward(*list(tensors(4, 4, 4))[:2]).counters
    assert counters.cycles == (1 << 32) + 7
    assert counters.convert_cycles == 2000
    assert counters.read_bytes == 16 * ((2 << 32) + 7)
    assert counters.write_bytes == 16 * ((3 << 32) + 7)
    assert counters.waits == dict.fromkeys(WAIT_CAUSES, 0) | {"load": (4 << 32) + 7}
    assert counters.busy_slots == 0


@pytest.mark.parametrize("name", ["x", "w", "dy"])
def test_flags_are_each_tensors_own(device, name):
    for nan, inf in ((True, False), (False, True), (True, True), (False, False)):
        array = np.ones((4, 4), np.float32)
        if nan:
            array[1, 1] = np.nan
        if inf:
            array[2, 2] = -np.inf
        tensor = device.convert(array, name, tag=0)
        assert (tensor.nan, tensor.inf) == (nan, inf)


def test_saturated(device):
    large = np.full((4, 4), np.float32(1.99))
    assert device.convert(large, "x", tag=0).saturated == 16
    assert device.convert(large / 2 * 1.5, "x", tag=0).saturated == 0


def test_the_header_counts(make):
    """What is read has the tensor's scale that the machine wrote."""
    device, golden = make(KINDS["nvfp4"])
    wanted = golden.convert(next(tensors(9, 70, 11)), "x", tag=0)
    uploaded = device.upload(wanted)
    for image in uploaded.images:
        image.data[:2] = np.array([wanted.tensor_exponent + 3], "<i2").view(np.uint8)
    assert uploaded.read().tensor_exponent == wanted.tensor_exponent + 3
    same(uploaded.values(), wanted.values() * np.float32(8))


@pytest.mark.parametrize("kind", ["bfp", "vectors"])
@pytest.mark.sampled(2)
def test_memory_comes_back(make, kind):
    device, _ = make(KINDS[kind])
    x, w, dy = tensors(40, 40, 40)
    for _ in range(3):
        before = device.heap.allocated_bytes
        result = device.backward(x, w, dy)
        assert device.heap.allocated_bytes > before
        del result
        gc.collect()
        assert device.heap.allocated_bytes == before


def test_operands_that_do_not_fit(device, golden):
    x, w, _dy = tensors(4, 5, 6)
    cases = [
        (lambda: device.forward(x, x), "columns of X is 5, but the number of rows of W is 4"),
        (lambda: device.backward(x, w, w), "rows of X is 4, but the number of rows of dY is 5"),
        (lambda: device.forward(x.astype(str), w), "X must hold real numbers, not <U"),
        (lambda: device.forward(x[:0], w), "no axis may have the length 0; the shape is 0 x 5"),
        (
            lambda: device.forward(golden.convert(x, "x", tag=0), w),
            "X must be an array or a tensor",
        ),
        (lambda: device.forward(device.convert(x, "dy", tag=0), w), "of class x, not dy"),
        (lambda: device.convert(x, "y", tag=0), "tensor class must be one of x, w, dy, not 'y'"),
        (lambda: device.convert(x, "x", tag=-1), "tag must be an integer in 0..4294967295"),
    ]
    for call, text in cases:
        with pytest.raises(ValueError, match=text):
            call()
    a, b = np.ones((1, 65), np.float32), np.ones((65, 1), np.float32)
    with pytest.raises(ValueError, match="65 elements, but a headroom of 4 allows at most 64"):
        device.forward(a, b)
    taken = device.heap.allocated_bytes
    gc.collect()
    assert device.heap.allocated_bytes <= taken


def test_refused_commands(device):
    x, w, _ = tensors(4, 4, 4)
    area = (device.machine.memory_base, device.machine.memory_base + 4096)
    bad = Command(opcode=9)
    with pytest.raises(CommandError) as caught:
        device.execute(
            [
                Command.convert(
                    "x", rows=1, cols=1, source=area[0], destination=area[0], tag=0, step=0
                ),
                bad,
            ],
            reads=area,
            writes=[area],
        )
    assert (caught.value.code, caught.value.index) == (ErrorCode.BAD_OPCODE, 1)
    assert caught.value.message == "command 1 was refused with error 1: unknown opcode"
    assert "error_index = 0x1" in caught.value.report
    device.forward(x, w)


LONG = "error 9: the contraction is longer than the accumulators allow"


@pytest.mark.parametrize(
    "sabotage, words",
    [
        ("wrong code", "command 1 was refused with error 2: command version is not 1; {}"),
        ("wrong index", "command 2 was refused with error 1: unknown opcode; {}"),
        ("accepts all", "no command was refused; {}"),
        ("refuses", "command 0 was refused with " + LONG + "; {}"),
    ],
)
def test_refusals_are_compared_with_the_table(device, sabotage, words):
    """The second of three commands is malformed; the machine must say so, and just so."""
    area = (device.machine.memory_base, device.machine.memory_base + 4096)
    good = Command.convert("x", rows=1, cols=1, source=area[0], destination=area[0], tag=0, step=0)
    expected = "by the table of commands, command 1 was refused with error 1: unknown opcode"
    device.machine.sabotage = sabotage
    with pytest.raises(ProtocolError) as caught:
        device.execute([good, Command(opcode=9), good], reads=area, writes=[area])
    assert caught.value.message == words.format(expected)
    assert "command_count = 0x3" in caught.value.report


def test_good_commands_that_are_refused(device):
    x, w, _ = tensors(4, 4, 4)
    device.machine.sabotage = "refuses"
    with pytest.raises(ProtocolError) as refused:
        device.forward(x, w)
    assert refused.value.message.endswith("; by the table of commands, no command was refused")
    device.machine.sabotage = "bus fails"  # which no table foretells
    with pytest.raises(CommandError) as caught:
        device.forward(x, w)
    assert (caught.value.code, caught.value.index) == (ErrorCode.READ_RESPONSE, 0)


def test_failures_carry_the_registers(device):
    x, w, _ = tensors(4, 4, 4)
    device.machine.sabotage = "hang"
    with pytest.raises(HardwareHang) as caught:
        device.forward(x, w)
    assert "pins\nmagic = 0x53414944" in str(caught.value)
    device.machine.sabotage = "stray"
    with pytest.raises(ProtocolError, match="1 beats were written outside of the results"):
        device.forward(x, w)


def test_wrong_hardware(folder, monkeypatch):
    product = Product.load(folder)
    monkeypatch.setattr(fake_machine, "MAGIC", 5)
    with pytest.raises(ProductError, match="register magic reads 0x5, not 0x53414944"):
        HostDevice(FakeMachine(product))
    monkeypatch.undo()
    other = FakeMachine(product)
    path = folder / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace("0123456789abcdef", "1123456789abcdef"))
    other.product = Product.load(folder)
    with pytest.raises(ProductError, match="register config_hash reads 0x1234567, not 0x11234567"):
        HostDevice(other)
    path.write_text(text.replace("bfp4", "bfp44"))
    other.product = Product.load(folder)
    with pytest.raises(ProductError, match="wrong numerics: format must be one of"):
        HostDevice(other)
