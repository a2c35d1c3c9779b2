"""The judge of the vector unit's programs on small ones, worked out by hand or with math."""

import math
import struct

import pytest

from oracle import vector_words as w
from oracle.vector_program import Input, Output, by_columns, by_rows, packed_mask, run
from support.micro_programs import op, words

NAN, INFINITY, MINUS_ZERO = 0x7FC00000, 0x7F800000, 0x80000000
S0, S1, S2, S3 = range(16, 20)
LN2_HIGH, LN2_LOW = 0x3F310000, 0x3AE42FF0


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def floats(patterns):
    if isinstance(patterns, list):
        return [floats(each) for each in patterns]
    return None if patterns is None else struct.unpack("<f", struct.pack("<I", patterns))[0]


def tensor(rows):
    return [[bits(value) for value in row] for row in rows]


def counted(rows, columns):
    """10 row + column + 1, a different number everywhere."""
    return [[10 * row + column + 1 for column in range(columns)] for row in range(rows)]


def turned(code, register, block, direction="lanes", o=w.NO_OUTPUT, when=w.LAST):
    """log2 B instructions, with an output at the last; at B = 1 none."""
    turns = range(block.bit_length() - 1, 0, -1)
    name = f"turn_{direction}"
    return [
        op(code, register, 0, register, d=register, when=when, o=o if t == 1 else w.NO_OUTPUT)
        | {name: t}
        for t in turns
    ]


def chain(program, rows, columns, block, inputs, outputs, *, across=False, **others):
    lines = (by_columns if across else by_rows)(rows, columns, block)
    return run(
        program,
        block=block,
        size=(rows, columns),
        lines=lines,
        inputs=inputs,
        outputs=outputs,
        **others,
    )


def one_block(program, data, block, **others):
    """Output 0, f32, of a program on one block of floats."""
    size = len(data), len(data[0])
    inputs = [Input(w.KIND_F32, tensor(data))]
    result = chain(program, *size, block, inputs, [Output(w.KIND_F32)], **others)
    return floats(result.outputs[0])


def test_sum_over_rows():
    """Lane l has columns l, l + 4, ..; then (0 + 2) + (1 + 3), told apart by what is lost."""
    large = 2.0**24
    data = [[large, 1.0, -large, 1.0, 0.5, 2.0, 4.0], [1, 2, 3, 4, 5, 6, 7], [0.0] * 7]
    program = words(op(w.ADD, S0, 0, 1, d=1, fresh=1, keep=1), *turned(w.ADD, 1, 4, o=0))
    inputs, outputs = [Input(w.KIND_F32, tensor(data))], [Output(w.KIND_ROW)]
    result = chain(program, 3, 7, 4, inputs, outputs)
    # Lanes: 2^24 + 0.5 = 2^24, 1 + 2, -2^24 + 4, 1; so (2^24 - 2^24 + 4) + (3 + 1).
    assert floats(result.outputs[0]) == [8.0, 28.0, 0.0]


def test_lines_after_the_first_start_anew():
    program = words(op(w.ADD, S0, 0, 1, d=1, fresh=1, keep=1), *turned(w.ADD, 1, 2, o=0))
    inputs, outputs = [Input(w.KIND_F32, tensor(counted(5, 3)))], [Output(w.KIND_ROW)]
    result = chain(program, 5, 3, 2, inputs, outputs)
    assert floats(result.outputs[0]) == [6, 36, 66, 96, 126]


