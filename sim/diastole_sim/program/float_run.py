"""Train a perceptron in float32: the result of a program without quantisation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.sums import clip_factor
from diastole_sim.program.chains.updates import CLIP_FACTOR
from diastole_sim.program.evaluate import in_float64
from diastole_sim.program.perceptron_tensors import PerceptronRecipe
from diastole_sim.train import host
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.samples import Samples

BLOCK = 32
"""Side of the blocks of chains. Only the order of sums depends on the side."""


class FloatRun:
    """Training run with the network, optimiser, data and order of a recipe.

    Products are computed by numpy. Chains are the program's chains, computed in float64. All values
    between products and chains are float32. Losses have no scale.
    """

    def __init__(self, recipe: PerceptronRecipe, training: Samples):
        self.recipe, self.training = replace(recipe, loss_scaling=None), training
        self.forward_chain = recipe.activation.forward_chain()
        self.backward_chain = recipe.activation.backward_chain()
        self.update_chain = self.recipe.update(bias=False)
        state_names = [name for name in self.update_chain.inputs if name not in ("g", "w")]
        self.layers: list[dict[str, Floats]] = []
        self.biases: list[dict[str, Floats]] = []
        for layer, (inputs, outputs) in enumerate(pairwise(recipe.widths)):
            w = initial_weights(inputs, outputs, seed=recipe.seed, layer=layer)
            for place, first in (
                (self.layers, w),
                (self.biases, np.zeros((1, outputs), np.float32)),
            ):
                place.append({"w": first} | {name: np.zeros_like(first) for name in state_names})

    def step(self, number: int) -> float:
        """Do one step and return the loss before the update."""
        batch = self.training.take(self.recipe.batches[number])
        inputs, saved = self._forward(batch.inputs)
        loss, dy = host.softmax_cross_entropy(inputs[-1], batch.labels)
        gradients: list[tuple[Floats, Floats]] = []
        # Backward pass, from the last layer to the first.
        for layer in reversed(range(len(self.layers))):
            gradients.append((inputs[layer].T @ dy, dy.sum(axis=0, keepdims=True)))
            if layer:
                da = dy @ self.layers[layer]["w"].T
                db = np.zeros((BLOCK, da.shape[1]))
                streams = {"da": da, "kept": saved[layer - 1], "db": db}
                dy = self._chain(self.backward_chain, streams, da.shape)["dz"]
        constants = {**self.recipe.optimiser.constants(), **self.recipe.optimiser.of_step(number)}
        if self.recipe.clip is not None:
            constants[CLIP_FACTOR] = self._clip_factor(self.recipe.clip, gradients)
        # Updates of weights and biases.
        for place, (dw, db) in enumerate(reversed(gradients)):
            self.layers[place] = self._updated(self.layers[place], dw, constants)
            self.biases[place] = self._updated(self.biases[place], db, constants)
        return float(loss)

    def parameters(self) -> dict[str, Floats]:
        """Return weights, then bias of every layer in order, by their names in a program."""
        pairs = enumerate(zip(self.layers, self.biases, strict=True))
        return {
            f"layer {layer} {name}": each["w"]
            for layer, (weights, bias) in pairs
            for name, each in (("w", weights), ("bias w", bias))
        }

    def evaluate(self, samples: Samples) -> tuple[float, float]:
        """Return loss and accuracy on samples."""
        z = self._forward(samples.inputs)[0][-1]
        loss, _ = host.softmax_cross_entropy(z, samples.labels)
        return float(loss), host.accuracy(z, samples.labels)

    def _forward(self, x: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return the inputs of every layer followed by the logits, and the values kept by
        activations."""
        layer_inputs, saved = [x.astype(np.float32)], list[Floats]()
        for layer, bias in zip(self.layers, self.biases, strict=True):
            y = layer_inputs[-1] @ layer["w"]
            if layer is self.layers[-1]:
                layer_inputs.append(y + bias["w"])
                continue
            streams = {"y": y, "b": bias["w"][0]}
            each = self._chain(self.forward_chain, streams, y.shape)
            layer_inputs.append(each["a"])
            saved.append(each["kept"])
        return layer_inputs, saved

    def _clip_factor(self, norm: float, gradients: Sequence[tuple[Floats, Floats]]) -> float:
        """Return the clip factor of all gradients."""
        squares = [[float(np.square(each).sum()) for pair in gradients for each in pair]]
        streams = {"squares": np.array(squares, np.float32)}
        shape, constants = (1, len(squares[0])), {"max_norm": norm}
        return float(self._chain(clip_factor(), streams, shape, constants)["factor"])

    def _updated(
        self, state: dict[str, Floats], gradient: Floats, constants: Mapping[str, float]
    ) -> dict[str, Floats]:
        outputs = self._chain(self.update_chain, {"g": gradient} | state, gradient.shape, constants)
        return {name: outputs[name] for name in state}

    def _chain(
        self,
        chain: Chain,
        inputs: Mapping[str, Floats],
        shape: tuple[int, ...],
        constants: Mapping[str, float] | None = None,
    ) -> dict[str, Floats]:
        rows, columns = shape
        outputs = in_float64(
            chain, inputs, shape=(rows, columns), block=BLOCK, constants=constants or {}
        )
        return {name: values.astype(np.float32) for name, values in outputs.items()}
