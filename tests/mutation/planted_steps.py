"""More faults placed by hand in the vector unit: when instructions begin, what is refused, tails of
tensors; and the modules in which random ones are drawn."""

from mutation.plant import Fault
from mutation.planted_units import BITS, CONSTANT, SOME

BEGINNINGS = (
    # When an instruction may begin.
    Fault("a block ends before it is there", "issue", rf"= used & ({SOME});", "4'h0", True),
    Fault("room is not awaited", "issue", rf"= {SOME} \| (room);", "1'h1", True),
    Fault("all rows of a special at once", "issue", r"= (special_age >= [^;]+);\s+assign whole",
          "1'h1"),
    Fault("blocks are given back again", "issue", rf"give_back = ({SOME}) &", "1'h1"),
    Fault("a special's result is not looked for", "issue",
          rf"= \{{ {SOME}, {SOME}, {SOME} \}} & (\{{ {SOME}, {SOME}, {SOME} \}});", "3'h0"),
    Fault("a special's result is lost with the next", "issue",
          rf"if \(i__payload{BITS}\) begin\s+{SOME} = ({SOME});", "1'h0"),
    Fault("any output is given", "issue", rf"= go & (i__payload{BITS});", "1'h1"),
    Fault("panels are read before they are written", "issue",
          rf"< 4'hb;\s+assign {SOME} = ({SOME}) & ", "1'h0", True),
    # Which rows.
    Fault("what has no register is kept", "result_places", r"register_en = active & (kept\[0\]);",
          "1'h1"),
    Fault("rows of panels out of order", "result_places", rf"= kept{BITS} \+ (position{BITS});",
          "{} ^ 2'h1"),
    Fault("pairs of rows of panels", "vector_core", rf"= issue_slot{BITS} \+ (row_at);",
          "{} & 2'h2"),
    # Operands.
    Fault("rows are not numbered", "operands", rf"5'h18:\s+{SOME} = ({SOME});", "32'd0", True),
    Fault("constants are 1", "operands", rf"5'h14:\s+{SOME} = (slot{BITS});", "32'h3f800000", True),
    Fault("another stream is b", "operands", rf"= of_b\[3\] \? (streams{BITS}) :", "streams[31:0]",
          True),
    # Prefetch.
    Fault("what is done in no block is begun", "prefetch", r"= \| (left);", "1'h0", True),
)  # fmt: skip

ROUNDINGS = (
    Fault("subnormals are true", "lane", rf"= (\| b{BITS});", "(| b)"),
    Fault("lanes ignore keep", "lane", r"= ~ (keep);", "1'h0"),
    Fault("ties of products upwards", "float_mul", rf"= ({SOME}\[0\]) \| reduced", "1'h1"),
    Fault("small products not flushed", "float_mul", rf"nothing_0 = ({SOME}) \|", "1'h0"),
    Fault("large products are numbers", "float_mul", r"infinite_1 = (.+);", "1'h0"),
    Fault("what is below the half ignored", "float_add", r"below = (.+);", "1'h0"),
    Fault("differences of nothing", "float_add", r"= (clear) \? 23'h000000", "1'h0"),
    # Special functions.
    Fault("a table's row is the next", "function_rows",
          r"casez \((index\[5:0\])\)\s+6'h00:\s+exp_c0", "{} + 6'h01"),
    Fault("exp has no end", "special_argument", rf"large_ = {SOME} & ({SOME});", "1'h0"),
    Fault("roots of negative numbers", "special_argument", rf"= a\[31\] & ({SOME});", "1'h0"),
    Fault("the last element of a block left out", "special_lanes", rf"given_next != ({CONSTANT});",
          "{} - 1'h1"),
    Fault("pairs of elements exchanged", "special_lanes", rf"chosen = rows_read_data >> ({SOME});",
          "{} ^ 32"),
)  # fmt: skip

TAILS = (
    # In.
    Fault("what lies beside the tensor is read", "row_unpack", r"inside_3 = (.+);", "1'h1"),
    Fault("all rows gathered are one", "gathered_rows", rf"(term \* number_left{BITS});", "40'h0"),
    # Out.
    Fault("ties of bf16 upwards", "row_pack", r"= (run_16\[16\]) \|", "1'h1"),
    Fault("NaN of bf16 is Inf", "row_pack", r"\? (17'h07fc0) :", "17'h07f80", True),
    Fault("masks of what is outside", "row_pack", rf"\? (block{BITS}) : 3'h0;", "3'h4", True),
    Fault("strobes of whole rows", "row_pack", rf"= 4'h3 < (block{BITS});", "3'h4", True),
    Fault("not a number, not told", "output_streams", r"not_finite = (.+);", "1'h0"),
    # Images.
    Fault("a line of an image goes on", "feed", r"order_last_col = (.+);", "1'h0"),
)  # fmt: skip

REFUSALS = (
    # What is refused.
    Fault("two instructions of an output", "program_scan", r"= (written_0 & .+);", "2'h0"),
    Fault("an output in no block", "program_scan", r"= & (written_0);", "2'h3"),
    Fault("two panels", "instruction_check", rf"= panels_10 & ({SOME}{BITS});", "4'h0"),
    Fault("bits that mean nothing", "instruction_check", r"= (\| word\[63:\d+\]);", "1'h0"),
    Fault("sources that are none", "instruction_check", rf"(word{BITS} > 5'h19);", "1'h0", True),
    Fault("constants beyond the last", "descriptor_check", rf"= is_constant & ({SOME});", "1'h0"),
    Fault("a constant is not finite, not told", "vector_engine", r"= (~ stops);", "1'h1"),
    Fault("two images", "vector_engine", rf"beyond = {SOME} \| ({SOME});", "1'h0"),
    # Commands.
    Fault("a slot of scales is not read", "conversions", r"\? 31'h3f800000 : (slots_largest);",
          "31'h3f800000"),
    Fault("a slot of scales is stale", "scale_slots", r"= (word != step);", "1'h0"),
    Fault("every tensor goes on", "chain_setup", rf"moved = {SOME} \| (slot{BITS});", "1'h1"),
    Fault("a next before its step's end", "command_fetch",
          rf"4'h9:\s+if \(({SOME})\) begin\s+step_set", "1'h1"),
    # The loss's scale.
    Fault("the scale never grows", "loss_scale_rule", r"ends = (.+);", "1'h0"),
    Fault("the scale grows without end", "loss_scale_rule",
          rf"(\$signed\({SOME}\) > \$signed\(.+\));", "1'h0"),
    Fault("the scale is its inverse", "loss_scale_rule", rf"= inverse \? ({SOME}) :", "9'h000"),
    # The walk.
)  # fmt: skip

STEPS = BEGINNINGS + ROUNDINGS + TAILS + REFUSALS

MODULES = (
    "block_walk",
    "chain_setup",
    "chain_walk",
    "conversions",
    "decode",
    "descriptor_check",
    "feed",
    "first_place",
    "float_add",
    "float_mul",
    "gathered_rows",
    "input_fill",
    "input_requests",
    "input_streams",
    "instruction_check",
    "issue",
    "lane",
    "loss_scale_rule",
    "operands",
    "output_streams",
    "pack_bytes",
    "parabola",
    "prefetch",
    "product_walk",
    "program_scan",
    "row_pack",
    "row_unpack",
    "segment_requests",
    "special_argument",
    "special_lane",
    "special_lanes",
    "table_transfer",
    "vector_core",
    "vector_engine",
)
"""Modules that only a vector unit has. Not the tables of its functions, of which hours would be
needed to see each row."""