@pytest.mark.parametrize("across", [False, True])
def test_sum_over_columns_in_a_panel(across):
    """Slot r of a block column has rows r, r + 4, ..; what the panel held does not matter."""
    data = counted(7, 5)
    program = words(op(w.ADD, S0, 0, S1, keep=1, o=0))
    inputs = [Input(w.KIND_F32, tensor(data)), Input(w.KIND_PANEL, aux=3, first=3)]
    panel = [[NAN] * 4 for _ in range(3 + 8)]
    outputs = [Output(w.KIND_PANEL, aux=2, first=3)]
    result = chain(program, 7, 5, 4, inputs, outputs, across=across, panel=panel)
    sums = [[sum(data[row][k] for row in range(r, 7, 4)) for k in range(5)] for r in range(4)]
    got = floats(result.panel)
    assert [got[3 + r] for r in range(4)] == [row[:4] for row in sums]
    assert [got[7 + r] for r in range(4)] == [[row[4], 0, 0, 0] for row in sums]
    assert result.panel[:3] == [[NAN] * 4] * 3

    # Then over the row slots, by columns: a column vector of a tensor of one row.
    program = words(
        op(w.MOV, S0, d=0), *turned(w.ADD, 0, 4, "rows", when=w.EVERY), op(w.MOV, 0, o=0)
    )
    inputs, outputs = [Input(w.KIND_PANEL, aux=2, first=3)], [Output(w.KIND_COLUMN)]
    result = chain(program, 1, 5, 4, inputs, outputs, across=True, panel=result.panel)
    assert floats(result.outputs[0]) == [sum(column) for column in zip(*data, strict=True)]


def softmax_programs(block):
    first = words(
        op(w.ADD, S0, 0, S1, d=0, o=0),
        op(w.MAX, 0, 0, 1, d=1, fresh=1, keep=1),
        *turned(w.MAX, 1, block, o=1),
    )
    last = {"when": w.LAST}
    second = words(
        op(w.MOV, S1, d=1, when=w.FIRST),
        op(w.ADD, S0, 0, 1, d=2, negate=4),
        op(w.EXP, 2, d=3),
        op(w.EQ, w.COLUMN_NUMBER, 0, S2, d=4),
        op(w.SEL, 2, 4, 5, d=5, fresh=1, keep=1),
        op(w.MOV, 3, d=3, o=0),
        op(w.ADD, 3, 0, 6, d=6, fresh=1, keep=1),
        *turned(w.ADD, 6, block),
        op(w.LGE, 6, d=7, **last),
        *turned(w.ADD, 5, block),
        op(w.LGM, 6, d=8, **last),
        op(w.LGG, 6, d=9, **last),
        op(w.RCP, 6, d=10, **last),
        op(w.MUL, 8, 9, d=8, **last),
        op(w.MAD, 7, w.CONSTANT, 8, d=8, k=1, **last),
        op(w.MAD, 7, w.CONSTANT, 8, d=8, k=0, **last),
        op(w.ADD, 8, 0, 5, d=8, negate=4, o=2, **last),
        op(w.MOV, 10, d=10, o=1, **last),
    )
    return first, second


