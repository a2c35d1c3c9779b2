"""Train a network in float32: the result of a program without quantisation."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.graph.gradients import Evaluation, differentiate, evaluate, step_draws
from diastole_sim.graph.operations.operation import StepDraws
from diastole_sim.lowering.program import first_parameters
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.sums import clip_factor
from diastole_sim.program.chains.updates import CLIP_FACTOR, TRUST_RATIO
from diastole_sim.program.evaluate import in_float64
from diastole_sim.program.recipe import Lars
from diastole_sim.train.master import FLOAT32
from diastole_sim.train.samples import Samples

BLOCK = 32
"""Side of the blocks of chains. Only the order of sums depends on the side."""


class FloatRun:
    """Training run with the network, optimiser, data and order of a recipe.

    The graph is computed in float32, and the updates are the program's chains in float64 with
    results in float32. Losses have no scale.

    ``state``: parameters, and the numbers that the optimiser keeps, by the names of the graph and
    of the chains.
    """

    def __init__(self, recipe: TrainingRecipe, training: Samples):
        self.recipe = replace(recipe, loss_scaling=None, master=FLOAT32, gradient="float32")
        self.training = training
        numbers = range(len(self.recipe.optimisers))
        self.updates = [self.recipe.update(bias=False, group=number) for number in numbers]
        names = [name for name in self.updates[0].inputs if name not in ("g", "w")]
        self.state: dict[str, dict[str, Floats]] = {
            name: {"w": first} | {each: np.zeros_like(first) for each in names}
            for name, first in first_parameters(self.recipe).items()
        }

    def step(self, number: int) -> float:
        """Do one step and return the loss before the update."""
        recipe = self.recipe
        draws = step_draws(
            recipe.graph, seed=recipe.seed, step=number, microbatches=recipe.microbatches
        )
        found = self._evaluated(self.training.take(recipe.batches[number]), draws)
        gradients = differentiate(found)
        trained = [name for name in self.state if self.recipe.graph.parameters[name].trainable]
        every = [{**each.constants(), **each.of_step(number)} for each in self.recipe.optimisers]
        if self.recipe.clip is not None:
            wanted = {name: gradients[name] for name in trained}
            factor = self._clip_factor(self.recipe.clip, wanted)
            every = [constants | {CLIP_FACTOR: factor} for constants in every]
        for name in trained:
            group = self.recipe.group(name)
            update, constants = self.updates[group], every[group]
            if TRUST_RATIO in update.constants:
                factor = np.float32(constants.get(CLIP_FACTOR, 1.0))
                ratio = self._trust_ratio(name, factor * gradients[name])
                constants = constants | {TRUST_RATIO: ratio}
            self.state[name] = self._updated(update, self.state[name], gradients[name], constants)
        return float(found.output)

    def parameters(self) -> dict[str, Floats]:
        """Return all parameters by name, in the form of a program: a weight has the shape
        inputs x outputs."""
        return {
            name: np.ascontiguousarray(self.state[name]["w"].T)
            for node in self.recipe.linears
            for name in node.operands[1:]
        }

    def result(self, samples: Samples) -> Floats:
        """Return the network's result for samples."""
        return self._evaluated(samples).values[self.recipe.result]

    def _evaluated(self, samples: Samples, draws: StepDraws | None = None) -> Evaluation:
        """Return all results for samples. ``draws``: random numbers of a training step."""
        graph = self.recipe.graph
        arrays = {
            self.recipe.samples: samples.inputs.astype(np.float32),
            self.recipe.loss_node.operands[1]: self._targets(samples),
        }
        shapes = {name: (len(samples.labels), *shape[1:]) for name, shape in graph.inputs.items()}
        inputs = {name: arrays[name].reshape(shapes[name]) for name in graph.inputs}
        parameters = {name: each["w"] for name, each in self.state.items()}
        return evaluate(replace(graph, inputs=shapes), inputs, parameters, draws)

    def _targets(self, samples: Samples) -> NDArray[np.generic]:
        labels = self.recipe.loss.labels
        return samples.labels.astype(np.int64 if labels else np.float32)

    def _clip_factor(self, norm: float, gradients: Mapping[str, Floats]) -> float:
        """Return the clip factor of all gradients."""
        squares = [[float(np.square(each).sum()) for each in gradients.values()]]
        streams = {"squares": np.array(squares, np.float32)}
        shape, constants = (1, len(squares[0])), {"max_norm": norm}
        return float(_computed(clip_factor(), streams, shape, constants)["factor"])

    def _trust_ratio(self, name: str, gradient: Floats) -> float:
        """Return the trust ratio of a parameter, 1 for a bias."""
        optimiser = self.recipe.optimisers[self.recipe.group(name)]
        weight = self.state[name]["w"]
        if weight.ndim < 2 or not isinstance(optimiser, Lars):
            return 1.0
        norm, of_gradient = (float(np.linalg.norm(each)) for each in (weight, gradient))
        if norm == 0 or of_gradient == 0:
            return 1.0
        return optimiser.trust * norm / (of_gradient + optimiser.weight_decay * norm)

    def _updated(
        self,
        update: Chain,
        state: dict[str, Floats],
        gradient: Floats,
        constants: Mapping[str, float],
    ) -> dict[str, Floats]:
        shape = gradient.shape if gradient.ndim > 1 else (1, *gradient.shape)
        inputs = {name: each.reshape(shape) for name, each in {"g": gradient, **state}.items()}
        outputs = _computed(update, inputs, shape, constants)
        return {name: outputs[name].reshape(gradient.shape) for name in state}


def _computed(
    chain: Chain,
    inputs: Mapping[str, Floats],
    shape: tuple[int, ...],
    constants: Mapping[str, float],
) -> dict[str, Floats]:
    """Return the outputs of a chain in float32."""
    rows, columns = shape
    outputs = in_float64(chain, inputs, shape=(rows, columns), block=BLOCK, constants=constants)
    return {name: values.astype(np.float32) for name, values in outputs.items()}
