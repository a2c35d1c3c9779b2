"""The link over lines that lose, double, corrupt and insert octets, and lose what they answer."""

import pytest

from diastole_sim.machines.board.board_errors import LinkLost, WrongBoard
from diastole_sim.machines.board.link import Link, RefusedError
from diastole_sim.spec.serial import Frame, LinkOperation, on_line
from support.board_model import BASE, BYTES, CLOCK_HZ, BridgeModel, Damage, ModelLine
from support.texts import exactly

DAMAGED_FRAMES = 10_000
TRIES = 5000
"""Enough that no request fails on lines as bad as those here."""


def linked(**options):
    bridge = BridgeModel()
    line = ModelLine(bridge, **options)
    return bridge, line, Link(line, tries=TRIES, first_sequence=65000)


def test_what_is_written_is_read():
    bridge, _, link = linked()
    assert link.identify() == {
        "magic": 0x4B4E4C44,
        "version": 0x10000,
        "memory_base": BASE,
        "memory_bytes": BYTES,
        "clock_hz": CLOCK_HZ,
    }
    octets = bytes(range(256)) * 8
    link.write_memory(BASE + 4, octets)
    assert link.read_memory(BASE + 4, len(octets)) == octets
    assert [word for ask, _, word in bridge.done if ask == LinkOperation.WRITE_MEMORY] == [
        int.from_bytes(octets[k : k + 4], "little") for k in range(0, len(octets), 4)
    ]
    link.write_registers(8, [1, 0xFFFFFFFF])
    assert link.read_registers(8, 2) == (1, 0xFFFFFFFF)
    assert link.read_memory(BASE, 0) == b""
    assert link.counts.repeated == 0


def check_damaged(rng, frames: int) -> None:
    """Words written and read over bad lines until so many pieces were damaged: all are right, and
    every write was done once, in order."""
    bridge, line, link = linked(damage=Damage(rng, 0.02), late=0.1)
    link.identify()
    expected, memory, round_ = [], {}, 0
    while line.damaged < frames:
        line.damage.rate = rng.choice([0.002, 0.02, 0.05])
        round_ += 1
        address = BASE + 4 * rng.randrange(60)
        words = [rng.getrandbits(32) for _ in range(rng.randrange(1, 12))]
        octets = b"".join(word.to_bytes(4, "little") for word in words)
        link.write_memory(address, octets)
        expected += [
            (LinkOperation.WRITE_MEMORY, address + 4 * n, word) for n, word in enumerate(words)
        ]
        memory |= {address + 4 * n: word for n, word in enumerate(words)}
        link.write_registers(0x0C, [round_])  # as a start, which must not be done twice
        expected.append((LinkOperation.WRITE_REGISTERS, 0x0C, round_))
        assert link.read_registers(0x0C, 1) == (round_,)
        assert link.read_memory(address, len(octets)) == octets
    assert bridge.done == expected
    assert bridge.memory == memory
    assert set(line.damage.kinds) == set(Damage.KINDS)
    assert link.counts.repeated > frames / 4
    assert link.reader.damaged > 0


def test_damaged_frames(rng):
    check_damaged(rng, DAMAGED_FRAMES)


@pytest.mark.sweep
def test_ten_times_as_many(rng):
    check_damaged(rng, 10 * DAMAGED_FRAMES)


def test_a_start_whose_answer_is_lost_is_done_once():
    bridge, _, link = linked()
    link.identify()
    lost, through = iter([True, True, True]), bridge.feed

    def feed(octets):
        answer = through(octets)
        return b"" if next(lost, False) else answer

    bridge.feed = feed
    link.write_registers(0x0C, [1])
    assert bridge.done == [(LinkOperation.WRITE_REGISTERS, 0x0C, 1)]
    assert link.counts.repeated == 3


def test_a_second_host_is_a_new_one():
    """Whose first number is the last one of the host before: after IDENTIFY it is a new one."""
    bridge = BridgeModel()
    first = Link(ModelLine(bridge), first_sequence=7)
    first.write_registers(0, [1])
    second = Link(ModelLine(bridge), first_sequence=6)
    second.identify()
    second.write_registers(0, [2])
    assert [word for *_, word in bridge.done] == [1, 2]


def test_an_answer_to_somebody_else_is_none():
    bridge, line, _ = linked()
    stale = Frame(operation=LinkOperation.READ_MEMORY, sequence=9, address=BASE, words=1).reply(
        data=(66,)
    )
    link = Link(line, first_sequence=10)
    line.coming.append(on_line(stale.encode()))
    bridge.memory[BASE] = 77
    assert link.read_memory(BASE, 4) == (77).to_bytes(4, "little")
    request = Frame(operation=LinkOperation.READ_MEMORY, sequence=11, address=BASE, words=1)
    line.coming.append(on_line(request.encode()))  # an echo
    assert link.read_memory(BASE, 4) == (77).to_bytes(4, "little")


def test_numbers_begin_again():
    bridge, _, _ = linked()
    link = Link(ModelLine(bridge), first_sequence=65534)
    for word in range(5):
        link.write_registers(0, [word])
    assert [word for *_, word in bridge.done] == [0, 1, 2, 3, 4]


def test_a_silent_board():
    bridge, _, _ = linked()
    bridge.feed = lambda octets: b""
    link = Link(ModelLine(bridge), tries=5)
    with pytest.raises(
        LinkLost,
        match=exactly(
            "a line: the board does not answer after 5 tries; check the cable, the bitstream and "
            "the baud rate"
        ),
    ):
        link.identify()


def test_a_line_that_never_falls_silent():
    _, line, _ = linked()
    line.receive = lambda expected: b"\x55" * 100
    with pytest.raises(LinkLost):
        Link(line, tries=3).identify()


def test_another_board():
    bridge, _, link = linked()
    bridge.identity[0] = 0x1234
    with pytest.raises(
        WrongBoard,
        match=exactly(
            "a line: the connected device is not a Diastole board: the magic number is 0x1234"
        ),
    ):
        link.identify()
    bridge.identity[:2] = 0x4B4E4C44, 0x2_0000
    with pytest.raises(WrongBoard, match=exactly("a line: the board's link has version 2, not 1")):
        link.identify()


def test_what_is_refused():
    _, _, link = linked()
    text = "the board refused to read_memory at 0x10: NOWHERE"
    with pytest.raises(RefusedError, match=exactly(text)):
        link.read_memory(0x10, 4)
    with pytest.raises(RefusedError, match="write_registers at 0xfc: NOWHERE"):
        link.write_registers(0xFC, [1, 2])
    text = "memory must be read and written in words, not 3 bytes at 0x1000"
    with pytest.raises(ValueError, match=exactly(text)):
        link.read_memory(BASE, 3)
