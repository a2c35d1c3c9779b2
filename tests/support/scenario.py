"""Commands with one fault among good ones, and what must be left of them."""

import functools
import operator
from dataclasses import dataclass, replace

import numpy as np

from diastole.devices import Device
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import FloatLayout
from support import products as p

SIZES = {"m": 5, "n": 6, "k": 7}
UNTOUCHED = 0x5C
MAX_COMMANDS = 8


@dataclass(frozen=True, kw_only=True)
class Result:
    """Where one command writes: its address, and what its bytes must become.

    ``pad`` marks those behind the end of a row of floats; they may be left as they are.
    """

    address: int
    want: np.ndarray
    pad: np.ndarray

    @property
    def range(self):
        return self.address, self.address + self.want.size

    def found(self, device: Device):
        return device.machine.bytes_at(self.address, self.want.size)

    def is_right(self, device: Device) -> bool:
        found = self.found(device)
        return bool(((found == self.want) | (self.pad & (found == UNTOUCHED))).all())


READ = {
    "forward": (("address_x", "X", 0), ("address_w", "W", 1)),
    "dx": (("address_w", "W", 0), ("address_dy", "dY", 0)),
    "dw": (("address_x", "X", 1), ("address_dy", "dY", 1)),
    "backward": (("address_x", "X", 1), ("address_w", "W", 0), ("address_dy", "dY", 0)),
}
"""By operation, the fields of its operands, and which copy of them it reads."""


class Scenario:
    """Operands in the memory of ``device``, and one good command of each kind on them.

    ``commands`` and ``results``: by name, ``convert``, ``forward``, ``dx``, ``dw``, ``backward``;
    a result is a list of :class:`Result`. Memory that nobody may write holds ``UNTOUCHED``.
    ``sizes``: M, N and K by their small letters.
    """

    def __init__(self, device: Device, golden: NumpyDevice, rng, sizes=SIZES):
        self.device, self.machine, self.sizes = device, device.machine, sizes
        data = p.tensors(rng, (sizes["m"], sizes["k"], sizes["n"]), "plain")
        wanted = p.convert(golden, data)
        self.machine.memory[:] = UNTOUCHED
        self._before = np.empty_like(self.machine.memory)  # one: errors that are caught keep frames
        self.operands = {name: device.upload(tensor) for name, tensor in wanted.items()}
        self.floats = FloatLayout(
            rows=sizes["m"], cols=sizes["k"], data_width=device.product.data_width
        )
        self.source = device.heap.allocate(self.floats.total_bytes)
        self.machine.bytes_at(self.source, self.floats.total_bytes)[:] = self.floats.pack(data["X"])
        self.at = device.heap.allocate(COMMAND_BYTES * MAX_COMMANDS)
        self._allocated = [self.source, self.at]
        self.commands: dict[str, Command] = {}
        self.results: dict[str, list[Result]] = {}
        self._add_convert(wanted["X"])
        for op, places in {
            "forward": {"out_a": "Y"},
            "dx": {"out_a": "dX"},
            "dw": {"out_a": "dW"},
            "backward": {"out_a": "dW", "out_b": "dX"},
        }.items():
            self._add_product(op, places, p.multiply(golden, op, wanted).values)
        self.reads = (device.machine.memory_base, device.machine.memory_base + (1 << 23))

    def close(self):
        for address in self._allocated:
            self.device.heap.free(address)

    def _result(self, image, pad=None) -> Result:
        self._allocated.append(self.device.heap.allocate(image.size))
        none = np.zeros(image.size, bool)
        return Result(address=self._allocated[-1], want=image, pad=none if pad is None else pad)

    def _add_convert(self, wanted):
        images = zip(self.operands["X"].images, wanted.copies, strict=True)
        results = [
            self._result(p.packed_image(image.layout, copy, wanted, image.planes))
            for image, copy in images
        ]
        self.results["convert"] = results
        self.commands["convert"] = Command.convert(
            "x",
            rows=self.sizes["m"],
            cols=self.sizes["k"],
            source=self.source,
            destination=results[0].address,
            second=results[1].address if len(results) == 2 else 0,
            tag=0,
            step=0,
            planes=self._planes("X")["x"],
        )

    def _add_product(self, op, places, values):
        self.results[op], addresses = [], {}
        for place, name in places.items():
            rows, cols = values[name].shape
            layout = FloatLayout(rows=rows, cols=cols, data_width=self.floats.data_width)
            pad = np.ones((rows, layout.pitch_bytes), bool)
            pad[:, : 4 * cols] = False
            self.results[op].append(self._result(layout.pack(values[name]), pad.reshape(-1)))
            addresses[place] = self.results[op][-1].address
        command = Command.product(
            Opcode[op.upper()],
            **self.sizes,
            **{field: self.operands[name].address(copy) for field, name, copy in READ[op]},
            **addresses,
            planes=self._planes(*(name for _, name, _ in READ[op])),
            **({"address_dy_m": self._second_dy()} if op == "backward" else {}),
        )
        self.commands[op] = command

    def _planes(self, *names):
        """Of these operands, by class."""
        return {p.CLASSES[name]: self.operands[name].images[0].planes for name in names}

    def _second_dy(self):
        """Where the second copy of dY is, 0 if it has one."""
        images = self.operands["dY"].images
        return images[1].address if len(images) == 2 else 0

    def changed(self, op: str, **fields) -> Command:
        """That good command with other values in some fields."""
        return replace(self.commands[op], **fields)

    def copy_of(self, name: str):
        """A second copy of an operand, that no good command reads."""
        return self.device.upload(self.operands[name].read())

    def ranges(self, *ops: str):
        return [result.range for op in ops for result in self.results[op]]

    def clear(self):
        """Forget all results."""
        for result in functools.reduce(operator.iadd, self.results.values(), []):
            result.found(self.device)[:] = UNTOUCHED

    def run(self, commands, *, reads=None, writes=None, limit=1_000_000):
        """Run them; ``writes``: what the memory accepts, by default all results."""
        self.clear()
        np.copyto(self._before, self.machine.memory)
        writes = self.ranges(*self.results) if writes is None else writes
        try:
            self.device.control.execute(
                commands, at=self.at, reads=reads or self.reads, writes=writes, limit=limit
            )
        finally:
            self._check_outside(writes)

    def _check_outside(self, writes):
        """Nothing has changed but the commands and what may be written."""
        base, memory = self.machine.memory_base, self.machine.memory
        own = (self.at, self.at + COMMAND_BYTES * MAX_COMMANDS)  # written by the host
        begin = 0
        for first, end in [*sorted([*writes, own]), (base + memory.size,) * 2]:
            here = slice(begin, first - base)
            changed = np.flatnonzero(memory[here] != self._before[here])
            assert not changed.size, f"written outside, first at offset {begin + changed[0]:#x}"
            begin = max(begin, end - base)

    def assert_right(self, *ops: str):
        for op in ops:
            for result in self.results[op]:
                assert result.is_right(self.device), op

    def assert_untouched(self, *ops: str):
        for op in ops:
            for result in self.results[op]:
                assert (result.found(self.device) == UNTOUCHED).all(), op

    def assert_works(self):
        """Every command runs, one after the other, and is right."""
        self.run([self.commands[op] for op in self.commands])
        self.assert_right(*self.results)
