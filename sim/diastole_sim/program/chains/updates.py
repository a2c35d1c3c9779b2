"""Make the parts that all optimisers share: the gradient in the form for the update, and the
streams."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diastole_sim.program.chain import (
    INVERSE_LOSS_SCALE,
    LOSS_SCALE,
    Chain,
    Port,
    lines,
    register_holds_output,
)
from diastole_sim.spec.stream_table import Kind, PanelOrder

TINY = {"tiny": 2.0**-126}
"""Smallest normal number. Updates divide by sqrt(v) through y = rsq(max(v, tiny)). y is finite if v
is 0, and 0 if v has overflowed. An update with an overflowed v is therefore 0 as in torch, and not
NaN."""

CLIP_FACTOR = "factor-of-clip"
"""Name of the constant that the machine itself computes from the norm of all gradients."""
TRUST_RATIO = "trust-ratio"
"""Name of the constant that the machine computes from the norms of a weight and of the gradient."""
OWN_STREAMS = ("g", "w", "image")
"""Streams of every update, besides the streams of the state."""
_NO_OPERANDS = re.compile(r"K\[[^\]]*\]|#.*")
"""Pattern of the constants and comments of a text."""
MAX_STATE = 2
"""Most numbers that an optimiser keeps for every weight: a chain has four input and four output
streams."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of an update.

    - ``bias``: the update is for a bias. The walk goes by columns over one row. The gradient is in
      the panel, with a sum for every row slot. The update makes no image.
    - ``image``: an update of weights makes the image.
    - ``scaled``: the gradient is multiplied by the loss scale. The update removes the scale.
    - ``clipped``: the gradient is multiplied by K[:data:`CLIP_FACTOR`], which also removes the loss
      scale.
    - ``decay``: K[decay] w is added to the gradient. An optimiser with weight decay sets this
      option and has the constant.
    """

    bias: bool = False
    image: bool = True
    scaled: bool = False
    clipped: bool = False
    decay: bool = False

    def gradient(self) -> tuple[str, str]:
        """Return the text that computes the gradient, and the operand that then holds the
        gradient."""
        text, operand = ("r0 = mov s0\nturned add r0 rows", "r0") if self.bias else ("", "s0")
        if self.clipped or self.scaled:
            factor = CLIP_FACTOR if self.clipped else INVERSE_LOSS_SCALE
            text, operand = lines(text, f"r0 = mul {operand} K[{factor}]"), "r0"
        if self.decay:
            text, operand = lines(text, f"r0 = mad s1 K[decay] {operand}"), "r0"
        return text, operand

    def constants(self) -> dict[str, float | None]:
        """Return the constants of the gradient's text."""
        used = {CLIP_FACTOR: self.clipped, "decay": self.decay}
        return {name: None for name, is_used in used.items() if is_used}


def update_chain(
    name: str,
    options: Options,
    text: str,
    *,
    state: Sequence[str],
    constants: Mapping[str, float | None],
) -> Chain:
    """Return the chain of an update of weights w, in s1 and o0, from a gradient in s0.

    - ``text``: text after the text of the gradient. The text leaves the new w in r2 and writes w to
      o0.
    - ``state``: names of the numbers that the optimiser keeps for every weight, in s2, s3 and o1,
      o2. The image is the next output.

    ValueError for ambiguous names, and for a text that does not read the gradient in the operand
    given by ``options`` or does not leave w in r2.
    """
    _check_names(name, state, constants)
    prepared, operand = options.gradient()
    if operand != "s0" and re.search(r"\bs0\b", _NO_OPERANDS.sub("", text)):
        raise ValueError(
            f"{name} reads s0, the gradient before the options are applied: read {operand} "
            "instead, which options.gradient() returns"
        )
    if not register_holds_output(text, "r2", "o0"):
        raise ValueError(
            f"{name} must leave the new weights in r2 and write r2 to o0: the image is made from r2"
        )
    tensor = (Kind.COLUMN, Kind.PANEL) if options.bias else (Kind.F32, Kind.PANEL)
    order = PanelOrder.BLOCK_COLUMN if options.bias else PanelOrder.BLOCK
    if options.bias:
        gradient = Port(
            number=0,
            kinds=(Kind.PANEL,),
            meaning="sums over columns, of every row slot its own",
            order=PanelOrder.BLOCK_COLUMN,
        )
    else:
        gradient = Port(number=0, kinds=(Kind.PRODUCT, Kind.F32), meaning="gradient by w")

    def port(number: int, meaning: str) -> Port:
        return Port(number=number, kinds=tensor, meaning=meaning, order=order)

    state_ports = {each: port(2 + n, each) for n, each in enumerate(state)}
    written = {each: port(1 + n, each) for n, each in enumerate(state)}
    outputs = {"w": port(0, "weights after the update")} | written
    if options.image and not options.bias:
        image = Port(
            number=1 + len(state), kinds=(Kind.IMAGE, Kind.F32), meaning="W of the next step"
        )
        outputs |= {"image": image}
        text = lines(text, f"mov r2 -> o{image.number}")
    return Chain(
        name=name,
        text=lines(prepared, text),
        inputs={"g": gradient, "w": port(1, "weights")} | state_ports,
        outputs=outputs,
        constants=options.constants() | dict(constants),
        by_columns=options.bias,
    )


def _check_names(name: str, state: Sequence[str], constants: Mapping[str, float | None]) -> None:
    """Check the names of the state and constants of an update; ValueError for too much state, or
    for an ambiguous name."""
    if len(state) > MAX_STATE:
        raise ValueError(
            f"{name} keeps {len(state)} numbers of a weight ({', '.join(state)}), but at "
            f"most {MAX_STATE} fit"
        )
    if len(set(state)) < len(state):
        raise ValueError(f"{name} has the state {state[0]} twice")
    for each in state:
        if each in OWN_STREAMS:
            raise ValueError(
                f"{name} cannot name a state {each}: {', '.join(OWN_STREAMS)} are the "
                "gradient, the weights and the image of the weights"
            )
    for each in (CLIP_FACTOR, str(LOSS_SCALE), str(INVERSE_LOSS_SCALE)):
        if each in constants:
            raise ValueError(
                f"{name} cannot have a constant {each}: the machine computes this constant"
            )
