"""Random faults that nothing notices, and why: by machine, what a fault is called and the reason.

``SAME``: the machine behaves as without the fault, but Yosys does not see why. Such a fault is not
live. ``UNREACHED``: live, but no test of minutes gets there.
Both have an entry ``EVERY`` for what is so on all machines.
"""

EVERY = "every machine"

SAME: dict[str, dict[str, str]] = {
    EVERY: {
        "decoder: o[368:353] = bits[311:296]: stuck: bit 4 at 0": (
            "chunks of more than 8 blocks are refused, and then nobody looks at the record"
        ),
        "packer: if (flush) flush next ...: swapped: o__valid instead of flush, word 1": (
            "groups of these machines end with a word that crosses no beat: nothing is flushed"
        ),
        "intake: at next = 9'h000 if rst: dropped: never": (
            "looked at beside `add`, which is reset"
        ),
        "gather: end_ next = end_: swapped: done instead of end_, word 1": (
            "looked at beside `adding`, which comes with the value"
        ),
    },
    "mxfp8": {
        "bank_48_depth512: number next = 2'h0 if rst: dropped: never": (
            "set with every read, and what was read before one is nothing"
        ),
        "image_writer: fsm_state next = 3'h0 if rst: constant: one more in 3'h0, number 1": (
            "before a start there is no group and no maximum, so the next state waits as well"
        ),
        "pass_run: if ((starts | loading)) row next ...: condition: inverted": (
            "one row of cells: its number is always 0"
        ),
        "pass_walk: passes__payload[62] = (1'h1): stuck: bit 0 at 0": (
            "that a pass uses the north; where it uses no east, it ends as if it did"
        ),
        "region_requests: (~ at_mantissas) = ~ at_mantissas (the 2th): operator: no ~, number 1": (
            "of groups that are read in part; chunks are whole groups"
        ),
        "region_steps: cols = 6'h00: constant: one more in 6'h00, number 1": (
            "of steps that read maxima, whose columns nobody looks at"
        ),
        "maxima: load_west_byte next = 4'h0 if rst: constant: one more in 4'h0, number 1": (
            "looked at in the cycle after a look-up, which sets it"
        ),
        "pass_run: held next = 16'h0000 if rst: dropped: never": (
            "one held word more after a reset, which the first pass writes again"
        ),
        "credit_most2: (count + 1'h1) = count + 1'h1: constant: one more in 1'h1, number 1": (
            "halves of the west scratchpad, which only the fused pass takes; there is none"
        ),
    },
    "nvfp4_32": {
        "fill: (buffer_o__payload[8] ? 2'h2 : 2'h0) = buffer_o__payload[8] ? 2'h2 : 2'h0: "
        "constant: bit 0 flipped in 2'h0, number 2": (
            "how far down a zero reaches, which only machines with windows look at"
        ),
        "block_targets: (((! group[4:3])) | (group[4:3] == 2'h2)) = ((! group[4:3])) | "
        "(group[4:3] == 2'h2) (the 3th): stuck: bit 0 at 1": (
            "whether what streams from the south is in vectors; only W is not, which is held"
        ),
        "headers: if (fsm_state) exponents next ...: swapped: (cls == 2'h2) instead of "
        "fsm_state, word 1": ("what a class that is not read leaves there counts in no product"),
        "pass_run: if ((starts | loading)) row next ...: condition: inverted": (
            "one row of cells: its number is always 0"
        ),
        "drain_walk_north: read_port next = 1'h0 if (tiles__valid & (~ started)): dropped: never": (
            "it is 0 at the end of every row"
        ),
        "converter: if ((intake_done & scan)) tensor_scale1 ...: swapped: intake_done instead of "
        "(intake_done & scan), word 1": ("taken only where both are"),
        "lane_quantiser: sign_divided_late3 next = 1'h0 if rst: constant: one more in 1'h0, "
        "number 1": ("of a number on its way, of which there is none in a reset"),
        "headers: (cls == 2'h2) = cls == 2'h2 (the 2th): stuck: bit 0 at 1": (
            "what was read for others stands in dY's place until its own comes, the last"
        ),
        "meet: (~ both_5) = ~ both_5: swapped: (direction ? block[5] : block[0]) instead of "
        "both_5, word 2": ("a vector without a scale is zeros, and so is its sum in any shift"),
        "region_requests: (~ at_mantissas) = ~ at_mantissas (the 2th): operator: no ~, number 1": (
            "of groups that are read in part; chunks are whole groups"
        ),
        "lane_scale: ({ (class0_step3_bit ? ({ _[3:0], value[17] } - 4'hc) : { 1'h0, "
        "(class0_step2_bit ? _ : { 1'h0, _[3:0], value[18] })[3:0], value[17] })[3:0], value[16] "
        "} - 4'hc) = { (class0_step3_bit ? ({ (class0_step2_bit ? _ : { 1'h0, _[3:0], value[18] "
        "})[3:0], value[17] } - 4'hc) : { 1'h0, (class0_step2_bit ? ({ _[3:0], value[18] } - "
        "4'hc) : { 1'h0, (class0_step1_bit ? _ : { 1'h0, _[3:0], value[19] })[3:0], value[18] "
        "})[3:0], value[17] })[3:0], value[16] } - 4'hc: stuck: bit 5 at 1": (
            "of a difference below 16 the lower bits are taken"
        ),
        "credit_most2: (count + 1'h1) = count + 1'h1: constant: one more in 1'h1, number 1": (
            "halves of the west scratchpad, which only the fused pass takes; there is none"
        ),
        "maxima: load_south_byte next = { load__south__index[0], load__south__index[10:9] } if "
        "load__enable: dropped: never": (
            "maxima of what streams from the south come eight to a block: whole words of four"
        ),
    },
    "diastole_nano": {
        "region_parse: (((_ ? _[6:0] : { 3'h0, _[3:0] })[0]) ? (_ + 1'h1) : { 1'h0, ((_[6:0] < "
        "_[3:0]) ? (region[18:12] - col)[6:0] : { 3'h0, (4'h8 - offset)[3:0] })[3:0] }) = "
        "(((_[6:0] < _[3:0]) ? (region[18:12] - col)[6:0] : { 3'h0, (4'h8 - offset)[3:0] })[0]) "
        "? (_ + 1'h1) : { 1'h0, (((region[18:12] - col)[6:0] < (4'h8 - offset)[3:0]) ? "
        "(region[18:12] - col)[6:0] : { 3'h0, (4'h8 - offset)[3:0] })[3:0] } (the 3th): "
        "constant: one more in 1'h0, number 1": (
            "the bit above those that a number of blocks has, which is cut off"
        ),
        "maxima: load_west_byte next = 4'h0 if rst: constant: one more in 4'h0, number 1": (
            "of the last look-up; nobody reads before the first one"
        ),
        "image_writer: fsm_state next = 3'h0 if rst: constant: one more in 3'h0, number 1": (
            "before a start there is no group and no maximum, so the next state waits as well"
        ),
    },
    "faulty_steps": {
        "input_requests: ((streams[364:361] == 4'h8)) = (streams[364:361] == 4'h8) (the 6th): "
        "swapped: _ instead of (streams[364:361] == 4'h8), word 1": (
            "worked out for all four inputs, of which only another one's bit counts here"
        ),
        "input_requests: (((streams[244:241] == 4'h8)) | (streams[244:241] == 4'h9)) = "
        "((streams[244:241] == 4'h8)) | (streams[244:241] == 4'h9) (the 5th): stuck: bit 0 at 0": (
            "worked out for all four inputs, of which only another one's bit counts here"
        ),
        "operands: (& b_2[30:23]) = & b_2[30:23]: stuck: bit 0 at 0": (
            "b is a factor or a condition: the sign of its NaN is in no result"
        ),
        "operands: ((& b_2[30:23]) & (| b_2[22:0])) = (& b_2[30:23]) & (| b_2[22:0]): swapped: "
        "inside_b instead of (& b_2[30:23]), word 1": (
            "likewise; and INSIDE is 1 or 0, which is no NaN"
        ),
        "float_mul: ({ 3'h0, ({ 1'h0, (reduced[25:0] | reduced[51:26]) } & { (reduced[25:0] | "
        "reduced[51:26]), 1'h1 })[25:0] } & ({ 1'h0, ({ 1'h0, _ } | _)[25:0], 2'h0 })) = { "
        "3'h0, ({ 1'h0, (reduced[25:0] | reduced[51:26]) } & { (reduced[25:0] | "
        "reduced[51:26]), 1'h1 })[25:0] } & ({ 1'h0, ({ 1'h0, (reduced[25:0] & reduced[51:26]) "
        "} | ({ 1'h0, _ } & _))[25:0], 2'h0 }): constant: one less in 3'h0, number 1": (
            "bits above the 26 that are taken of the sum"
        ),
        "row_unpack: (bytes & from_memory) = bytes & from_memory (the 74th): operator: | "
        "instead of &, number 1": ("a bit of a byte's number that is always 0"),
        "decode: (streams >> ((_ ? word[9:5] : word[14:10])[1:0] * 7'h78)) = streams >> "
        "(((word[4:0] >= 5'h10) ? word[9:5] : word[14:10])[1:0] * 7'h78) (the 2th): stuck: bit "
        "32 at 1": ("of a stream only its kind is looked at there"),
        "row_pack: run_8 = 128'h00000000000000000000000000000000: constant: bit 33 flipped in "
        "128'h00000000000000000000000000000000, number 1": (
            "of rows that are no bytes, of which none is taken then"
        ),
        "issue: (i__valid & (age >= 3'h7)) = i__valid & (age >= 3'h7): stuck: bit 0 at 0": (
            "why the core waits: told to who looks into the core, and nobody counts it"
        ),
        "row_unpack: (bf16 & from_memory) = bf16 & from_memory (the 56th): stuck: bit 0 at 1": (
            "a bit of a bfloat16's number that is always 0"
        ),
        "row_unpack: (bytes & from_memory) = bytes & from_memory (the 96th): stuck: bit 0 at 1": (
            "a bit of a byte's number that is always 0"
        ),
        "special_lane: ({ 15'h0000, ({ 7'h00, ({ 3'h0, _[34:0] } | _)[34:0] } | ({ 7'h00, "
        "_[34:0] } & _))[34:0] } | ({ 15'h0000, ({ 4'h0, _[34:0] } & { _[34:0], 4'hf })[34:0] "
        "} & ({ 7'h00, _[34:0], 8'h00 }))) = { 15'h0000, ({ 7'h00, ({ 3'h0, ({ 1'h0, _ } | "
        "_)[34:0] } | ({ 3'h0, _[34:0] } & _))[34:0] } | ({ 7'h00, ({ 2'h0, _[34:0] } & { "
        "_[34:0], 2'h3 })[34:0] } & ({ 3'h0, _[34:0], 4'h0 })))[34:0] } | ({ 15'h0000, ({ "
        "4'h0, ({ 2'h0, _[34:0] } & { _[34:0], 2'h3 })[34:0] } & { ({ 2'h0, _[34:0] } & { "
        "_[34:0], 2'h3 })[34:0], 4'hf })[34:0] } & ({ 7'h00, ({ 7'h00, _[34:0] } | _)[34:0], "
        "8'h00 })): constant: bit 13 flipped in 15'h0000, number 1": (
            "bits above the 35 that are taken of the sum"
        ),
        "row_unpack: (bytes & from_memory) = bytes & from_memory (the 98th): stuck: bit 0 at 0": (
            "a bit of a byte's number that is always 0"
        ),
        "row_unpack: (bf16 & from_memory) = bf16 & from_memory (the 181th): operator: | "
        "instead of &, number 1": ("bits above the 32 that a number has"),
        "parabola: ((~ { 4'h0, (linear_carries[49:24] ^ { 9'h000, bent_total[33:17] }) }) & { "
        "4'h0, linear_carries[49:24] }) = (~ { 4'h0, (linear_carries[49:24] ^ { 9'h000, "
        "bent_total[33:17] }) }) & { 4'h0, linear_carries[49:24] }: constant: bit 3 flipped in "
        "4'h0, number 1": ("the highest carry, which leaves the sum"),
        "row_unpack: (({ 15'h0000, (_) } | ({ _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, "
        "_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, "
        "_, _, _ } & _)) | { 15'h0000, ({ (bytes & from_memory), (bytes & from_memory), (bytes "
        "& from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory) } & { 1'h0, (_[7] ? _ : 9'h000)[7:0], (_ ? { "
        "1'h0, _[7:0] } : _)[6:0], 16'h0000 }) }) = ({ 15'h0000, (({ _, _, _, _, _, _, _, _, "
        "_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _ } & "
        "run_32[63:32])) } | ({ (bf16 & from_memory), (bf16 & from_memory), (bf16 & "
        "from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 "
        "& from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), "
        "(bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & "
        "from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 "
        "& from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), "
        "(bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & "
        "from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 "
        "& from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), "
        "(bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & "
        "from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 "
        "& from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), "
        "(bf16 & from_memory), (bf16 & from_memory), (bf16 & from_memory), (bf16 & "
        "from_memory) } & ({ 15'h0000, run_16[31:16], 16'h0000 }))) | { 15'h0000, ({ (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory), "
        "(bytes & from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & "
        "from_memory), (bytes & from_memory), (bytes & from_memory), (bytes & from_memory) } & "
        "{ 1'h0, ((_ ? { 1'h0, _[7:0] } : _)[7] ? (8'h86 - { byte_moves_2, byte_moves_1, "
        "byte_moves_0 }) : 9'h000)[7:0], ((_[7]) ? { 1'h0, (_ ? { 3'h0, _[7:0] } : _)[7:0] } : "
        "({ _[7:0], 1'h0 }))[6:0], 16'h0000 }) }: constant: one less in 15'h0000, number 1": (
            "bits above the 32 that a number has"
        ),
        "first_place: ({ 11'h000, index[2:0], 20'h00000 }) = { 11'h000, index[2:0], 20'h00000 "
        "}: stuck: bit 1 at 0": ("a bit that is always 0"),
        "vector_engine: ((| cut[50:48]) & (cut[63:48] < ({ 2'h0, _[24:2] }))) = (| cut[50:48]) & "
        "(cut[63:48] < ({ 2'h0, (kept[44:21] + 2'h3)[24:2] })): swapped: (| cut[50:48]) instead of "
        "(cut[63:48] < ({ 2'h0, (kept[44:21] + 2'h3)[24:2] })), word 3": (
            "looked at only where tiles do not hold whole rows, which is what is left out"
        ),
        "program_scan: bad next = 1'h0 if rst: dropped: never": (
            "set with every start, and nobody looks before one"
        ),
    },
}

