"""Faults in what keeps two commands in flight: who has the bus, whose answers these are, which
product a stage is at, rings and rooms for sums from product to product."""

from mutation.plant import Fault
from mutation.planted_units import BITS

_RING = "ring_space_blocks512"  # of what streams
_CHUNKS = "pass_walk_chunks__valid ="
_ENDED = r"convert__done\) begin\s+_\d+_ = 2'h0;\s+end\s+"
_CONVERTS = rf"= converts_now;\s+if \({_ENDED}if \(convert_starts\) begin\s+_\d+_"

FLIGHT = (
    Fault("everything is ahead", "dispatch", r"due = command__valid & (_\d+_);", "1'h1"),
    Fault("nothing is ahead", "dispatch", r"(command__payload\[\d+\]) & _\d+_;", "1'h0"),
    Fault("answers are not awaited", "dispatch", r"_\d+_ & (answered);", "2'h3"),
    Fault("one number for all conversions", "dispatch", rf"{_CONVERTS} = (_\d+_);", "2'h1"),
    Fault("no answer counts", "core", r"_\d+_ = (answered) &", "1'h0", True),
    Fault("conversions ask for nothing", "core", r"asked_0 = _\d+_ \+ (_\d+_);", "1'h0"),
    Fault("the other's record", "flight", r"older_for_execute <= (.+);", "1'h0"),
    Fault("the drain's record", "flight", r"older_for_north <= (.+);", "1'h0"),
    Fault("tiles of either end", "flight", r"= east__closes & (_\d+_);", "1'h1"),
    Fault("more tiles than maxima", "flight", r"room = (.+);", "1'h1"),
    Fault("never anew", "flight", r"load__anew = (.+);", "1'h0"),
    Fault("ready too early", "flight", r"ready = (.+);", "1'h1"),
    Fault("a drain stays at its product", "flight", r"= (east__waits) &", "1'h0"),
    Fault("chunks of the next product", "product_engine", rf"{_CHUNKS} \w+ & (\w+);", "1'h1"),
    Fault("what is kept begins anywhere", "tile_walk", r"stream_on_grid = (.+);", "1'h1"),
    Fault("what is kept follows other slabs", "tile_walk", r"held_on_grid = (.+);", "1'h1"),
    Fault("over slabs of the product before", _RING, r"clear = (.+);", "1'h1"),
    Fault("below the oldest twice", _RING, r"wrapped = (.+);", "1'h0"),
    Fault("the length of the next product", _RING, r"= oldest \+ (length);", "slab"),
    Fault("the product's first slab is not the oldest", _RING, r"= (left == 1'h1);", "1'h0"),
    Fault("room for sums is always free", "sum_room", r"free = (.+);", "1'h1"),
    Fault("whole memories of sums as halves", "sum_room", r"= halves\[1\] & (\w+);", "1'h1"),
    Fault("beats of another unit", "read_share", r"0__beats__valid = (.+);", "beats__valid"),
    Fault("reads of the other command", "read_share", r"= (commands__1);", "1'h0"),
    Fault("far ahead beside a product", "read_limit", r"open_ = (.+);", "1'h1"),
    Fault("asked for too early", "gathered_writes", r"requests__valid = \w+ & (\w+);", "1'h1"),
    Fault("refused at once", "command_fetch", r"_\d+_ = (! flying);", "1'h1", True),
    Fault("the error's index", "command_fetch", r"\? (behind) : 3'h0;", "3'h0"),
    Fault("commands outside the window", "command_fetch", r"inside_ <= (.+);", "1'h1"),
    Fault("a failed command is run", "command_fetch", r"if \((failed)\) begin", "1'h0"),
    Fault("one burst answers all", "axi_writer", rf"ended & (open_o__payload{BITS});", "1'h1"),
)  # fmt: skip
