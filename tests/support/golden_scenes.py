"""A random chain, as the golden interpreter takes it, and what it leaves as the judge has it."""

from dataclasses import replace

import numpy as np

from diastole_sim.golden.vector.arithmetic import BINARY32
from diastole_sim.golden.vector.chain_run import ChainRun
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.chains import named_streams
from diastole_sim.spec.micro import Instruction, Source
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk
from oracle import vector_words as w
from oracle.vector_numbers import from_bf16, from_label, integer
from oracle.vector_program import Output
from support.random_programs import random_scene

TAP = 26
"""A source that only chains over windows have; here +0 stands for it."""


def instructions(words):
    """A program of the judge's words; without taps, and without constants that none names."""
    return tuple(map(_instruction, words))


def _instruction(word):
    it = Instruction.decode(word)
    sources = {
        name: Source.ZERO if source == TAP else source for name, source in it.sources.items()
    }
    k = it.k if Source.CONSTANT in sources.values() else 0
    return replace(it, **sources, k=k)


def floats(patterns):
    """Float32 of patterns."""
    return np.array(patterns, dtype=np.uint32).view(np.float32)


def patterns(values):
    """The inverse of :func:`floats`, as lists."""
    return np.asarray(values, dtype=np.float32).view(np.uint32).tolist()


def golden_input(stream, scene):
    """A stream of the judge's as values that broadcast to the tensor, or its place in the panel."""
    if stream.kind == w.KIND_PANEL:
        return placed(stream)
    if stream.kind == w.KIND_COLUMN:
        return floats(stream.data)[None, :]
    if stream.kind == w.KIND_ROW:
        return floats(stream.data)[:, None]
    if stream.kind == w.KIND_LABELS:
        return floats([from_label(each) for each in stream.data])[:, None]
    if stream.kind == w.KIND_DRAWS:
        rows, cols = scene.size
        return floats([[stream.data(row, col) for col in range(cols)] for row in range(rows)])
    element = {
        w.KIND_BF16: from_bf16,
        w.KIND_U8: integer,
        w.KIND_GATHERED_U8: integer,
        w.KIND_MASK: integer,
    }.get(stream.kind, int)
    rows = stream.data if stream.rows is None else [stream.data[row] for row in stream.rows]
    return floats([[element(each) for each in row] for row in rows])


def placed(stream):
    """The descriptor of a stream in the panel, or of the kind alone."""
    if stream.kind != w.KIND_PANEL:
        return Descriptor(kind=stream.kind)
    pitch = 0 if stream.aux else stream.pitch
    return Descriptor(kind=Kind.PANEL, address=stream.first, aux=stream.aux, pitch=pitch)


def golden_chain(scene):
    """The chain of a scene of ``random_programs``, with a panel of its own."""
    rows, cols = scene.size
    walk = Walk(rows=rows, cols=cols, block=scene.block, by_columns=scene.walk == "columns")
    panel = floats(scene.panel).reshape(-1, scene.block).copy()
    return ChainRun(
        program=instructions(scene.words),
        order=Order.of_lines(walk, scene.lines),
        inputs={n: golden_input(each, scene) for n, each in enumerate(scene.inputs) if each},
        outputs={n: placed(each) for n, each in enumerate(scene.outputs) if each},
        panel=panel,
        constants=floats(scene.constants),
        arithmetic=BINARY32,
    )


def judged_outputs(scene, result):
    """By output what memory holds, as :class:`ChainResult` has it, in patterns; what is never
    written is absent."""
    found = {}
    for number, stream in enumerate(scene.outputs):
        if stream is None or stream.kind == w.KIND_PANEL:
            continue
        held = result.outputs[number]
        if stream.kind == w.KIND_CONSTANT:
            found[number] = result.constants[stream.index]
        elif stream.kind == w.KIND_IMAGE:
            found[number] = _joined(scene, held)
        elif stream.kind in (w.KIND_COLUMN, w.KIND_ROW):
            found[number] = held
        else:
            element = {
                w.KIND_BF16: from_bf16,
                w.KIND_U8: integer,
                w.KIND_MASK: integer,
            }.get(stream.kind, int)
            found[number] = [[element(each) for each in row] for row in held]
    return found


def _joined(scene, blocks):
    rows, cols = scene.size
    held = dict(blocks)
    side = scene.block
    return [
        [held[row // side, column // side][row % side][column % side] for column in range(cols)]
        for row in range(rows)
    ]


def sound(scene):
    """The scene, with outputs that its order of blocks cannot have as floats, and images but the
    first, and with no scale of the loss."""
    blocks = tuple(-(-length // scene.block) for length in scene.size)
    whole = scene.walk != "tiles" or scene.tile == blocks
    bits = scene.walk != "columns" or scene.block**2 % 8 == 0
    images = scene.walk != "columns" and whole
    outputs = [
        Output(w.KIND_F32)
        if each
        and ((each.kind == w.KIND_IMAGE and not images) or (each.kind == w.KIND_MASK and not bits))
        else each
        for each in scene.outputs
    ]
    kinds = [each.kind if each else None for each in outputs]
    for number, kind in enumerate(kinds):
        if kind == w.KIND_IMAGE and kind in kinds[:number]:
            outputs[number] = Output(w.KIND_F32)
    constants = list(scene.constants)
    constants[252:254] = [0x3F800000] * 2
    return replace(scene, outputs=outputs, constants=constants)


def scene_of_product(rng, block, size, **options):
    """A random chain, which is :func:`sound`, at a product with a result of that size."""
    while True:
        scene = sound(random_scene(rng, block, walk="tiles", size=size, **options))
        inputs, _ = named_streams(instructions(scene.words))
        if any(scene.inputs[each].kind == w.KIND_PRODUCT for each in inputs):
            return scene
