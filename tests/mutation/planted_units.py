"""Faults placed by hand in the units, of kinds that a designer makes: by machine, as in
:mod:`mutation.planted`; and data that shows some of them.
"""

from collections.abc import Iterator

import numpy as np

from mutation.plant import Fault

BITS = r"\[\d+(?::\d+)?\]"
CONSTANT = r"\d+'h[0-9a-f]+"
ZERO = r"\d+'[dh]0+"
SOME = r"_\d+_"  # a temporary


def said_once() -> Iterator[dict[str, np.ndarray]]:
    """X, W and dY, for a scene of the check, of which one thing is said that nothing else hides: no
    number is normal; sums overflow in one column alone, an odd one, of Y, of dX or of dW."""
    ones = {"X": np.ones((5, 6)), "W": np.ones((6, 7)), "dY": np.ones((5, 7))}

    def scaled(**exponents: int) -> dict[str, np.ndarray]:
        found = {name: np.ldexp(ones[name], exponents.get(name, 0)) for name in ones}
        return {name: values.astype(np.float32) for name, values in found.items()}

    yield scaled(X=-130, W=-149, dY=-127)
    for large, other, place in (
        ("W", "X", np.s_[:, 1]),  # of Y
        ("W", "dY", np.s_[1]),
        ("dY", "X", np.s_[:, 1]),
    ):
        data = scaled(**{other: 64})
        data[large][place] = 2.0**100
        yield data


