"""Faults in the vector unit, in what sequences its commands, and in the scale of the loss."""

from mutation.plant import Fault
from mutation.planted_units import BITS, CONSTANT, SOME

BIT = r"\[\d+\]"

CORE = (
    Fault("lanes turned by the wrong distance", "operands", r"distance <= (.+);", "{} << 1"),
    Fault("rows turned by the wrong distance", "vector_core", r"row_at \^ (.+);", "{} << 1", True),
    Fault("keep ignored", "operands", r"keeps <= (.+);", "1'h0"),
    Fault("fresh in every block", "decode", rf"= word{BIT} & (block{BIT});", "1'h1"),
    Fault("fresh in no block", "decode", rf"= word{BIT} & (block{BIT});", "1'h0"),
    Fault("a is not negated", "operands", r"negate_a <= (.+);", "1'h0"),
    Fault("c is not negated", "operands", r"negate_c <= (.+);", "1'h0"),
    Fault("NaNs are negated", "operands", rf"= negate_c & ({SOME});", "1'h1", True),
    Fault("inside is everywhere", "operands", r"inside_\w <= (.+);", "1'h0", True),
    Fault("columns are all 0", "operands", r"column_\w <= (.+);", "1'h0", True),
    Fault("specials give what was before", "vector_core", r"special_op <= (op_0);", "{} ^ 1'h1"),
    Fault("specials are not awaited", "issue", rf"= i__payload{BIT} & (~?\w+);", "1'h0", True),
    Fault("inputs are not awaited", "issue", rf"= (! {SOME});", "1'h1", True),
    Fault("what was just written is read", "issue", rf"{BITS} < ({CONSTANT});", "4'h0", True),
    Fault("programs begin at 0", "prefetch", r"= (first) \+ number;", "8'h00"),
    Fault("once a line in every block, first", "prefetch",
          rf"when_\d+ == 2'h2;\s+assign {SOME} = {SOME} & (\S+);", "1'h1", True),
    Fault("once a line in every block, last", "prefetch",
          rf"when_\d+ == 1'h1;\s+assign {SOME} = {SOME} & (\S+);", "1'h1", True),
    Fault("by columns as by rows", "block_walk", r"down = (by_columns) \|", "1'h0"),
    Fault("a product's blocks as memory's", "chain_walk", rf"payload = (chain{BIT}) \?", "1'h0"),
)  # fmt: skip

LANES = (
    Fault("a product without its factor", "lane", rf"multiplier_b = ({SOME}) \?", "1'h0"),
    Fault("subnormals are true", "lane", rf"= (\| b{BITS});", "1'h1"),
    Fault("ties away", "float_add", rf"= ({SOME}\[0\]) \| below;", "1'h1"),
    Fault("what is shifted out is lost", "float_add", rf"aligned_4{BITS}, ({SOME}) \}}", "1'h0"),
    Fault("subnormal addends count", "float_add", rf"= (\| small_{BITS});", "1'h1"),
    Fault("Inf - Inf is Inf", "float_add", rf"= (a{BIT} \^ c{BIT});", "1'h0", True),
    Fault("Inf times 0 is a number", "float_mul", rf"nan = {SOME} \| ({SOME});", "1'h0"),
    Fault("another bias", "float_mul", rf"total = {SOME} - ({CONSTANT});", "7'h7e"),
)  # fmt: skip

SPECIALS = (
    Fault("a table row off by one", "special_lane", r"\.index\((.+)\)", "{} + 1'h1"),
    Fault("the quadratic term's sign", "special_lane", r"\.c2\((row\[.+)\)", "~ {}"),
    Fault("nothing is linear", "special_lane", r"\.c1\((row\[.+)\)", "{} & 1'h0"),
    Fault("no place of the leading one", "special_lane", r"= (~ \{ zeros_16.+);", "5'h00"),
    Fault("too large is no Inf", "special_lane", rf"= (.+ >= .+{CONSTANT}\));", "1'h0", True),
    Fault("results are positive", "special_lane", rf"= (ending{BIT}) & {SOME};", "1'h0"),
    Fault("rows of another function", "function_rows", r"= (which == 2'h3);", "1'h0"),
)  # fmt: skip

STREAMS = (
    Fault("rows of a block at the first's", "segment_requests", rf"at{BITS} \+ ({SOME});", "0"),
    Fault("bf16 is no format", "row_unpack", r"bf16 = (.+);", "1'h0"),
    Fault("masks are no format", "row_unpack", r" mask = (.+);", "1'h0"),
    Fault("labels are bits", "row_unpack", r"labels = (.+);", "1'h0"),
    Fault("rows of numbers are blocks", "row_unpack", r"per_row = (.+);", "1'h0"),
    Fault("columns outside are read", "row_unpack", r"inside_\d = (.+);", "1'h1", True),
    Fault("rows outside are written", "output_streams", r"= (inside_) & packs", "1'h1"),
    Fault("sums are written in every block", "output_streams",
          rf"= {SOME} & (packs_o__payload{BIT});", "1'h1", True),
    Fault("momentum read after it was written", "output_streams", rf"= chosen{BITS} \+ (offset);",
          "{} + 40'd16"),  # over what is read next
    Fault("watch is ignored", "output_streams", rf"not_finite = ({SOME}) &", "1'h0"),
    Fault("constants are not written", "output_streams", r"constant_en = (.+);", "1'h0"),
    Fault("places of steps are the first's", "chain_setup", r"locate_count .+ : (step);", "32'd0"),
    Fault("constants from their neighbours", "vector_tables",
          r"= constant_en \? (\w+|\{ [^}]+ \}) : take", "{} ^ 1'h1"),
)  # fmt: skip

CHECKS = (
    Fault("BAD_PROGRAM is not raised", "instruction_check", r" bad = (.+);", "1'h0"),
    Fault("BAD_STREAM is not raised", "descriptor_check", r" bad = (.+);", "1'h0"),
)  # fmt: skip

SEQUENCE = (
    Fault("the step is not added to a draw", "dispatch", r"payload\S+ \+ (step);", "32'd0"),
    Fault("images draw as in step 0", "conversions", r"= (step);", "32'd0"),
    Fault("a step more", "command_fetch", r"= (step_next < step_end);", "step_next <= step_end"),
    Fault("steps are not counted", "command_fetch", r"= (step) \+ 1'h1;", "{} - 1'h1"),
    Fault("a skip that does not skip", "dispatch", r"= command\S+ & (overflowed);", "1'h0", True),
    Fault("NaNs watched are forgotten", "dispatch", r"\| (vector__overflow);", "1'h0"),
    Fault("a stale scale slot", "vector_tables", r"puts_amax \| (amax_put_en);", "1'h0"),
    Fault("the scale grows at once", "loss_scale_rule", rf"ends = {SOME} & ({SOME});", "1'h1"),
    Fault("the scale falls to its smallest", "loss_scale_rule",
          rf"= ({SOME}) \? \{{ loss_scale\[15\]", "1'h1"),
    Fault("no inverse of the scale", "loss_scale_rule", rf"= (inverse) \? {SOME}", "1'h0"),
)  # fmt: skip

FEED = (
    Fault("images of rows outside", "feed", r"inside_ = (.+);", "1'h1"),
    Fault("images of a row's first word", "feed", rf"= (word) \* {CONSTANT};", "1'h0"),
)  # fmt: skip

VECTOR = CORE + LANES + SPECIALS + STREAMS + CHECKS + SEQUENCE + FEED
