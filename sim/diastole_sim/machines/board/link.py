"""Host's side of the serial link: send a request and receive its answer over an unreliable line."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from diastole_sim.machines.board.board_errors import BoardError, LinkLost, WrongBoard
from diastole_sim.spec.serial import (
    IDENTITY,
    LINK_MAGIC,
    LINK_VERSION,
    MAX_WORDS,
    SEQUENCES,
    WORD_BYTES,
    Frame,
    FrameReader,
    LinkOperation,
    Status,
    on_line,
)

TRIES = 16
"""Most transmissions of a request. Afterwards the link counts as lost."""
FLOOD_BYTES = 16_384
"""Received bytes without the answer, after which a request is repeated on a busy line."""


class Line(Protocol):
    """Line that carries octets. ``name``: name for people. All errors of the line are LinkLost."""

    @property
    def name(self) -> str: ...

    def send(self, octets: bytes) -> None:
        """Send octets on the line."""
        ...

    def receive(self, expected: int) -> bytes:
        """Return received octets, at least one. Empty after a silence in which an answer of
        ``expected`` octets would have begun."""
        ...

    def close(self) -> None:
        """Close the port."""
        ...


class RefusedError(BoardError):
    """Error: the board refused a request. ``status``: status of the answer."""

    def __init__(self, status: int, what: str):
        named = status in tuple(Status)
        super().__init__(f"the board refused to {what}: {Status(status).name if named else status}")
        self.status = status


@dataclass(kw_only=True)
class LinkCounts:
    """Counts of a link so far: requests, and repetitions of requests."""

    requests: int = 0
    repeated: int = 0


class Link:
    """Send requests over ``line`` and repeat each request until its answer arrives, ``tries`` times
    at most.

    LinkLost if no answer arrives. RefusedError if the answer is not :attr:`Status.DONE`.
    ``first_sequence``: number of the first request. The default is a random number, so that an
    answer to an earlier host is not taken for an answer to this host.
    """

    def __init__(self, line: Line, *, tries: int = TRIES, first_sequence: int | None = None):
        self.line, self.tries = line, tries
        self.counts = LinkCounts()
        self.reader = FrameReader()
        self._next = secrets.randbelow(SEQUENCES) if first_sequence is None else first_sequence

    def identify(self) -> dict[str, int]:
        """Return the words of :data:`diastole_sim.spec.serial.IDENTITY` by name. An identification
        must be the first request, because the board then takes every sequence number for a new
        number. WrongBoard if the device is not a Diastole board with this version of the link."""
        words = self._request(LinkOperation.IDENTIFY, 0, len(IDENTITY))
        identity: dict[str, int] = dict(zip(IDENTITY, words, strict=True))
        if identity["magic"] != LINK_MAGIC:
            raise WrongBoard(
                f"{self.line.name}: the connected device is not a Diastole board: the "
                f"magic number is {identity['magic']:#x}"
            )
        if identity["version"] >> 16 != LINK_VERSION >> 16:
            raise WrongBoard(
                f"{self.line.name}: the board's link has version {identity['version'] >> 16}, not "
                f"{LINK_VERSION >> 16}"
            )
        return identity

    def read_registers(self, offset: int, count: int) -> tuple[int, ...]:
        """Return ``count`` registers of 32 bits."""
        return self._request(LinkOperation.READ_REGISTERS, offset, count)

    def write_registers(self, offset: int, words: Sequence[int]) -> None:
        """Write each register once, in the given order."""
        self._request(LinkOperation.WRITE_REGISTERS, offset, len(words), tuple(words))

    def read_memory(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of memory. Address and count are multiples of 4."""
        parts: list[bytes] = []
        for at, words in _pieces(address, count):
            data = self._request(LinkOperation.READ_MEMORY, at, words)
            parts += (word.to_bytes(WORD_BYTES, "little") for word in data)
        return b"".join(parts)

    def write_memory(self, address: int, octets: bytes) -> None:
        """Write whole words to memory."""
        for at, words in _pieces(address, len(octets)):
            start = at - address
            piece = octets[start : start + words * WORD_BYTES]
            values = (piece[k : k + WORD_BYTES] for k in range(0, len(piece), WORD_BYTES))
            every = tuple(int.from_bytes(value, "little") for value in values)
            self._request(LinkOperation.WRITE_MEMORY, at, words, every)

    def _request(
        self, operation: LinkOperation, address: int, words: int, data: tuple[int, ...] = ()
    ) -> tuple[int, ...]:
        sequence, self._next = self._next, (self._next + 1) % SEQUENCES
        request = Frame(
            operation=operation, sequence=sequence, address=address, words=words, data=data
        )
        self.counts.requests += 1
        for number in range(self.tries):
            self.counts.repeated += number > 0
            self.line.send(on_line(request.encode()))
            answer = self._answer(request)
            if answer is None:
                continue
            if answer.status != Status.DONE:
                raise RefusedError(answer.status, f"{operation.name.lower()} at {address:#x}")
            return answer.data
        raise LinkLost(
            f"{self.line.name}: the board does not answer after {self.tries} tries; check the "
            "cable, the bitstream and the baud rate"
        )

    def _answer(self, request: Frame) -> Frame | None:
        """Return the answer to a request. None if the line falls silent before the answer has
        arrived."""
        data_words = 0 if request.data else request.words
        expected = WORD_BYTES * (data_words + 3)
        received = 0
        while received < FLOOD_BYTES and (octets := self.line.receive(expected)):
            received += len(octets)
            for frame in self.reader.feed(octets):
                answer = _decoded(frame)
                if answer is not None and answers(request, answer):
                    return answer
        return None


def answers(request: Frame, answer: Frame) -> bool:
    """Return whether ``answer`` is the answer to ``request``: all repeated fields are equal, and
    the data of a read are present."""
    same = ("operation", "sequence", "address", "words")
    if not answer.answer or any(getattr(request, n) != getattr(answer, n) for n in same):
        return False
    reading = answer.status == Status.DONE and not request.data
    return len(answer.data) == (request.words if reading else 0)


def _decoded(octets: bytes) -> Frame | None:
    try:
        return Frame.decode(octets)
    except ValueError:
        return None


def _pieces(address: int, count: int) -> list[tuple[int, int]]:
    """Return (address, words) of the requests for ``count`` bytes. ValueError unless the bytes are
    whole words."""
    if address % WORD_BYTES or count % WORD_BYTES:
        raise ValueError(
            f"memory must be read and written in words, not {count} bytes at {address:#x}"
        )
    max_bytes = MAX_WORDS * WORD_BYTES
    return [
        (at, min(max_bytes, address + count - at) // WORD_BYTES)
        for at in range(address, address + count, max_bytes)
    ]
