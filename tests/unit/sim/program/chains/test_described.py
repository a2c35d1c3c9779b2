"""What every chain says of itself is so: streams, constants, number of instructions."""

import re
from itertools import product

import pytest

from diastole_sim.program.chains import (
    activations,
    elementwise,
    inputs,
    losses,
    optimisers,
    sums,
    updates,
)
from diastole_sim.spec.micro import MAX_INSTRUCTIONS

OPTIONS = [updates.Options(**dict(zip(("bias", "scaled", "clipped", "decay"), each, strict=True)))
           for each in product((False, True), repeat=4)]  # fmt: skip
OPTIMISERS = (
    optimisers.sgd,
    optimisers.rmsprop,
    optimisers.adam,
    optimisers.adamw,
    optimisers.adagrad,
)
SINGLE = (
    inputs.input_bytes, inputs.input_floats, inputs.add_bias_alone,
    elementwise.added, elementwise.multiplied, elementwise.multiplied_gradient, elementwise.scaled,
    losses.softmax_a, losses.softmax_b, losses.softmax_c, losses.mean_loss, losses.squared_error,
    losses.absolute_error, losses.smooth_error,
    sums.panel_sums, sums.column_sums, sums.column_squares, sums.clip_factor, sums.accumulate,
    *OPTIMISERS,
)  # fmt: skip
VARIANTS = {
    elementwise.scaled: [{"gradient": True}],
    losses.softmax_c: [{"scaled": True}],
    losses.squared_error: [{"scaled": True}],
    losses.absolute_error: [{"scaled": True}],
    losses.smooth_error: [{"scaled": True}],
    sums.clip_factor: [{"scaled": True}],
    optimisers.sgd: [{"momentum": False}, {"nesterov": True}],
    optimisers.rmsprop: [{"momentum": True}],
}
ARGUMENTS = {
    elementwise.scaled: (0.5,),
    losses.softmax_c: (3,),
    losses.squared_error: (3,),
    losses.absolute_error: (3,),
    losses.smooth_error: (3, 0.5),
}
BLOCKS = (1, 2, 4, 8, 16, 32)


def every():
    """All chains in all their variants."""
    for make in SINGLE:
        choices = [{}, *VARIANTS.get(make, [])]
        options = OPTIONS if make in OPTIMISERS else [None]
        for choice, option in product(choices, options):
            arguments = ARGUMENTS.get(make, ()) if option is None else (option,)
            yield make(*arguments, **choice)
    for make in activations.ACTIVATIONS.values():
        yield make().forward_chain()
        yield make().backward_chain()


def paragraph(docstring, name):
    text = " ".join(docstring.split())
    return re.search(rf"{name}: (.*?)\.(?: [A-Z]\w+: |$)", text)[1]


def count(text, block):
    """Of "16 + 2 log2 B"."""
    fixed, _, turns = text.removesuffix("log2 B").partition(" + ")
    return int(fixed) + int(turns or 0) * (block.bit_length() - 1)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_chain_obeys_the_rules(block):
    for chain in every():
        assert 1 <= len(chain.assembled(block)) <= MAX_INSTRUCTIONS


def test_every_stream_and_constant_has_a_name():
    for chain in every():
        named = {f"s{port.number}" for port in chain.inputs.values()}
        named |= {f"o{port.number}" for port in chain.outputs.values()}
        assert set(re.findall(r"\b[so]\d\b", chain.text)) == named, chain.name
        constants = set(re.findall(r"K\[([^\]]+)\]", chain.text)) - {"252", "253"}
        assert constants == set(chain.constants), chain.name


@pytest.mark.parametrize("make", SINGLE, ids=lambda make: make.__name__)
@pytest.mark.parametrize("block", BLOCKS[1:])
@pytest.mark.sampled(3)
def test_descriptions(make, block):
    chain, text = make(*ARGUMENTS.get(make, ())), make.__doc__
    assert len(chain.assembled(block)) == count(paragraph(text, "Instructions"), block)
    streams = [f"s{port.number} {name}" for name, port in chain.inputs.items()]
    streams += [f"o{port.number} {name}" for name, port in chain.outputs.items()]
    assert paragraph(text, "Streams").split("; ") == streams
    assert paragraph(text, "Constants") == (", ".join(chain.constants) or "none")


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_activations_descriptions(name):
    make = activations.ACTIVATIONS[name]
    forward, backward = paragraph(make.__doc__, "Instructions").split(", ")
    assert forward == f"{len(make().forward_chain().assembled(8))} forward"
    assert backward == f"{len(make().backward_chain().assembled(8))} backward"
