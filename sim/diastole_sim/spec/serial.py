"""Serial link between a host and a board: octets on the line, frames, and requests.

The module is the only description of the link. The hardware's bridge and the host's link follow it.

Octets are framed as in asynchronous HDLC (RFC 1662). A frame ends with ``FLAG``, and the next frame
begins. An octet of a frame that equals ``FLAG`` or ``ESCAPE`` is sent as ``ESCAPE`` and the octet
with the bits of ``FLIP`` inverted. A frame ends with its FCS-32, the CRC-32 of IEEE 802.3, the
lowest octet first. So a listener is in step again at the next flag, whatever was lost or inserted.

A frame is whole little-endian words of 32 bits: a head of two words, data, and the FCS. The host
sends one request at a time, and repeats the request until an answer arrives. The bridge answers
every complete request, and executes a request once. The bridge keeps the sequence number of the
last write, and repeats the answer if a request repeats the number. ``IDENTIFY`` makes the bridge
forget the number; a host begins with ``IDENTIFY``. The bridge does not hear octets while it is at
work.

Bits of the first word of a head: the operation from bit 0 (4 bits); the status from bit 4 (3 bits,
0 in a request); bit 7 set for an answer; the number of requested, written or returned words of data
from bit 8 (8 bits); the sequence number from bit 16 (16 bits). The second word is the address in
bytes, a multiple of 4. An answer repeats the request except the status, and returns the data of a
read.
"""

import zlib
from dataclasses import dataclass, field, replace
from enum import IntEnum

from diastole_sim.spec.require import require_int

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
CRC_POLYNOMIAL = 0xEDB88320
"""Polynomial of the FCS, bits from the highest power in bit 0 on. All registers start with ones."""
CRC_RESIDUE = 0xDEBB20E3
"""Content of the register after a frame with its FCS."""
WORD_BYTES = 4
HEAD_WORDS = 2
MAX_WORDS = 255
"""Most words of data in a frame."""
LINK_MAGIC = int.from_bytes(b"DLNK", "little")
LINK_VERSION = 0x0001_0000
"""Major and minor version of the link, 16 bits each."""
SEQUENCES = 1 << 16


class LinkOperation(IntEnum):
    """Operations of a request. All remaining numbers are refused.

    ``IDENTIFY`` reads words of :data:`IDENTITY` from word ``address`` / 4 on, with zeros behind the
    last. ``READ_REGISTERS`` and ``WRITE_REGISTERS`` access registers of the machine by offset.
    ``READ_MEMORY`` and ``WRITE_MEMORY`` access the machine's memory by address.
    """

    IDENTIFY = 0
    READ_REGISTERS = 1
    WRITE_REGISTERS = 2
    READ_MEMORY = 3
    WRITE_MEMORY = 4


WRITES = (LinkOperation.WRITE_REGISTERS, LinkOperation.WRITE_MEMORY)
IDENTITY = ("magic", "version", "memory_base", "memory_bytes", "clock_hz")
"""Words of an identification: :data:`LINK_MAGIC`, :data:`LINK_VERSION`, the address of the
machine's memory, the size of the memory, and the frequency of the machine's clock."""


class Status(IntEnum):
    """Outcome of a request. ``SUBORDINATE`` and ``NOWHERE``: an access was answered with SLVERR, or
    DECERR. ``REFUSED``: the operation is unknown, or the number of words of data is wrong."""

    DONE = 0
    REFUSED = 1
    SUBORDINATE = 2
    NOWHERE = 3


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Request or answer. ``words``: number of words of data, requested or contained. ``data``: the
    words of data.

    ValueError for a frame without an encoding.
    """

    operation: int
    sequence: int
    address: int
    words: int
    data: tuple[int, ...] = field(default=())
    status: int = Status.DONE
    answer: bool = False

    def __post_init__(self) -> None:
        require_int("operation", self.operation, 0, 15)
        require_int("status", self.status, 0, 7)
        require_int("sequence", self.sequence, 0, SEQUENCES - 1)
        require_int("address", self.address, 0, 2**32 - 1)
        require_int("words", self.words, 0, MAX_WORDS)

    def encode(self) -> bytes:
        """Return the octets, without flags and FCS."""
        head = self.operation | self.status << 4 | self.answer << 7 | self.words << 8
        every = (head | self.sequence << 16, self.address, *self.data)
        return b"".join(word.to_bytes(WORD_BYTES, "little") for word in every)

    @classmethod
    def decode(cls, octets: bytes) -> "Frame":
        """Return the frame in some octets. ValueError if the octets are no whole number of words,
        or shorter than a head."""
        if len(octets) % WORD_BYTES or len(octets) < HEAD_WORDS * WORD_BYTES:
            raise ValueError(
                f"a frame must have whole words of 4 bytes, at least {HEAD_WORDS} words, not "
                f"{len(octets)} bytes"
            )
        head, address, *data = (
            int.from_bytes(octets[k : k + WORD_BYTES], "little")
            for k in range(0, len(octets), WORD_BYTES)
        )
        return cls(
            operation=head & 15,
            status=head >> 4 & 7,
            answer=bool(head >> 7 & 1),
            words=head >> 8 & 0xFF,
            sequence=head >> 16,
            address=address,
            data=tuple(data),
        )

    def reply(self, status: int = Status.DONE, data: tuple[int, ...] = ()) -> "Frame":
        """Return the answer to this request."""
        return replace(self, status=status, data=data, answer=True)

    @property
    def complete(self) -> bool:
        """True if a request has its full number of words of data."""
        return len(self.data) == (self.words if self.operation in WRITES else 0)


def on_line(octets: bytes) -> bytes:
    """Return a frame as sent on the line: with FCS, flags around, and octets equal to flag or
    escape escaped."""
    whole = octets + zlib.crc32(octets).to_bytes(4, "little")
    sent = bytearray([FLAG])
    for octet in whole:
        sent += bytes([ESCAPE, octet ^ FLIP]) if octet in (FLAG, ESCAPE) else bytes([octet])
    return bytes([*sent, FLAG])


@dataclass(kw_only=True)
class FrameReader:
    """Find frames in the octets of a line. ``damaged``: number of pieces between flags that were no
    frames, without empty pieces."""

    damaged: int = 0
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, octets: bytes) -> list[bytes]:
        """Return the frames that end in some octets, without FCS."""
        frames: list[bytes] = []
        for octet in octets:
            if octet != FLAG:
                self._buffer.append(octet)
                continue
            if self._buffer:
                whole = _unescaped(bytes(self._buffer))
                if len(whole) > 4 and zlib.crc32(whole[:-4]).to_bytes(4, "little") == whole[-4:]:
                    frames.append(whole[:-4])
                else:
                    self.damaged += 1
            self._buffer.clear()
        return frames


def _unescaped(octets: bytes) -> bytes:
    """Remove the escapes. The result is empty if an escape has no octet behind."""
    first, *parts = octets.split(bytes([ESCAPE]))
    if any(not part for part in parts):
        return b""
    return first + b"".join(bytes([part[0] ^ FLIP]) + part[1:] for part in parts)
