"""The bus adapters of a wrapper for LiteX in Migen's simulator: run by the Python that has LiteX.

    python litex_units.py BOARD SEED

BOARD: the folder that `diastole board litex` wrote. Every pair of widths: random bursts with random
pauses, against a memory of bytes; registers of which some do not exist, against a table.
"""

import random
import sys
from pathlib import Path

from litex.gen.sim import passive, run_simulation
from litex.soc.interconnect import axi
from migen import Module

SPACE = 1 << 13
OKAY, SLVERR, DECERR = 0, 2, 3


class Channel:
    """Sends what is put in ``queue``, or takes what comes, with pauses."""

    def __init__(self, endpoint, rng):
        self.endpoint, self.rng = endpoint, rng
        self.p = rng.choice((0.3, 0.7, 1.0))

    def send(self, fields):
        while self.rng.random() > self.p:
            yield
        for name, value in fields.items():
            yield getattr(self.endpoint, name).eq(value)
        yield self.endpoint.valid.eq(1)
        yield
        while not (yield self.endpoint.ready):
            yield
        yield self.endpoint.valid.eq(0)

    def take(self, *names):
        while self.rng.random() > self.p:
            yield
        yield self.endpoint.ready.eq(1)
        yield
        while not (yield self.endpoint.valid):
            yield
        found = []
        for name in names:
            found.append((yield getattr(self.endpoint, name)))
        yield self.endpoint.ready.eq(0)
        return found


class Memory:
    """AXI4 of bytes behind ``bus``. ``kind``: an address of writes is taken first, or "late", after
    the first of its data is there, or "early", when all of its data have been taken. Some bytes
    answer with an error."""

    def __init__(self, bus, content, rng, kind):
        self.bus, self.content, self.rng, self.kind = bus, content, rng, kind
        self.bytes = bus.data_width // 8
        self.bad = {at for at in range(SPACE) if rng.random() < 0.003}

    def response(self, at, count):
        return SLVERR if self.bad & set(range(at, at + count)) else OKAY

    def check(self, at, length, size, burst):
        step = 1 << size
        assert step <= self.bytes, (step, self.bytes)
        assert burst == axi.BURST_INCR
        assert at % step == 0, hex(at)
        assert at + (length + 1) * step <= SPACE, f"{at:#x} is beyond the memory"
        assert at // 4096 == (at + (length + 1) * step - 1) // 4096, "over 4 KiB"
        return step

    @passive
    def reads(self):
        asked, given = Channel(self.bus.ar, self.rng), Channel(self.bus.r, self.rng)
        while True:
            at, *rest = yield from asked.take("addr", "len", "size", "burst")
            step = self.check(at, *rest)
            for beat in range(rest[0] + 1):
                word = bytearray(self.rng.randbytes(self.bytes))  # other lanes: anything
                low = at % self.bytes
                word[low : low + step] = self.content[at : at + step]
                value = int.from_bytes(word, "little")
                resp = self.response(at, step)
                yield from given.send({"data": value, "last": beat == rest[0], "resp": resp})
                at += step

    @passive
    def writes(self):
        asked, given, answer = (Channel(c, self.rng) for c in (self.bus.aw, self.bus.w, self.bus.b))
        while True:
            beats = []
            while self.kind == "early" and not (beats and beats[-1][2]):
                beats.append((yield from given.take("data", "strb", "last")))
            while self.kind == "late" and not (yield self.bus.w.valid):
                yield
            at, *rest = yield from asked.take("addr", "len", "size", "burst")
            step = self.check(at, *rest)
            resp = self.response(at, (rest[0] + 1) * step)
            while not (beats and beats[-1][2]):
                beats.append((yield from given.take("data", "strb", "last")))
            assert len(beats) == rest[0] + 1
            for data, strobes, _ in beats:
                word = data.to_bytes(self.bytes, "little")
                lanes = range(at % self.bytes, at % self.bytes + step)
                assert not strobes & ~sum(1 << lane for lane in lanes), "a strobe beside the word"
                for lane in lanes:
                    if strobes >> lane & 1:
                        self.content[at - at % self.bytes + lane] = word[lane]
                at += step
            yield from answer.send({"resp": resp})


