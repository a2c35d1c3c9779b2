"""Faults placed by hand in float accumulators: where chunks begin and end, how they are added."""

from mutation.plant import Fault
from mutation.planted_units import BITS, SOME

FLOATS = (
    # Where chunks begin and end.
    Fault("a chunk ends a slice early", "pass_walk", r"chunk_slice == (_\d+_);", "{} - 1'h1"),
    Fault("a chunk ends a slice late", "pass_walk", r"chunk_slice == (_\d+_);", "{} + 1'h1"),
    Fault("chunks never end before a contraction", "pass_walk", r"= (chunk_slice == .+);", "1'h0"),
    Fault("fused chunks never do", "pass_walk", r"= (fused_slice == .+);", "1'h0"),
    Fault("the last chunk of a tile is not added", "pass_walk", r"chunk_ends = (.+) \|", "1'h0"),
    Fault("nor that of a fused one", "pass_walk", r"fused_ends = (last_l) \|", "1'h0"),
    Fault("a slice goes on in the next chunk", "pass_walk", r"(chunk_ends) \?", "1'h0"),
    Fault("floats begin anew in every chunk", "pass_walk", r"chunk_first <= (\w+);", "1'h1"),
    Fault("those of the fused pass too", "pass_walk", r"fused_first <= (\w+);", "1'h1"),
    # What is added to what.
    Fault("a chunk is in the next one too", "port_floats", rf"= (~ named{BITS});", "1'h1", True),
    Fault("floats of the tile before", "port_floats", r"= (~ stage_2_fresh);", "1'h1", True),
    Fault("a chunk is added twice", "port_floats", r"= stage_[25]_en & (\w+);", "1'h1", True),
    Fault("poison is lost with a chunk", "port_floats", r"= (chunk_poison) \|", "{} & 4'h0"),
    Fault("poison is lost in a chunk", "port_floats", rf"= (before_{BITS}) \|", "{} & 4'h0"),
    Fault("lost bits are not told", "port_floats", rf" inexact = {SOME} & (.+);", "1'h0"),
    Fault("those of a chunk are not", "chunk_lane", r"= (inexact_rounded) \|", "1'h0"),
    # Roundings.
    Fault("ties of chunks upwards", "round_sum", rf"= shifted_1{BITS} & ({SOME});", "1'h1", True),
    Fault("negative ties towards 0", "round_sum", rf"= shifted_1{BITS} \| ({SOME});", "1'h0"),
    Fault("negative chunks lack a unit", "round_sum", rf"up = \S+ \? ({SOME}) :", "1'h0"),
    Fault("what is below the half ignored", "round_sum", r"beyond = (.+);", "1'h0"),
    Fault("ties of sums upwards", "add_floats", rf"up = \S+ & ({SOME});", "1'h1"),
    Fault("what is moved out is lost", "add_floats", rf"= aligned_8{BITS} \| (\w+);", "1'h0"),
    Fault("a difference lacks a unit", "add_floats", r"= _\d+_ \+ (_\d+_);", "1'h0"),
    Fault("the sign of the other number", "add_floats", rf"\{{ (added{BITS}), _\d+_", "~{}"),
    Fault("a carry does not count", "add_floats", rf"= added{BITS} \+ (1'h1);", "1'h0"),
    # The drain.
    Fault("exponents ignored at the drain", "float_lanes", r"\{ 1'h0, (sums\S+) \}\)", "6'h01",
          True),
)  # fmt: skip
