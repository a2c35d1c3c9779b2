# amaranth: UnusedElaboratable=no
"""What units refuse to be built with, and all messages that say so."""

import pytest
from amaranth.hdl import Signal, unsigned

from diastole_hw.array.array import Array
from diastole_hw.array.row import ArrayRow
from diastole_hw.bus.axi_reader import AxiReader
from diastole_hw.bus.axi_writer import AxiWriter
from diastole_hw.bus.axil_registers import AxilRegisters
from diastole_hw.bus.read_share import ReadShare
from diastole_hw.bus.signature import AxiReadSignature, AxiSignature, AxiWriteSignature
from diastole_hw.bus.split import BurstSplitter
from diastole_hw.cell.align import AlignAdd
from diastole_hw.cell.block_sum import BlockSum
from diastole_hw.cell.cell import Cell
from diastole_hw.cell.cell_shape import CellShape, Element
from diastole_hw.cell.dsp_products import DspProducts
from diastole_hw.cell.multiplier import Multiplier
from diastole_hw.command.counters import Counters
from diastole_hw.convert.converter import Converter
from diastole_hw.convert.image.exponents import ExponentField
from diastole_hw.convert.image.image_maxima import ImageMaxima
from diastole_hw.convert.image.image_writer import ImageWriter
from diastole_hw.convert.image.pack import Packer, PlanePacker
from diastole_hw.convert.image.pack_bytes import PackBytes
from diastole_hw.convert.image.plane_repeater import PlaneRepeater
from diastole_hw.convert.lanes.divide import Divide
from diastole_hw.convert.lanes.field_word import FieldWord
from diastole_hw.convert.lanes.monitor import Monitor
from diastole_hw.memory.accumulators import Accumulators
from diastole_hw.memory.add_floats import AddFloats
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram
from diastole_hw.memory.round_sum import RoundSum
from diastole_hw.random.draws import Draws
from diastole_hw.random.lane_states import LaneStates
from diastole_hw.random.row_draws import RowDraws
from diastole_hw.random.threefry import Threefry
from diastole_hw.serial.bridge import Bridge
from diastole_hw.serial.shared_memory import SharedMemory
from diastole_hw.serial.uart import UartReceiver, UartTransmitter, divisor_of
from diastole_hw.store.emit_rows import EmitRows
from diastole_hw.store.float_lanes import FloatLanes
from diastole_hw.store.to_float import ToFloat
from diastole_hw.stream.blocks import BlockBuffer
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.transfer.times import times
from diastole_hw.vector.float.booth_rows import RowProduct
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from diastole_sim.spec.sizes.vector_shape import VectorShape
from support.cells import BFP4, E2M1, E4M3, shape_of
from support.plans import make_numerics, make_plan
from support.texts import exactly

BUS = "data_width must be one of 32, 64, 128, 256, 512, not {}"
ONE_CELL = shape_of("bfp", rows=1, block=2, fraction=9)
SHAPE = {
    "rows": 3, "block": 4, "south": BFP4, "west": BFP4, "stationary": BFP4, "sum_bits": 12,
    "fraction": 18,
}  # fmt: skip
ELEMENTS = {"vector_element": BFP4, "stationary_element": BFP4}
NUMERICS = {"numerics": make_numerics(block=4), "data_width": 64}
SIZES = {"sizes": ConverterSizes(**NUMERICS)}
PLAN = make_plan(make_numerics(block=2))
EMITTERS = {
    sizes: make_plan(make_numerics(block=sizes[0]), data_width=sizes[1])
    for sizes in ((8, 64), (4, 256), (4, 512))
}
LANES = {"lanes": 2, "random_bits": 3, "state_bits": 3, "pairs": False}

