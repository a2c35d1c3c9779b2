"""Faults in what knows which blocks are on chip, and where tiles of sums lie."""

from mutation.plant import Fault
from mutation.planted_units import BITS

_RING = "ring_space_blocks512"  # of what streams
_HELD_MOVES = r"= held_at;\s+if \(_\d+_\) begin\s+_\d+_"

RINGS = (
    Fault("a ring always has room", _RING, r"room = (.+);", "1'h1"),
    Fault("a slab given back, its place not", _RING, r"\n    if \((give)\) begin", "1'h0", True),
    Fault("the oldest slab goes on block by block", _RING, r"= oldest \+ (length);", "10'h001"),
    # Where tiles of sums lie.
    Fault("T tiles stay", "tile_places_turned", rf"= (lanes_outermost \| tile{BITS});", "1'h0"),
    Fault("lanes go on by a block", "tile_places_no_turned", rf"= l0 \+ (tile{BITS});", "1'h1"),
    Fault("dX keeps to its first rows", "tile_places_turned", r"= c0 \+ (tile.+);", "1'h0"),
    Fault("not back to what is kept", "tile_walk", r"= (stream_panel);\s+end", "stream_at"),
    Fault("what is held stands at one place", "tile_walk", rf"{_HELD_MOVES} = (.+);", "held_at"),
    Fault("what streams is loaded always", "tile_walk", r"= _\d+_ \| (first_l);", "1'h1"),
    Fault("nothing is ever free", "datapath", r"freed <= (_\d+_);", "0"),
    Fault("blocks are not waited for", "pass_walk", r"= _\d+_ \| (loaded__blocks__there);", "1'h1"),
    Fault("a token of each region", "fill", rf"word_last = _\d+_ & (head{BITS});", "1'h1"),
    Fault("asked for without room", "product_engine", r"requests_room = (.+);", "1'h1"),
    Fault("a slab too short", "setup", r"(nest_groups\[3\]) \?", "1'h0"),
    Fault("panels that do not fit", "command_fetch", r"if \((panels_fits)\) begin", "1'h1"),
    Fault("one tile in a panel", "panels", r"= (command\[\d+\]) \? own_streamed :", "1'h0"),
    Fault("one chunk in a panel", "panels", r"= ~ (own_contraction);", "24'h000000", True),
)  # fmt: skip
