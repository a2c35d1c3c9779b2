"""A memory behind the bus services: requests and beats, without AXI. For the Amaranth simulator."""

from collections import deque


class ServiceMemory:
    """``size`` bytes; ``beat`` bytes per beat; ``stall()`` says in which cycles nothing moves."""

    def __init__(self, size: int, beat: int, stall=lambda: False):
        self.bytes = bytearray(size)
        self.beat, self.stall = beat, stall
        self.reads, self.writes = [], []  # (address, beats) of every request
        self._expected = []  # beats that each of those who write still has to give

    async def read(self, ctx, requests, data):
        """Answer read requests, a beat per cycle."""
        waiting = deque()
        offered = False
        while True:
            ctx.set(requests.ready, not self.stall())
            if waiting and not offered and not self.stall():
                ctx.set(data.payload, waiting[0])
                ctx.set(data.valid, 1)
                offered = True
            _, _, asked, ready, payload, taken = await ctx.tick().sample(
                requests.valid, requests.ready, requests.payload, data.ready
            )
            if asked and ready:
                self.reads.append((payload.addr, payload.beats))
                for k in range(payload.beats):
                    at = payload.addr + k * self.beat
                    assert at % self.beat == 0, hex(at)
                    assert at + self.beat <= len(self.bytes), hex(at)
                    waiting.append(int.from_bytes(self.bytes[at : at + self.beat], "little"))
            if offered and taken:
                waiting.popleft()
                ctx.set(data.valid, 0)
                offered = False

    async def write(self, ctx, requests, beats, idle=None):
        """Take write requests and their beats, which must come after them. ``idle``: set while
        nobody who writes to this memory has to give any."""
        expected = deque()
        self._expected.append(expected)
        while True:
            ctx.set(requests.ready, not self.stall())
            ctx.set(beats.ready, bool(expected) and not self.stall())
            if idle is not None:
                ctx.set(idle, not any(self._expected))
            _, _, asked, ready, request, valid, taken, beat = await ctx.tick().sample(
                requests.valid, requests.ready, requests.payload,
                beats.valid, beats.ready, beats.payload,
            )  # fmt: skip
            if valid and taken:
                at = expected.popleft()
                for k in range(self.beat):
                    if beat.strb >> k & 1:
                        self.bytes[at + k] = beat.data >> (8 * k) & 255
            if asked and ready:
                self.writes.append((request.addr, request.beats))
                assert request.beats > 0
                assert request.addr % self.beat == 0
                for k in range(request.beats):
                    expected.append(request.addr + k * self.beat)
