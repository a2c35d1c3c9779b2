"""The machines whose Verilog gets faults, and the faults that are placed by hand.

Patterns find expressions by the names of signals. Numbers of temporaries, bits and widths change
with every line of the sources and are never named. Another fault is another line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from diastole.config.file import from_document
from diastole.config.keys import AccumulatorConfig, ArrayConfig, BusConfig, Config, FormatConfig
from mutation import check
from mutation import planted_shapes as shapes
from mutation import planted_units as units
from mutation.plant import Fault, Planted
from mutation.planted_flight import FLIGHT
from mutation.planted_floats import FLOATS
from mutation.planted_rings import RINGS
from mutation.planted_steps import MODULES
from mutation.planted_steps import STEPS as MORE
from mutation.planted_units import BITS, CONSTANT
from mutation.planted_vector import VECTOR
from mutation.random_faults import SEED, random_faults
from mutation.scenes_of_cores import SCENES_OF_CORES
from mutation.scenes_of_programs import SCENES_OF_PROGRAMS
from mutation.scenes_of_streams import SCENES_OF_STREAMS
from mutation.verilog import Source
from support import products as p


@dataclass(frozen=True)
class Machine:
    """A machine, the faults placed by hand that its check must notice, how many random ones are
    drawn beside them, in ``modules`` alone unless it is empty, and the check's scenes."""

    config: Config
    faults: tuple[Fault, ...] = ()
    random: int = 0
    modules: tuple[str, ...] = ()
    scenes: tuple[check.Scene, ...] = check.SCENES

    @property
    def name(self) -> str:
        return self.config.name

    def also(self, faults: tuple[Fault, ...]) -> "Machine":
        return replace(self, faults=self.faults + faults)

    def drawn(self, sources: Mapping[str, Source], seed: int = SEED) -> list[Planted]:
        """Its random faults."""
        chosen = {name: sources[name] for name in self.modules or sources}
        return random_faults(chosen, seed=seed, count=self.random)


QUANTISER_FAULTS = (
    Fault("no saturation", "lane_quantiser", r"= (above\d) \?", "1'h0", True),
    Fault("ties away from zero", "lane_quantiser", rf"= _\d+_ \| (fixed{BITS});", "1'h1", True),
    Fault("random bit stuck", "lane_quantiser", r"\{ (random_\w+), 1'h1 \}", "{} | 8'h08"),
    Fault("underflow not counted", "lane_quantiser", r"_\d+_ = (underflowed_\w+);", "1'h0", True),
)  # fmt: skip
# What a cell keeps of a lane to the north.
LANE_MARKS = r"assign marks.+ = (active_{}_1);"

