# amaranth: UnusedElaboratable=no
"""The bridge in gates, asked by the host's own link over good and bad lines."""

import pytest

from diastole_sim.machines.board.link import Link, RefusedError
from diastole_sim.spec.registers import BY_NAME, MAGIC
from diastole_sim.spec.serial import MAX_WORDS, Frame, FrameReader, LinkOperation, Status, on_line
from support.board_bench import BASE, CLOCK_HZ, HASH, SIZE, SimulatedLine
from support.board_model import Damage
from support.sweep import sweep

START = BY_NAME["control"].offset


def exchange(line, octets):
    """What the bridge says to those."""
    line.send(octets)
    return [Frame.decode(frame) for frame in FrameReader().feed(line.receive(0))]


def ask(line, **values):
    defaults = {"sequence": 5, "address": 0, "words": 0}
    return exchange(line, on_line(Frame(**defaults | values).encode()))


@pytest.mark.parametrize("words", [9, sweep(MAX_WORDS + 3)])
def test_registers_memory_and_identity(words, rng):
    link = Link(SimulatedLine())
    identity = link.identify()
    assert list(identity.values())[2:] == [BASE, SIZE, CLOCK_HZ]
    assert link.read_registers(0, 3)[::2] == (MAGIC, HASH)
    octets = bytes(rng.randrange(256) for _ in range(4 * words))
    link.write_memory(BASE + 20, octets)
    assert link.read_memory(BASE + 20, len(octets)) == octets
    last = BASE + SIZE - 4
    link.write_memory(last, b"last")
    assert link.read_memory(last, 4) == b"last"
    seed = BY_NAME["seed"].offset
    link.write_registers(seed, [0xFEDCBA98])
    assert link.read_registers(seed, 1) == (0xFEDCBA98,)
    assert link.counts.repeated == 0


def test_answers_to_the_bit():
    """Every answer is the contract's own to that request; what is outside is said so."""
    line = SimulatedLine()
    reading = {"operation": LinkOperation.READ_MEMORY, "address": BASE, "words": 2}
    assert ask(line, operation=LinkOperation.WRITE_MEMORY, address=BASE, words=2, data=(7, 8)) == [
        Frame(operation=4, sequence=5, address=BASE, words=2, answer=True)
    ]
    assert ask(line, **reading, sequence=6) == [
        Frame(**reading, sequence=6, answer=True, data=(7, 8))
    ]
    for values, status in (
        (
            {"operation": LinkOperation.READ_MEMORY, "address": BASE + SIZE - 4, "words": 2},
            Status.NOWHERE,
        ),
        ({"operation": LinkOperation.READ_MEMORY, "address": BASE - 4, "words": 1}, Status.NOWHERE),
        (
            {"operation": LinkOperation.READ_REGISTERS, "address": 0x1000, "words": 1},
            Status.NOWHERE,
        ),
        ({"operation": LinkOperation.READ_REGISTERS, "address": 0xFFC, "words": 1}, Status.NOWHERE),
        (
            {"operation": LinkOperation.WRITE_REGISTERS, "words": 1, "data": (3,), "sequence": 9},
            Status.SUBORDINATE,
        ),
        ({"operation": 5, "words": 1}, Status.REFUSED),
        (
            {"operation": LinkOperation.READ_MEMORY, "address": BASE, "words": 1, "data": (1,)},
            Status.REFUSED,
        ),
        (
            {"operation": LinkOperation.WRITE_MEMORY, "address": BASE, "words": 2, "data": (1,)},
            Status.REFUSED,
        ),
        (
            {"operation": LinkOperation.WRITE_MEMORY, "address": BASE, "words": 0, "data": (1,)},
            Status.REFUSED,
        ),
    ):
        request = Frame(**{"sequence": 7, "address": 0} | values)
        assert ask(line, **values | {"sequence": request.sequence}) == [request.reply(status)]
        assert [f.data for f in ask(line, **reading)] == [(7, 8)]
    nothing = Frame(operation=LinkOperation.READ_MEMORY, sequence=5, address=BASE, words=0)
    assert ask(line, operation=LinkOperation.READ_MEMORY, address=BASE) == [nothing.reply()]
    more = ask(line, operation=LinkOperation.IDENTIFY, address=12, words=4)
    assert [frame.data for frame in more] == [(SIZE, CLOCK_HZ, 0, 0)]