UNREACHED: dict[str, dict[str, str]] = {
    "mxfp8": {
        "fill: ((write[199:196] > write[208:205]) ? write[199:196] : write[208:205]) = "
        "(write[199:196] > write[208:205]) ? write[199:196] : write[208:205] (the 2th): arms: "
        "swapped": (
            "the smaller extent of two neighbours: seen where `exact` hangs on that element alone"
        ),
        "draws: (~ (need_first | need_end)) = ~ (need_first | need_end) (the 2th): operator: no "
        "~, number 1": (
            "a hash has room as long as the cut before it has; test_draws.py stalls them apart"
        ),
        "fill: ((! buffer_o__payload[50:48]) ? 4'h0 : 4'he) = (! buffer_o__payload[50:48]) ? "
        "4'h0 : 4'he: stuck: bit 1 at 1": (
            "a zero that reaches 2 bits down: seen where `exact` hangs on that vector alone"
        ),
    },
    "nvfp4_32": {
        "exponent_field_copy1: bytes1 next = 6'h00 if rst: dropped: never": (
            "after a reset in the second strip of a conversion, what lies beside a second strip"
        ),
    },
    "diastole_nano": {
        "read_share: waiting <= waiting next: dropped: never": (
            "an offer that waits may change, and the order of requests with it, but nothing else"
        ),
        "tile_quantiser: (~ passes_o__payload[42]) = ~ passes_o__payload[42] (the 4th): operator: "
        "no ~, number 1": (
            "a group without room: a memory that takes no write while two others are quantised; "
            "test_tile_quantiser.py has no room most of the time"
        ),
        "draws: (~ (need_first | need_end)) = ~ (need_first | need_end) (the 2th): operator: no "
        "~, number 1": (
            "a hash has room as long as the cut before it has; test_draws.py stalls them apart"
        ),
    },
    "faulty_steps": {
        "vector_engine: _ = unfit[3] if setup_streams[486:485]: swapped: fsm_state instead of "
        "unfit, word 1": (
            "which of two errors an image of no class has, at tiles that do not hold whole rows"
        ),
        "first_place: base[30:23] = 8'h90 if index[15]: constant: one less in 8'h90, number 1": (
            "numbers of columns from 131072 on; test_positions.py has every power of two"
        ),
    },
}


def argument(table: dict[str, dict[str, str]], machine: str, fault: str) -> str | None:
    """Why this fault of a machine is in the table; None if it is not."""
    return table.get(machine, {}).get(fault) or table.get(EVERY, {}).get(fault)


SAID_EQUAL, NOT_ARGUED = "argued to be equal", "NOT ARGUED"


def said_equal(machine: str, fault: str) -> bool:
    """Return whether an argument says that this fault changes nothing."""
    return argument(SAME, machine, fault) is not None


def argued(machine: str, fault: str) -> str:
    """Why nothing notices this fault of a machine; NOT_ARGUED if nobody said."""
    found = (argument(table, machine, fault) for table in (SAME, UNREACHED))
    return next((why for why in found if why), NOT_ARGUED)
