"""Chains for the core of the vector unit: small ones, and some in which instructions crowd."""

from oracle import vector_words as w
from oracle.vector_program import Input, Output, by_rows
from oracle.vector_words import Instruction
from support.random_programs import Scene, random_pattern, random_scene

CROWDED = 3
"""Registers that crowded programs use."""


def small_scene(rng, block, *, length=12, **parameters):
    """A random chain of at most four blocks."""
    size = tuple(rng.randrange(1, 2 * block + 1) for _ in range(2))
    length = rng.randrange(2, length + 1)
    return random_scene(rng, block, size=size, length=length, **parameters)


def scene_of(rng, block, program, *, size, inputs=(), outputs=(), lines=None, vectors=0):
    """A chain of these instructions, walked by rows if ``lines`` does not say otherwise."""
    lines = lines or by_rows(*size, block)
    pad = [None] * 4
    return Scene(
        words=[each.word for each in program],
        block=block,
        size=size,
        walk="rows",
        tile=(1, 1),
        down=False,
        lines=lines,
        inputs=[*inputs, *pad][:4],
        outputs=[*outputs, *pad][:4],
        constants=[random_pattern(rng) for _ in range(256)],
        panel=[[random_pattern(rng) for _ in range(block)] for _ in range(vectors)],
    )


def tensor(rng, size, wild=False):
    rows, columns = size
    return [[random_pattern(rng, wild) for _ in range(columns)] for _ in range(rows)]


def f32(rng, size, wild=False):
    """An input of floats."""
    return Input(w.KIND_F32, tensor(rng, size, wild))


def crowded_scene(rng, block, *, length=14, size=None):
    """Instructions that need what those just before them make: specials, turned rows, a panel, on
    few registers, so that nearly everything waits for something."""
    size = size or tuple(rng.randrange(1, 2 * block + 1) for _ in range(2))
    turns = block.bit_length() - 1
    program = [
        Instruction(op=w.MOV, a=w.STREAM, d=d, when=w.FIRST, negate=d & 1) for d in range(CROWDED)
    ]
    for _ in range(length):
        d, a, b, c = (rng.randrange(CROWDED) for _ in range(4))
        kind = rng.random()
        if kind < 0.4:
            program.append(Instruction(op=rng.choice(w.SPECIALS), a=a, d=d, negate=kind < 0.1))
            continue
        turned = {"turn_rows": rng.randrange(turns + 1), "turn_lanes": rng.randrange(turns + 1)}
        if kind < 0.55:
            op, operands = w.MUL, {"a": a, "b": rng.choice((b, w.STREAM, w.STREAM + 1))}
        elif kind < 0.7:
            op, operands = w.SEL, {"a": a, "b": b, "c": c, **turned}
        else:
            op, operands = w.ADD, {"a": rng.choice((a, w.STREAM + 1)), "c": c, **turned}
        o = rng.choice((w.NO_OUTPUT, 1))
        if turned["turn_rows"] > 3 and c == d and w.STREAM + 1 in operands.values():
            o = w.NO_OUTPUT
        when = rng.choice((w.EVERY, w.EVERY, w.LAST, w.NOT_LAST))
        program.append(Instruction(op=op, d=d, o=o, when=when, **operands))
    program.append(Instruction(op=w.MOV, a=rng.randrange(CROWDED), o=0))
    wide = -(-size[1] // block)
    places = [{"aux": 2, "first": block + rng.choice((0, rng.randrange(block)))} for _ in "io"]
    return scene_of(
        rng,
        block,
        program,
        size=size,
        inputs=[f32(rng, size), Input(w.KIND_PANEL, **places[0])],
        outputs=[Output(w.KIND_F32), Output(w.KIND_PANEL, **places[1])],
        vectors=block * (wide + 2),
    )
