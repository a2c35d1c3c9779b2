"""A memory behind an AXI4 port in Amaranth's simulator, that checks what is asked of it."""

from collections import deque

ADDRESS = ("addr", "len", "size", "burst", "cache", "prot")
PAYLOADS = {
    "ar": tuple(f"ar{name}" for name in ADDRESS),
    "aw": tuple(f"aw{name}" for name in ADDRESS),
    "w": ("wdata", "wstrb", "wlast"),
}


class AxiMemory:
    """Serves ``axi``, a manager's interface, or one half of it; ``serve`` is a background bench.

    ``contents``: bytes by address; what was not written reads as ``pattern`` of the address.
    ``stall``: called for each handshake and cycle; true holds it back. ``latency``: cycles from a
    burst's address to its first beat, and from its last beat to its response. ``bad``: addresses of
    beats that are answered with ``bad_response``. ``pairing``: "data first" accepts a write's
    address only after its first beat, "address first" its data only after its address.

    Rules checked: what is offered stays until it is accepted; bursts are INCR, of full beats,
    aligned, and within 4 KiB; wlast is where it should be.
    ``reads``, ``writes``: (address, beats) of each burst. ``strobed``: beats with a strobe set.
    ``most_open``: bursts that were open at a time. ``read_moves``, ``write_moves``: the cycles in
    which a beat was accepted.
    """

    def __init__(self, axi, data_width, *, stall=lambda: False, latency=3, bad=(), pairing=None):
        self.axi, self.bytes = axi, data_width // 8
        self.stall, self.latency, self.pairing = stall, latency, pairing
        self.bad, self.bad_response = set(bad), 2
        self.contents = {}
        self.reads, self.writes = [], []
        self.strobed = 0
        self.most_open = 0
        self.read_moves = []
        self.write_moves = []
        self._cycle = 0
        self._beats = deque()  # (due, address, last)
        self._addresses, self._data = deque(), deque()
        self._responses = deque()  # (due, response)

    @staticmethod
    def pattern(address: int) -> int:
        return (address * 0x9E3779B1 >> 7) & 0xFF

    def load(self, address: int, count: int) -> bytes:
        at = range(address, address + count)
        return bytes(self.contents.get(n, self.pattern(n)) for n in at)

    def beat(self, address: int) -> int:
        return int.from_bytes(self.load(address, self.bytes), "little")

    async def serve(self, ctx):
        read, write = hasattr(self.axi, "arvalid"), hasattr(self.axi, "awvalid")
        managed = ["ar"] * read + ["aw", "w"] * write
        channels = managed + ["r"] * read + ["b"] * write
        names = [f"{name}{end}" for name in channels for end in ("valid", "ready")]
        names += [payload for name in managed for payload in PAYLOADS[name]]
        signals = [getattr(self.axi, name) for name in names]
        before = {}
        while True:
            _, _, *values = await ctx.tick().sample(*signals)
            self._cycle += 1
            seen = dict(zip(names, values, strict=True))
            for name in managed:
                self._check_stable(name, before, seen)
            before = seen
            if read:
                self._reads(ctx, seen)
            if write:
                self._writes(ctx, seen)

    def _check_stable(self, name, before, seen):
        if before.get(f"{name}valid") and not before[f"{name}ready"]:
            assert seen[f"{name}valid"], f"{name}valid fell before it was accepted"
            for payload in PAYLOADS[name]:
                assert seen[payload] == before[payload], f"{payload} changed before it was accepted"

    def _check_burst(self, prefix, seen):
        address, beats = seen[f"{prefix}addr"], seen[f"{prefix}len"] + 1
        assert seen[f"{prefix}burst"] == 1, "not INCR"
        assert 1 << seen[f"{prefix}size"] == self.bytes, "not full beats"
        assert address % self.bytes == 0, f"{address:#x} is not aligned"
        assert address // 4096 == (address + beats * self.bytes - 1) // 4096, "crosses 4 KiB"
        return address, beats

    def _reads(self, ctx, seen):
        axi = self.axi
        if seen["rvalid"] and seen["rready"]:
            self._beats.popleft()
            self.read_moves.append(self._cycle)
        if seen["arvalid"] and seen["arready"]:
            address, beats = self._check_burst("ar", seen)
            self.reads.append((address, beats))
            for n in range(beats):
                due = self._cycle + self.latency
                self._beats.append((due, address + n * self.bytes, n == beats - 1))
        self.most_open = max(self.most_open, sum(last for _, _, last in self._beats))
        ctx.set(axi.arready, not self.stall())
        held = seen["rvalid"] and not seen["rready"]
        give = held or (self._beats and self._beats[0][0] <= self._cycle and not self.stall())
        ctx.set(axi.rvalid, bool(give))
        if give:
            _, address, last = self._beats[0]
            bad = address in self.bad
            ctx.set(axi.rdata, 0 if bad else self.beat(address))
            ctx.set(axi.rresp, self.bad_response if bad else 0)
            ctx.set(axi.rlast, last)

    def _writes(self, ctx, seen):
        axi = self.axi
        if seen["bvalid"] and seen["bready"]:
            self._responses.popleft()
        if seen["awvalid"] and seen["awready"]:
            self._addresses.append(self._check_burst("aw", seen))
            self.writes.append(self._addresses[-1])
        if seen["wvalid"] and seen["wready"]:
            self._data.append((seen["wdata"], seen["wstrb"], seen["wlast"]))
            self.write_moves.append(self._cycle)
            self.strobed += seen["wstrb"] != 0
        self._complete()
        self.most_open = max(self.most_open, len(self._addresses) + len(self._responses))
        offered = (seen["wvalid"] and not seen["wready"]) or self._data
        take_address = self.pairing != "data first" or offered
        ctx.set(axi.awready, bool(take_address) and not self.stall())
        # Each burst's data may be taken once its address was; count what is there already.
        owed = sum(beats for _, beats in self._addresses) - len(self._data)
        take_data = self.pairing != "address first" or owed > 0
        ctx.set(axi.wready, take_data and not self.stall())
        held = seen["bvalid"] and not seen["bready"]
        due = self._responses and self._responses[0][0] <= self._cycle
        give = held or (due and not self.stall())
        ctx.set(axi.bvalid, bool(give))
        if give:
            ctx.set(axi.bresp, self._responses[0][1])

    def _complete(self):
        """Write the oldest burst once all its data are there."""
        while self._addresses and len(self._data) >= self._addresses[0][1]:
            address, beats = self._addresses.popleft()
            response = 0
            for n in range(beats):
                value, strobes, last = self._data.popleft()
                assert last == (n == beats - 1), f"wlast is {last} at beat {n} of {beats}"
                if address + n * self.bytes in self.bad:
                    response = self.bad_response
                for k, byte in enumerate(value.to_bytes(self.bytes, "little")):
                    if strobes >> k & 1:
                        self.contents[address + n * self.bytes + k] = byte
            self._responses.append((self._cycle + self.latency, response))
