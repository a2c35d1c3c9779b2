"""Commands for the machine, and what they must leave in its memory by the golden model."""

import random

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.registers import BY_NAME
from rtl.host import BASE, SIZE, Host

COMMANDS = 512  # bytes at the start of memory
RESULTS = {
    Opcode.FORWARD: {"y": "out_a"},
    Opcode.DX: {"dx": "out_a"},
    Opcode.DW: {"dw": "out_a"},
    Opcode.BACKWARD: {"dw": "out_a", "dx": "out_b"},
}


class Step:
    """One training step: commands are queued, then run, several at a time.

    After each run the whole memory must be what the golden model says: images of the converted
    tensors, results, and nothing else changed. ``data_width`` of the bus in bits.
    """

    def __init__(self, host: Host, golden: NumpyDevice, step: int, data_width: int):
        self.host, self.golden, self.step, self.width = host, golden, step, data_width
        self.given = bytearray(random.randbytes(SIZE))
        self.want = bytearray(self.given)
        self.end = COMMANDS
        self.addresses = {}
        self._begin()

    def _begin(self):
        self.commands, self.saturated, self.underflowed, self.exact = [], 0, 0, True

    def allocate(self, size: int) -> int:
        address, self.end = BASE + self.end, self.end + size + 4 * random.randrange(8)
        assert self.end <= SIZE
        return address

    def put(self, address: int, data: bytes):
        """The host's own bytes."""
        self.given[address - BASE : address - BASE + len(data)] = data
        self.expect(address, data)

    def expect(self, address: int, data: bytes):
        """Bytes that the machine must write."""
        self.want[address - BASE : address - BASE + len(data)] = data

    def convert(self, values, cls: str, tag: int):
        """Queue the conversion of floats that the host puts into memory; the golden tensor."""
        rows, cols = values.shape
        floats = FloatLayout(rows=rows, cols=cols, data_width=self.width).pack(values).tobytes()
        quantised = self.golden.convert(values, cls, tag=tag, step=self.step)
        (layout,) = image_layouts(  # the benches' tensors have one copy
            quantised.storage, values.shape, block=quantised.block, data_width=self.width
        )
        image = layout.pack(quantised.copies[0], quantised.tensor_exponent).tobytes()
        source, destination = self.allocate(len(floats)), self.allocate(len(image))
        self.put(source, floats)
        self.expect(destination, image)
        place = {"source": source, "destination": destination, "rows": rows, "cols": cols}
        self.commands.append(Command.convert(cls, tag=tag, step=self.step, **place).encode())
        self.addresses[quantised] = destination
        self.saturated += quantised.saturated
        self.underflowed += quantised.underflowed
        return quantised

    def product(self, opcode: Opcode, *, m: int, n: int, k: int, **operands):
        """Queue a product of converted tensors, by name; the golden results."""
        result = getattr(self.golden, opcode.name.lower())(*operands.values())
        fields = {f"address_{name}": self.addresses[given] for name, given in operands.items()}
        if opcode == Opcode.BACKWARD:
            fields["address_dy_m"] = 0
        for name, field in RESULTS[opcode].items():
            values = getattr(result, name)
            rows, cols = values.shape
            layout = FloatLayout(rows=rows, cols=cols, data_width=self.width)
            fields[field] = self.allocate(layout.total_bytes)
            self.expect(fields[field], layout.pack(values).tobytes())
        self.commands.append(Command.product(opcode, m=m, n=n, k=k, **fields).encode())
        self.exact &= result.exact
        return result

    def load(self):
        """Put the commands and all that the host has written into the machine's memory."""
        self.put(BASE, b"".join(self.commands))
        self.host.memory.write(BASE, bytes(self.given))

    async def run(self, error: ErrorCode = ErrorCode.NONE, index: int = 0):
        """Run what was queued; compare the memory, the status, the flags and the counters."""
        host, count = self.host, len(self.commands)
        self.load()
        await host.begin(BASE, count)
        assert await host.wait() == ({"error"} if error else {"done"})
        assert await host.read("error_code") == error
        assert await host.read("error_index") == index
        got = host.image()
        wrong = [at for at in range(SIZE) if got[at] != self.want[at]]
        assert not wrong, f"{len(wrong)} bytes from {wrong[0]} to {wrong[-1]}: {self.described}"
        assert await host.read("saturated") == self.saturated
        assert await host.read("underflowed") == self.underflowed
        inexact = 1 << BY_NAME["flags"].bit("inexact")
        assert await host.read("flags") == (0 if self.exact else inexact)
        self.given[:] = self.want
        self._begin()

    @property
    def described(self) -> str:
        places = {address - BASE: name.tensor_class for name, address in self.addresses.items()}
        return f"converted tensors at {places}"
