"""Train a graph whose products are the golden device's, and whose everything else is numpy float64:
what a program must come close to."""

import numpy as np

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.graph.operations.operation import OperationUse, StepDraws
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.lowering.program import first_parameters


class QuantisedGraph:
    """``recipe``: as of a program. ``update``: new values of a parameter, from its name, its values
    and its gradient."""

    def __init__(self, recipe, numerics, update, seed=0):
        self.recipe, self.graph, self.update = recipe, recipe.graph, update
        self.device, self.seed = NumpyDevice(numerics, seed), seed
        self.parameters = {
            name: each.astype(np.float32) for name, each in first_parameters(recipe).items()
        }
        self.images = {}

    def image(self, name, values, tensor_class, layer, step):
        """That of a tensor and class, made once in a step, with the tag of the first layer."""
        if (name, tensor_class) not in self.images:
            tag = 4 * layer + ("x", "w", "dy").index(tensor_class)
            self.images[name, tensor_class] = self.device.convert(
                values.astype(np.float32), tensor_class, tag=tag, step=step
            )
        return self.images[name, tensor_class]

    def alias(self, name):
        """The tensor that a flatten only renames."""
        node = next((each for each in self.graph.nodes if each.name == name), None)
        return self.alias(node.operands[0]) if node and node.operation == "flatten" else name

    def layers(self):
        """Number of the first layer that reads each tensor as X, and each weight."""
        found = {}
        for number, node in enumerate(self.recipe.linears):
            for name in (self.alias(node.operands[0]), node.operands[1]):
                found.setdefault(name, number)
        return found

    def use(self, place, node, step, microbatch=None):
        """Of node number ``place``, which has random numbers in a microbatch."""
        draws = None if microbatch is None else StepDraws(seed=self.seed, step=step)
        number = place + (microbatch or 0) * len(self.graph.nodes)
        return OperationUse(attributes=node.attributes, tag=4 * number + 3, draws=draws)

    def forward(self, inputs, step, first=0, microbatch=None):
        """All values, and what gradients need. ``first``: number of the first layer.
        ``microbatch``: None for an evaluation."""
        values, kept, layers, number = dict(inputs), {}, self.layers(), 0
        for place, node in enumerate(self.graph.nodes):
            operation = OPERATIONS[node.operation]
            if node.operation == "linear":
                x, weight, *bias = node.operands
                name = self.alias(x)
                held = self.image(name, values[x], "x", first + layers[name], step)
                w = self.parameters[weight].T
                held_w = self.device.convert(
                    w, "w", tag=4 * layers[weight] + 1, step=(step - 1) % 2**32
                )
                y = self.device.forward(held, held_w).y.astype(np.float64)
                values[node.name] = y + self.parameters[bias[0]] if bias else y
                kept[node.name] = number, held, held_w, [weight, *bias], x
                number += 1
                continue
            operands = [values[name] for name in node.operands]
            use = self.use(place, node, step, microbatch)
            values[node.name], kept[node.name] = operation.value(operands, use)
        return values, kept

    def step(self, inputs, step):
        """The loss before the update: the mean over all microbatches."""
        count, gradients, losses = self.recipe.microbatches, {}, []
        every = [np.split(each, count) for each in inputs.values()]
        for number in range(count):
            own = {name: each[number] for name, each in zip(inputs, every, strict=True)}
            losses.append(self.microbatch(own, step, number, gradients))
        for name, gradient in gradients.items():
            updated = self.update(name, self.parameters[name].astype(np.float64), gradient)
            self.parameters[name] = updated.astype(np.float32)
        return float(np.mean(losses))

    def microbatch(self, inputs, step, microbatch, gradients):
        """The loss of the microbatch; adds to the gradients of the step."""
        self.images, first = {}, microbatch * self.recipe.depth
        values, kept = self.forward(inputs, step, first, microbatch)
        parts = {self.graph.output: {(0, 0): np.float64(1 / self.recipe.microbatches)}}
        grown = self.graph.differentiated
        order = {node.name: number for number, node in enumerate(self.graph.nodes)}
        for node in reversed(self.graph.nodes):
            if node.name not in grown:
                continue
            found = parts.pop(node.name)
            above = sum(found[place] for place in sorted(found))
            if node.operation == "linear":
                number, held, held_w, names, x = kept[node.name]
                dy = self.device.convert(
                    above.astype(np.float32), "dy", tag=4 * (first + number) + 2, step=step
                )
                if x in grown:
                    dx = self.device.dx(held_w, dy).dx.astype(np.float64)
                    parts.setdefault(x, {})[order[node.name], 0] = dx
                by_parameter = [self.device.dw(held, dy).dw.astype(np.float64).T, above.sum(axis=0)]
                for name, gradient in zip(names, by_parameter, strict=False):
                    if name in grown:
                        gradients[name] = gradients.get(name, 0) + gradient
                continue
            use = self.use(order[node.name], node, step, microbatch)
            by_operand = OPERATIONS[node.operation].gradient(above, kept[node.name], use)
            for place, (name, part) in enumerate(zip(node.operands, by_operand, strict=True)):
                if name in grown and part is not None:
                    parts.setdefault(name, {})[order[node.name], place] = part
        return values[self.graph.output]
