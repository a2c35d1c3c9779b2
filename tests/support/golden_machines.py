"""Small golden machines, and chains of the judge's in their memory."""

from dataclasses import replace

import numpy as np

from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import FloatLayout, round_up
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.micro import INPUTS, Instruction, MicroOp, Source
from diastole_sim.spec.nest import NestLimits, ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import CLASSES
from diastole_sim.spec.stream_table import Descriptor, Kind
from oracle import vector_words as w
from oracle.vector_program import packed_mask
from support.golden_scenes import instructions, placed
from support.numerics import make_numerics

ANY = tuple(range(1, 33))
NESTS = NestLimits(
    t_blocks=ANY,
    groups=ANY,
    chunk=ANY,
    chunk_side=1,
    lane_side=1,
    stream_blocks=2**16,
    stationary_blocks=2**16,
    pass_blocks=1,
)
"""Tiles of any size."""
UNTOUCHED = 0xA5
"""What memory holds where nothing has been written."""


def make_machine(numerics, *, data_width=64, panel_vectors=1024, memory_bytes=1 << 20, seed=77):
    """A machine that takes any nest, and has random numbers; its memory is full of
    ``UNTOUCHED``."""
    nests = ProductNests(forward=NESTS, dx=NESTS, dw=NESTS)
    vector = VectorLimits(panel_vectors=panel_vectors, draws=True)
    limits = Limits.of(numerics, data_width=data_width, nests=nests, vector=vector)
    machine = GoldenMachine(numerics, limits, memory_bytes=memory_bytes, seed=seed)
    machine.memory.write(0, np.full(memory_bytes, UNTOUCHED, np.uint8))
    return machine


class Bench:
    """A machine, whose memory is handed out from address 0 on."""

    def __init__(self, numerics, **others):
        self.machine = make_machine(numerics, **others)
        self.beat = self.machine.limits.data_width // 8
        self.end = 0

    def take(self, length):
        """So many bytes that nobody has, on a beat, with a beat behind them."""
        address, self.end = self.end, self.end + round_up(length, self.beat) + self.beat
        return address

    def put(self, data):
        """Bytes somewhere; the address."""
        address = self.take(len(data))
        self.machine.memory.write(address, np.frombuffer(bytes(data), np.uint8))
        return address

    def layout(self, shape):
        return FloatLayout(rows=shape[0], cols=shape[1], data_width=self.machine.limits.data_width)

    def put_floats(self, tensor):
        return self.put(self.layout(tensor.shape).pack(tensor).tobytes())

    def take_floats(self, shape):
        return self.take(self.layout(shape).total_bytes)

    def floats(self, address, shape):
        layout = self.layout(shape)
        return layout.unpack(self.machine.memory.read(address, layout.total_bytes))

    def put_rows(self, rows, spare=0):
        """Runs of bytes, each on a beat; the address and their pitch."""
        pitch = round_up(len(rows[0]), self.beat) + spare * self.beat
        filler = bytes([UNTOUCHED])
        return self.put(b"".join(row + filler * (pitch - len(row)) for row in rows)), pitch

    def load(self, program, first=0, streams=None, at=0):
        """Put instructions and descriptors, by number, into the tables: a chain's program."""
        words = b"".join(each.encode().to_bytes(8, "little") for each in program)
        self.machine.tables.load(0, first, np.frombuffer(words, np.uint8))
        self.load_streams(streams or {}, at)
        return ProgramPlace(first=first, length=len(program), streams=at)

    def load_streams(self, streams, at=0):
        for number, stream in streams.items():
            data = np.frombuffer(stream.encode(), np.uint8)
            self.machine.tables.load(4, at + number, data)


def little(patterns, bytes_):
    """Numbers side by side."""
    return b"".join(int(each).to_bytes(bytes_, "little") for each in patterns)


