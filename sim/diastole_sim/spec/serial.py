"""The serial link between a host and a board: octets on the line, frames, and what they ask.

This is the only description: the hardware's bridge and the host's link come from it.

Octets are framed as in asynchronous HDLC (RFC 1662): a frame ends, and the next begins, with
``FLAG``; an octet of a frame that is ``FLAG`` or ``ESCAPE`` is sent as ``ESCAPE`` and itself with
the bits of ``FLIP`` inverted; a frame ends with its FCS-32, the CRC-32 of IEEE 802.3, the lowest
octet first. So whoever listens is in step again at the next flag, whatever was lost or inserted.

A frame is whole little-endian words of 32 bits: a head of two words, data, and the FCS. The host
sends one request at a time, and repeats it while no answer comes. The bridge answers every request
that it hears whole, and does what it asks once: it keeps the sequence number of the last write, and
answers a repetition of that one with the answer that it gave. ``IDENTIFY`` makes it forget the
number; a host begins with it. What comes while the bridge is at work is not heard.

Bits of the first word of a head: the operation from bit 0 (4 bits), the status from bit 4 (3 bits,
0 in a request), whether it is an answer in bit 7; how many words of data are asked for, written or
given from bit 8 (8 bits); the sequence number from bit 16 (16 bits). The second word: the address
in bytes, a multiple of 4. An answer repeats all of its request but the status, and brings the data
of a reading.
"""

import zlib
from dataclasses import dataclass, field, replace
from enum import IntEnum

from diastole_sim.spec.require import require_int

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
CRC_POLYNOMIAL = 0xEDB88320
"""Of the FCS, its bits from the highest power in bit 0 on; all registers start with ones."""
CRC_RESIDUE = 0xDEBB20E3
"""What the register holds when a frame and its FCS have gone through it."""
WORD_BYTES = 4
HEAD_WORDS = 2
MOST_WORDS = 255
"""Of data in a frame."""
LINK_MAGIC = int.from_bytes(b"DLNK", "little")
LINK_VERSION = 0x0001_0000
"""Major and minor version of what is described here, 16 bits each."""
SEQUENCES = 1 << 16


class Ask(IntEnum):
    """What a request is for; other numbers are refused. ``IDENTIFY`` reads words of
    :data:`IDENTITY` from word ``address`` / 4 on, zeros behind them; the others read and write
    registers of the machine, by their offsets, and its memory, by its addresses."""

    IDENTIFY = 0
    READ_REGISTERS = 1
    WRITE_REGISTERS = 2
    READ_MEMORY = 3
    WRITE_MEMORY = 4


WRITES = (Ask.WRITE_REGISTERS, Ask.WRITE_MEMORY)
IDENTITY = ("magic", "version", "memory_base", "memory_bytes", "clock_hz")
"""The words of an identification: :data:`LINK_MAGIC`, :data:`LINK_VERSION`, where the machine's
memory begins, its size, and the frequency of its clock."""


class Status(IntEnum):
    """How a request went; ``SUBORDINATE`` and ``NOWHERE``: an access was answered with SLVERR, or
    DECERR. ``REFUSED``: no such operation, or not as many words of data as it says."""

    DONE = 0
    REFUSED = 1
    SUBORDINATE = 2
    NOWHERE = 3


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A request or an answer. ``words``: of data that it asks for, or has. ``data``: those words.

    ValueError for what has no encoding.
    """

    ask: int
    sequence: int
    address: int
    words: int
    data: tuple[int, ...] = field(default=())
    status: int = Status.DONE
    answer: bool = False

    def __post_init__(self) -> None:
        require_int("ask", self.ask, 0, 15)
        require_int("status", self.status, 0, 7)
        require_int("sequence", self.sequence, 0, SEQUENCES - 1)
        require_int("address", self.address, 0, 2**32 - 1)
        require_int("words", self.words, 0, MOST_WORDS)

    def encode(self) -> bytes:
        """Its octets, without flags and FCS."""
        head = self.ask | self.status << 4 | self.answer << 7 | self.words << 8
        every = (head | self.sequence << 16, self.address, *self.data)
        return b"".join(word.to_bytes(WORD_BYTES, "little") for word in every)

    @classmethod
    def decode(cls, octets: bytes) -> "Frame":
        """ValueError if it is no whole number of words, or no head."""
        if len(octets) % WORD_BYTES or len(octets) < HEAD_WORDS * WORD_BYTES:
            raise ValueError(f"a frame has whole words, at least {HEAD_WORDS}: {len(octets)} bytes")
        head, address, *data = (
            int.from_bytes(octets[k : k + WORD_BYTES], "little")
            for k in range(0, len(octets), WORD_BYTES)
        )
        return cls(
            ask=head & 15,
            status=head >> 4 & 7,
            answer=bool(head >> 7 & 1),
            words=head >> 8 & 0xFF,
            sequence=head >> 16,
            address=address,
            data=tuple(data),
        )

    def answered(self, status: int = Status.DONE, data: tuple[int, ...] = ()) -> "Frame":
        """The answer to this request."""
        return replace(self, status=status, data=data, answer=True)

    @property
    def complete(self) -> bool:
        """Whether a request has as many words of data as it says."""
        return len(self.data) == (self.words if self.ask in WRITES else 0)


def on_line(octets: bytes) -> bytes:
    """A frame as it is sent: flags around it and its FCS, and what looks like either escaped."""
    whole = octets + zlib.crc32(octets).to_bytes(4, "little")
    sent = bytearray([FLAG])
    for octet in whole:
        sent += bytes([ESCAPE, octet ^ FLIP]) if octet in (FLAG, ESCAPE) else bytes([octet])
    return bytes([*sent, FLAG])


@dataclass(kw_only=True)
class FrameReader:
    """Finds frames in what comes from a line. ``damaged``: pieces between flags so far that were
    none, empty ones apart."""

    damaged: int = 0
    _kept: bytearray = field(default_factory=bytearray)

    def feed(self, octets: bytes) -> list[bytes]:
        """The frames that end in these octets, without their FCS."""
        found: list[bytes] = []
        for octet in octets:
            if octet != FLAG:
                self._kept.append(octet)
                continue
            if self._kept:
                whole = _unescaped(bytes(self._kept))
                if len(whole) > 4 and zlib.crc32(whole[:-4]).to_bytes(4, "little") == whole[-4:]:
                    found.append(whole[:-4])
                else:
                    self.damaged += 1
            self._kept.clear()
        return found


def _unescaped(octets: bytes) -> bytes:
    """Nothing where the last octet escapes what is not there."""
    first, *parts = octets.split(bytes([ESCAPE]))
    if any(not part for part in parts):
        return b""
    return first + b"".join(bytes([part[0] ^ FLIP]) + part[1:] for part in parts)