def test_softmax():
    """Against math: exponentials, the inverse of their sum, the loss of every row's label."""
    logits = [[0.5, -1.25, 3.0, 0.0, 2.5], [-2.0, 0.125, 0.25, -0.5, -9.0], [8.0, 1.0, 0.0, 7.5, 8]]
    bias, labels, block = [0.5, -0.25, 0.0, 1.0, -1.5], [2, 4, 7], 4
    first, second = softmax_programs(block)
    panel = [[NAN] * 4 for _ in range(2 * 4 + 4)]
    z, m = ({"first": 0, "pitch": 2}, {"first": 8, "aux": 1})
    kinds = [w.KIND_F32, w.KIND_COLUMN, 0, 0, w.KIND_PANEL, w.KIND_PANEL, 0, 0]
    assert w.problems(first, block, kinds) == []
    inputs = [
        Input(w.KIND_F32, tensor(logits)), Input(w.KIND_COLUMN, [bits(each) for each in bias])
    ]  # fmt: skip
    outputs = [Output(w.KIND_PANEL, **z), Output(w.KIND_PANEL, **m)]
    chain(first, 3, 5, block, inputs, outputs, panel=panel)
    shifted = [[x + b for x, b in zip(row, bias, strict=True)] for row in logits]
    largest = [max(row) for row in shifted]
    assert [floats(panel[8 + r]) for r in range(3)] == [[each] * 4 for each in largest]

    kinds = [w.KIND_PANEL, w.KIND_PANEL, w.KIND_LABELS, 0, w.KIND_PANEL, w.KIND_PANEL, w.KIND_ROW]
    assert w.problems(second, block, [*kinds, 0]) == []
    inputs = [
        Input(w.KIND_PANEL, **z), Input(w.KIND_PANEL, **m), Input(w.KIND_LABELS, labels)
    ]  # fmt: skip
    outputs.append(Output(w.KIND_ROW))
    constants = [LN2_HIGH, LN2_LOW, *[NAN] * 254]
    result = chain(second, 3, 5, block, inputs, outputs, panel=panel, constants=constants)
    rows = [[math.exp(z - m) for z in row] for row, m in zip(shifted, largest, strict=True)]
    for r, row in enumerate(rows):
        assert floats(panel[r]) == pytest.approx(row[:4], rel=2e-7)
        assert floats(panel[4 + r])[0] == pytest.approx(row[4], rel=2e-7)
        assert floats(panel[8 + r]) == pytest.approx([1 / sum(row)] * 4, rel=3e-7)
        chosen = shifted[r][labels[r]] - largest[r] if labels[r] < 5 else 0
        assert floats(result.outputs[2][r]) == pytest.approx(math.log(sum(row)) - chosen, rel=5e-7)


@pytest.mark.parametrize(
    "flags, want",
    [
        ({"turn_lanes": 1}, [[2, 1, 4, 3], [6, 5, 8, 7]]),
        ({"turn_lanes": 2}, [[3, 4, 1, 2], [7, 8, 5, 6]]),
        ({"turn_rows": 1}, [[5, 6, 7, 8], [1, 2, 3, 4]]),
        ({"turn_lanes": 1, "turn_rows": 1}, [[6, 5, 8, 7], [2, 1, 4, 3]]),
        ({"turn_rows": 2}, [[0, 0, 0, 0]] * 2),
        ({"turn_lanes": 1, "negate": 4}, [[-2, -1, -4, -3], [-6, -5, -8, -7]]),
        ({"turn_lanes": 1, "negate": 4, "fresh": 1}, [[0, 0, 0, 0]] * 2),
    ],
)
def test_turns(flags, want):
    program = words(op(w.MOV, S0, d=3), op(w.ADD, w.NOUGHT, 0, 3, d=3, o=0) | flags)
    assert one_block(program, [[1, 2, 3, 4], [5, 6, 7, 8]], 4) == want


@pytest.mark.parametrize("turn, distance", [(1, 1), (2, 2), (3, 4)])
def test_turns_of_eight(turn, distance):
    data = counted(8, 8)
    program = words(op(w.MOV, S0, d=0), op(w.ADD, w.NOUGHT, 0, 0, o=0, turn_lanes=turn))
    assert one_block(program, data, 8) == [[row[k ^ distance] for k in range(8)] for row in data]
    program = words(op(w.MOV, S0, d=0), op(w.ADD, w.NOUGHT, 0, 0, o=0, turn_rows=turn))
    assert one_block(program, data, 8) == [data[r ^ distance] for r in range(8)]


def test_a_stream_is_turned_among_lanes():
    program = words(op(w.ADD, w.UNIT, 0, S0, o=0, turn_lanes=1))
    assert one_block(program, [[1, 2, 3]], 4) == [[3, 2, 1]]  # beyond the third there is +0


@pytest.mark.parametrize(
    "code, want",
    [
        (w.ADD, 5.0), (w.MAX, 5.0), (w.MIN, 5.0), (w.GT, 1.0), (w.EQ, 0.0), (w.MAD, 25.0),
        (w.SEL, 5.0),
    ],
)  # fmt: skip
def test_neutral_elements(code, want):
    """In a line's first block the register, undefined so far, is not read."""
    program = words(op(code, S0, S0 if code in (w.MAD, w.SEL) else 0, 2, o=0, fresh=1))
    assert one_block(program, [[5.0]], 2) == [[want]]


