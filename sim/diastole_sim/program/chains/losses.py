"""Make chains for losses and their gradients. With ``scaled`` the gradient is multiplied by the
loss scale."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from types import MappingProxyType

from diastole_sim.program.chain import LOSS_SCALE, Chain, Port, lines
from diastole_sim.program.chains.elementwise import IN_MEMORY, WRITTEN
from diastole_sim.spec.functions import LN2_HIGH
from diastole_sim.spec.stream_table import Kind, PanelOrder

TENSOR = (Kind.PANEL, Kind.F32)
PER_ROW = (Kind.PANEL, Kind.ROW)
LN2 = {"ln2_high": LN2_HIGH, "ln2_low": log(2) - LN2_HIGH}


def _tensor(number: int, meaning: str) -> Port:
    return Port(number=number, kinds=TENSOR, meaning=meaning)


def _per_row(number: int, meaning: str) -> Port:
    return Port(number=number, kinds=PER_ROW, meaning=meaning, order=PanelOrder.BLOCK_ROW)


def _labels(number: int) -> Port:
    return Port(
        number=number,
        kinds=(Kind.LABELS, Kind.ROW),
        meaning="column of the right one; outside the columns it matches none",
    )


def softmax_a() -> Chain:
    """Return the first of three chains of a softmax: z is kept, and m is the maximum of every row.

    Streams: s0 logits; o0 z; o1 m.
    Constants: none.
    Instructions: 2 + 1 log2 B.
    """
    return Chain(
        name="softmax_a",
        text=lines("""
            mov s0 -> o0
            r0 = max s0 r0 fresh keep
            turned max r0 lanes when last -> o1
        """),
        inputs={"logits": Port(number=0, kinds=IN_MEMORY, meaning="logits")},
        outputs={"z": _tensor(0, "logits"), "m": _per_row(1, "largest of the row")},
    )


def softmax_b() -> Chain:
    """Return the second of three chains of a softmax. e = exp(z - m) replaces z, and 1/t replaces
    m, where t is the sum of a row of e. The loss of every row is log t - (z[label] - m).

    Streams: s0 z; s1 m; s2 label; o0 z; o1 m; o2 loss.
    Constants: ln2_high, ln2_low.
    Instructions: 16 + 2 log2 B.
    """
    return Chain(
        name="softmax_b",
        text=lines("""
            r1 = mov s1 when first
            r2 = add s0 -r1
            r3 = exp r2
            r4 = eq column s2
            r5 = sel r4 r2 r5 fresh keep
            r3 = mov r3 -> o0
            r6 = add r3 r6 fresh keep
            turned add r6 lanes when last
            r7 = lge r6 when last
            turned add r5 lanes when last
            r8 = lgm r6 when last
            r9 = lgg r6 when last
            r10 = rcp r6 when last
            r8 = mul r8 r9 when last
            r8 = mad r7 K[ln2_low] r8 when last
            r8 = mad r7 K[ln2_high] r8 when last
            r8 = add r8 -r5 when last -> o2
            r10 = mov r10 when last -> o1
        """),
        inputs={"z": _tensor(0, "logits"), "m": _per_row(1, "largest"), "label": _labels(2)},
        outputs={
            "z": _tensor(0, "exp(z - m)"),
            "m": _per_row(1, "1 / sum of the row"),
            "loss": Port(number=2, kinds=(Kind.ROW,), meaning="cross-entropy of each row"),
        },
        constants=LN2,
    )


def softmax_c(samples: int, *, scaled: bool = False) -> Chain:
    """Return the third of three chains of a softmax: the gradient (e/t - one-hot of the label) /
    ``samples`` of the mean loss.

    Streams: s0 z; s1 m; s2 label; o0 gradient.
    Constants: 1/samples.
    Instructions: 5.
    """
    return Chain(
        name="softmax_c",
        text=lines(
            """
            r1 = mov s1 when first
            r0 = mul s0 r1
            r2 = eq column s2
            r0 = add r0 -r2
            """,
            _gradient("r0", "1/samples", scaled),
        ),
        inputs={
            "z": _tensor(0, "exp(z - m)"),
            "m": _per_row(1, "1 / sum of the row"),
            "label": _labels(2),
        },
        outputs={"gradient": Port(number=0, kinds=WRITTEN, meaning="gradient by the logits")},
        constants={"1/samples": 1 / samples},
    )


def _gradient(slope: str, factor: str, scaled: bool) -> str:
    """Return the text of the gradient: the slope of an element's loss, times a constant."""
    if scaled:
        return f"r0 = mul {slope} K[{factor}]\nr0 = mul r0 K[{LOSS_SCALE}] -> o0"
    return f"r0 = mul {slope} K[{factor}] -> o0"


def squared_error(elements: int, *, scaled: bool = False) -> Chain:
    """Return the chain of the mean squared error over all elements. The gradient is
    (z - target) (2 / ``elements``). The loss of a row is the sum of (z - target)^2.

    Streams: s0 z; s1 target; o0 gradient; o1 loss.
    Constants: slope.
    Instructions: 4 + 1 log2 B.
    """
    return _element_loss(
        "squared_error",
        """
        r0 = add s0 -s1
        r1 = mul r0 r0
        """,
        "r0",
        scaled,
        {"slope": 2 / elements},
    )


