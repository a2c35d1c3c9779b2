"""A machine with the registers, the memory and the results of a product, computed by numpy.

It stands for the hardware in tests of what is above the registers. ``sabotage`` makes it fail.
"""

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.copies import Copy
from diastole_sim.host.errors import HardwareHang
from diastole_sim.host.running import Traffic
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import ErrorCode, MalformedCommandError
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import NestLimits, ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.registers import BY_NAME, END, MAGIC, REGISTERS
from support.golden_products import forward, input_gradient, weight_gradient

BASE = 0x40_0000_0000
REFUSALS = {"refuses": ErrorCode.TOO_LONG, "bus fails": ErrorCode.READ_RESPONSE}
"""What is said of the first command, though it is good."""


NESTS = NestLimits(
    t_blocks=(1, 2, 4, 8),
    groups=(1, 2, 4),
    chunk=(8,),
    chunk_side=2,
    lane_side=2,
    stream_blocks=64,
    stationary_blocks=64,
    pass_blocks=2,
)


def parameters_of(numerics: dict, data_width: int) -> dict:
    """What a manifest would say of 2 x 2 cells with these numbers."""
    sizes = {"rows": 2, "cols": 2, "in_place": True, "data_width": data_width}
    nests = ProductNests(forward=NESTS, dx=NESTS, dw=NESTS)
    return sizes | {"numerics": numerics, "nests": nests.to_dict()}


