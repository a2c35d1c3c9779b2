"""A board's bridge in software, and lines that damage what goes over them."""

import random
from collections import Counter

from diastole_sim.spec.registers import BY_NAME, END
from diastole_sim.spec.serial import (
    LINK_MAGIC,
    LINK_VERSION,
    WRITES,
    Frame,
    FrameReader,
    LinkOperation,
    Status,
    on_line,
)

BASE, BYTES, CLOCK_HZ = 0x1000, 1 << 12, 25_000_000
REGISTER_BYTES = 1 << 8
OF_MEMORY = (LinkOperation.READ_MEMORY, LinkOperation.WRITE_MEMORY)


class BridgeModel:
    """What the hardware does with requests. ``done``: the writes that were done, in order."""

    def __init__(self):
        self.memory: dict[int, int] = {}
        self.registers: dict[int, int] = {}
        self.done: list[tuple[int, int, int]] = []
        self.reader = FrameReader()
        self.last: tuple[int, int] | None = None  # sequence number and status of a write
        self.identity = [LINK_MAGIC, LINK_VERSION, BASE, BYTES, CLOCK_HZ]

    def feed(self, octets: bytes) -> bytes:
        frames = self.reader.feed(octets)
        return b"".join(on_line(self.answer(Frame.decode(f)).encode()) for f in frames if whole(f))

    def answer(self, request: Frame) -> Frame:
        if request.operation in WRITES and self.last and self.last[0] == request.sequence:
            return request.reply(self.last[1])
        if not request.complete or request.operation not in tuple(LinkOperation):
            return request.reply(Status.REFUSED)
        if request.operation == LinkOperation.IDENTIFY:
            self.last = None
            first = request.address // 4
            words = [*self.identity, *[0] * request.words][first : first + request.words]
            return request.reply(data=tuple(words))
        status = Status.DONE
        data = []
        for n in range(request.words):
            address = request.address + 4 * n
            if not self.there(request.operation, address):
                status = status or Status.NOWHERE
                data.append(0)
            elif request.operation in WRITES:
                self.done.append((request.operation, address, request.data[n]))
                self.put(request.operation, address, request.data[n])
            else:
                data.append(self.get(request.operation, address))
        if request.operation in WRITES:
            self.last = request.sequence, status
        return request.reply(status, () if status else tuple(data))

    def put(self, ask, address, word):
        self.store(ask)[address] = word

    def get(self, ask, address):
        return self.store(ask).get(address, 0)

    def store(self, ask):
        return self.memory if ask in OF_MEMORY else self.registers

    def there(self, ask, address) -> bool:
        if ask in OF_MEMORY:
            return self.identity[2] <= address < sum(self.identity[2:4])
        return address < REGISTER_BYTES


class MachineBridge(BridgeModel):
    """That of a :class:`support.fake_machine.FakeMachine`, which runs when it is started."""

    def __init__(self, machine):
        super().__init__()
        self.machine = machine
        self.identity[2:4] = machine.memory_base, machine.memory.size
        self.uploaded = self.fetched = 0

    def there(self, ask, address) -> bool:
        return address < END if ask not in OF_MEMORY else super().there(ask, address)

    def put(self, ask, address, word):
        if ask == LinkOperation.WRITE_MEMORY:
            self.uploaded += 1
            self.machine.bytes_at(address, 4).view("<u4")[0] = word
            return
        self.machine.write(address, word)
        if address == BY_NAME["control"].offset and word & 1:
            self.machine.run()

    def get(self, ask, address):
        if ask == LinkOperation.READ_MEMORY:
            self.fetched += 1
            return int(self.machine.bytes_at(address, 4).view("<u4")[0])
        return self.machine.read(address)


def whole(frame: bytes) -> bool:
    return len(frame) >= 8 and len(frame) % 4 == 0


class Damage:
    """What a bad line does to octets, each with the probability ``rate`` to be hit. ``kinds``:
    how often it did what."""

    KINDS = ("lost", "doubled", "corrupted", "inserted", "cut")

    def __init__(self, rng: random.Random, rate: float):
        self.rng, self.rate = rng, rate
        self.kinds: Counter[str] = Counter()

    def __call__(self, octets: bytes) -> bytes:
        sent = bytearray()
        for place, octet in enumerate(octets):
            if self.rng.random() >= self.rate:
                sent.append(octet)
                continue
            kind = self.rng.choice(self.KINDS)
            self.kinds[kind] += 1
            if kind == "doubled":
                sent += bytes([octet, octet])
            elif kind == "corrupted":
                sent.append(octet ^ 1 << self.rng.randrange(8))
            elif kind == "inserted":
                sent += bytes([octet, self.rng.choice([0x7E, 0x7D, self.rng.randrange(256)])])
            elif kind == "cut":  # from here to somewhere
                return bytes(sent + octets[self.rng.randrange(place, len(octets)) :])
        return bytes(sent)


class ModelLine:
    """A line to a :class:`BridgeModel`; ``damage`` on both ways, whole pieces doubled, and now and
    then a piece that comes late, behind the answer to its repetition."""

    def __init__(self, bridge: BridgeModel, damage=None, late: float = 0.0):
        self.bridge, self.late = bridge, late
        self.damage = damage or (lambda octets: octets)
        self.coming: list[bytes] = []
        self.held: bytes = b""
        self.damaged = 0
        self.name, self.closed = "a line", False

    def send(self, octets: bytes) -> None:
        self._come(self.bridge.feed(self._through(octets)))

    def _through(self, octets: bytes) -> bytes:
        found = self.damage(octets)
        self.damaged += found != octets
        return found

    def _come(self, octets: bytes) -> None:
        octets = self._through(octets)
        rng = getattr(self.damage, "rng", None)
        if rng is not None and octets and rng.random() < self.late:
            self.held += octets
            return
        if rng is not None and octets and rng.random() < self.late:
            octets += octets
        self.coming += [octets, self.held] if octets else []
        self.held = b"" if octets else self.held

    def receive(self, expected: int) -> bytes:
        while self.coming:
            if octets := self.coming.pop(0):
                return octets
        return b""

    def close(self) -> None:
        self.closed = True
