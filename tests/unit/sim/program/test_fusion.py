"""Chains of several parts compute what the parts compute one after another."""

import numpy as np
import pytest

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.program.chains.activations import ACTIVATIONS, leaky_relu
from diastole_sim.program.chains.elementwise import added, multiplied, scaled
from diastole_sim.program.chains.inputs import add_bias_alone
from diastole_sim.program.chains.sums import panel_sums
from diastole_sim.program.evaluate import in_float64
from diastole_sim.program.fusion import FLOATS, ChainPart, FusionError, fused
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.spec.micro import MAX_INSTRUCTIONS
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder

SHAPE = (11, 7)
BLOCK = 4


def stream(name, kind=Kind.F32, **fields):
    return BoundStream(name=name, descriptor=Descriptor(kind=kind, **fields))


def part(chain, reads, writes, **others):
    return ChainPart(chain=chain, shape=SHAPE, inputs=reads, outputs=writes, **others)


def one(chain, source, target, kept=None):
    """A part with one value in and out."""
    targets = {"value": target} | ({"kept": kept} if kept else {})
    return part(chain, {"input": source}, targets)


def apart(parts, arrays):
    """What the parts compute one after another, by value."""
    values = dict(arrays)
    for each in parts:
        inputs = {name: values[source] for name, source in each.inputs.items()}
        found = in_float64(each.chain, inputs, shape=SHAPE, block=BLOCK)
        values |= {target: found[name] for name, target in each.outputs.items()}
    return values


def check(parts, arrays, stored):
    """Compare all stored values, and return the chain."""
    made = fused(parts, {name: [FLOATS] for name in stored}, block=BLOCK)
    inputs = {name: arrays[source] for name, source in made.inputs.items()}
    found = in_float64(made.chain, inputs, shape=SHAPE, block=BLOCK)
    expected = apart(parts, arrays)
    assert {value for value, _ in made.stored.values()} == set(stored)
    for name, (value, form) in made.stored.items():
        assert form == FLOATS
        np.testing.assert_array_equal(found[name], expected[value], err_msg=value)
    return made.chain


@pytest.mark.parametrize("first", ACTIVATIONS)
@pytest.mark.parametrize("second", ACTIVATIONS)
def test_two_activations(first, second, np_rng):
    parts = [
        one(ACTIVATIONS[first]().forward_chain(), "z", "a", "ka"),
        one(ACTIVATIONS[second]().forward_chain(), "a", "b", "kb"),
    ]
    arrays = {"z": np_rng.normal(size=SHAPE)}
    length = [len(each.chain.assembled(BLOCK)) for each in parts]
    for stored in (["b"], ["a", "b"], ["b", "ka", "kb"], ["a", "b", "ka", "kb"]):
        try:
            chain = check(parts, arrays, stored)
        except FusionError:
            assert sum(length) > MAX_INSTRUCTIONS
        else:
            assert len(chain.assembled(BLOCK)) <= sum(length)


@pytest.mark.parametrize("first", ACTIVATIONS)
def test_a_value_that_two_parts_read(first, np_rng):
    """The value outlives the part that overwrites its register."""
    parts = [
        one(ACTIVATIONS[first]().forward_chain(), "z", "a", "kept"),
        one(leaky_relu(0.25).forward_chain(), "a", "b", "mask"),
        part(multiplied(), {"input": "a", "other": "a"}, {"value": "square"}),
        part(added(), {"input": "square", "other": "b"}, {"value": "sum"}),
    ]
    check(parts, {"z": np_rng.normal(size=SHAPE)}, ["sum", "a"])


def test_constants_of_one_name(np_rng):
    """Two slopes are two constants; equal slopes are one."""
    arrays = {"z": np_rng.normal(size=SHAPE)}
    for slope, count in ((0.5, 2), (0.25, 1)):
        parts = [
            one(leaky_relu(0.25).forward_chain(), "z", "a"),
            one(scaled(-1.0), "a", "minus"),
            one(leaky_relu(slope).forward_chain(), "minus", "b"),
        ]
        chain = check(parts, arrays, ["b"])
        assert len([name for name in chain.constants if name.startswith("slope")]) == count


def test_a_bias_and_an_activation_need_no_move():
    parts = [
        part(add_bias_alone(), {"y": "y", "b": stream("bias", Kind.COLUMN)}, {"z": "z"}),
        one(ACTIVATIONS["relu"]().forward_chain(), "z", "a", "kept"),
    ]
    made = fused(parts, {"a": ["x"], "kept": [FLOATS]}, block=BLOCK)
    assert made.chain.text.splitlines() == [
        "r0 = add s0 s1",
        "gt r0 0 -> o1",
        "max r0 0 -> o0",
    ]
    assert made.chain.outputs["a, x"].kinds[0] == Kind.IMAGE
    assert made.chain.outputs["kept, floats"].kinds == (Kind.MASK,)