# Rows of squares; one product, one direction or both at once.
SQUARES = (
    # Intake.
    Fault("rows of tiles go on by a word", "intake", rf">= (tile__payload{BITS});", "{} + 1'h1"),
    Fault("tiles end with any row", "intake", rf"= (\S+ == tile__payload{BITS});", "1'h1"),
    Fault("tiles written to one half", "intake", rf"= (~ at_\w+{BITS});", "1'h0"),
    Fault("tiles written where none is free", "intake", r"= (\| free);", "1'h1", True),
    Fault("largest number of the tensor before", "intake", r"if \((restart)\)", "1'h0"),
    Fault("Inf is the largest number", "intake", rf"= (& write_data{BITS});", "1'h0", True),
    Fault("subnormals are numbers", "intake", rf"= (\| write_data{BITS});", "1'h1", True),
    Fault("the last number is the largest", "intake", r"= (\w+_[01] > amax);", "1'h1"),
    # The counters.
    Fault("counts go on after they are cleared", "counters", r"= (clearing) \?", "1'h0"),
    # The converter.
    Fault("tiles lost if the queue of those to read is full", "converter",
          r"walk_o__ready = _\d+_ & (to_read_i__ready);", "1'h1"),
    # Gather.
    Fault("draws of the row above go on", "draws", rf"read_addr\((cuts_o__payload{BITS})\)",
          "1'h0"),
    Fault("squares begin anew in each row", "gather", r"= (! row);", "1'h1", True),
    Fault("squares go on in the next tile", "gather", r"= (! row);", "1'h0", True),
    Fault("the last square is empty", "gather", r"square7_chunk0 = (_\d+_) \?", "1'h0"),
    Fault("squares given with the first row", "gather", r"= _\d+_ & (last_row);", "1'h1"),
    Fault("rows beyond the tensor have elements", "passes",
          rf"= (place_{BITS} < tile__payload{BITS});", "1'h1"),
    Fault("columns beyond the tensor have elements", "passes",
          rf"= ({SOME} < tile__payload{BITS});", "1'h1"),
    Fault("elements of the next row draw too far on", "passes", r"= offset \+ (cols);", "{} + 1'h1",
          True),
    Fault("tiles read from one half", "passes", rf"= (~ place_{BITS});", "1'h0"),
    Fault("all squares have the first's exponent", "tile_quantiser",
          r"squares__payload >> (_\d+_);", "{} & 1'h0"),
    Fault("padding is read", "tile_quantiser", rf"lane0_blank = (~ word{BITS});", "1'h0"),
    Fault("fields written to one half", "tile_quantiser", r"= (~ first__field_half);", "1'h0"),
    Fault("elements that wait counted again", "tile_quantiser",
          rf"= (late\d_valid) \? _\d+_ : {CONSTANT};", "1'h1", True),
    # Exponents.
    Fault("exponents read from one half", "exponent_field", r"= (~ half);", "1'h0"),
    Fault("exponents read before they are there", "exponent_field", r"= (\| full);", "1'h1", True),
    Fault("freed with the first exponent", "exponent_field", r"freed = read & (half_end);", "1'h1"),
    Fault("exponents written to the other half", "exponent_field", r"write_addr\(\{ (write_half),",
          "~ write_half"),
    # Packing.
    Fault("a beat more after a whole one", "packer", rf"= i__payload{BITS} & (_\d+_);", "1'h1"),
    Fault("bits beyond a beat lost", "packer", rf"= \{{ {ZERO}, ({SOME}{BITS}) \}};", "{} & 1'h0"),
    Fault("all classes as wide as X", "packer", r"z \((cls)\)", "2'h0", True),
    Fault("next group begins where the last ended", "pack_bytes", rf"ends = (i__payload{BITS}) \|",
          "1'h0"),
    # The image writer, and its maxima.
    Fault("all groups at one address", "image_writer", r"= address \+ (_\d+_);", "{} & 1'h0"),
    Fault("all classes as large as X", "image_writer", r"casez \((cls)\)", "2'h0", True),
    Fault("odd row has no maximum", "image_writer", r"= rows \+ (1'h1);", "1'h0", True),
    Fault("odd column has no maximum", "image_writer", r"= cols \+ (1'h1);", "1'h0", True),
    Fault("part of a row of groups not counted", "image_writer", r"= cols \+ (4'hf);", "1'h0",
          True),
    Fault("done before the last maxima", "image_writer", rf"= maxima_left == ({CONSTANT});", "2'h2",
          True),
    Fault("column goes on in the next row of tiles", "image_maxima",
          rf"= (group__payload{BITS} & group__payload{BITS});", "1'h0", True),
    Fault("last maximum not read", "image_maxima", r"= drained == (entries);", "{} - 1'h1"),
    Fault("columns have the rows' maxima", "image_maxima", r"= (of_columns) \?", "1'h0"),
    Fault("all tiles' columns at one place", "image_maxima",
          rf"columns_addr = \{{ (column{BITS}), number", "{} & 1'h0"),
    Fault("last exponent of a group is its row's", "image_maxima", r"= (! number);", "1'h1"),
    # Float lanes.
    Fault("what is held ignored", "float_lanes", r"= stream \+ (held);", "{} & 1'h0"),
    Fault("results twice as large", "float_lanes", r"\$signed\((offset)\)", "{} - 1'h1"),
    Fault("overflow of the last lane lost", "float_lanes", r"= (lane_1_overflow);", "1'h0"),
    # The lanes of both directions.
    Fault("a word read for which there is no room", "float_pipe", r"= ~ (east__full);", "1'h0"),
    Fault("columns among the rows", "float_pipe", r"= north__granted & (_\d+_);", "1'h1"),
    Fault("words of both directions", "float_pipe", r"east__may = _\d+_ & (_\d+_);", "1'h1"),
    Fault("scale of the other direction", "float_pipe", r"lanes_offset = (second)", "1'h0"),
    Fault("exponents of the other direction", "float_pipe", r"lanes_stream = (second)", "1'h0"),
    Fault("a result ends before its columns", "turn_tile", r"busy = (~ \w+);", "1'h0"),
    Fault("a piece without a place", "turn_tile", r"spans_in__ready = (~ \w+);", "1'h1"),
    # Parse.
    Fault("maxima of all chunks at one place", "region_parse", rf"= (region{BITS}) \* {CONSTANT};",
          "{} & 1'h0", True),
    Fault("last row of a region not parsed", "region_parse", r"last_row = row == (_\d+_);",
          "{} - 1'h1"),
    Fault("first beat of exponents lost", "region_parse", r"= data__valid & (_\d+_);", "1'h0"),
    # The buffer that turns blocks.
    Fault("blocks never turned", "block_buffer", rf"= (blocks__payload{BITS}) \? \{{ filled",
          "1'h0", True),
    Fault("blocks move on before they are whole", "block_buffer", r"= (count >= size);", "1'h1"),
    Fault("W is cut as X is", "block_buffer", r"size = (5'h08);", "5'h09"),
    # Regions.
    Fault("no maxima loaded", "region_steps", rf"= (chunk{BITS}) & chunk{BITS};", "1'h0", True),
    Fault("dY not turned", "region_steps", r"turned = (1'h1);", "1'h0", True),
    Fault("W goes by rows", "region_steps", r"by_column = (1'h1);", "1'h0", True),
    Fault("maxima of rows only", "region_steps", r"maxima_of_columns = (1'h1);", "1'h0", True),
    Fault("X for dY", "region_steps", rf"tensors{BITS} = (2'h2);", "2'h0", True),
    Fault("last maximum not loaded", "region_steps", r"rows = (c_blocks\S+);", "{} - 1'h1"),
    # Block targets.
    Fault("blocks lost that wait", "block_targets", r"= _\d+_ \| (blocks__ready);", "1'h1"),
    Fault("a group's first block is its last", "block_targets", r"= (left == 1'h1);", "1'h1", True),
    Fault("deficits wrap", "deficits", rf"= (\$signed\(own_difference\) > \$signed\({CONSTANT}\));",
          "1'h0"),
    Fault("zeros are inexact", "deficits", r"nonzero = (_\d+_) &", "1'h1"),
    Fault("deficits to the north below the east's maximum", "block_targets",
          r"= (lookup__north__value);", "lookup__east__value"),
    Fault("blocks after the first have no exponent", "block_targets",
          rf"\{{ group{BITS}, (group{BITS}) \}}", "{} & 1'h0", True),
    # The drain's walk.
    Fault("last vector of a tile not read", "drain_walk_north", r"(\{ 1'h0, _\d+_ \})",
          "({} + 1'h1)", True),
    Fault("sums read from one place", "drain_walk_no_north", r"= number \+ (1'h1);", "1'h0"),
    Fault("sums read beside additions", "drain_walk_no_north", r"= (taken) >> number", "2'h0"),
    Fault("sums made in one place", "pass_walk", r"= east_tile \+ (1'h1);", "1'h0"),
    Fault("sums to the north in one memory", "pass_walk", r"= north_tile \+ (1'h1);", "2'h2"),
    Fault("columns beyond the result stored", "drain_walk_north", rf"= ({SOME}{BITS} < {SOME});",
          "1'h0"),
    Fault("rows beyond the result stored", "drain_walk_north", rf"= ({SOME}{BITS} < {CONSTANT});",
          "1'h0"),
    Fault("half freed before its last word", "drain_walk_north", r"= (tiles__ready);", "steps"),
    # Dispatch.
    Fault("dX only", "dispatch", r"= (~ second);", "1'h0", True),
    Fault("NaN in W not flagged", "dispatch", r"= (converted_class == 1'h1);", "1'h0"),
    Fault("dW at dX's address", "dispatch",
          rf"= ({SOME}) \? command__payload{BITS} : command__payload{BITS};", "1'h0"),
    Fault("overflow is inexact", "dispatch", r"= multiplying & (\w+overflow);", "product__inexact"),
    Fault("underflows counted as saturated", "core", r"= (converter_saturated);",
          "converter_underflowed"),
    Fault("next backward begins with dW", "dispatch", r"_\d+_ = two & (_\d+_);", "1'h1"),
    # Hold and meet.
    Fault("deficits never swapped", "hold", r"\(swap\) begin\s+_\d+_ = (shadow_deficit_east);",
          "active_deficit_east"),
    Fault("directions exchanged", "meet", r"= (direction) \?", "~ direction"),
    Fault("inexact a bit too late", "meet", rf"deficit_0 > ({CONSTANT});", "{} + 1'h1"),
)  # fmt: skip

