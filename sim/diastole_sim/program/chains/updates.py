"""What all optimisers have in common: the gradient as they take it, and their streams."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diastole_sim.program.chain import (
    INVERSE_LOSS_SCALE,
    LOSS_SCALE,
    Chain,
    Port,
    holds_what_is_written,
    lines,
)
from diastole_sim.spec.stream_table import Kind, PanelOrder

TINY = {"tiny": 2.0**-126}
"""The smallest normal number. Updates divide by sqrt(v) through y = rsq(max(v, tiny)): y is finite
where v is 0, and 0 where v has overflowed, so that such an update is 0 as torch's, and not NaN."""

CLIP_FACTOR = "factor-of-clip"
"""By name, the constant that the machine itself makes of the norm of all gradients."""
OWN_STREAMS = ("g", "w", "image")
"""Of every update, besides those of the state."""
_NO_OPERANDS = re.compile(r"K\[[^\]]*\]|#.*")
"""Of a text, constants and comments."""
MOST_STATE = 2
"""Numbers that an optimiser keeps of every weight, at most: a chain has four streams each way."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How an update is used.

    ``bias``: it is of a bias: a walk by columns over one row, whose gradient is in the panel, a sum
    for every row slot; it has no image. ``image``: whether that of other updates is made.
    ``scaled``: the gradient is multiplied by the loss scale,
    which is taken back. ``clipped``: the gradient is multiplied by K[:data:`CLIP_FACTOR`], which
    takes back the loss scale too. ``decay``: K[decay] w is added to the gradient; an optimiser that
    wants that says so, and has the constant.
    """

    bias: bool = False
    image: bool = True
    scaled: bool = False
    clipped: bool = False
    decay: bool = False

    def gradient(self) -> tuple[str, str]:
        """The text that makes it, and the operand that it is then in."""
        text, operand = ("r0 = mov s0\nturned add r0 rows", "r0") if self.bias else ("", "s0")
        if self.clipped or self.scaled:
            factor = CLIP_FACTOR if self.clipped else INVERSE_LOSS_SCALE
            text, operand = lines(text, f"r0 = mul {operand} K[{factor}]"), "r0"
        if self.decay:
            text, operand = lines(text, f"r0 = mad s1 K[decay] {operand}"), "r0"
        return text, operand

    def constants(self) -> dict[str, float | None]:
        """Those of the gradient."""
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
    """An update of weights w, in s1 and o0, from a gradient in s0.

    ``text``: after that of the gradient; leaves the new w in r2, written to o0. ``state``: what the
    optimiser keeps of every weight, in s2, s3 and o1, o2; the image is the output behind those.
    ValueError for names that cannot be told apart, and a text that does not take the gradient as
    ``options`` make it.
    """
    _check_names(name, state, constants)
    prepared, operand = options.gradient()
    if operand != "s0" and re.search(r"\bs0\b", _NO_OPERANDS.sub("", text)):
        raise ValueError(
            f"{name} reads the gradient in s0, before it is what the update takes: "
            f"options.gradient() says where that is, here in {operand}"
        )
    if not holds_what_is_written(text, "r2", "o0"):
        raise ValueError(
            f"{name} must leave the new weights in r2, of which the image is made, and write that "
            "to o0"
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

    kept = {each: port(2 + n, each) for n, each in enumerate(state)}
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
        inputs={"g": gradient, "w": port(1, "weights")} | kept,
        outputs=outputs,
        constants=options.constants() | dict(constants),
        by_columns=options.bias,
    )


def _check_names(name: str, state: Sequence[str], constants: Mapping[str, float | None]) -> None:
    """ValueError for state and constants of an update that are not told apart from others."""
    if len(state) > MOST_STATE:
        raise ValueError(
            f"{name} keeps {len(state)} numbers of a weight ({', '.join(state)}), and at most "
            f"{MOST_STATE} fit"
        )
    if len(set(state)) < len(state):
        raise ValueError(f"{name} has the state {state[0]} twice")
    for each in state:
        if each in OWN_STREAMS:
            raise ValueError(
                f"{name} cannot call its state {each}: {', '.join(OWN_STREAMS)} are the gradient, "
                "the weights and their image"
            )
    for each in (CLIP_FACTOR, str(LOSS_SCALE), str(INVERSE_LOSS_SCALE)):
        if each in constants:
            raise ValueError(f"{name} cannot have a constant {each}: the machine makes it")