def test_what_nobody_reads_is_not_computed():
    """Without the kept values, no comparison is left."""
    parts = [one(ACTIVATIONS["gelu"]().forward_chain(), "z", "a", "kept")]
    whole = fused(parts, {"a": [FLOATS], "kept": [FLOATS]}, block=BLOCK).chain
    value = fused(parts, {"a": [FLOATS]}, block=BLOCK).chain
    assert len(value.assembled(BLOCK)) == len(whole.assembled(BLOCK)) - 4
    assert set(value.constants) == {"p", "q"}


def test_sums_keep_their_register(np_rng):
    """A running maximum of a part is not spoilt by a later part."""
    running = Chain(
        name="running",
        text=lines("r0 = max s0 r0 fresh keep", "turned max r0 lanes when last -> o0"),
        inputs={"x": Port(number=0, kinds=(Kind.F32,), meaning="")},
        outputs={"m": Port(number=0, kinds=(Kind.ROW,), meaning="")},
    )
    largest = stream("largest", Kind.ROW)
    parts = [
        one(ACTIVATIONS["sigmoid"]().forward_chain(), "z", "a"),
        part(running, {"x": "a"}, {"m": largest}),
        one(ACTIVATIONS["silu"]().forward_chain(), "a", "b"),
        part(running, {"x": "b"}, {"m": stream("second", Kind.ROW)}),
    ]
    z = np_rng.normal(size=SHAPE)
    made = fused(parts, {"b": [FLOATS]}, block=BLOCK)
    found = in_float64(made.chain, {"z": z}, shape=SHAPE, block=BLOCK)
    a = 1 / (1 + np.exp(-z))
    b = a / (1 + np.exp(-a))
    np.testing.assert_allclose(found["largest"], a.max(axis=1), rtol=1e-8)
    np.testing.assert_allclose(found["second"], b.max(axis=1), rtol=1e-8)
    np.testing.assert_allclose(found["b, floats"], b, rtol=1e-8)


def test_a_product_goes_to_memory_beside_its_reader(np_rng):
    product = part(scaled(2.0), {"input": "y"}, {"value": "z"})
    made = fused([product], {"y": [FLOATS], "z": ["x"]}, block=BLOCK, head="y")
    y = np_rng.normal(size=SHAPE)
    found = in_float64(made.chain, {"y": y}, shape=SHAPE, block=BLOCK, kinds={"z, x": Kind.F32})
    np.testing.assert_array_equal(found["y, floats"], y)
    np.testing.assert_array_equal(found["z, x"], 2 * y)
    assert made.inputs == {"y": "y"}


def test_a_stream_in_place_has_one_name():
    sums = stream("sums", Kind.PANEL, aux=PanelOrder.BLOCK_COLUMN)
    made = fused(
        [part(panel_sums(), {"values": "g", "sums": sums}, {"sums": sums})], {}, block=BLOCK
    )
    assert set(made.inputs) == {"g", "sums"}
    assert set(made.outputs) == {"sums"}


def test_too_many_registers():
    """Seventeen numbers at once."""
    parts = [one(scaled(number + 1.0), "z", f"v{number}") for number in range(17)]
    names = [f"v{number}" for number in range(17)]
    for name in names[1:]:
        parts.append(part(added(), {"input": "v0", "other": name}, {"value": "v0"}))
    with pytest.raises(FusionError, match="registers"):
        fused(parts, {"v0": [FLOATS]}, block=BLOCK)


def test_too_many_outputs():
    parts = [one(scaled(number + 1.0), "z", f"v{number}") for number in range(5)]
    with pytest.raises(FusionError, match="write too many"):
        fused(parts, {f"v{number}": [FLOATS] for number in range(5)}, block=BLOCK)


def test_too_many_inputs():
    parts = [part(added(), {"input": "a", "other": f"b{n}"}, {"value": "a"}) for n in range(5)]
    with pytest.raises(FusionError, match="read too many"):
        fused(parts, {"a": [FLOATS]}, block=BLOCK)


def test_two_images():
    parts = [one(scaled(2.0), "z", "a"), one(scaled(3.0), "z", "b")]
    with pytest.raises(FusionError, match="two images"):
        fused(parts, {"a": ["x"], "b": ["x"]}, block=BLOCK)


def test_different_tensors():
    other = ChainPart(
        chain=scaled(1.0), shape=(7, 11), inputs={"input": "a"}, outputs={"value": "b"}
    )
    with pytest.raises(FusionError, match="different tensors"):
        fused([one(scaled(2.0), "z", "a"), other], {"b": [FLOATS]}, block=BLOCK)
