"""Frames on a line: what RFC 1662 says of them, and that whoever listens finds its way back."""

import zlib

import pytest

from diastole_sim.spec.serial import (
    CRC_POLYNOMIAL,
    CRC_RESIDUE,
    ESCAPE,
    FLAG,
    FLIP,
    Frame,
    FrameReader,
    LinkOperation,
    Status,
    on_line,
)


def crc_bit_by_bit(octets: bytes) -> int:
    """The register of the standard, before it is inverted."""
    register = 0xFFFFFFFF
    for octet in octets:
        for bit in range(8):
            low = (register ^ octet >> bit) & 1
            register = register >> 1 ^ (CRC_POLYNOMIAL if low else 0)
    return register


def some(rng, count=None):
    count = rng.randrange(8, 60) if count is None else count
    return bytes(
        rng.choice([FLAG, ESCAPE, ESCAPE ^ FLIP, rng.randrange(256)]) for _ in range(count)
    )


def test_the_checksum_of_the_standard():
    assert crc_bit_by_bit(b"123456789") ^ 0xFFFFFFFF == 0xCBF43926  # of every catalogue
    octets = b"as zlib has it"
    fcs = zlib.crc32(octets).to_bytes(4, "little")
    assert crc_bit_by_bit(octets) ^ 0xFFFFFFFF == zlib.crc32(octets)
    assert crc_bit_by_bit(octets + fcs) == CRC_RESIDUE


def test_a_frame_by_hand():
    request = Frame(
        operation=LinkOperation.WRITE_MEMORY, sequence=0x7E12, address=0x7D, words=1, data=(5,)
    )
    body = bytes.fromhex("0401127e 7d000000 05000000")
    assert request.encode() == body
    fcs = zlib.crc32(body).to_bytes(4, "little")
    assert not set(fcs) & {FLAG, ESCAPE}
    want = bytes.fromhex("7e 040112 7d5e 7d5d000000 05000000") + fcs + b"\x7e"
    assert on_line(body) == want
    assert Frame.decode(body) == request
    answer = request.reply(Status.NOWHERE)
    assert answer.encode() == bytes.fromhex("b401127e 7d000000")
    assert Frame.decode(answer.encode()) == answer


def test_frames_come_back_however_they_are_cut(rng):
    frames = [some(rng) for _ in range(200)]
    line = b"".join(map(on_line, frames))
    reader, found = FrameReader(), []
    while line:
        cut = rng.randrange(1, 40)
        found += reader.feed(line[:cut])
        line = line[cut:]
    assert found == frames
    assert reader.damaged == 0


@pytest.mark.parametrize("kind", ["lost", "doubled", "corrupted", "inserted"])
def test_one_octet_wrong_is_seen_and_the_next_frame_is_found(kind, rng):
    for _ in range(300):
        frame, following = some(rng), some(rng)
        sent = bytearray(on_line(frame))
        place = rng.randrange(1, len(sent) - 1)
        if kind == "lost":
            del sent[place]
        elif kind == "doubled":
            sent.insert(place, sent[place])
        elif kind == "inserted":
            sent.insert(place, rng.randrange(256))
        else:
            sent[place] ^= 1 << rng.randrange(8)
        reader = FrameReader()
        found = reader.feed(bytes(sent) + on_line(following))
        assert found == [following] or (kind == "inserted" and found == [frame, following])
        assert reader.damaged > 0 or found[0] == frame


def test_what_is_no_frame_is_counted():
    reader = FrameReader()
    assert reader.feed(bytes([FLAG, FLAG, FLAG])) == []
    assert reader.damaged == 0
    escaped_end = bytes([1, 2, 3, 4, 5, 6, ESCAPE, FLAG])
    assert reader.feed(escaped_end) == []
    assert reader.feed(bytes([1, 2, FLAG])) == []
    assert reader.damaged == 2


def test_complete_is_what_the_bridge_asks():
    reading = Frame(operation=LinkOperation.READ_MEMORY, sequence=1, address=0, words=2)
    writing = Frame(
        operation=LinkOperation.WRITE_MEMORY, sequence=1, address=0, words=2, data=(1, 2)
    )
    assert reading.complete
    assert writing.complete
    assert not Frame(
        operation=LinkOperation.READ_MEMORY, sequence=1, address=0, words=1, data=(1,)
    ).complete
    assert not Frame(
        operation=LinkOperation.WRITE_REGISTERS, sequence=1, address=0, words=2, data=(1,)
    ).complete
