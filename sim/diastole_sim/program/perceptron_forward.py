"""Write the forward pass of a perceptron as commands, in training and on held-out samples."""

from diastole_sim.program.chains.inputs import add_bias_alone, input_bytes, input_floats
from diastole_sim.program.memory_plan import BoundStream, PlannedImage, stream_of
from diastole_sim.program.perceptron_tensors import (
    LOGITS,
    PerceptronRecipe,
    PerceptronTensors,
    StoredSamples,
)
from diastole_sim.program.writer import ChainCall, ProductOf, Writer
from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.stream_table import Descriptor, Kind

PRODUCT = BoundStream(name="product", descriptor=Descriptor(kind=Kind.PRODUCT))
"""Stream of the product's result, for a chain at the drain of the product."""


def input_use(
    samples: StoredSamples,
    stream: BoundStream,
    x: PlannedImage,
    row_list: BoundStream | None = None,
) -> ChainCall:
    """Return the chain that makes the first layer's X from samples. ``row_list``: list of the rows
    to gather."""
    name = "bytes" if samples.are_bytes else "values"
    return ChainCall(
        chain=input_bytes() if samples.are_bytes else input_floats(),
        shape=(x.rows, x.cols),
        inputs={name: stream},
        outputs={"x": x},
        values={"scale": samples.scale},
        row_list=row_list,
    )


def forward_chain(
    writer: Writer,
    recipe: PerceptronRecipe,
    product: ProductOf,
    bias: BoundStream,
    *,
    x: PlannedImage,
    kept: BoundStream,
) -> None:
    """Append a hidden layer: the product passes through bias and activation into the next layer's
    X."""
    use = ChainCall(
        chain=recipe.activation.forward_chain(),
        shape=product.shape,
        inputs={"y": PRODUCT, "b": bias},
        outputs={"a": x, "kept": kept},
    )
    writer.chain(use, product)


def evaluation_commands(
    tensors: PerceptronTensors, held_out: StoredSamples, limits: Limits
) -> tuple[Command, ...]:
    """Return the commands of all layers on the held-out samples, with separate tables. The layers
    are numbered after the last layer, so no random bits are shared with training."""
    plan, recipe, rows = tensors.plan, tensors.recipe, len(held_out.inputs)
    writer = Writer(plan, limits)
    depth, layers = len(tensors.layers), tensors.layers
    images = [
        tensors.image("x", f"evaluation {n} x", depth + n, rows, layer.inputs)
        for n, layer in enumerate(layers)
    ]
    logits = stream_of(plan.tensor(LOGITS, Kind.F32, rows, recipe.widths[-1]))

    def write() -> None:
        writer.chain(input_use(held_out, stream_of(tensors.held_out), images[0]))
        for n, layer in enumerate(layers):
            product = ProductOf(
                operation="forward",
                m=rows,
                n=layer.outputs,
                k=layer.inputs,
                operands={"x": images[n], "w": layer.w},
            )
            if n + 1 < depth:
                kind = recipe.activation.kept[0]
                kept = plan.tensor(f"evaluation {n} kept", kind, rows, layer.outputs)
                bias = layer.bias["w"]
                x = images[n + 1]
                forward_chain(writer, recipe, product, bias, x=x, kept=stream_of(kept))
                continue
            use = ChainCall(
                chain=add_bias_alone(),
                shape=(rows, layer.outputs),
                inputs={"y": PRODUCT, "b": layer.bias["w"]},
                outputs={"z": logits},
            )
            writer.chain(use, product)

    body = writer.segment(write)
    commands = writer.load_tables(tensors.initial, "evaluation")
    commands.extend(body)
    return commands.commands()
