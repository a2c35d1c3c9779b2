"""Faults placed by hand in the units of machines with other lanes, widths and numbers than those of
:mod:`mutation.planted_units`: by machine.
"""

from mutation.plant import Fault
from mutation.planted_units import BITS, CONSTANT, SOME

# More lanes than elements in a block: a word has parts of two.
PARTS = (
    # Beats of several blocks, which leave more slowly than they come. (That a block waits for the
    # one before, and a part for the end of the last one, no product needs: vectors leave as fast as
    # they come, and exponents come between. The buffer's own tests need it.)
    Fault("beats are taken without room", "block_buffer", rf"= (left < {CONSTANT});", "1'h1"),
    # Groups of fewer beats than blocks, which end inside a beat.
    Fault("a group is not waited for", "region_parse", r"= _\d+_ \| (groups__ready);", "1'h1"),
    Fault("the end of a part stays", "block_buffer",
          rf"= (blocks__payload{BITS}) \? {CONSTANT} : _", "1'h0"),
    Fault("floats beyond a row's end are not zero", "intake",
          rf"= ({SOME}) \? data__payload{BITS} :", "1'h1", True),
    Fault("stacks over each other", "reorder", r"write_addr\((written)\)", "{} & 3'h3", True),
    Fault("groups without an end", "reorder", r"o__payload\[24\] = (last);", "1'h0"),
    Fault("largest of the first lanes only", "intake", r"largest_1_of_2 = (_\d+_) \?", "1'h1"),
    Fault("second parts have no maximum", "gather", r"square\d_chunk1 = (_\d+_) \?", "1'h0", True),
    Fault("first part wins", "gather", r"= (square\d_chunk0 > square\d_chunk1);", "1'h1", True),
    Fault("second part has the first's exponent", "tile_quantiser",
          rf"lane2 \([^;]*exponent\((word{BITS})\)", "exponent0"),
    Fault("random bits of the first lane", "tile_quantiser",
          rf"lane3 \([^;]*random\((draws__payload{BITS})\)", "lane0_random"),
    Fault("exponents of one bank", "exponent_field", r"casez \((bank)\)", "{} & 1'h0"),
    Fault("second part's exponent not written", "exponent_field",
          rf"bank1_write_en = write_en & (write{BITS});", "1'h0"),
    Fault("saturated in the last lane lost", "tile_quantiser", r"\+ (lane3_saturated);", "1'h0"),
)  # fmt: skip

# Several lanes of a vector group.
LANES = (
    Fault("a column's exponent of the first lane", "tile_quantiser", r"exponent3_t = (_\d+_);",
          "exponent0_t"),
    Fault("last lane's exponent not written", "exponent_field_copy1",
          rf"bank3_write_en = write_en & (write{BITS});", "1'h0"),
    Fault("NaN in the last lane not flagged", "tile_quantiser", r"\{ (lane3_nan),", "1'h0"),
    Fault("first of two lanes is the larger", "gather", rf"= (values{BITS} > values{BITS});",
          "1'h1", True),
)  # fmt: skip

# Tiles of the fused pass narrower than a group.
NARROW = (
    Fault("only the first row begins within a group", "region_parse",
          rf"_\d+_ = (region{BITS});\s+if", "{} & 1'h0"),
    Fault("exponents begin with the group", "region_parse", r"= data__payload\S* >> (_\d+_);",
          "6'h00"),
    # Banks, whose words have two vectors.
    Fault("the first vector of a word, streamed", "bank_6_depth1024", r"z \((number)\)", "1'h0"),
    Fault("the last vector of a word, held", "bank_11_depth16384", r"z \((number)\)", "1'h1"),
    Fault("a vector of the word that is asked for now", "bank_6_depth1024", r"z \((number)\)",
          "read_addr[0]"),
)  # fmt: skip

