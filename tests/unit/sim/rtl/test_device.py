"""The device above the registers, with numpy in the place of the hardware."""

import gc
import json

import numpy as np
import pytest

from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.numerics import Numerics
from diastole_sim.program.command import Command, ErrorCode, Opcode
from diastole_sim.rtl import device as device_module
from diastole_sim.rtl.device import Device
from diastole_sim.rtl.errors import CommandError, HardwareHang, ProductError, ProtocolError
from diastole_sim.rtl.product import Product
from support import fake_machine

NUMERICS = {
    "block": 4,
    "x": {"format": "bfp4", "rounding": "nearest"},
    "w": {"format": "bfp5", "rounding": "nearest"},
    "dy": {"format": "bfp3", "rounding": "stochastic-b"},
    "random_bits": 8,
    "fraction": 18,
    "headroom": 4,
}


@pytest.fixture
def folder(copier):
    path = copier(128) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parameters"]["numerics"] = NUMERICS
    path.write_text(json.dumps(manifest))
    return path.parent


@pytest.fixture
def device(folder, monkeypatch):
    monkeypatch.setattr(device_module, "Machine", fake_machine.FakeMachine)
    with Device(folder, seed=7) as device:
        yield device
    assert device.machine.closed


@pytest.fixture
def golden():
    return GoldenDevice(Numerics.from_dict(NUMERICS), seed=7)


def tensors(m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=size).astype(np.float32) for size in ((m, k), (k, n), (m, n)))


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    assert (got.view(np.uint32) == wanted.view(np.uint32)).all()


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 5, 7), (17, 34, 9)])
def test_products_equal_the_model(device, golden, m, k, n):
    x, w, dy = tensors(m, k, n)
    for got, wanted in (
        (device.forward(x, w), golden.forward(x, w)),
        (device.dx(w, dy, step=5), golden.dx(w, dy, step=5)),
        (device.dw(x, dy, tags=(8, 10)), golden.dw(x, dy, tags=(8, 10))),
        (device.backward(x, w, dy), golden.backward(x, w, dy)),
    ):
        assert got.op == wanted.op and set(got.values) == set(wanted.values)
        for name, tensor in wanted.values.items():
            same(got.values[name], tensor)
        for name, tensor in wanted.operands.items():
            same(got.operands[name].values(), tensor.values())
        assert (got.exact, got.overflow) == (wanted.exact, wanted.overflow)


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
    other = GoldenDevice(Numerics.from_dict(NUMERICS | {"block": 8}))
    with pytest.raises(ValueError, match="the tensor is bfp4 in blocks of 8; this device has bfp4"):
        device.upload(other.convert(x, "x", tag=0))


def test_counters(device):
    counters = device.forward(*list(tensors(4, 4, 4))[:2]).counters
    assert counters.cycles == (1 << 32) + 7
    assert counters.convert_cycles == 2000
    assert counters.read_bytes == 16 * ((2 << 32) + 7)
    assert counters.write_bytes == 16 * ((3 << 32) + 7)
    assert counters.stall_load_cycles == 4


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


def test_memory_comes_back(device):
    x, w, dy = tensors(40, 40, 40)
    for _ in range(3):
        before = device.heap.taken_bytes
        result = device.backward(x, w, dy)
        assert device.heap.taken_bytes > before
        del result
        gc.collect()
        assert device.heap.taken_bytes == before


def test_operands_that_do_not_fit(device, golden):
    x, w, dy = tensors(4, 5, 6)
    cases = [
        (lambda: device.forward(x, x), "the columns of X are 5, but the rows of W are 4"),
        (lambda: device.backward(x, w, w), "the rows of X are 4, but the rows of dY are 5"),
        (lambda: device.forward(x.astype(np.float64), w), "a float32 array, not float64"),
        (lambda: device.forward(x[:0], w), "none empty, not the shape 0 x 5"),
        (lambda: device.forward(golden.convert(x, "x", tag=0), w), "X must be a float32 array or"),
        (lambda: device.forward(device.convert(x, "dy", tag=0), w), "of class x, not dy"),
        (lambda: device.convert(x, "y", tag=0), "tensor class must be one of x, w, dy, not 'y'"),
        (lambda: device.convert(x, "x", tag=-1), "tag must be an integer in 0..4294967295"),
    ]
    for call, text in cases:
        with pytest.raises(ValueError, match=text):
            call()
    a, b = np.ones((1, 65), np.float32), np.ones((65, 1), np.float32)
    with pytest.raises(ValueError, match="65 elements, more than the 64 that a headroom of 4 bits"):
        device.forward(a, b)
    taken = device.heap.taken_bytes
    gc.collect()
    assert device.heap.taken_bytes <= taken


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
    monkeypatch.setattr(fake_machine, "MAGIC", 5)
    monkeypatch.setattr(device_module, "Machine", fake_machine.FakeMachine)
    with pytest.raises(ProductError, match="its magic is 0x5, not 0x53414944"):
        Device(folder)
    monkeypatch.undo()
    monkeypatch.setattr(device_module, "Machine", fake_machine.FakeMachine)
    path = folder / "manifest.json"
    text = path.read_text()
    product = Product.load(folder)
    path.write_text(text.replace("0123456789abcdef", "1123456789abcdef"))
    monkeypatch.setattr(
        device_module, "Machine", lambda _, **options: fake_machine.FakeMachine(product)
    )
    with pytest.raises(ProductError, match="its config_hash is 0x1234567, not 0x11234567"):
        Device(folder)
    path.write_text(text.replace("bfp4", "bfp44"))
    with pytest.raises(ProductError, match="bad numerics: format must be one of"):
        Device(folder)