@pytest.mark.parametrize("code, want", [(w.MAX, -5.0), (w.MIN, -5.0), (w.GT, 1.0), (w.EQ, 0.0)])
def test_neutral_elements_of_negative_numbers(code, want):
    program = words(op(code, S0, 0, 2, o=0, fresh=1))
    assert one_block(program, [[-5.0]], 2) == [[want]]


def test_registers_are_nan_at_first_and_keep_their_values():
    program = words(op(w.MOV, 4, o=0), op(w.MOV, S0, d=4))
    inputs, outputs = [Input(w.KIND_F32, tensor(counted(3, 3)))], [Output(w.KIND_F32)]
    got = chain(program, 3, 3, 2, inputs, outputs).outputs[0]
    # Block (0, 1) sees what (0, 0) was, (1, 0) what (0, 1) was.
    assert got[0][:2] == got[1][:2] == [NAN, NAN]
    assert floats([row[2:] for row in got[:2]]) == [[1], [11]]
    assert floats(got[2][:2]) == [3, 0]
    assert floats(got[2][2:]) == [21]


def test_keep_passes_over_padding():
    """Outside the result is c as it was negated, whatever a is."""
    program = words(
        op(w.MOV, w.UNIT, d=1),
        op(w.ADD, w.CONSTANT, 0, 1, d=2, keep=1, k=7, negate=4),
        op(w.ADD, w.NOUGHT, 0, 2, turn_lanes=1, o=0),
    )
    constants = [bits(3.0)] * 256
    assert one_block(program, [[9.0]], 2, constants=constants) == [[-1.0]]
    assert one_block(program, [[9.0, 9.0]], 2, constants=constants) == [[2.0, 2.0]]


def test_whens():
    """Every block adds a digit where its instruction counts: last 1, first 10, not last 100."""
    digits = [0] * 256
    digits[1:4] = bits(1.0), bits(10.0), bits(100.0)
    program = words(
        op(w.MOV, w.NOUGHT, d=0),
        *[op(w.ADD, w.CONSTANT, 0, 0, d=0, when=when, k=when) for when in (1, 2, 3)],
        op(w.MOV, 0, o=0),
    )
    inputs, outputs = [None], [Output(w.KIND_F32)]
    result = chain(program, 1, 3, 1, inputs, outputs, constants=digits)
    assert floats(result.outputs[0]) == [[110, 100, 1]]
    result = chain(program, 2, 1, 1, inputs, outputs, constants=digits)
    assert floats(result.outputs[0]) == [[11], [11]]


def test_numbers_of_places():
    program = words(
        op(w.MOV, w.CONSTANT, d=0, k=0),
        op(w.MAD, w.ROW_NUMBER, 0, w.COLUMN_NUMBER, o=0),
        op(w.ADD, w.INSIDE, 0, w.TAP, d=2),
        op(w.ADD, w.NOUGHT, 0, 2, turn_lanes=1, o=1),
    )
    result = chain(
        program, 3, 3, 2, [], [Output(w.KIND_F32), Output(w.KIND_F32)], constants=[bits(10.0)] * 256
    )
    assert floats(result.outputs[0]) == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]
    assert floats(result.outputs[1]) == [[1, 1, 0]] * 3