def absolute_error(elements: int, *, scaled: bool = False) -> Chain:
    """Return the chain of the mean absolute error over all elements. The gradient is the sign of
    z - target, divided by ``elements``. The loss of a row is the sum of abs(z - target).

    Streams: s0 z; s1 target; o0 gradient; o1 loss.
    Constants: slope.
    Instructions: 7 + 1 log2 B.
    """
    return _element_loss(
        "absolute_error",
        """
        r0 = add s0 -s1
        r1 = max r0 -r0
        r3 = gt r0 0
        r4 = gt 0 r0
        r3 = add r3 -r4
        """,
        "r3",
        scaled,
        {"slope": 1 / elements},
    )


def smooth_error(elements: int, beta: float, *, scaled: bool = False) -> Chain:
    """Return the chain of the mean of d^2 / (2 beta) where abs(d) < beta, otherwise of
    abs(d) - beta / 2, with d = z - target. The gradient is d / beta, limited to -1 .. 1, divided by
    ``elements``. The loss of a row is the sum of the losses of the elements.

    Streams: s0 z; s1 target; o0 gradient; o1 loss.
    Constants: slope, 1/beta, beta/2.
    Instructions: 9 + 1 log2 B.
    """
    return _element_loss(
        "smooth_error",
        """
        r0 = add s0 -s1
        r3 = mul r0 K[1/beta]
        r3 = min r3 1
        r3 = max r3 -1
        r4 = mul r3 K[beta/2]
        r4 = add r0 -r4
        r1 = mul r3 r4
        """,
        "r3",
        scaled,
        {"slope": 1 / elements, "1/beta": 1 / beta, "beta/2": beta / 2},
    )


@dataclass(frozen=True, kw_only=True)
class ElementLoss:
    """Loss of every element of a result z and a target, as a text for the vector unit.

    - ``text``: the text reads z from s0 and the target from s1, and leaves the loss in r1 and the
      derivative of the loss by z in r3. The text uses neither r2 nor a stream of output.
    - ``constants``: numbers by the names in the text.
    """

    name: str
    text: str
    constants: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def chain(self, elements: int, *, scaled: bool = False) -> Chain:
        """Return the chain of the mean over ``elements``, with the streams of
        :func:`squared_error`."""
        constants = {"slope": 1 / elements, **self.constants}
        return _element_loss(self.name, self.text, "r3", scaled, constants)

    def element_chain(self) -> Chain:
        """Return the chain of loss and derivative of every element.

        Streams: s0 z; s1 target; o0 loss; o1 derivative.
        """
        each = {"z": "result of the network", "target": "wanted z"}
        return Chain(
            name=self.name,
            text=lines(self.text, "mov r1 -> o0", "mov r3 -> o1"),
            inputs={
                name: Port(number=number, kinds=IN_MEMORY, meaning=meaning)
                for number, (name, meaning) in enumerate(each.items())
            },
            outputs={
                "loss": Port(number=0, kinds=WRITTEN, meaning="loss of an element"),
                "derivative": Port(number=1, kinds=WRITTEN, meaning="derivative by z"),
            },
            constants=self.constants,
        )


def _element_loss(
    name: str, text: str, derivative: str, scaled: bool, constants: Mapping[str, float]
) -> Chain:
    """Return the chain of a loss of every element of z and a target. ``text`` leaves the loss in r1
    and a number in the register ``derivative``. The number times K[slope] is the gradient."""
    return Chain(
        name=name,
        text=lines(
            text,
            "r2 = add r1 r2 fresh keep",
            _gradient(derivative, "slope", scaled),
            "turned add r2 lanes when last -> o1",
        ),
        inputs={
            "z": Port(number=0, kinds=IN_MEMORY, meaning="result of the network"),
            "target": Port(number=1, kinds=(Kind.F32, Kind.GATHERED_F32), meaning="wanted z"),
        },
        outputs={
            "gradient": Port(number=0, kinds=WRITTEN, meaning="gradient by z"),
            "loss": Port(number=1, kinds=(Kind.ROW,), meaning="loss of each row"),
        },
        constants=constants,
    )


def mean_loss() -> Chain:
    """Return the chain of the mean loss: the sum of the losses of all rows, a tensor of one row,
    times ``1/samples``. The mean is written to memory, with an element for every step, and to a
    constant.

    Streams: s0 losses; o0 loss; o1 constant.
    Constants: 1/samples.
    Instructions: 3 + 1 log2 B.
    """
    return Chain(
        name="mean_loss",
        text=lines("""
            r0 = add s0 r0 fresh keep
            turned add r0 lanes when last
            r0 = mul r0 K[1/samples] when last -> o0
            r1 = mov r0 when last -> o1
        """),
        inputs={"losses": Port(number=0, kinds=(Kind.F32,), meaning="1 x samples")},
        outputs={
            "loss": Port(number=0, kinds=(Kind.ROW,), meaning="mean loss of the step"),
            "constant": Port(number=1, kinds=(Kind.CONSTANT,), meaning="the same, watched"),
        },
        constants={"1/samples": None},
    )