# One cell of four multipliers; mantissas so long that sums are rounded when they become floats.
SQUARES = Machine(
    Config(
        name="faulty",
        array=ArrayConfig(rows=1, cols=1, block=2),
        format=FormatConfig(x="bfp8", w="bfp7", dy="bfp8"),
        accumulator=AccumulatorConfig(fraction=12, headroom=8),
        bus=BusConfig(data_width=32),
    ),
    (
        # The cell.
        Fault("sign ignored", "multiplier", rf"negative = vector{BITS} \^ (held{BITS});", "1'h0"),
        Fault("product's top bit lost", "multiplier", r"magnitude = (.+);", "({}) & 16'h7fff"),
        Fault("shift drops its rounding bit", "align_add", r"\{ psum, (1'h1) \}", "1'h0"),
        Fault("held block's deficit ignored", "meet", rf"deficit_\d = vector{BITS} \+ (.+);",
              "{} & 1'h0"),
        Fault("shift not clamped", "meet", rf"= (deficit_\d{BITS}) \| _\d+_;", "1'h0", True),
        Fault("inexact never seen", "cell", rf"= before_{BITS} \| (met_\d{BITS});", "1'h0"),
        Fault("second row never swapped", "hold", r"if \(swap\) begin\s+_\d+_ = (shadow_row_1);",
              "active_row_1"),
        # Around the array.
        Fault("sums start anew in every chunk", "port_sums", r"= (~ fresh);", "1'h0", True),
        Fault("dX never turned back", "turn_tile", r"first <= (.+);", "1'h0"),
        Fault("last tile dropped", "tile_walk",
              rf"<= (product{BITS});(?:\n.* <= product{BITS};){{2}}", "({} << 1)"),
        Fault("lanes are never outermost", "tile_walk", rf"if \((product{BITS})\)", "1'h0", True),
        Fault("columns of tiles all begin at the first row", "drain_walk_no_north",
              rf"= tiles__payload{BITS} \| (lanes_outermost);", "1'h0"),
        Fault("T of a nest ignored", "setup", rf"= (! given_nest{BITS});\s", "1'h1", True),
        Fault("rows of T tiles of other lengths", "flight", r"<< (log_blocks);", "2'h3"),
        Fault("fused pass beyond its limits", "setup", r"fits <= (.+);", "1'h1"),
        # Results.
        Fault("result not rounded", "to_float", r"\bup = (.+);", "1'h0"),
        Fault("overflow is a number", "to_float", r"\{ fine\[0\], (31'h7f800000) \}",
              "31'h7f7fffff"),
        Fault("small results not flushed", "to_float", r"flushed = (.+);", "1'h0"),
        Fault("a negative sum lacks a unit", "to_float", rf"\bup = (fine{BITS}) \?", "1'h0"),
        # The converter.
        *QUANTISER_FAULTS,
        Fault("NaN not flagged", "lane_quantiser", r"_\d+_ = (nan_aligned\w+);", "1'h0"),
        Fault("row maxima begin anew with every group", "image_maxima",
              rf"= (group__payload{BITS} & fresh);", "1'h1"),
        Fault("column maxima begin anew with every row", "image_maxima",
              rf"columns_first = (group__payload{BITS}) &", "1'h1"),
        # Bad input.
        Fault("windows ignored", "burst_splitter", r"inside_ = (.+);", "1'h1"),
        Fault("errors of writes ignored", "axi_writer", rf"= ended & (axi__bresp{BITS});", "1'h0",
              True),
        Fault("errors of reads ignored", "axi_reader", r"= moved & (fatal);", "1'h0", True),
        Fault("any version accepted", "decoder", r"\bbad_version = (_\d+_);", "1'h0", True),
    ),
)  # fmt: skip

VECTORS_OF_4 = dict.fromkeys(("x", "w", "dy"), "1x4")