# Draws of state and inverse, an element at a time.
ROWS = (
    Fault("the inverse is never taken", "lane_states", r"inverted\d = (.+);", "1'h0"),
    Fault("the inverse is not exchanged in a pair", "lane_states", r"inverted0 = .+ \^ (odd);",
          "1'h0"),
    Fault("pairs begin alike in every row", "lane_states", r"inverted0 = (state\[3\]) \^", "1'h0"),
    Fault("the inverse stays on its side", "lane_states", rf"{SOME} = state\[3\] \^ (odd);",
          "1'h0"),
    Fault("registers step in every column", "lane_states", r"= (odd) \? ", "1'h1"),
    Fault("states written without a word", "row_draws", r"write_en\((move)\)", "1'h1"),
    Fault("a row's state is lost between tiles", "row_draws", r"write_en\((move)\)", "1'h0"),
    Fault("rows share a state", "row_draws", rf"write_addr\((word{BITS})\)", "{} & 1'h0"),
    Fault("the row above goes on", "row_draws", r"= (goes_on) \? last", "1'h1"),
    Fault("a state is read before it is written", "row_draws", r"= (goes_on) \? last", "1'h0"),
    Fault("the second copy starts as the first", "start_states",
          r"states_i__payload\[6:4\] = (.+);", "states_i__payload[2:0]"),
    Fault("rows of both copies begin alike", "start_states", r"states_i__payload\[7\] = (.+);",
          "states_i__payload[3]"),
    Fault("registers start at 0", "start_states", rf"= {SOME}{BITS} \+ (1'h1);", "1'h0", True),
    Fault("every step starts alike", "start_states", r"\.high\((step)\)", "{} & 1'h0"),
    Fault("rows of the tensor before go on", "start_states", rf"{SOME} = (32'd0);", "row"),
)  # fmt: skip

# Likewise, several elements at a time.
PAIRS = (
    Fault("the inverse is never taken", "lane_states", r"inverted\d = (.+);", "1'h0", True),
    Fault("every pair inverts the same element", "lane_states", r"inverted2 = (.+);", "inverted0"),
    Fault("the second pair has the first one's state", "lane_states", r"= (.+) \^ \{ inverted2,",
          "state[2:0]"),
    # It shows where a row goes on with nothing drawn between, as one alone in its blocks does.
    Fault("registers step without a word", "row_draws",
          rf"if \((move)\) begin\s+{SOME} = memory_write_data;", "1'h1"),
)  # fmt: skip

# Tensors in planes.
PLANES = (
    # The monitor.
    Fault("cycles without elements are monitored", "monitor", r"= (en) \?", "1'h1", True),
    Fault("the monitor forgets a lane", "monitor", r"\+ (differs\[3:2\]);", "2'h0"),
    Fault("the lowest bit of a sum is stuck", "monitor", r"= (more_num\[31:0\]) \|", "{} | 32'h1"),
    # Storing.
    Fault("maxima of the planes behind the first not written", "image_writer",
          r"= (maximum_plane == planes);", "1'h1", True),
    Fault("all planes of a group at one place", "image_writer",
          rf"\* (planes_group_o__payload{BITS});", "2'h0"),
    Fault("planes begin with the first again", "plane_turns",
          r"elements_shown = (elements_first) \?", "1'h1"),
    # Reading.
    Fault("planes swapped", "region_requests", r"plane_length \* (table_plane\[0\]);",
          "({} ^ 1'h1)"),
    Fault("a chunk's deficit off by two", "deficits", r"= (plane\[0\]) \* 2'h2;", "({} ^ 1'h1)",
          True),
    Fault("second plane from the west read over the first", "pass_walk",
          rf"{SOME} \* (chunks__payload{BITS});", "2'h0"),
    Fault("second plane from the west put over the first", "region_requests",
          rf"{SOME} \* (chunk{BITS});", "2'h0"),
    # The walk.
    Fault("a slab freed one plane early", "tile_walk", rf"= {SOME} & (last_held);", "1'h1"),
    Fault("planes not there again", "tile_walk", rf"= (ends_stream) & {SOME};", "1'h0"),
    Fault("a slab loaded for each plane held", "tile_walk", rf"= {SOME} & (first_held);", "1'h1",
          True),
    Fault("done with the first plane", "tile_walk", rf"= {SOME} & (ends_stream);", "first_stream"),
)  # fmt: skip
