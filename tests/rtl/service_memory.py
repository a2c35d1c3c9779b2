"""A memory behind the bus services, requests and beats, for cocotb benches."""

from collections import deque

import cocotb


class ServiceMemory:
    """``size`` bytes, ``beat`` bytes a beat. ``willing()``: whether something moves in a cycle.

    ``names`` are the ports: read requests, read data, write requests, write data. Data that are
    offered stay, data to be written come after their request, and each address is in the memory.
    """

    def __init__(self, ports, names, *, size: int, beat: int):
        self.ports, self.names, self.beat = ports, names, beat
        self.bytes = bytearray(size)
        self.willing = lambda: True
        self._unwritten = deque()

    def start(self):
        cocotb.start_soon(self._read(*self.names[:2]))
        cocotb.start_soon(self._write(*self.names[2:]))

    def _beats(self, request):
        for address in range(request.addr, request.addr + request.beats * self.beat, self.beat):
            assert address % self.beat == 0, hex(address)
            assert address < len(self.bytes), hex(address)
            yield address

    async def _read(self, requests, data):
        ports, waiting, offered = self.ports, deque(), False
        names = f"{requests}__valid", f"{requests}__payload", f"{data}__ready"
        while True:
            taking = self.willing()
            ports.set(f"{requests}__ready", taking)
            if waiting and not offered and self.willing():
                at = waiting[0]
                beat = int.from_bytes(self.bytes[at : at + self.beat], "little")
                ports.set(f"{data}__payload", beat)
                ports.set(f"{data}__valid", 1)
                offered = True
            asked, request, taken = await ports.sample(*names)
            if asked and taking:
                waiting.extend(self._beats(request))
            if offered and taken:
                waiting.popleft()
                ports.set(f"{data}__valid", 0)
                offered = False

    async def _write(self, requests, data):
        ports = self.ports
        names = (
            f"{requests}__valid",
            f"{requests}__payload",
            f"{data}__valid",
            f"{data}__payload",
        )
        while True:
            taking = self.willing()
            accepting = bool(self._unwritten) and self.willing()
            ports.set(f"{requests}__ready", taking)
            ports.set(f"{data}__ready", accepting)
            asked, request, valid, beat = await ports.sample(*names)
            if valid and accepting:
                at = self._unwritten.popleft()
                for k in range(self.beat):
                    if beat.strb >> k & 1:
                        self.bytes[at + k] = beat.data >> (8 * k) & 255
            if asked and taking:
                self._unwritten.extend(self._beats(request))
