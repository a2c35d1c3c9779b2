"""Make chains of one or two instructions for every element of a tensor."""

from dataclasses import replace

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.spec.stream_table import Kind

IN_MEMORY = (Kind.F32, Kind.PRODUCT)
"""Kinds of a tensor that a chain reads."""
WRITTEN = (Kind.F32, Kind.IMAGE)
"""Kinds of a tensor that a chain computes."""


def added() -> Chain:
    """Return the chain value = input + other.

    Streams: s0 input; s1 other; o0 value.
    Constants: none.
    Instructions: 1.
    """
    return _chain("added", "add s0 s1 -> o0", ("input", "other"), ("value",))


def multiplied() -> Chain:
    """Return the chain value = input * other.

    Streams: s0 input; s1 other; o0 value.
    Constants: none.
    Instructions: 1.
    """
    return _chain("multiplied", "mul s0 s1 -> o0", ("input", "other"), ("value",))


def multiplied_gradient() -> Chain:
    """Return the chain of the gradients of a product: above * other by the input, and above * input
    by the other.

    Streams: s0 above; s1 input; s2 other; o0 input; o1 other.
    Constants: none.
    Instructions: 2.
    """
    text = "mul s0 s2 -> o0\nmul s0 s1 -> o1"
    return _chain("multiplied_gradient", text, ("above", "input", "other"), ("input", "other"))


def scaled(factor: float, *, gradient: bool = False) -> Chain:
    """Return the chain value = input * ``factor``. ``gradient``: the streams have the names of a
    gradient, and the numbers are the same.

    Streams: s0 input; o0 value.
    Constants: factor.
    Instructions: 1.
    """
    source, target = ("above", "input") if gradient else ("input", "value")
    made = _chain("scaled", "mul s0 K[factor] -> o0", (source,), (target,))
    return made.with_values(factor=factor)


def dropped(probability: float, *, gradient: bool = False) -> Chain:
    """Return the chain value = 0 where draws < ``probability``, else input / (1 - ``probability``).
    ``gradient``: the streams have the names of a gradient, and the numbers are the same.

    Streams: s0 input; s1 draws, random numbers from 0, below 1; o0 value.
    Constants: p, stays.
    Instructions: 3.
    """
    source, target = ("above", "input") if gradient else ("input", "value")
    text = """
        r0 = gt K[p] s1
        r1 = mul s0 K[stays]
        sel r0 0 r1 -> o0
    """
    made = _chain("dropped", text, (source,), (target,))
    draws = Port(number=1, kinds=(Kind.DRAWS,), meaning="random numbers")
    made = replace(made, inputs={**made.inputs, "draws": draws})
    return made.with_values(p=probability, stays=1 / (1 - probability))


def _chain(name: str, text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Chain:
    return Chain(
        name=name,
        text=lines(text),
        inputs={
            each: Port(number=number, kinds=IN_MEMORY, meaning=each)
            for number, each in enumerate(inputs)
        },
        outputs={
            each: Port(number=number, kinds=WRITTEN, meaning=each)
            for number, each in enumerate(outputs)
        },
    )