REFUSED = [  # what makes it, what it is made with, and what is changed, with the message
    (Array, {"shape": ONE_CELL}, [
        ({"cols": 0}, "cols must be an integer in 1..64, not 0"),
        ({"cols": 65}, "cols must be an integer in 1..64, not 65"),
    ]),
    (ArrayRow, {"shape": ONE_CELL, "psum_bits": 8}, [
        ({"cols": 0}, "cols must be an integer in 1..64, not 0"),
        ({"cols": 65}, "cols must be an integer in 1..64, not 65"),
    ]),
    (AxiReader, {"data_width": 64}, [
        ({"outstanding": 0}, "outstanding must be an integer in 1..256, not 0"),
    ]),
    (AxiWriter, {"data_width": 64}, [
        ({"outstanding": 257}, "outstanding must be an integer in 1..256, not 257"),
    ]),
    (AxilRegisters, {}, [
        ({"config_hash": 2**32},
         "config_hash must be an integer in 0..4294967295, not 4294967296"),
    ]),
    (ReadShare, {"data_width": 32}, [
        ({"units": 1}, "units must be an integer in 2..4, not 1"),
        ({"units": 5}, "units must be an integer in 2..4, not 5"),
    ]),
    *(
        (signature, {}, [({"data_width": n}, BUS.format(n)) for n in (16, 48, 96, 1024)])
        for signature in (AxiReadSignature, AxiWriteSignature, AxiSignature)
    ),
    (BurstSplitter, {}, [({"data_width": 16}, BUS.format(16))]),
    (AlignAdd, {"sum_bits": 12, "fraction": 18, "psum_bits": 31}, [
        ({"sum_bits": 2}, "sum_bits must be an integer in 3..57, not 2"),
        ({"fraction": 33}, "fraction must be an integer in 0..32, not 33"),
        ({"psum_bits": 29}, "psum_bits must be an integer in 30..63, not 29"),
        ({"psum_bits": 64}, "psum_bits must be an integer in 30..63, not 64"),
    ]),
    (BlockSum, ELEMENTS | {"block": 8, "sum_bits": 12, "window": None, "exact": True}, [
        ({"block": 3, "cut": None}, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"sum_bits": 58, "cut": None}, "sum_bits must be an integer in 3..57, not 58"),
        ({"cut": 4}, "cut must be an integer in 0..3, not 4"),
    ]),
    (Cell, {"shape": shape_of("bfp", rows=2, block=4, fraction=15)}, [
        ({"psum_bits": 26}, "psum_bits must be an integer in 27..63, not 26"),
        ({"psum_bits": 64}, "psum_bits must be an integer in 27..63, not 64"),
    ]),
    (DspProducts, ELEMENTS, [({"count": 33}, "count must be an integer in 1..32, not 33")]),
    (Multiplier, {"vector_element": E2M1, "stationary_element": E2M1, "exact": False}, [
        ({"window": 57}, "window must be an integer in 2..56, not 57"),
    ]),
    (CellShape, SHAPE, [
        ({"rows": 65}, "rows must be an integer in 1..64, not 65"),
        ({"block": 6}, "block must be one of 1, 2, 4, 8, 16, 32, not 6"),
        ({"window": 57}, "window must be an integer in 2..56, not 57"),
        ({"sum_bits": 58}, "sum_bits must be an integer in 3..57, not 58"),
        ({"multiplier": "lut"}, "multiplier must be one of fabric, dsp, dsp25, not 'lut'"),
        ({"pipeline": "deep"}, "pipeline must be one of none, products, full, not 'deep'"),
        ({"fraction": -1}, "fraction must be an integer in 0..32, not -1"),
        ({"sum_bits": 40, "fraction": 24},
         "sum_bits + fraction must be an integer in 3..63, not 64"),
        ({"directions": ("north", "east")},
         ("directions must be one of ('east', 'north'), ('east',), ('north',), "
          "not ('north', 'east')")),
        ({"stationary": E4M3}, "window must be a number of bits where elements have a depth"),
        ({"extents": True}, "extents must be false without a window"),
        ({"sum_bits": 5, "significands": True}, "sum_bits must be an integer in 11..57, not 5"),
    ]),
    (Element, {}, [
        ({"significand_bits": 0}, "significand_bits must be an integer in 1..8, not 0"),
        ({"significand_bits": 9}, "significand_bits must be an integer in 1..8, not 9"),
        ({"significand_bits": 4, "depth": 254}, "depth must be an integer in 0..253, not 254"),
        ({"significand_bits": 4, "derived": True},
         "derived must be false for a depth of 0: every bit of sig is stored"),
    ]),
    (Counters, {}, [({"elements": 0}, "elements must be an integer in 1..255, not 0")]),
    (Converter, SIZES, [
        ({"max_col_blocks": 0}, "max_col_blocks must be an integer in 1..65536, not 0"),
    ]),
    (Divide, {}, [({"bits": 29}, "bits must be an integer in 2..28, not 29")]),
    *(
        (unit, SIZES, [({"copy": 1}, "copy must be 0, not 1")])
        for unit in (ExponentField, FieldWord)
    ),
    (ConverterSizes, NUMERICS, [({"data_width": n}, BUS.format(n)) for n in (16, 48, 96, 1024)]),
    *(
        (unit, SIZES, [
            ({"max_col_blocks": n}, f"max_col_blocks must be an integer in 1..65536, not {n}")
            for n in (0, 2**16 + 1)
        ])
        for unit in (ImageWriter, ImageMaxima)
    ),
    (Monitor, {"lanes": 1}, [
        ({"lanes": 17}, "lanes must be an integer in 1..16, not 17"),
        ({"bits": 5}, "bits must be an integer in 6..64, not 5"),
    ]),
    (Packer, {"lanes": 1, "element_bits": (4,), "data_width": 32}, [
        ({"element_bits": (33,)}, "element_bits must be an integer in 1..32, not 33"),
        ({"element_bits": (4, 17), "lanes": 2},
         "element_bits must be an integer in 1..16, not 17"),
        ({"element_bits": (0,)}, "element_bits must be an integer in 1..32, not 0"),
        ({"lanes": 17}, "lanes must be an integer in 1..16, not 17"),
    ]),
    (PlanePacker, {"lanes": 1, "data_width": 32}, [
        ({"planes": 0}, "planes must be an integer in 1..4, not 0"),
        ({"planes": 5}, "planes must be an integer in 1..4, not 5"),
    ]),
    (PackBytes, {"data_width": 32}, [
        ({"data_width": 8}, BUS.format(8)),
        ({"most": 0}, "most must be an integer in 1..65536, not 0"),
    ]),
    (PlaneRepeater, {"data_width": 64, "exponent_beats": 4, "element_beats": 8}, [
        ({"planes": 1}, "planes must be an integer in 2..4, not 1"),
        ({"planes": 5}, "planes must be an integer in 2..4, not 5"),
    ]),
    (Accumulators, {"plan": PLAN, "banks": 3, "psum_bits": 20, "latency": 1}, [
        ({"drained": 0}, "vectors must be an integer in 1..3, not 0"),
        ({"drained": 4}, "vectors must be an integer in 1..3, not 4"),
    ]),
    (AddFloats, {}, [
        ({"mantissa": 1}, "mantissa must be an integer in 2..23, not 1"),
        ({"mantissa": 24}, "mantissa must be an integer in 2..23, not 24"),
    ]),
    (DistributedRam, {"width": 8, "depth": 4}, [
        ({"width": 0}, "width must be an integer in 1..4096, not 0"),
        ({"depth": 1}, "depth must be an integer in 2..256, not 1"),
    ]),
    (Ram, {"width": 8, "depth": 4}, [
        ({"width": 0}, "width must be an integer in 1..65536, not 0"),
        ({"depth": 1}, "depth must be an integer in 2..16777216, not 1"),
    ]),
    (RoundSum, {"sum_bits": 33, "mantissa": 9}, [
        ({"sum_bits": 2}, "sum_bits must be an integer in 3..63, not 2"),
        ({"sum_bits": 64}, "sum_bits must be an integer in 3..63, not 64"),
        ({"mantissa": 1}, "mantissa must be an integer in 2..23, not 1"),
        ({"mantissa": 24}, "mantissa must be an integer in 2..23, not 24"),
    ]),
    (VectorShape, {"block": 8, "data_width": 128, "specials": 2, "panel_vectors": 2048}, [
        ({"block": 3}, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"data_width": 100}, BUS.format(100)),
        ({"specials": 3}, "specials must be one of 1, 2, 4, 8, not 3"),
        ({"specials": 16}, "specials must be one of 1, 2, 4, 8, not 16"),
        ({"panel_vectors": 1}, "panel_vectors must be an integer in 2..131072, not 1"),
    ]),
    (Draws, {"lanes": 2, "random_bits": 8, "copies": 1, "rows": 8}, [
        ({"lanes": 3}, "lanes must be one of 1, 2, 4, 8, 16, not 3"),
        ({"random_bits": 17}, "random_bits must be an integer in 1..16, not 17"),
        ({"copies": 3}, "copies must be an integer in 1..2, not 3"),
        ({"rows": 33}, "rows must be an integer in 1..32, not 33"),
    ]),
    (LaneStates, LANES, [
        ({"lanes": 3}, "lanes must be one of 1, 2, 4, 8, 16, not 3"),
        ({"random_bits": 9, "state_bits": 8}, "random_bits must be an integer in 1..8, not 9"),
        ({"random_bits": 2, "pairs": True}, "random_bits must be 3, not 2"),
        ({"state_bits": 4, "pairs": True}, "state_bits must be 3, not 4"),
        ({"state_bits": 25}, "lfsr_bits must be an integer in 3..24, not 25"),
    ]),
    (RowDraws, LANES | {"pairs": True, "copies": 1, "rows": 8}, [
        ({"copies": 3}, "copies must be an integer in 1..2, not 3"),
        ({"rows": 513}, "rows must be an integer in 1..512, not 513"),
    ]),
    (Threefry, {}, [
        ({"cycles": n}, f"cycles must be one of 1, 2, 4, 5, not {n}") for n in (0, 3, 6)
    ]),
    (Bridge, {"memory_base": 0, "memory_bytes": 4096, "clock_hz": 1}, [
        ({"clock_hz": 0}, "clock_hz must be an integer in 1..4294967295, not 0"),
        ({"memory_base": -1}, "memory_base must be an integer in 0..4294967295, not -1"),
    ]),
    (SharedMemory, {"data_width": 32, "size": 4096}, [
        ({"size": 4095}, "size must be an integer in 4096..16777216, not 4095"),
        ({"size": 4100}, "base and size must be multiples of 8192 and 4096, not 0 and 4100"),
        ({"base": 4096, "size": 8192},
         "base and size must be multiples of 8192 and 4096, not 4096 and 8192"),
        ({"data_width": 48}, BUS.format(48)),
    ]),
    *(
        (unit, {}, [({"divisor": 3}, "divisor must be an integer in 4..65535, not 3")])
        for unit in (UartReceiver, UartTransmitter)
    ),
    (divisor_of, {"clock_hz": 25_000_000}, [
        ({"baud": n}, f"baud must be within 2 % of 25000000 / n, n in 4..65535, not {n}")
        for n in (25_000_000, 4_500_000, 300)
    ]),
    (FloatLanes, {"lanes": 4, "sum_bits": 40}, [
        ({"lanes": 0}, "lanes must be an integer in 1..32, not 0"),
        ({"lanes": 33}, "lanes must be an integer in 1..32, not 33"),
        ({"sum_bits": 1}, "sum_bits must be an integer in 2..63, not 1"),
        ({"sum_bits": 64}, "sum_bits must be an integer in 2..63, not 64"),
        ({"bounds": 3}, "bounds must be one of 1, 2, 4, not 3"),
        ({"bounds": 8}, "bounds must be one of 1, 2, 4, not 8"),
        ({"sinks": 0}, "sinks must be an integer in 1..4, not 0"),
        ({"parts": 33}, "parts must be an integer in 1..32, not 33"),
    ]),
    *(
        (EmitRows, {"plan": EMITTERS[sizes]}, [
            ({"vectors": count}, f"vectors must be {fits}, not {count}")
        ])
        for sizes, fits, count in (
            ((8, 64), "1", 2), ((4, 256), "one of 1, 2", 3), ((4, 512), "one of 1, 2, 4", 8)
        )
    ),
    (ToFloat, {}, [
        ({"sum_bits": 1}, "sum_bits must be an integer in 2..63, not 1"),
        ({"sum_bits": 64}, "sum_bits must be an integer in 2..63, not 64"),
    ]),
    (BlockBuffer, {"beat": 64, "elements": (5,), "side": 8, "vectors": 1}, [
        ({"beat": 4}, "beat must be an integer in 8..1024, not 4"),
        ({"elements": ()}, "len(elements) must be an integer in 1..4, not 0"),
        ({"elements": (5, 1)}, "elements[1] must be an integer in 2..64, not 1"),
        ({"side": 33}, "side must be an integer in 1..32, not 33"),
        ({"vectors": 3}, "vectors must be a power of two up to side 8, not 3"),
        ({"vectors": 16}, "vectors must be a power of two up to side 8, not 16"),
    ]),
    (Credit, {}, [
        ({"most": 0}, "most must be an integer in 1..255, not 0"),
        ({"most": 256}, "most must be an integer in 1..255, not 256"),
    ]),
    (StreamFifo, {"shape": unsigned(1)}, [
        ({"depth": 0}, "depth must be an integer in 1..65536, not 0"),
        ({"depth": 65537}, "depth must be an integer in 1..65536, not 65537"),
    ]),
    (times, {"value": Signal(3)}, [({"factor": -1}, "factor must be at least 0, not -1")]),
    (RowProduct, {"a_bits": 4, "b_bits": 4, "signed": False, "width": 8}, [
        ({"a_bits": 1}, "a_bits must be an integer in 2..32, not 1"),
        ({"b_bits": 33}, "b_bits must be an integer in 2..32, not 33"),
        ({"width": 97}, "width must be an integer in 2..96, not 97"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    "unit, good, change, message",
    [
        pytest.param(unit, good, *refused, id=f"{unit.__name__}: {refused[1]}")
        for unit, good, changes in REFUSED
        for refused in changes
    ],
)
def test_message(unit, good, change, message):
    with pytest.raises(ValueError, match=exactly(message)):
        unit(**good | change)