ELEMENT_BYTES = {
    w.KIND_F32: 4, w.KIND_BF16: 2, w.KIND_U8: 1, w.KIND_GATHERED_F32: 4, w.KIND_GATHERED_U8: 1,
}  # fmt: skip
LIST_SLOT = 100
"""Of lists of rows: that of input n is n further."""


class PlacedScene:
    """A scene of ``random_programs`` in a bench's machine, at some step. ``outputs``: by number,
    the descriptors of those in memory."""

    def __init__(self, bench, scene, rng, step):
        self.bench, self.scene, self.rng, self.step = bench, scene, rng, step
        self.outputs = {}
        streams = {n: self._input(n, each) for n, each in enumerate(scene.inputs) if each}
        self.streams = streams
        for number, each in enumerate(scene.outputs):
            if each:
                self.outputs[number] = streams[INPUTS + number] = self._output(each)
        machine = bench.machine
        machine.step = step
        self.place = bench.load(instructions(scene.words), first=7, streams=streams, at=16)
        constants = little(scene.constants, 4)
        machine.tables.load(1, 0, np.frombuffer(constants, np.uint8))
        panel = little([each for vector in scene.panel for each in vector], 4)
        machine.tables.load(3, 0, np.frombuffer(panel, np.uint8))

    def command(self):
        """Of a chain over memory."""
        rows, cols = self.scene.size
        columns = self.scene.walk == "columns"
        return Command.chain(self.place, m=rows, n=cols, columns=columns)

    def _steps(self, stream):
        """Sometimes an address that the step moves."""
        offset = self.bench.beat * self.rng.randrange(1, 4)
        moved = offset * self.step
        if self.rng.random() < 0.5 or moved > stream.address:
            return stream
        return replace(stream, address=stream.address - moved, per_step=1, offset=offset)

    def _input(self, number, stream):
        bench, kind = self.bench, stream.kind
        if kind == w.KIND_PANEL:
            return placed(stream)
        if kind == w.KIND_PRODUCT:
            return Descriptor(kind=Kind.PRODUCT)
        if kind == w.KIND_DRAWS:
            stream.data.seed, stream.data.step = bench.machine.seed, self.step
            return Descriptor(kind=Kind.DRAWS, pitch=stream.data.tag)
        if kind in (w.KIND_COLUMN, w.KIND_ROW, w.KIND_LABELS):
            address = bench.put(little([each & 0xFFFFFFFF for each in stream.data], 4))
            return self._steps(Descriptor(kind=kind, address=address))
        if kind == w.KIND_MASK:
            rows = [
                each.to_bytes(self._mask_bytes(), "little")
                for each in packed_mask(stream.data, self.scene.block)
            ]
        else:
            rows = [little(row, ELEMENT_BYTES[kind]) for row in stream.data]
        address, pitch = bench.put_rows(rows, spare=self.rng.randrange(3))
        placed_at = Descriptor(kind=kind, address=address, pitch=pitch)
        if stream.rows is not None:
            listed = bench.put(little(stream.rows, 4))
            labels = self._steps(Descriptor(kind=Kind.LABELS, address=listed))
            bench.load_streams({LIST_SLOT + number: labels})
            placed_at = replace(placed_at, aux=LIST_SLOT + number)
        return self._steps(placed_at)

    def _mask_bytes(self):
        wide = -(-self.scene.size[1] // self.scene.block)
        return -(-wide * self.scene.block**2 // 8)

    def row_bytes(self, kind):
        """Bytes that a run of an output in memory has, and how many runs there are."""
        rows, cols = self.scene.size
        if kind in (w.KIND_ROW, w.KIND_COLUMN):
            return 4 * (rows if kind == w.KIND_ROW else cols), 1
        if kind == w.KIND_MASK:
            return self._mask_bytes(), -(-rows // self.scene.block)
        return ELEMENT_BYTES[kind] * cols, rows

    def _output(self, stream):
        bench, kind = self.bench, stream.kind
        watch = self.rng.randrange(2)
        if kind == w.KIND_PANEL:
            return replace(placed(stream), watch=watch)
        if kind == w.KIND_CONSTANT:
            return Descriptor(kind=kind, address=stream.index)
        if kind == w.KIND_IMAGE:
            rows, cols = self.scene.size
            length = 16 * (rows + 64) * (cols + 64)
            first, second = bench.take(length), bench.take(length)
            return Descriptor(
                kind=kind,
                address=first,
                offset=second - first,
                pitch=self.rng.getrandbits(30),
                tensor_class=self.rng.randrange(3),
                watch=watch,
            )
        length, count = self.row_bytes(kind)
        pitch = round_up(length, bench.beat) + self.rng.randrange(2) * bench.beat
        address = bench.take(pitch * count)
        stored = Descriptor(kind=kind, address=address, watch=watch)
        if kind not in (w.KIND_ROW, w.KIND_COLUMN):
            stored = replace(stored, pitch=pitch)
        return self._steps(stored)

    def expected_rows(self, number, held):
        """The bytes of an output's runs, of what the judge says that it holds; None: untouched."""
        kind = self.scene.outputs[number].kind
        if kind in (w.KIND_ROW, w.KIND_COLUMN):
            return None if held[0] is None else [little(held, 4)]
        if kind == w.KIND_MASK:
            length = self._mask_bytes()
            return [each.to_bytes(length, "little") for each in packed_mask(held, self.scene.block)]
        return [little(row, ELEMENT_BYTES[kind]) for row in held]


M, N, K = 9, 13, 21
SHAPES = {"X": (M, K), "W": (K, N), "dY": (M, N)}


def tensors(np_rng):
    """The operands of products M x N x K, by name."""
    return {name: np_rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


class Converted:
    """The operands in a machine, by convert commands; ``images``: by name, two addresses."""

    def __init__(self, bench, data, step=0, planes=1):
        self.images, self.commands = {}, []
        for number, (name, values) in enumerate(data.items()):
            source = bench.put_floats(values)
            self.images[name] = bench.take(8192), bench.take(8192)
            self.commands.append(
                Command.convert(
                    CLASS_NAMES[number],
                    rows=values.shape[0],
                    cols=values.shape[1],
                    source=source,
                    destination=self.images[name][0],
                    second=self.images[name][1],
                    tag=4 + number,
                    step=step,
                    planes=planes,
                )
            )

    def product(self, opcode, numerics, program=None, **others):
        """A product command that reads the right copies; ``program``: of its chain."""

        def at(name, copy):
            two = numerics.tensor_class(CLASSES[name]).two_copies
            return self.images[name][copy if two else 0]

        name = Opcode(opcode).name.lower().removesuffix("_chain")
        read = {
            "forward": {"address_x": ("X", 0), "address_w": ("W", 1)},
            "dx": {"address_dy": ("dY", 0), "address_w": ("W", 0)},
            "dw": {"address_x": ("X", 1), "address_dy": ("dY", 1)},
            "backward": {"address_x": ("X", 1), "address_w": ("W", 0), "address_dy": ("dY", 0)},
        }[name]
        addresses = {field: at(*which) for field, which in read.items()}
        if name == "backward":
            second = at("dY", 1)
            addresses["address_dy_m"] = 0 if second == at("dY", 0) else second
        sizes = {"m": M, "n": N, "k": K}
        if program is None:
            return Command.product(opcode, **sizes, **addresses, **others)
        return Command.chained(opcode, program, **sizes, **addresses, **others)


MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)


def small(tensor, *, output, program=(MOVE,), numerics=None, **others):
    """A bench, and a chain over a tensor, from input 0 to output 0: its command."""
    bench = Bench(numerics or make_numerics(), **others)
    address = bench.put_floats(tensor)
    pitch = bench.layout(tensor.shape).pitch_bytes
    source = Descriptor(kind=Kind.F32, address=address, pitch=pitch)
    place = bench.load(program, streams={0: source, 4: output})
    return bench, Command.chain(place, m=tensor.shape[0], n=tensor.shape[1])