# Vector groups, in windows; two cells above each other, two lanes to the north.
WINDOWS = (
    # Gather.
    Fault("largest of a column is the one before", "gather", r"= (again) \?", "1'h0", True),
    Fault("a column has one group", "gather", r"= last_row \| (_\d+_);", "1'h0"),
    Fault("a row has one group", "gather", r"= row_end \| (_\d+_);", "1'h0"),
    Fault("a row's last group is empty", "gather", r"= (row_end) \|", "1'h0"),
    Fault("a column's last group is empty", "gather", r"= (last_row) \|", "1'h0"),
    Fault("largest in the other half", "gather", r"write_addr\(\{ (half), row", "~ half"),
    Fault("all groups of a row at its first's place", "field_word_copy0", r"address = \{ (run), at",
          "{} & 1'h0"),
    Fault("units of every second row lost", "field_word_copy0",
          rf"address = \{{ run, (at{BITS}) \}}", "1'h0"),
    # The image's maxima.
    Fault("second copy in the rows' maxima", "image_maxima", r"rows_add = took & (_\d+_);", "1'h1"),
    # Float lanes, one for both columns of a word, one after the other.
    Fault("scale of the first part", "float_pipe", r"= (north__held\[15:8\]);", "north__held[7:0]"),
    Fault("poison of the first part", "float_pipe", r"lanes_poison = part \? (poison_following) ",
          "north__poison[0]"),
    # Regions, parse, block targets.
    Fault("blocks of the next bank", "block_targets", rf"= row_slice \+ (group{BITS});", "0"),
    Fault("bank of the row, not of the column", "block_targets", rf"= (group{BITS}) \? col_bank",
          "1'h0"),
    Fault("slice of the row, not of the column", "block_targets", rf"= (group{BITS}) \? col_slice",
          "1'h0"),
    # The drain's walk.
    Fault("maxima of another tile", "drain_walk", rf"= (tiles__payload{BITS}) \* {CONSTANT};",
          "{} & 1'h0", True),
    Fault("groups of lanes not counted", "drain_walk", r"= sums \+ (_\d+_);", "1'h0"),
    Fault("a span for each lane", "drain_walk", r"(if \(steps\) begin\s+_\d+_ = 1'h0);", "1'h1"),
    # Hold and meet.
    Fault("rows not counted on the way north", "hold", rf"= load{BITS} - (1'h1);", "1'h0"),
    Fault("extent never swapped", "hold", r"\(swap\) begin\s+_\d+_ = (shadow_extent);",
          "active_extent"),
    Fault("poison never swapped", "hold", r"\(swap\) begin\s+_\d+_ = (shadow_poison_north_1);",
          "active_poison_north_1"),
    Fault("extent seen one too early", "meet", rf"= {SOME} > ({CONSTANT});", "{} - 1'h1"),
    Fault("zeros of the first lane", "meet", rf"both_1 = vector{BITS} & (block{BITS});", "both_0"),
)  # fmt: skip

