"""Programs of perceptrons on the golden machine: close to a host's training, in every variant."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.lowering.evaluation import evaluation_program
from diastole_sim.lowering.parameters import Parameters, in_panel
from diastole_sim.lowering.program import first_parameters
from diastole_sim.lowering.tensors import ProgramTensors
from diastole_sim.program.memory_plan import MemoryPlan
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.command_table import VECTOR_OPCODES, Opcode
from diastole_sim.spec.limits import SlotWord, VectorTable
from diastole_sim.spec.stream_table import Kind, PanelOrder
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.precision import Precision
from support.golden_machines import NESTS
from support.numerics import make_numerics
from support.optimisers import SETTINGS
from support.reference_training import FUNCTIONS, Reference
from support.small_programs import BATCH, SmallRun
from support.texts import exactly

MOMENTUM = SETTINGS["momentum"]
STEPS = 4


def close_to_reference(small, setting, *, activation="relu", clip=None, tolerance=2e-4):
    """A run of all steps, in two parts, and a held-out evaluation."""
    reference = Reference(small.widths, small.numerics, setting, activation=activation, clip=clip)
    run = small.start()
    run.train(1)
    run.evaluate()
    run.train(STEPS - 1)
    expected = [reference.step(*small.batch(step), step) for step in range(STEPS)]
    np.testing.assert_allclose(run.losses(), expected, rtol=tolerance)
    for layer, (w, b) in enumerate(zip(reference.w, reference.b, strict=True)):
        name = str(2 * layer)
        np.testing.assert_allclose(run.floats(f"{name}.weight"), w, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(run.floats(f"{name}.bias"), b, atol=tolerance, err_msg=name)
    depth = len(reference.w)
    _, logits, _ = reference.forward(small.held_out.values(), STEPS, first=depth)
    np.testing.assert_allclose(run.evaluate(), logits, atol=20 * tolerance)
    return run


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.sampled(2)
def test_optimisers(name, clip, np_rng):
    setting = SETTINGS[name]
    small = SmallRun(np_rng, setting, clip=clip)
    close_to_reference(small, setting, clip=clip)


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_activations(activation, np_rng):
    small = SmallRun(np_rng, MOMENTUM, activation=activation, widths=(13, 11, 9, 7))
    close_to_reference(small, MOMENTUM, activation=activation)


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("as_bytes", [True, False], ids=["bytes", "floats"])
@pytest.mark.sampled(2)
def test_blocks_and_samples(block, as_bytes, np_rng):
    numerics = make_numerics(block=block, formats="bf16")
    small = SmallRun(np_rng, MOMENTUM, numerics=numerics, as_bytes=as_bytes)
    close_to_reference(small, MOMENTUM)


FORMATS = {
    "squares": {"formats": "bfp8"},
    "vectors": {"formats": "bfp8", "groupings": "1x8"},
    "current": {"formats": "fp8_e4m3", "groupings": "tensor"},
    "nvfp4": {"formats": "nvfp4", "groupings": "1x16"},
    "mixed": {"formats": ("bf16", "mxfp8_e4m3", "bfp8"), "groupings": (None, "1x8", None)},
    "fast": {"formats": "fast", "widths": (2, 4)},
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name, np_rng):
    nearest = {"roundings": ("nearest", "nearest", "nearest")}
    numerics = make_numerics(**FORMATS[name] | nearest)
    small = SmallRun(np_rng, MOMENTUM, numerics=numerics, widths=(45, 37, 7))
    close_to_reference(small, MOMENTUM, tolerance=3e-3)
    converts = [each for each in small.program.training if each.opcode == Opcode.CONVERT]
    assert len(converts) == (2 + 6 if name in ("current", "nvfp4") else 2)


def test_scales_of_the_step_before(np_rng):
    numerics = make_numerics(formats="fp8_e4m3", groupings="tensor", source="delayed")
    small = SmallRun(np_rng, MOMENTUM, numerics=numerics, steps=8)
    run = small.start()
    run.train(8)
    slots = {4 * layer + number for layer in range(2) for number in range(3)}
    kept = run.machine.tables.amax
    assert set(np.flatnonzero(kept[:, SlotWord.LARGEST])) == slots
    assert np.isfinite(run.losses()).all()
    assert kept[0, SlotWord.STEP] == 7
    for word, step in ((SlotWord.LARGEST, 7), (SlotWord.BEFORE, 6)):
        x, _ = small.batch(step)
        assert kept[0, word] == x.max().view(np.uint32)


def test_scales_that_a_machine_begins_with_do_not_count(np_rng):
    """They are anything, or those of a run before."""
    numerics = make_numerics(formats="fp8_e4m3", groupings="tensor", source="delayed")
    small = SmallRun(np_rng, MOMENTUM, numerics=numerics, steps=3)
    found = []
    for filled in (False, True):
        run = small.start()
        if filled:
            run.machine.tables.amax[:] = np_rng.integers(1, 2**31 - 2**24, (255, 3))
        run.train(3)
        found.append((run.losses().tolist(), run.evaluate().tolist()))
    assert found[0] == found[1]


def narrow(**others):
    """Tiles that hold no whole rows, of lengths that make no whole groups."""
    return replace(NESTS, t_blocks=(3,), groups=(1,), **others)


def test_tiles_that_make_no_image(np_rng):
    limits = {"nests": narrow()}
    small = SmallRun(np_rng, MOMENTUM, limits=limits)
    close_to_reference(small, MOMENTUM)
    plain = [each.opcode for each in small.program.training]
    assert plain.count(Opcode.FORWARD) == 1
    assert plain.count(Opcode.CONVERT) == 2 + 4


def test_the_bits_do_not_depend_on_where_things_are(np_rng):
    state = np_rng.bit_generator.state
    found = []
    for vectors in (1024, 64, 24):
        for nests in (NESTS, narrow()):
            np_rng.bit_generator.state = state
            limits = {"panel_vectors": vectors, "nests": nests}
            small = SmallRun(np_rng, MOMENTUM, limits=limits)
            run = small.start()
            run.train(STEPS)
            kinds = {each.opcode for each in small.program.training}
            assert Opcode.CHAIN in kinds
            names = [f"{layer}.{each}" for layer in (0, 2) for each in ("weight", "bias")]
            found.append([run.floats(name).tobytes() for name in names] + [run.losses().tobytes()])
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    "vectors, weights, biases",
    [
        (56 + 96 + 48 + 24 + 16, [True, True], [True, True]),
        (56 + 96 + 48 + 24 + 15, [True, True], [True, False]),
        (56 + 96 + 48, [True, True], [False, False]),
        (56 + 96 + 47, [True, False], [True, True]),
        (56 + 48 + 47, [False, True], [True, True]),
    ],
)
def test_what_does_not_fit_leaves_its_room_to_others(vectors, weights, biases, np_rng):
    small = SmallRun(np_rng, MOMENTUM)  # 20 vectors of sums, 24 of z and 12 of m
    plan = MemoryPlan(numerics=small.numerics, data_width=64, panel_vectors=vectors)
    first = first_parameters(small.recipe)
    tensors = ProgramTensors(small.recipe, small.training, small.held_out, first, plan)
    parameters = Parameters(small.recipe, tensors)
    tensors.spare("z", PanelOrder.BLOCK, BATCH, small.widths[-1])
    tensors.spare("m", PanelOrder.BLOCK_ROW, BATCH, 1)
    parameters.place()
    assert [in_panel(each.state) for each in parameters.weights.values()] == weights
    assert [in_panel(each.state) for each in parameters.biases.values()] == biases


def test_too_small_a_panel(np_rng):
    with pytest.raises(
        ValueError,
        match=exactly(
            "the panel is too small for the gradients by the biases of the network: the "
            "panel has 16 vectors, but 20 are needed"
        ),
    ):
        SmallRun(np_rng, MOMENTUM, limits={"panel_vectors": 16})


# Loss scaling.


def same_weights(run, other):
    for layer in (0, 2):
        for each in ("weight", "bias"):
            name = f"{layer}.{each}"
            assert run.floats(name).tobytes() == other.floats(name).tobytes(), name


@pytest.mark.parametrize("clip", [None, 0.3, 100.0])
def test_a_scale_changes_nothing_where_all_is_exact(clip, np_rng):
    state = np_rng.bit_generator.state
    scaling = LossScaling(exponent=5, smallest=-3, largest=9, window=2)
    runs = []
    for chosen in (None, scaling):
        np_rng.bit_generator.state = state
        small = SmallRun(np_rng, MOMENTUM, loss_scaling=chosen, clip=clip)
        runs.append(small.start())
        runs[-1].train(STEPS)
    if clip is None:
        same_weights(*runs)
    else:
        for layer in (0, 2):
            pair = [run.floats(f"{layer}.weight") for run in runs]
            np.testing.assert_allclose(*pair, atol=1e-6)
    np.testing.assert_allclose(runs[0].losses(), runs[1].losses(), rtol=1e-6)
    assert runs[1].machine.loss.exponent == 7  # doubled twice in four steps


def test_floors_of_the_scale(np_rng):
    """A load more in every step; the scale is at least what its step's floor is: with a window of
    2 steps 3, 4, 4, then 6 by its floor, 6, 7."""
    state = np_rng.bit_generator.state
    runs = []
    for floors in ((), ((3, 6),)):
        np_rng.bit_generator.state = state
        scaling = LossScaling(exponent=3, window=2, floors=floors)
        runs.append(SmallRun(np_rng, MOMENTUM, loss_scaling=scaling, steps=6))
    plain, floored = (each.program.training for each in runs)
    loads = [(each.which, each.first, each.count) for each in floored if each.opcode == Opcode.LOAD]
    assert loads.count((VectorTable.CONSTANTS, 255, 1)) == 1
    assert len(floored) == len(plain) + 1
    run, found = runs[1].start(), []
    for _ in range(6):
        run.train(1)
        found.append((run.machine.loss.exponent, run.machine.loss.clean))
    assert found == [(3, 1), (4, 0), (4, 1), (6, 1), (7, 0), (7, 1)]
    other = runs[1].start()
    other.train(6)
    same_weights(run, other)
    unscaled = runs[0].start()
    unscaled.train(6)
    same_weights(run, unscaled)  # bf16 rounds the same whatever the power of two


@pytest.mark.parametrize("formats", ["bf16", "fp8_e4m3"])
def test_steps_that_overflow_are_skipped(formats, np_rng):
    scaling = LossScaling(exponent=126, smallest=-3, largest=126, window=100)
    numerics = make_numerics(formats=formats, roundings=("nearest",) * 3)
    setting = replace(MOMENTUM, rate=1e-4)
    options = {"loss_scaling": scaling, "numerics": numerics, "steps": 30, "scale": 8.0}
    small = SmallRun(np_rng, setting, **options)
    run = small.start()
    before = small.start()
    before.program = replace(small.program, training=small.program.training[:2])
    before.train(1)  # the first conversions alone
    run.train(1)
    assert run.machine.loss.exponent == 125
    same_weights(run, before)
    assert np.array_equal(run.evaluate(), before.evaluate())
    run.train(29)
    assert run.machine.loss.exponent < 125
    assert np.isfinite(run.floats("0.weight")).all()
    assert not np.array_equal(run.floats("0.weight"), before.floats("0.weight"))


# Norms and sums that overflow.


def first_weights(small, run):
    """As the host filled memory with them."""
    names = [f"{layer}.{each}" for layer in (0, 2) for each in ("weight", "bias")]
    return {name: small.start().floats(name) for name in names if name in run.program.areas}


@pytest.mark.parametrize("name", ["sgd", "momentum", "adamw"])
def test_an_infinite_norm_clips_to_nothing(name, np_rng):
    """Gradients of 1e19 and more: their squares overflow. torch's factor is 0 then."""
    setting = SETTINGS[name]
    small = SmallRun(np_rng, setting, clip=1.0, scale=1e20)
    run = small.start()
    run.train(1)
    gradient = run.floats("0.weight gradient")
    assert np.isfinite(gradient).all()
    assert np.square(gradient, dtype=np.float64).sum() > np.finfo(np.float32).max
    decayed = 1 - setting.rate * setting.decay if name == "adamw" else 1.0
    for each, before in first_weights(small, run).items():
        np.testing.assert_allclose(run.floats(each), decayed * before, rtol=1e-6, err_msg=each)