# Minifloats of three kinds in vector groups, with a window; NaN poisons. Two cells above each
# other, so that partial sums pass on.
WINDOWS = Machine(
    p.machine(
        "faulty_windows",
        ("mxfp8_e4m3", "mxfp6_e3m2", "mxfp8_e5m2"),
        rows=2,
        side=2,
        data_width=32,
        special="poison",
        block=VECTORS_OF_4,
        scale=dict.fromkeys(("x", "w", "dy"), "rceil"),
        accumulator={"fraction": 8, "headroom": 8},
    ),
    (
        # The cell.
        Fault("product not rounded", "multiplier", rf"\bup = (shifted{BITS});", "1'h0"),
        Fault("d of what is held ignored", "multiplier", rf"vector{BITS} \+ (held{BITS});",
              "{} & 1'h0"),
        Fault("d of a vector ignored", "multiplier", rf"= (vector{BITS}) \+", "{} & 1'h0"),
        Fault("extent never seen", "meet", rf"= (_\d+_ > {CONSTANT});", "1'h0"),
        Fault("extent of the first word only", "hold", r"= (word_extent > shadow_extent);", "1'h0"),
        Fault("extent of the last element only", "fill", rf"= (write{BITS} > write{BITS});", "1'h0",
              True),
        Fault("deficit of another lane", "hold", LANE_MARKS.format("deficit_north"),
              "active_deficit_north_0"),
        Fault("zeros of another lane", "hold", LANE_MARKS.format("nonzero"), "active_nonzero_0"),
        Fault("extent of a block goes on in the next", "hold", r"= (_\d+_) \| _\d+_;", "1'h0"),
        Fault("inexact lost in partial sums", "cell", r"= (psum_south\[\d+\]) \| met_\d", "1'h0"),
        # Poison.
        Fault("poison of another lane", "hold", LANE_MARKS.format("poison_north"),
              "active_poison_north_0"),
        Fault("poison from beyond the contraction", "stream_scratchpad",
              rf"= (read_\d_banks > {CONSTANT});", "1'h1", True),
        Fault("NaN elements do not poison", "fill", r"= (specials_\d) \|", "{} & 2'h0", True),
        Fault("NaN scales do not poison", "deficits", r"poison = (scale == 8'hff);", "1'h0"),
        Fault("poison of vectors lost", "meet", rf"= block{BITS} \| (.+);", "{} & 2'h0"),
        Fault("poison of what is held lost", "meet", rf"= (block{BITS}) \|", "{} & 2'h0"),
        Fault("poison lost in partial sums", "cell", r"= (psum_south\[\d+:\d+\]) \| met_\d",
              "{} & 2'h0"),
        Fault("poison lost in accumulators", "port_sums", rf"= (stored{BITS}) \| psums",
              "{} & 2'h0"),
        Fault("poison lost in results", "to_float", rf"if \((fine{BITS})\)", "1'h0", True),
        # Scales.
        Fault("rceil is floor", "lane_scale", rf"= (value{BITS} > {CONSTANT});", "1'h0", True),
        Fault("exponents too low for E8M0", "lane_scale", rf"= (_\d+_{BITS} < {CONSTANT});", "1'h0",
              True),
        Fault("largest exponent raised", "lane_scale", rf"= (value{BITS} == 8'hfe);", "1'h0", True),
        Fault("NaN is the largest of a row", "image_maxima", rf"= (i__payload{BITS} == 8'hff);",
              "1'h0"),
        # The converter.
        *QUANTISER_FAULTS,
        Fault("NaN becomes a number", "lane_quantiser", r"if \((nan_\w+)\)", "1'h0", True),
        Fault("Inf becomes a number", "lane_quantiser", r"if \((inf_\w+)\)", "1'h0", True),
        Fault("elements of no number", "lane_quantiser", r"assign poisoned = (.+);", "1'h0"),
        Fault("largest of a row is its last", "gather", r"= (_\d+_) \? 8'h00 : so_far;", "1'h1",
              True),
        Fault("largest of a column is its last", "gather", r"= (first) \? 8'h00 :", "1'h1", True),
        # The second copy.
        Fault("second copy not turned in its blocks", "turned_reorder",
              rf"read_addr\(\{{ half, count{BITS}, (count{BITS}), group", "count[1]"),
        Fault("second copy draws the first's bits", "draws",
              r"drawn\[63:32\] = \{ (hash0_hash\[55:48\])", "hash0_hash[63:56]"),
        Fault("second copy has the first's exponents", "tile_quantiser", r"\? (column_values) :",
              "row_value"),
    ),
)  # fmt: skip

# Minifloats with the tensor's scale, with a window, folded block by block; NaN poisons.
FOLDS = Machine(
    p.machine(
        "faulty_folds",
        ("fp8_e4m3", "e3m4", "fp8_e5m2"),
        side=2,
        data_width=32,
        special="poison",
        cell={"window": 16},
        accumulator={"fraction": 8, "headroom": 8},
    ),
    (
        Fault("fold not applied to the exponent", "field_word", rf"lowered0 = (_\d+_{BITS});",
              "exponents"),
        Fault("fold not applied to the code", "lane_quantiser", r"folded = (\{ code_late.+\});",
              "code_late1", True),
        Fault("folded into the code of NaN", "lane_quantiser", rf"= code_late\d{BITS} \+ (_\d+_);",
              "1'h0"),
        Fault("NaN scale lowered", "field_word", r"= (exponents != 8'hff);", "1'h1"),
        Fault("exponent of zeros lowered", "field_word",
              rf"= ({units.SOME}) \? {CONSTANT} : {units.SOME};", "1'h0"),
    ),
)  # fmt: skip

# NVFP4 with two scales for each group to choose from.
TWO_SCALES = Machine(
    p.machine(
        "faulty_scales",
        "nvfp4",
        side=2,
        data_width=32,
        block=VECTORS_OF_4 | {"w": "4x4"},
        scale=dict.fromkeys(("x", "w", "dy"), "four-over-six"),
        accumulator={"fraction": 8, "headroom": 8},
    ),
    (
        Fault("last trial not awaited", "passes", r"= (was_finding) \?", "1'h0", True),
        Fault("stored while scales are tried", "tile_quantiser",
              r"stored = late\d_valid & (_\d+_);", "1'h1"),
    ),
)  # fmt: skip