def bursts(rng, low, high, step, count, far):
    """(address, beats, whether it lies beyond), none over 64 beats' multiple."""
    for _ in range(count):
        at = rng.randrange(low // step, high // step)
        beats = rng.randrange(1, min(high // step, at // 64 * 64 + 64) - at + 1)
        beyond = far is not None and rng.random() < 0.2
        yield at * step + (far << rng.randrange(3) if beyond else 0), beats, beyond


def memory_case(wrapper, rng, data, width, address):
    port = axi.AXIInterface(data, wrapper.ADDRESS_BITS, id_width=1)
    near = axi.AXIInterface(data, address, id_width=1)
    bus = axi.AXIInterface(width, address, id_width=1)
    dut = Module()
    dut.submodules += wrapper.AddressGuard(port, near), wrapper.WordConverter(near, bus)
    content = bytearray(rng.randbytes(SPACE))
    before, wanted = bytes(content), bytearray(content)
    far = 1 << address if address < wrapper.ADDRESS_BITS else None
    step = data // 8
    read = list(bursts(rng, 0, SPACE // 2, step, 12, far))
    written = list(bursts(rng, SPACE // 2, SPACE, step, 12, far))
    channel = {name: Channel(getattr(port, name), rng) for name in ("ar", "r", "aw", "w", "b")}
    answers = []

    def ask(name, list_of):
        for at, beats, _ in list_of:
            size = (step - 1).bit_length()
            yield from channel[name].send(
                {"addr": at, "len": beats - 1, "size": size, "burst": axi.BURST_INCR}
            )

    def take_read():
        for at, beats, beyond in read:
            for beat in range(beats):
                found, last, resp = yield from channel["r"].take("data", "last", "resp")
                assert last == (beat == beats - 1)
                low = at + beat * step
                assert resp == (DECERR if beyond else memory.response(low, step))
                if not beyond:
                    assert found.to_bytes(step, "little") == before[low : low + step], hex(low)

    def give_written():
        for at, beats, beyond in written:
            for beat in range(beats):
                word, strobes = rng.randbytes(step), rng.getrandbits(step)
                strobes = rng.choice((strobes, (1 << step) - 1, 0))
                if not beyond:
                    for lane in range(step):
                        if strobes >> lane & 1:
                            wanted[at + beat * step + lane] = word[lane]
                value = int.from_bytes(word, "little")
                yield from channel["w"].send(
                    {"data": value, "strb": strobes, "last": beat == beats - 1}
                )

    def take_answers():
        for at, beats, beyond in written:
            (resp,) = yield from channel["b"].take("resp")
            assert resp == (DECERR if beyond else memory.response(at, beats * step))
            answers.append(resp)

    memory = Memory(bus, content, rng, rng.choice(("early", "late", "first")))
    benches = [ask("ar", read), take_read(), ask("aw", written), give_written(), take_answers()]
    run_simulation(dut, [*benches, memory.reads(), memory.writes(), watchdog()])
    assert content == wanted
    assert len(answers) == len(written)


@passive
def watchdog():
    for _ in range(60_000):
        yield
    raise AssertionError("hangs")


def register_case(wrapper, rng, width):
    bus = axi.AXILiteInterface(width, 32)
    registers = axi.AXILiteInterface(32, 12)
    dut = wrapper.RegisterLanes(bus, registers)
    table = {4 * n: rng.getrandbits(32) for n in range(64) if rng.random() < 0.6}
    table |= {0: 7}
    fixed = {at for at in table if rng.random() < 0.2}
    step = width // 8
    wrote = []

    @passive
    def reads():
        asked, given = Channel(registers.ar, rng), Channel(registers.r, rng)
        while True:
            at = (yield from asked.take("addr"))[0] & ~3
            resp = OKAY if at in table else DECERR
            yield from given.send({"data": table.get(at, 0), "resp": resp})

    @passive
    def writes():
        channels = (registers.aw, registers.w, registers.b)
        asked, given, answer = (Channel(c, rng) for c in channels)
        while True:
            at = (yield from asked.take("addr"))[0] & ~3
            data, strobes = yield from given.take("data", "strb")
            assert strobes
            wrote.append(at)
            resp = DECERR if at not in table else SLVERR if at in fixed else OKAY
            if resp == OKAY:
                table[at] = merged(table[at], data, strobes)
            yield from answer.send({"resp": resp})

    def host():
        ask, got = Channel(bus.ar, rng), Channel(bus.r, rng)
        answer = Channel(bus.b, rng)
        for _ in range(60):
            # Any address in the word, with bits that the registers do not have
            at = rng.randrange(0x100)
            word = at // step * step
            offsets = range(word, word + step, 4)
            if rng.random() < 0.5:
                yield from ask.send({"addr": 0x9000_0000 + at})
                found, resp = yield from got.take("data", "resp")
                want = sum(table.get(each, 0) << 8 * (each - word) for each in offsets)
                assert found == want, f"{found:#x}, not {want:#x}"
                assert resp == (OKAY if any(each in table for each in offsets) else DECERR)
                continue
            some = (15, 3, 8) if width == 32 else (0, 0, 15, 3, 8)  # 0 is passed on by a wire
            chosen = {each: rng.choice(some) for each in offsets}
            values = {each: rng.getrandbits(32) for each in offsets}
            before = dict(table)
            strobes = sum(chosen[each] << each - word for each in offsets)
            value = sum(values[each] << 8 * (each - word) for each in offsets)
            yield from both(0x9000_0000 + at, {"data": value, "strb": strobes})
            (resp,) = yield from answer.take("resp")
            hit = [each for each in offsets if chosen[each]]
            assert wrote == hit
            wrote.clear()
            bad = [each for each in hit if each not in before or each in fixed]
            assert (resp != OKAY) == bool(bad)
            for each in hit:
                if each in before and each not in fixed:
                    assert table[each] == merged(before[each], values[each], chosen[each])

    def both(at, word):
        """Address and data at once: neither may wait for the other to be taken."""
        for name, value in word.items():
            yield getattr(bus.w, name).eq(value)
        yield bus.aw.addr.eq(at)
        waiting = {bus.aw, bus.w}
        for each in waiting:
            yield each.valid.eq(1)
        while waiting:
            yield
            for each in list(waiting):
                if (yield each.ready):
                    yield each.valid.eq(0)
                    waiting.discard(each)

    run_simulation(dut, [host(), reads(), writes(), watchdog()])


def merged(old, new, strobes):
    mask = sum(0xFF << 8 * lane for lane in range(4) if strobes >> lane & 1)
    return old & ~mask | new & mask


def main(board, seed):
    sys.path.insert(0, board)
    (path,) = Path(board).glob("*_litex.py")
    wrapper = __import__(path.stem)
    rng = random.Random(int(seed))
    cases = 0
    for data in (32, 64, 128, 512):
        for width in (32, 64, 128, 512):
            memory_case(wrapper, rng, data, width, 32)
            cases += 1
    for width, address in ((64, 64), (32, 64), (128, 40)):
        memory_case(wrapper, rng, 64, width, address)
        cases += 1
    for width in (32, 64, 128, 256, 512):
        register_case(wrapper, rng, width)
        cases += 1
    print(f"{cases} cases")


if __name__ == "__main__":
    main(*sys.argv[1:])