@pytest.mark.parametrize(
    "stream, want",
    [
        (Input(w.KIND_F32, tensor([[1, 2, 3], [4, 5, 6]])), [[1, 2, 3], [4, 5, 6]]),
        (Input(w.KIND_PRODUCT, lambda row, column: bits(row + column)), [[0, 1, 2], [1, 2, 3]]),
        (Input(w.KIND_BF16, [[0x3F80, 0xC000, 0], [0, 0, 0x4040]]), [[1, -2, 0], [0, 0, 3]]),
        (Input(w.KIND_U8, [[0, 255, 7], [1, 2, 3]]), [[0, 255, 7], [1, 2, 3]]),
        (Input(w.KIND_MASK, [[0, 1, 1], [1, 0, 0]]), [[0, 1, 1], [1, 0, 0]]),
        (Input(w.KIND_COLUMN, [bits(4), bits(5), bits(6)]), [[4, 5, 6]] * 2),
        (Input(w.KIND_ROW, [bits(4), bits(5)]), [[4, 4, 4], [5, 5, 5]]),
        (Input(w.KIND_GATHERED_F32, tensor([[1, 2, 3], [4, 5, 6]]), [1, 1]), [[4, 5, 6]] * 2),
        (Input(w.KIND_GATHERED_U8, [[1, 2, 3], [4, 5, 6]], [1, 0]), [[4, 5, 6], [1, 2, 3]]),
        (Input(w.KIND_LABELS, [2, 2**24 + 1]), [[2, 2, 2], [-1, -1, -1]]),
    ],
    ids=lambda each: f"kind {each.kind}" if isinstance(each, Input) else "",
)
def test_inputs(stream, want):
    program = words(op(w.MOV, S2, d=0), op(w.MOV, 0, o=0), op(w.MOV, 0, o=1))
    panel = [[NAN] * 2 for _ in range(4)]
    outputs = [Output(w.KIND_F32), Output(w.KIND_PANEL, pitch=2)]
    result = chain(program, 2, 3, 2, [None, None, stream], outputs, panel=panel)
    assert floats(result.outputs[0]) == want
    # Outside the tensor +0 was read.
    assert floats(panel) == [*[row[:2] for row in want], *[[row[2], 0] for row in want]]


def test_outputs():
    data = [[1.5, -2.0, 0.0], [300.0, 2.5, -0.0]]
    program = words(
        *[op(w.MOV, S0, o=o) for o in range(4)],
        op(w.MOV, w.UNIT, d=15),
    )
    inputs = [Input(w.KIND_F32, tensor(data))]
    kinds = w.KIND_BF16, w.KIND_U8, w.KIND_MASK, w.KIND_IMAGE
    result = chain(program, 2, 3, 2, inputs, [Output(kind) for kind in kinds])
    assert result.outputs[0] == [[0x3FC0, 0xC000, 0], [0x4396, 0x4020, 0x8000]]
    assert result.outputs[1] == [[2, 0, 0], [255, 2, 0]]
    assert result.outputs[2] == [[1, 1, 0], [1, 1, 0]]
    blocks = [((0, 0), tensor([[1.5, -2], [300, 2.5]])), ((0, 1), tensor([[0, 0], [-0.0, 0]]))]
    assert result.outputs[3] == blocks
    result = chain(words(op(w.MOV, w.UNIT, o=0)), 1, 1, 2, [], [Output(w.KIND_IMAGE)])
    assert result.outputs[0] == [((0, 0), tensor([[1, 0], [0, 0]]))]


def test_masks_side_by_side():
    assert packed_mask([[1, 1, 0], [1, 1, 0]], 2) == [0b1111]
    assert packed_mask([[0, 0, 1], [0, 0, 0], [0, 1, 1]], 2) == [0b010000, 0b010010]


def test_vectors_and_constants_are_of_last_blocks():
    data = counted(3, 3)
    inputs = [Input(w.KIND_F32, tensor(data))]
    program = words(op(w.MOV, S0, o=0), op(w.MOV, S0, o=1))
    outputs = [Output(w.KIND_COLUMN), Output(w.KIND_CONSTANT, index=200)]
    result = chain(program, 3, 3, 2, inputs, outputs, across=True)
    assert floats(result.outputs[0]) == [21, 22, 23]
    assert floats(result.constants[200]) == 23
    result = chain(program, 3, 3, 2, inputs, [Output(w.KIND_ROW), *outputs[1:]])
    assert floats(result.outputs[0]) == [3, 13, 23]


