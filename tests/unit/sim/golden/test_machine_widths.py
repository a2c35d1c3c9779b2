"""Widths that the golden machine decides: conversions, images of chains, and their products."""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.golden_machine import Outcome
from diastole_sim.golden.improvement import Improvement
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.golden_machines import MOVE, Bench, Converted, tensors
from support.golden_scenes import patterns
from support.numerics import make_numerics

FAST = make_numerics(formats="fast", headroom=8)
ROWS, COLS, TAG = 13, 21, 4


def load(bench, table, words):
    address = bench.put(np.array(words, "<u4").tobytes())
    bench.machine.execute(Command.load(table, address=address, first=0, count=len(words)))


class Slotted:
    """A tensor of class x that is converted again and again with slot 1, by ``way``."""

    def __init__(self, way, tensor, **flags):
        self.bench = Bench(FAST)
        self.tensor, self.image = tensor, self.bench.take(8192)
        source = self.bench.put_floats(tensor)
        if way == "convert":
            self.command = Command.convert(
                "x", rows=ROWS, cols=COLS, source=source, destination=self.image, tag=TAG, step=0,
                slot=1, **flags,
            )  # fmt: skip
            return
        pitch = self.bench.layout(tensor.shape).pitch_bytes
        image = Descriptor(
            kind=Kind.IMAGE, address=self.image, aux=2, pitch=TAG,
            **{name: int(value) for name, value in flags.items()},
        )  # fmt: skip
        source = Descriptor(kind=Kind.F32, address=source, pitch=pitch)
        place = self.bench.load((MOVE,), streams={0: source, 4: image})
        self.command = Command.chain(place, m=ROWS, n=COLS)

    def expected(self, width):
        machine = self.bench.machine
        return quantise(
            self.tensor, Conversion("x", tag=TAG, step=0, width=width), FAST, seed=machine.seed
        )

    def widths(self):
        return self.bench.machine.tables.widths[:3].tolist()

    def convert(self):
        """The tensor that is written, as the machine keeps it."""
        machine = self.bench.machine
        machine.memory.write(self.image, np.full(4096, 0xA5, np.uint8))
        machine.execute(self.command)
        held = machine.memory.source_at(self.image)
        assert held is not None
        return held.tensor


@pytest.mark.parametrize("way", ["convert", "chain"])
def test_a_decision_governs_the_next_conversion(way, np_rng):
    tensor = np_rng.normal(size=(ROWS, COLS)).astype(np.float32)
    it = Slotted(way, tensor, by_slot=True, decides=True)
    seen = it.expected(4).improvement
    assert isinstance(seen, Improvement)
    just_below = (seen.num * 2**16 - 1) // seen.den
    widths = []
    for eps in (just_below, just_below + 1, just_below + 1, just_below, just_below, 2**18 - 1):
        load(it.bench, VectorTable.EPS, [0, eps, 0])
        converted = it.convert()
        wanted = it.expected(converted.width)
        assert np.array_equal(converted.copies[0].codes, wanted.copies[0].codes)
        widths.append((converted.width, it.widths()))
    assert widths == [
        (2, [0, 2, 0]), (4, [0, 1, 0]), (2, [0, 0, 0]), (2, [0, 2, 0]), (4, [0, 3, 0]),
        (4, [0, 1, 0]),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["convert", "chain"])
def test_one_that_decides_nothing_leaves_the_next_width(way, np_rng):
    it = Slotted(way, np_rng.normal(size=(ROWS, COLS)).astype(np.float32), by_slot=True)
    load(it.bench, VectorTable.WIDTHS, [0, 2, 0])
    assert it.convert().width == 4
    assert it.widths() == [0, 3, 0]
    load(it.bench, VectorTable.WIDTHS, [0, 1, 0])
    assert it.convert().width == 2
    assert it.widths() == [0, 0, 0]


@pytest.mark.parametrize("way, width", [("convert", 2), ("chain", 4)])
def test_one_may_decide_that_has_a_width_of_its_own(way, width, np_rng):
    it = Slotted(way, np_rng.normal(size=(ROWS, COLS)).astype(np.float32), decides=True)
    load(it.bench, VectorTable.WIDTHS, [0, 0, 0])
    assert it.convert().width == width
    assert it.widths() == [0, 2, 0]


@pytest.mark.parametrize("opcode", [Opcode.FORWARD, Opcode.DX, Opcode.DW])
@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 2, 4), (2, 4, 2)])
def test_products_read_the_widths_of_the_last_tensors(opcode, widths, np_rng):
    """The slots' next widths are others."""
    bench, data = Bench(FAST), tensors(np_rng)
    results = []
    for by_slot in (True, False):
        converted = Converted(bench, data)
        commands = [
            Command.convert(
                name, rows=each.m, cols=each.n, source=each.address_x, destination=each.address_w,
                tag=each.tag, step=0, planes=width // 2,
            )
            for name, each, width in zip(("x", "w", "dy"), converted.commands, widths, strict=True)
        ]  # fmt: skip
        assert bench.machine.run(commands) == Outcome(done=3)
        says = [width // 2 - 1 for width in widths]
        load(bench, VectorTable.WIDTHS, [0, *(last | (1 - last) << 1 for last in says)])
        shape = {"forward": (9, 13), "dx": (9, 21), "dw": (21, 13)}[opcode.name.lower()]
        read = {"forward": "xw", "dx": ("w", "dy"), "dw": ("x", "dy")}[opcode.name.lower()]
        planes = {name: 1 + last for name, last in zip(("x", "w", "dy"), says, strict=True)}
        slots = {"x": 1, "w": 2, "dy": 3}
        given = {"slots": slots} if by_slot else {"planes": planes}
        given = {what: {name: each[name] for name in read} for what, each in given.items()}
        out = bench.take_floats(shape)
        bench.machine.execute(converted.product(opcode, FAST, out_a=out, **given))
        results.append(patterns(bench.floats(out, shape)))
    assert results[0] == results[1]
