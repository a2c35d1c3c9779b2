"""A machine behind a link, with numpy in its place: devices do on it what they do in simulation."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.errors import CommandError, HardwareHang, ProtocolError
from diastole_sim.host.host_device import HostDevice
from diastole_sim.host.product import Product
from diastole_sim.host.running import RunningMachine
from diastole_sim.machines.board.board_errors import LinkLost, WrongBoard
from diastole_sim.machines.board.board_machine import BoardMachine
from diastole_sim.machines.board.link import Link
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.registers import BY_NAME, registers_of
from support.board_model import Damage, MachineBridge, ModelLine
from support.fake_machine import FakeMachine, parameters_of
from support.texts import exactly

CLASS = {"format": "bfp4", "rounding": "nearest"}
NUMERICS = {
    "block": 4,
    "x": CLASS,
    "w": CLASS,
    "dy": CLASS | {"rounding": "stochastic-b"},
    "random_bits": 8,
    "fraction": 18,
    "headroom": 4,
}
BASE, BYTES = 0x10000, 1 << 16
PRODUCT = Product(
    directory=Path("nowhere"),
    name="mine",
    top="mine",
    sources=(),
    ports=(),
    data_width=32,
    manifest={"config_sha256": "0123456789abcdef", "parameters": parameters_of(NUMERICS, 32)},
)


class Plugged:
    """A board, and all between it and a host."""

    def __init__(self, damage=None):
        self.fake = FakeMachine(PRODUCT, memory_bytes=BYTES, memory_base=BASE)
        self.fake.memory[:] = 0x5C  # of whoever was there before
        self.bridge = MachineBridge(self.fake)
        self.line = ModelLine(self.bridge, damage)
        self.naps = []

    def machine(self, product=PRODUCT) -> RunningMachine:
        return BoardMachine(product, Link(self.line, tries=200), sleep=self.naps.append)


def numbers(rng, *shape):
    return np.random.default_rng(rng.randrange(2**32)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rate", [0.0, 0.001], ids=["good", "bad"])
def test_a_device_has_the_bits_of_the_golden_one(rate, rng):
    plugged = Plugged(Damage(rng, rate))
    device = HostDevice(plugged.machine(), seed=5)
    golden = NumpyDevice(Numerics.from_dict(NUMERICS), seed=5)
    for step in range(3):
        x, w, dy = numbers(rng, 9, 6), numbers(rng, 6, 7), numbers(rng, 9, 7)
        tags = (0, 1)
        got = device.forward(x, w, tags=tags, step=step).y
        assert np.array_equal(got, golden.forward(x, w, tags=tags, step=step).y)
        held = [each.convert(dy, "dy", tag=2, step=step) for each in (device, golden)]
        for own in zip(held[0].read().copies, held[1].copies, strict=True):
            assert np.array_equal(own[0].exponents, own[1].exponents)
        ours = device.dw(device.convert(x, "x", tag=0, step=step), held[0])
        assert np.array_equal(
            ours.dw, golden.dw(golden.convert(x, "x", tag=0, step=step), held[1]).dw
        )
    device.close()
    assert plugged.line.closed
    assert bool(rate) == (plugged.line.damaged > 0)


def test_only_what_changed_goes_over():
    plugged = Plugged()
    machine = plugged.machine()
    bridge = plugged.bridge
    window = BY_NAME["read_base"].offset, BY_NAME["read_limit"].offset
    for offset, value in zip(window, (BASE + 64, BASE + 128), strict=True):
        machine.write(offset, value)
        machine.write(offset + 4, 0)
    assert bridge.uploaded == 0
    machine.bytes_at(BASE + 1000, 8)[:] = 7
    start(machine)
    assert bridge.uploaded == 16 + 2  # what may be read, for nobody knows what is there
    assert list(plugged.fake.bytes_at(BASE + 64, 64)) == [0] * 64
    assert list(plugged.fake.bytes_at(BASE + 1000, 8)) == [7] * 8
    machine.bytes_at(BASE + 1004, 4)[0] = 9
    start(machine)
    assert bridge.uploaded == 16 + 2 + 1
    for place in (0, 8, 12, 40):  # the first three are one request
        machine.bytes_at(BASE + 2000 + place, 4)[:] = 1
    before = machine.link.counts.requests
    start(machine)
    assert bridge.uploaded == 16 + 2 + 1 + 4 + 1
    assert machine.link.counts.requests == before + 3


def start(machine, *writes):
    machine.allow_writes(*writes or ((BASE, BASE),))
    control = BY_NAME["control"]
    machine.write(control.offset, 1 << control.bit("start") | 1 << control.bit("irq_enable"))


def test_what_a_command_wrote_comes_when_it_is_looked_at():
    plugged = Plugged()
    machine, there = plugged.machine(), plugged.fake.memory
    machine.bytes_at(BASE, 64)[:] = 3
    start(machine, (BASE + 4, BASE + 10), (BASE + 32, BASE + 36))
    there[4:10] = 8
    there[20] = 9  # not allowed: nobody asks for it
    there[32:36] = 6
    fetched = plugged.bridge.fetched
    assert list(machine.bytes_at(BASE, 40)) == [3] * 4 + [8] * 6 + [3] * 22 + [6] * 4 + [3] * 4
    assert plugged.bridge.fetched == fetched + 3
    machine.bytes_at(BASE, 40)
    assert plugged.bridge.fetched == fetched + 3
    machine.bytes_at(BASE + 4, 1)[0] = 1
    start(machine, (BASE + 32, BASE + 36))
    assert list(there[4:12]) == [1] + [8] * 5 + [3] * 2
    machine.allow_writes()
    control = BY_NAME["control"]
    machine.write(control.offset, 1 << control.bit("start") | 1 << control.bit("irq_enable"))
    there[100] = 77  # anything may be written
    assert machine.bytes_at(BASE + 100, 1)[0] == 77


def test_what_a_command_wrote_stays():
    """Nobody has looked at it, nobody knew what was there, and its neighbours change: what goes
    over before the next command leaves it alone."""
    plugged = Plugged()
    machine, there = plugged.machine(), plugged.fake.memory
    start(machine, (BASE + 32, BASE + 36))
    there[32:36] = 6
    for name, value in (("read_base", BASE), ("read_limit", BASE + 64)):
        machine.write(BY_NAME[name].offset, value)
    machine.bytes_at(BASE + 28, 4)[:] = 1
    machine.bytes_at(BASE + 36, 4)[:] = 2
    start(machine)
    assert list(there[24:44]) == [0] * 4 + [1] * 4 + [6] * 4 + [2] * 4 + [0] * 4
    assert list(machine.bytes_at(BASE + 32, 4)) == [6] * 4


def test_memory_that_is_not_there():
    machine = Plugged().machine()
    for address, count in ((BASE - 4, 4), (BASE + BYTES - 4, 8)):
        text = f"{count} bytes at {address:#x} lie outside the memory of the machine"
        with pytest.raises(IndexError, match=exactly(text)):
            machine.bytes_at(address, count)


def test_another_machine():
    plugged = Plugged()
    plugged.fake.put("config_hash", 0xCAFE)
    text = (
        "a line: the board holds a machine of another configuration: the hash is "
        "0000cafe, but mine has 01234567; load the bitstream of mine"
    )
    with pytest.raises(WrongBoard, match=exactly(text)):
        plugged.machine()
    plugged.fake.put("magic", 5)
    text = "a line: the board holds no Diastole machine: the register magic reads 0x5"
    with pytest.raises(WrongBoard, match=exactly(text)):
        plugged.machine()


def test_a_cable_that_is_pulled():
    plugged = Plugged()
    machine = plugged.machine()
    plugged.bridge.feed = lambda octets: b""
    with pytest.raises(
        LinkLost,
        match=exactly(
            "a line: the board does not answer after 200 tries; check the cable, the "
            "bitstream and the baud rate"
        ),
    ):
        machine.read(0)


def test_it_is_waited_for(monkeypatch):
    plugged = Plugged()
    machine = plugged.machine()
    busy = iter([1, 1, 1, 1, 1, 0])
    read = plugged.fake.read

    def reading(address):
        return next(busy, 0) if address == BY_NAME["status"].offset else read(address)

    monkeypatch.setattr(plugged.fake, "read", reading)
    plugged.fake.put("cycles_total", 5 << 32 | 123)
    assert machine.run(1000) == 5 << 32 | 123
    assert plugged.naps == sorted(plugged.naps)
    assert len(plugged.naps) == 5
    assert machine.cycles_per_second > 0
    machine.idle(25_000_000)
    assert plugged.naps[-1] == 1.0
    assert machine.cycle > 0


def test_registers_are_read_at_once(monkeypatch):
    """After a command; what the host changes is read anew."""
    plugged = Plugged()
    machine = plugged.machine()
    machine.run(1000)
    before = machine.link.counts.requests
    names = [register.name for register in registers_of(planes=False)]
    plugged.fake.put("flags", 3)
    seen = [machine.read(BY_NAME[name].offset) for name in names]
    assert machine.link.counts.requests == before
    assert seen[names.index("flags")] == 0
    machine.write(BY_NAME["seed"].offset, 99)
    assert machine.read(BY_NAME["seed"].offset) == 99
    assert machine.read(BY_NAME["flags"].offset) == 0
    machine.write(BY_NAME["control"].offset, 0)
    assert machine.read(BY_NAME["flags"].offset) == 3


def test_settings_go_together():
    """In one request where they are neighbours, before what they are for, and before a reading."""
    plugged = Plugged()
    machine = plugged.machine()
    before = machine.link.counts.requests
    names = ("write_limit", "read_base", "command_count", "write_base", "read_limit")
    for number, name in enumerate(names):
        for word in range(BY_NAME[name].words):
            machine.write(BY_NAME[name].offset + 4 * word, 10 * number + word)
    machine.write(BY_NAME["read_base"].offset, 99)
    assert machine.link.counts.requests == before
    machine.write(BY_NAME["status"].offset, 0)
    assert machine.link.counts.requests == before + 3
    assert [plugged.fake.get(name) for name in names] == [
        0 | 1 << 32,
        99 | 11 << 32,
        20,
        30 | 31 << 32,
        40 | 41 << 32,
    ]
    machine.write(BY_NAME["seed"].offset, 5)
    assert machine.read(BY_NAME["seed"].offset) == 5


def test_it_never_ends(monkeypatch):
    plugged = Plugged()
    machine = plugged.machine()
    times = itertools.count(step=3)
    monkeypatch.setattr(
        "diastole_sim.machines.board.board_machine.time.monotonic", lambda: next(times)
    )
    monkeypatch.setattr(plugged.fake, "read", lambda address: 1)
    with pytest.raises(HardwareHang, match=exactly("the machine did not end within 1000 cycles")):
        machine.run(1000)


def test_what_the_bus_refuses():
    machine = Plugged().machine()
    text = "reading register 0x200 failed: the board refused to read_registers at 0x200: NOWHERE"
    with pytest.raises(ProtocolError, match=exactly(text)):
        machine.read(0x200)
    with pytest.raises(ProtocolError, match="writing register 0x200 failed: "):
        machine.write(0x200, 1)


def test_a_command_that_is_refused():
    plugged = Plugged()
    device = HostDevice(plugged.machine())
    plugged.fake.sabotage = "bus fails"
    with pytest.raises(CommandError, match="command 0 was refused"):
        device.forward(np.ones((4, 4)), np.ones((4, 4)))
