"""Make chains for losses and their gradients. With ``scaled`` the gradient is multiplied by the
loss scale."""

from math import log

from diastole_sim.program.chain import LOSS_SCALE, Chain, Port, lines
from diastole_sim.program.chains.activations import bias_gradient, bias_gradient_before
from diastole_sim.program.chains.inputs import bias
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
    """Return the first of three chains of a softmax: z = y + b, and m, the maximum of every row.

    Streams: s0 y; s1 b; o0 z; o1 m.
    Constants: none.
    Instructions: 2 + 1 log2 B.
    """
    return Chain(
        name="softmax_a",
        text=lines("""
            r0 = add s0 s1 -> o0
            r1 = max r0 r1 fresh keep
            turned max r1 lanes when last -> o1
        """),
        inputs={
            "y": Port(number=0, kinds=(Kind.PRODUCT, Kind.F32), meaning="X W"),
            "b": bias(),
        },
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


def softmax_c(*, scaled: bool = False) -> Chain:
    """Return the third of three chains of a softmax: dz = (e/t - one-hot of the label) / samples,
    the gradient of the mean loss, and db, the sums of dz over columns.

    Streams: s0 z; s1 m; s2 label; s3 db; o0 dz; o1 db.
    Constants: 1/samples.
    Instructions: 6.
    """
    gradient = "r0 = mul r0 K[1/samples]"
    return Chain(
        name="softmax_c",
        text=lines(
            """
            r1 = mov s1 when first
            r0 = mul s0 r1
            r2 = eq column s2
            r0 = add r0 -r2
            """,
            f"{gradient}\nr0 = mul r0 K[{LOSS_SCALE}] -> o0" if scaled else f"{gradient} -> o0",
            "r3 = add r0 s3 keep -> o1",
        ),
        inputs={
            "z": _tensor(0, "exp(z - m)"),
            "m": _per_row(1, "1 / sum of the row"),
            "label": _labels(2),
            "db": bias_gradient_before(3),
        },
        outputs={
            "dz": Port(number=0, kinds=(Kind.IMAGE, Kind.F32), meaning="last layer's dY"),
            "db": bias_gradient(1),
        },
        constants={"1/samples": None},
    )


def squared_error(*, scaled: bool = False) -> Chain:
    """Return the chain of the mean squared error of z = y + b. dz = (z - target) (2 / elements),
    and db has the sums of dz over columns. The loss of a row is the sum of (z - target)^2.
    :func:`mean_loss` with 1/elements makes the mean over all elements from the losses of the rows.

    Streams: s0 y; s1 b; s2 target; s3 db; o0 dz; o1 db; o2 loss.
    Constants: 2/elements.
    Instructions: 6 + 1 log2 B.
    """
    gradient = "r0 = mul r0 K[2/elements]"
    return Chain(
        name="squared_error",
        text=lines(
            """
            r0 = add s0 s1
            r0 = add r0 -s2
            r1 = mul r0 r0
            r2 = add r1 r2 fresh keep
            """,
            f"{gradient}\nr0 = mul r0 K[{LOSS_SCALE}] -> o0" if scaled else f"{gradient} -> o0",
            "r3 = add r0 s3 keep -> o1",
            "turned add r2 lanes when last -> o2",
        ),
        inputs={
            "y": Port(number=0, kinds=(Kind.PRODUCT, Kind.F32), meaning="X W"),
            "b": bias(),
            "target": Port(number=2, kinds=(Kind.F32, Kind.GATHERED_F32), meaning="wanted z"),
            "db": bias_gradient_before(3),
        },
        outputs={
            "dz": Port(number=0, kinds=(Kind.IMAGE, Kind.F32), meaning="last layer's dY"),
            "db": bias_gradient(1),
            "loss": Port(number=2, kinds=(Kind.ROW,), meaning="sum of squares of each row"),
        },
        constants={"2/elements": None},
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