# A header, a tensor's exponent, two passes over each tensor; vector groups and squares.
TWO_LEVELS = (
    # Intake and converter.
    Fault("done with the first column of tiles", "intake", rf"tile__ready & (tile\S+{BITS})",
          "1'h1"),
    Fault("tiles kept while the largest is sought", "intake", r"= (~ scan);", "1'h1", True),
    Fault("second look forgotten", "converter", r"= (intake_done) & scan;", "1'h0", True),
    Fault("strips' fields in one half", "tile_quantiser", r"= (~ second__field_half);", "1'h0"),
    Fault("strips read from one half", "turned_reorder", r"= (~ half);", "1'h0"),
    Fault("a strip ends with its first group", "copy_turns",
          rf"second_groups_o__ready = _\d+_ & (second_exponents_o__payload{BITS});", "1'h1"),
    # The image writer.
    Fault("second copy among the first's groups", "image_writer",
          rf"= (groups_o__payload{BITS}) \? _\d+_{BITS} : here", "1'h0"),
    Fault("columns' maxima at the rows' place", "image_writer", r"= (_\d+_) \? locate_t_a", "1'h0"),
    Fault("tiles twice as far", "image_writer", rf"= tile \+ ({CONSTANT});", "{} << 1"),
    Fault("T of the header one less", "image_writer", rf"= scale - ({CONSTANT});", "{} + 1'h1"),
    # The drain.
    Fault("all sums of one port", "drain_walk_north", r"= read_port \+ (1'h1);", "1'h0"),
    Fault("held maxima by lane only", "drain_walk_north", r"if \((held_by_row)\)", "1'h0"),
    # Hold and meet.
    Fault("significand never swapped", "hold", r"\(swap\) begin\s+_\d+_ = (shadow_significand_1);",
          "active_significand_1"),
    Fault("zeros of the first lane", "meet", rf"both_1 = vector{BITS} & ({SOME});", "both_0"),
)  # fmt: skip