class FakeMachine:
    """Has the members of a ``RunningMachine`` that a device uses."""

    sabotage = None
    patience = 1
    cycle = 0
    memory_model = Memory.axi()

    def __init__(self, product, *, memory_bytes=1 << 22, memory_base=BASE):
        self.product = product
        self.numerics = Numerics.from_dict(product.parameters["numerics"])
        self.memory_base = memory_base
        self.memory_bytes = memory_bytes
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.registers = dict.fromkeys(range(0, END, 4), 0)
        self.put("magic", MAGIC)
        self.put("config_hash", int(product.manifest["config_sha256"][:8], 16))
        self.allowed = []
        self.written = []
        self.executed = []
        self.closed = False

    def close(self):
        self.closed = True

    def bytes_at(self, address, count):
        if self.closed:
            raise ValueError("the machine is closed")
        base = self.memory_base
        assert address >= base
        assert address + count <= base + self.memory.size
        return self.memory[address - base :][:count]

    def get(self, name):
        register = BY_NAME[name]
        return sum(self.registers[register.offset + 4 * n] << 32 * n for n in range(register.words))

    def put(self, name, value):
        register = BY_NAME[name]
        for n in range(register.words):
            self.registers[register.offset + 4 * n] = value >> 32 * n & 0xFFFFFFFF

    def read(self, address):
        return self.registers[address]

    def write(self, address, value):
        if address == BY_NAME["control"].offset:
            if value & 4:
                for register in REGISTERS:
                    if register.offset >= 0x50:
                        self.put(register.name, 0)
            if value & 2:
                self.put("status", 0)
            self.start = bool(value & 1) and value & 0x100
        elif address == BY_NAME["status"].offset:
            self.registers[address] &= ~value
        else:
            self.registers[address] = value

    def allow_writes(self, *ranges):
        self.allowed = ranges

    def traffic(self, *, clear=False):
        if clear:
            self.written = []
        strays = [
            place
            for place in self.written
            if not any(a <= place[0] and place[1] <= b for a, b in self.allowed)
        ]
        return Traffic(strays=len(strays), first_stray=strays[0][0] if strays else 0)

    def idle(self, cycles):
        pass

    def run(self, limit=None):
        assert self.start, "run without start"
        if self.sabotage == "hang":
            raise HardwareHang("the hardware hangs", "pins")
        limits = Limits(
            block=self.numerics.block,
            headroom=self.numerics.headroom,
            data_width=self.product.data_width,
            nests=ProductNests.from_dict(self.product.parameters["nests"]),
        )
        self.put("status", 2)
        for index in range(self.get("command_count")):
            data = self.fetch(self.get("command_address") + index * COMMAND_BYTES, COMMAND_BYTES)
            try:
                self.perform(decode(data.tobytes(), limits))
            except MalformedCommandError as error:
                if self.sabotage == "accepts all":
                    continue
                self.put("status", 4)
                self.put("error_code", error.code + (self.sabotage == "wrong code"))
                self.put("error_index", index + (self.sabotage == "wrong index"))
                break
            if self.sabotage in REFUSALS:
                self.put("status", 4)
                self.put("error_code", REFUSALS[self.sabotage])
                self.put("error_index", index)
                break
        return 123

    def fetch(self, address, count):
        assert self.get("read_base") <= address
        assert address + count <= self.get("read_limit")
        return self.bytes_at(address, count)

    def store(self, address, data):
        assert self.get("write_base") <= address
        assert address + data.size <= self.get("write_limit")
        if self.sabotage == "stray":
            address += 64
        self.written.append((address, address + data.size))
        self.bytes_at(address, data.size)[:] = data

    def perform(self, command: Command):
        self.executed.append(command)
        if command.opcode == Opcode.CONVERT:
            self.convert(command)
        else:
            self.multiply(command)

    def layouts(self, name, rows, cols):
        return image_layouts(
            self.numerics.tensor_class(name),
            (rows, cols),
            block=self.numerics.block,
            data_width=self.product.data_width,
        )

    def convert(self, command):
        name = CLASS_NAMES[command.class_x]
        floats = FloatLayout(rows=command.m, cols=command.n, data_width=self.product.data_width)
        array = floats.unpack(self.fetch(command.address_x, floats.total_bytes))
        bias = 138 if self.numerics.scale_significands else 127
        tensor = quantise(
            array,
            Conversion(
                name,
                tag=command.tag,
                step=command.step,
                scale=command.scale - bias if command.scale else None,
            ),
            self.numerics,
            seed=self.get("seed"),
        )
        layouts = self.layouts(name, command.m, command.n)
        places = (command.address_w, command.address_dy)[: len(layouts)]
        for layout, copy, place in zip(layouts, tensor.copies, places, strict=True):
            header = tensor.tensor_exponent if layout.header else None
            image = layout.pack(copy, header)
            if self.sabotage == "second copy" and place == command.address_dy:
                image[layout.group_offset(0, 0)] = 1  # the exponent 2^-126
            self.store(place, image)
        flags = tensor.nan << 2 * command.class_x | tensor.inf << 2 * command.class_x + 1
        self.put("flags", self.get("flags") | flags)
        self.put("saturated", self.get("saturated") + tensor.saturated)
        self.put("underflowed", self.get("underflowed") + tensor.underflowed)
        self.put("amax", tensor.amax)
        self.put("convert_cycles", self.get("convert_cycles") + 1000)

    def operand(self, name, shape, addresses):
        """A tensor of which only the copies that have an address are there."""
        layouts = self.layouts(name, *shape)
        copies, exponent = [], None
        for number, layout in enumerate(layouts):
            address = addresses.get(number if len(layouts) > 1 else None)
            if address is None:
                copies.append(None)
                continue
            stored, exponent = layout.unpack(self.fetch(address, layout.total_bytes))
            copies.append(
                Copy(
                    transposed=number == 1,
                    shape=(layout.rows, layout.cols),
                    folds=np.zeros_like(stored.exponents),
                    **vars(stored),
                )
            )
        return Quantised(
            shape=shape,
            tensor_class=name,
            storage=self.numerics.tensor_class(name),
            block=self.numerics.block,
            copies=tuple(copies),
            tensor_exponent=exponent,
            amax=0,
            nan=False,
            inf=False,
            saturated=0,
            underflowed=0,
        )

    def multiply(self, command):
        m, n, k = command.m, command.n, command.k
        op, out = command.opcode, {}
        x_address, w_address = command.address_x, command.address_w
        if op == Opcode.FORWARD:
            x = self.operand("x", (m, k), {None: x_address, 0: x_address})
            w = self.operand("w", (k, n), {None: w_address, 1: w_address})
            out[command.out_a] = forward(x, w, self.numerics)
        if op in (Opcode.DX, Opcode.BACKWARD):
            w = self.operand("w", (k, n), {None: w_address, 0: w_address})
            dy = self.operand("dy", (m, n), dict.fromkeys((None, 0), command.address_dy))
            place = command.out_b if op == Opcode.BACKWARD else command.out_a
            out[place] = input_gradient(w, dy, self.numerics)
        if op in (Opcode.DW, Opcode.BACKWARD):
            x = self.operand("x", (m, k), {None: x_address, 1: x_address})
            second = command.address_dy_m if op == Opcode.BACKWARD else command.address_dy
            dy = self.operand("dy", (m, n), {None: command.address_dy, 1: second})
            out[command.out_a] = weight_gradient(x, dy, self.numerics)
        flags = 0
        for address, result in out.items():
            rows, cols = result.values.shape
            layout = FloatLayout(rows=rows, cols=cols, data_width=self.product.data_width)
            self.store(address, layout.pack(result.values))
            flags |= result.overflow << 6 | (not result.exact) << 7
        self.put("flags", self.get("flags") | flags)
        for value, name in enumerate(("cycles", "read_beats", "write_beats", "wait_load"), 1):
            self.put(name, (value << 32) + 7 if BY_NAME[name].words == 2 else value)
