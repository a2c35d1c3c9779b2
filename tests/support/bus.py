"""A memory behind the bus services: requests and beats, without AXI. For the Amaranth simulator."""

from collections import deque


class ServiceMemory:
    """``size`` bytes; ``beat`` bytes per beat; ``stall()`` says in which cycles nothing moves."""

    def __init__(self, size: int, beat: int, stall=lambda: False):
        self.bytes = bytearray(size)
        self.beat, self.stall = beat, stall
        self.reads, self.writes = [], []  # (address, beats) of every request

    async def read(self, ctx, requests, data):
        """Answer read requests, a beat per cycle; each says whose it is, if its request does."""
        waiting = deque()
        owned = hasattr(data.p, "units")
        offered = False
        while True:
            ctx.set(requests.ready, not self.stall())
            if waiting and not offered and not self.stall():
                word, owner = waiting[0]
                ctx.set(data.payload, {"data": word, "units": 1 << owner} if owned else word)
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
                    word = int.from_bytes(self.bytes[at : at + self.beat], "little")
                    waiting.append((word, payload.owner_tag.owner if owned else 0))
            if offered and taken:
                waiting.popleft()
                ctx.set(data.valid, 0)
                if owned:
                    ctx.set(data.p.units, 0)
                offered = False

    async def write(self, ctx, requests, beats, answer=None, response_cycles=20):
        """Take write requests and their beats, which must come after them. ``answer``: what tells
        that a request is in memory, and of which command it was, so many cycles after its last
        beat."""
        expected = deque()
        lasts = deque()  # (beats that are left, command) of requests
        due = deque()  # (cycle, command) of those that have all beats
        cycle = 0
        while True:
            ctx.set(requests.ready, not self.stall())
            ctx.set(beats.ready, bool(expected) and not self.stall())
            if answer is not None:
                answers = bool(due) and due[0][0] <= cycle
                ctx.set(answer[0], answers)
                if answers:
                    ctx.set(answer[1], due.popleft()[1])
            _, _, asked, ready, request, valid, taken, beat = await ctx.tick().sample(
                requests.valid, requests.ready, requests.payload,
                beats.valid, beats.ready, beats.payload,
            )  # fmt: skip
            cycle += 1
            if valid and taken:
                at = expected.popleft()
                for k in range(self.beat):
                    if beat.strb >> k & 1:
                        self.bytes[at + k] = beat.data >> (8 * k) & 255
                left, command = lasts.popleft()
                if left > 1:
                    lasts.appendleft((left - 1, command))
                else:
                    due.append((cycle + response_cycles, command))
            if asked and ready:
                self.writes.append((request.addr, request.beats))
                assert request.beats > 0
                assert request.addr % self.beat == 0
                lasts.append((request.beats, request.owner_tag.command if answer else 0))
                for k in range(request.beats):
                    expected.append(request.addr + k * self.beat)