def test_the_first_word_that_fails_is_told_of():
    """Those behind it are done."""
    line = SimulatedLine()
    asked = {"sequence": 5, "address": BASE - 4, "words": 2}
    writing = Frame(operation=LinkOperation.WRITE_MEMORY, **asked)
    assert ask(line, **vars(writing) | {"data": (7, 8)}) == [writing.reply(Status.NOWHERE)]
    assert ask(line, operation=LinkOperation.READ_MEMORY, address=BASE, words=1)[0].data == (8,)
    reading = Frame(operation=LinkOperation.READ_MEMORY, **asked)
    assert ask(line, **vars(reading)) == [reading.reply(Status.NOWHERE)]


def test_one_word_more_than_a_frame_may_have():
    line = SimulatedLine(gap=0)
    writing = Frame(operation=LinkOperation.WRITE_MEMORY, sequence=5, address=BASE, words=MAX_WORDS)
    data = (1,) * (MAX_WORDS + 1)
    assert ask(line, **vars(writing) | {"data": data}) == [writing.reply(Status.REFUSED)]
    assert ask(line, operation=LinkOperation.READ_MEMORY, address=BASE, words=1)[0].data == (0,)


def test_what_is_no_request_has_no_answer():
    line = SimulatedLine()
    request = Frame(operation=LinkOperation.READ_MEMORY, sequence=1, address=BASE, words=1)
    assert exchange(line, on_line(request.reply(data=(1,)).encode())) == []
    assert exchange(line, on_line(request.reply(Status.NOWHERE).encode())) == []
    assert exchange(line, on_line(request.encode()[:4])) == []
    assert exchange(line, on_line(b"")) == []
    assert exchange(line, on_line(request.encode() + bytes(4 * 300)))[0].status == Status.REFUSED
    assert len(exchange(line, on_line(request.encode()))) == 1


def test_a_repeated_start_is_done_once():
    line = SimulatedLine()
    start = {"operation": LinkOperation.WRITE_REGISTERS, "address": START, "words": 1, "data": (1,)}
    first = ask(line, **start)
    assert first == ask(line, **start) == ask(line, **start)
    assert line.starts == 1
    assert ask(line, **start, sequence=6)[0].status == Status.DONE
    assert line.starts == 2
    refused = {"operation": LinkOperation.WRITE_REGISTERS, "address": 0, "words": 1, "data": (1,)}
    assert ask(line, **refused, sequence=8) == ask(line, **refused, sequence=8)
    assert ask(line, **refused, sequence=8)[0].status == Status.SUBORDINATE
    assert ask(line, operation=LinkOperation.IDENTIFY, words=1)[0].data
    assert ask(line, **start, sequence=8)[0].status == Status.DONE
    assert line.starts == 3


@pytest.mark.parametrize("rounds", [1, sweep(3)])
def test_what_comes_while_it_is_at_work_is_not_heard(rounds, rng):
    """Requests one after the other without a pause: the first has its answer; of the others some
    are heard, none is heard wrong, though the end of each looks like a request."""
    line, missed = SimulatedLine(), 0
    for round_ in range(rounds):
        line.gap = round_
        asked = [
            Frame(
                operation=LinkOperation.WRITE_MEMORY,
                sequence=99 * round_ + n,
                address=BASE + 256 * n,
                words=1,
            )
            for n in range(12)
        ]
        data = [rng.getrandbits(32) for _ in asked]
        frames = [Frame(**vars(f) | {"data": (word,)}) for f, word in zip(asked, data, strict=True)]
        answers = exchange(line, b"".join(on_line(frame.encode()) for frame in frames))
        assert answers[0] == frames[0].reply()
        missed += len(frames) - len(answers)
        for answer in answers:
            number = answer.sequence - 99 * round_
            assert answer == frames[number].reply()
            at = {
                "operation": LinkOperation.READ_MEMORY,
                "address": BASE + 256 * number,
                "words": 1,
            }
            assert ask(line, **at, sequence=50)[0].data == (data[number],)
    assert missed > rounds


@pytest.mark.parametrize("count", [4, sweep(12)])
def test_damaged_lines(count, rng):
    line = SimulatedLine(damage=Damage(rng, 0.008))
    link = Link(line, tries=100)
    link.identify()
    for number in range(count):
        words = rng.randrange(1, 9)
        octets = bytes(rng.randrange(256) for _ in range(4 * words))
        link.write_memory(BASE + 4 * number, octets)
        link.write_registers(START, [1])
        assert link.read_memory(BASE + 4 * number, len(octets)) == octets
    assert line.damaged >= count // 2
    assert link.counts.repeated >= count // 3
    assert line.starts == count


def test_refusals_reach_the_host():
    link = Link(SimulatedLine())
    with pytest.raises(RefusedError, match="read_memory at 0x0: NOWHERE"):
        link.read_memory(0, 4)