def test_what_last_blocks_do_not_write_stays():
    """Neither a line's first block counts, nor the last block of a line that is not the last."""
    program = words(op(w.MOV, S0, o=0, when=w.FIRST), op(w.MOV, S0, o=1, when=w.FIRST))
    outputs = [Output(w.KIND_ROW), Output(w.KIND_CONSTANT, index=200)]
    lines = [[(0, 0)], [(1, 0), (1, 1)]]
    inputs = [Input(w.KIND_F32, tensor([[1, 2], [3, 4]]))]
    result = run(program, block=1, size=(2, 2), lines=lines, inputs=inputs, outputs=outputs)
    assert floats(result.outputs[0]) == [1, None]
    assert result.constants[200] == 0


def test_a_nop_does_nothing():
    """Whatever its d and o."""
    program = words(op(w.NOP, d=0, o=0), op(w.MOV, S0, o=0))
    assert w.problems(program, 1, [w.KIND_F32, 0, 0, 0, w.KIND_F32, 0, 0, 0]) == []
    assert one_block(program, [[5.0]], 1) == [[5.0]]


@pytest.mark.parametrize(
    "kind, value, seen",
    [
        (w.KIND_F32, INFINITY, {0}), (w.KIND_F32, 0x7F7FFFFF, set()), (w.KIND_BF16, NAN, {0}),
        (w.KIND_BF16, 0x7F7FFFFF, {0}), (w.KIND_U8, NAN, set()), (w.KIND_PANEL, NAN, {0}),
        (w.KIND_CONSTANT, 0xFF800000, {0}), (w.KIND_ROW, NAN, {0}), (w.KIND_IMAGE, NAN, {0}),
    ],
)  # fmt: skip
def test_what_is_not_finite_is_seen(kind, value, seen):
    inputs, panel = [Input(w.KIND_F32, [[value]])], [[0, 0]] * 2
    result = chain(words(op(w.MOV, S0, o=0)), 1, 1, 2, inputs, [Output(kind)], panel=panel)
    assert result.not_finite == seen


def test_a_panel_is_read_as_it_is_by_then():
    """The second instruction reads what the first wrote; a stream of memory stands still."""
    program = words(op(w.ADD, S0, 0, S1, o=0), op(w.ADD, S0, 0, S1, o=1), op(w.MOV, S0, o=2))
    inputs = [Input(w.KIND_F32, tensor([[3.0]])), Input(w.KIND_PANEL, aux=1)]
    outputs = [Output(w.KIND_PANEL, aux=1), Output(w.KIND_F32), Output(w.KIND_F32)]
    panel = tensor([[1.0]])
    result = chain(program, 1, 1, 1, inputs, outputs, panel=panel)
    assert floats([result.panel, *result.outputs[1:3]]) == [[[4.0]], [[7.0]], [[3.0]]]


@pytest.mark.parametrize(
    "aux, places", [(0, {(0, 0): 1, (0, 1): 3, (1, 0): 7, (1, 1): 9}), (1, {0: 1, 1: 3})]
)
def test_places_in_a_panel(aux, places):
    """Pitch 3 blocks of 2 vectors from vector 1; a block row's last block stays with aux 1."""
    program = words(op(w.MOV, S0, o=0))
    inputs = [Input(w.KIND_F32, tensor(counted(4, 4)))]
    panel = [[NAN, NAN] for _ in range(11)]
    outputs = [Output(w.KIND_PANEL, aux=aux, first=1, pitch=3)]
    chain(program, 4, 4, 2, inputs, outputs, panel=panel)
    for block, vector in places.items():
        i, j = block if aux == 0 else (block, 1)
        assert floats(panel[vector][0]) == 20 * i + 2 * j + 1
        assert floats(panel[vector + 1][1]) == 20 * i + 2 * j + 12
    assert sum(row == [NAN, NAN] for row in panel) == 11 - 2 * len(places)