def test_a_norm_that_overflows_is_an_overflow_of_its_step(np_rng):
    """Gradients near 1e14, times 2^24: every one is finite, their squares are not."""
    scaling = LossScaling(exponent=24, smallest=-14, largest=24, window=100)
    small = SmallRun(np_rng, MOMENTUM, clip=1.0, loss_scaling=scaling, scale=1e14, steps=30)
    run = small.start()
    run.train(1)
    assert np.isfinite(run.floats("0.weight gradient")).all()
    assert (run.machine.loss.exponent, run.machine.loss.clean) == (23, 0)
    same_weights(run, small.start())
    run.train(29)  # 2^24 1e14 is 1.7e21; it takes some ten halvings until squares are finite
    assert 8 < run.machine.loss.exponent < 18
    assert run.machine.loss.clean > 10
    moved = run.floats("0.weight") - small.start().floats("0.weight")
    assert np.isfinite(moved).all()
    assert moved.any()


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_sums_of_biases_that_overflow(name, clip, np_rng):
    """What each row slot has summed is finite, the gradient by the bias is not."""
    scaling = LossScaling(exponent=126, smallest=-14, largest=126, window=100)
    state = np_rng.bit_generator.state
    infinite = 0
    for weight in 2.0 ** np.arange(2, 7, 0.5):
        np_rng.bit_generator.state = state
        numerics = make_numerics(formats="bf16", roundings=("nearest",) * 3)
        options = {"numerics": numerics, "clip": clip, "scale": 1 / 256}
        small = SmallRun(np_rng, SETTINGS[name], loss_scaling=scaling, **options)
        run = small.start()
        areas = run.program.areas
        labels, w = areas["labels of steps"], areas["2.weight"]
        ones = np.ones(labels.length // 4, np.int32)
        run.machine.write(labels.address, ones.view(np.uint8))  # no sample is of class 0
        of_class_0 = np.zeros((11, w.pitch // 4), np.float32)
        of_class_0[:, 0] = weight
        run.machine.write(w.address, of_class_0.reshape(-1).view(np.uint8))
        before = run.floats("0.weight").copy()
        run.train(1)
        first, end = run.program.panel["0.bias sums"]
        parts = run.machine.tables.panel[first:end]
        with np.errstate(over="ignore"):
            sums = parts.reshape(-1, 4, 4).sum(axis=1)
        only_sums = np.isfinite(parts).all() and np.isinf(sums).any()
        infinite += only_sums and np.isfinite(run.floats("0.weight gradient")).all()
        assert np.isfinite(run.floats("0.bias")).all()
        if only_sums:
            assert run.machine.loss.exponent == 125
            assert np.array_equal(run.floats("0.weight"), before)
    assert infinite


# What a command says of itself.


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("panel_vectors, name", [(1024, "mixed"), (64, "mixed"), (64, "current")])
def test_what_begins_early_touches_nothing_of_the_one_before(clip, panel_vectors, name, np_rng):
    small = SmallRun(
        np_rng,
        SETTINGS["adamw"],
        clip=clip,
        limits={"panel_vectors": panel_vectors},
        widths=(13, 11, 9, 7),
        numerics=make_numerics(**FORMATS[name]),
    )
    machine = small.start().machine
    early = 0
    before = last = None
    for command in (*small.program.training, *small.program.evaluation):
        reads, writes = touched(machine, command)
        if command.ahead:
            early += 1
            assert not meet(reads, before[1])
            in_turn = {command.opcode, last.opcode} <= set(VECTOR_OPCODES)
            assert not meet(writes, before[1] if in_turn else before[0] | before[1])
        last = command
        machine.execute(replace(command, ahead=0))
        before = reads, writes
    assert early > 5


def touched(machine, command):
    """Runs (table or None, first, end) that a command reads, and that it writes."""
    writes = {
        (area.table, area.first, area.first + max(area.length, area.pitch * area.count))
        for area in machine.written_areas(command)
    }
    reads = set()
    if command.opcode == Opcode.CONVERT:
        reads.add((None, command.address_x, command.address_x + 4 * command.m * command.n))
    for field in ("address_x", "address_w", "address_dy"):
        if command.opcode not in (Opcode.CONVERT, Opcode.LOAD) and getattr(command, field):
            address = getattr(command, field)
            reads.add((None, address, address + 1))
    if command.opcode in (Opcode.CHAIN, Opcode.FORWARD_CHAIN, Opcode.DX_CHAIN, Opcode.DW_CHAIN):
        program = machine.tables.instructions[command.program :][: command.program_length]
        for number in {source - 16 for it in program for source in it.sources.values()} & {
            0,
            1,
            2,
            3,
        }:
            stream = machine.tables.descriptors[command.streams + number]
            if stream.kind != Kind.PRODUCT:
                which = 3 if stream.kind == Kind.PANEL else None
                address = stream.at_step(machine.step)
                reads.add((which, address, address + 1))
        reads |= {(1, it.k, it.k + 1) for it in program if 20 in it.sources.values()}
    return reads, writes


def meet(some, others):
    return [
        (one, other)
        for one in some
        for other in others
        if one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
    ]


# The state between two runs.

STATES = {
    "plain": ({"formats": "bfp4"}, {}),
    "clipped": ({"formats": "bfp8"}, {"clip": 0.3}),
    "delayed": ({"formats": "fp8_e4m3", "groupings": "tensor", "source": "delayed"}, {}),
    "current": ({"formats": "fp8_e4m3", "groupings": "tensor"}, {}),
    "scaled": ({"formats": "bfp8"}, {"loss_scaling": LossScaling(exponent=20, window=2)}),
    "fast": (
        {"formats": "fast", "widths": (2, 4)},
        {"precision": Precision(kind="fast", classes=("x", "w", "dy"), alpha=0.45)},
    ),
}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("panel_vectors", [24, 1024])
@pytest.mark.parametrize("done", [1, 3])
def test_a_restored_run_has_the_bits_of_one_that_never_stopped(name, panel_vectors, done, np_rng):
    """On a new machine whose tables hold anything."""
    formats, recipe = STATES[name]
    numerics = make_numerics(block=4, **formats)
    small = SmallRun(
        np_rng, SETTINGS["adam"], numerics=numerics, steps=5,
        limits={"panel_vectors": panel_vectors}, **recipe,
    )  # fmt: skip
    whole = small.start()
    whole.train(5)
    first = small.start()
    first.train(done)
    state, loss = first.state(), first.machine.loss
    second = small.start()
    tables = second.machine.tables
    tables.amax[:] = np_rng.integers(1, 2**31 - 2**24, tables.amax.shape)
    tables.panel[:] = np.nan
    second.restore(state, done, loss)
    assert second.evaluate().tobytes() == first.evaluate().tobytes()
    second.train(5 - done)
    assert second.losses().tobytes() == whole.losses().tobytes()
    for area in small.program.state:
        assert second.state()[area].tobytes() == whole.state()[area].tobytes(), area
    assert second.evaluate().tobytes() == whole.evaluate().tobytes()


@pytest.mark.parametrize("name", STATES)
def test_an_evaluation_alone_has_the_bits_of_the_training(name, np_rng):
    """From the state, by a program without a training; without a state, nearly."""
    formats, recipe = STATES[name]
    numerics = make_numerics(block=4, **formats)
    small = SmallRun(np_rng, SETTINGS["momentum"], numerics=numerics, **recipe)
    run = small.start()
    run.train(3)
    expected, state = run.evaluate(), run.state()
    shapes = {key: each.shape for key, each in small.recipe.graph.parameters.items()}
    parameters = {
        key: np.ascontiguousarray(each.T).reshape(shapes[key])
        for key, each in run.parameters().items()
    }
    for given in (state, None):
        program = evaluation_program(
            small.recipe,
            parameters,
            small.held_out,
            numerics=numerics,
            limits=small.limits,
            state=given,
        )
        machine = golden_machine(program, numerics, small.limits, seed=0)
        alone = ProgramRun(program=program, machine=machine)
        machine.step = machine.step_end = 3
        found = alone.evaluate()
        if given is None:
            assert np.abs(found - expected).max() < 0.5 * np.abs(expected).max()
        else:
            assert found.tobytes() == expected.tobytes()