# NVFP4, W in squares and so in both directions; two cells side by side.
TWO_LEVELS = Machine(
    p.machine(
        "faulty_two_levels",
        "nvfp4",
        cols=2,
        side=2,
        data_width=32,
        block=VECTORS_OF_4 | {"w": "4x4"},
        accumulator={"fraction": 8, "headroom": 8},
    ),
    (
        # The cell.
        Fault("significand of what is held ignored", "meet", rf"= vector{BITS} \* (.+);", "4'h8",
              True),
        Fault("significand of vectors ignored", "meet", rf"= (vector{BITS}) \* ", "4'h8", True),
        Fault("significand of another lane", "hold", LANE_MARKS.format("significand"),
              "active_significand_0"),
        Fault("partial sums of the west lost", "cell", r"before_ = (psum_west);", "{} & 1'h0"),
        # The drain.
        Fault("T ignored at the drain, east", "drain_no_north", rf"\$signed\((exponents{BITS})\)",
              "{} & 1'h0", True),
        Fault("T ignored at the drain, north", "drain_north", rf"\$signed\((exponents{BITS})\)",
              "{} & 1'h0", True),
        Fault("subnormal scale has exponent 0", "drain_north",
              rf"= (! lookup__stream__value{BITS});", "1'h0"),
        Fault("T of the headers lost", "headers", r"exponents <= (_\d+_);", "{} & 1'h0"),
        # Scales.
        Fault("T is rounded down", "converter", rf"= (\w*amax{BITS} > {CONSTANT});", "1'h0", True),
        Fault("scale is truncated", "lane_scale", rf"= (shifted\d{BITS}) & _\d+_;", "1'h0", True),
        Fault("scale's tie upwards", "lane_scale", rf"= _\d+_ \| (shifted\d{BITS});", "1'h1", True),
        # The divider.
        Fault("rest of a division ignored", "divide", r"sticky = (.+);", "1'h0"),
        Fault("quotient below 1 not shifted", "divide", r"below = (.+);", "1'h0"),
        Fault("subnormal scale not shifted", "lane_quantiser", r"\{ 1'h0, (lead) \}", "2'h0"),
        Fault("subnormal scale's significand not shifted", "lane_quantiser", r"<< (lead);", "2'h0"),
        *QUANTISER_FAULTS,
        Fault("second copy draws the first's bits", "draws",
              r"drawn\[63:32\] = \{ (hash0_hash\[55:48\])", "hash0_hash[63:56]"),
        Fault("second header at the first's address", "image_writer",
              r"= (second) \? destination_t", "1'h0"),
    ),
)  # fmt: skip

# One cell, dY drawn at random, scales of whole tensors; a vector unit with a small panel.
STEPS = Machine(
    from_document(
        {
            "name": "faulty_steps",
            "array": {"rows": 1, "cols": 1, "block": 4},
            "format": dict.fromkeys(("x", "w", "dy"), "nvfp4"),
            "block": VECTORS_OF_4,
            "vector": {"enable": True, "panel_kib": 4},
        }
    ),
    VECTOR + MORE,
    random=100,
    modules=MODULES,
    scenes=SCENES_OF_PROGRAMS + SCENES_OF_CORES + SCENES_OF_STREAMS,
)

RANDOM = 182
"""So many that 150 are left when those are gone that change nothing."""
MACHINES = (
    SQUARES.also(units.SQUARES).also(RINGS).also(FLIGHT),
    WINDOWS.also(units.WINDOWS),
    FOLDS,
    TWO_SCALES,
    TWO_LEVELS.also(units.TWO_LEVELS),
    Machine(p.MACHINES["mixed"], shapes.PARTS),
    Machine(p.MACHINES["nano"], shapes.NARROW, RANDOM),
    Machine(p.MACHINES["mxfp8_e4m3"], shapes.LANES, RANDOM),
    Machine(p.MACHINES["nvfp4"], random=RANDOM),
    Machine(p.MACHINES["esru"], shapes.ROWS),
    Machine(
        p.machine("faulty_pairs", "bfp4", side=8, data_width=128, rounding=p.DRAWN["rounding"]),
        shapes.PAIRS,
    ),
    Machine(p.MACHINES["floats_odd"], FLOATS),
    Machine(p.MACHINES["fast"], shapes.PLANES),
    STEPS,
)
