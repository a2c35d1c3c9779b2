"""Make chains for sums over columns, for sums of gradients over microbatches, and for gradient
clipping."""

from dataclasses import replace

from diastole_sim.program.chain import INVERSE_LOSS_SCALE, Chain, Port, lines
from diastole_sim.program.chains.elementwise import IN_MEMORY
from diastole_sim.spec.stream_table import Kind, PanelOrder


def sums_before(number: int) -> Port:
    """Return the input with the column sums so far, which are +0 in the walk's first row of
    blocks."""
    return Port(
        number=number,
        kinds=(Kind.PANEL,),
        meaning="sums over the columns so far",
        order=PanelOrder.BLOCK_COLUMN_ZERO_FIRST,
    )


def panel_sums() -> Chain:
    """Return the chain of the sums over columns, separate for every row slot, with values that pass
    by: the gradient by a bias.

    Streams: s0 values; s1 sums; o0 sums.
    Constants: none.
    Instructions: 1.
    """
    sums = replace(sums_before(0), order=PanelOrder.BLOCK_COLUMN)
    return Chain(
        name="panel_sums",
        text=lines("r0 = add s0 s1 keep -> o0"),
        inputs={
            "values": Port(number=0, kinds=IN_MEMORY, meaning="gradient by a sum with a bias"),
            "sums": sums_before(1),
        },
        outputs={"sums": sums},
    )


def column_sums() -> Chain:
    """Return the chain of the sum of every column: the gradient by the bias, if memory holds dY as
    floats.

    Streams: s0 values; o0 sums.
    Constants: none.
    Instructions: 1 + 1 log2 B.
    """
    return _column_sums("column_sums", "r0 = add s0 r0 fresh keep")


def column_squares() -> Chain:
    """Return the chain of the sum of squares of every column. :func:`clip_factor` reads the sums of
    all gradients, side by side with +0 between them.

    Streams: s0 values; o0 sums.
    Constants: none.
    Instructions: 2 + 1 log2 B.
    """
    return _column_sums("column_squares", "r1 = mul s0 s0\nr0 = add r1 r0 fresh keep")


def _column_sums(name: str, text: str) -> Chain:
    return Chain(
        name=name,
        text=lines(text, "turned add r0 rows when last -> o0"),
        inputs={
            "values": Port(number=0, kinds=(Kind.F32, Kind.BF16, Kind.PANEL), meaning="a tensor")
        },
        outputs={"sums": Port(number=0, kinds=(Kind.COLUMN,), meaning="a number per column")},
        by_columns=True,
    )


def bias_sums() -> Chain:
    """Return the chain of the sum over the row slots of every column: the gradient by a bias.

    Streams: s0 db; o0 sums.
    Constants: none.
    Instructions: 1 + 1 log2 B, 2 where B is 1.
    """
    return _of_row_slots("bias_sums", "mov r0 -> o0")


def bias_squares() -> Chain:
    """Return the chain of the squared sum over the row slots of every column: the square of the
    gradient by a bias.

    Streams: s0 db; o0 sums.
    Constants: none.
    Instructions: 2 + 1 log2 B.
    """
    return _of_row_slots("bias_squares", "r0 = mul r0 r0 -> o0")


def _of_row_slots(name: str, text: str) -> Chain:
    return Chain(
        name=name,
        text=lines("r0 = mov s0", "turned add r0 rows", text),
        inputs={
            "db": Port(
                number=0,
                kinds=(Kind.PANEL,),
                meaning="sums over columns, of every row slot its own",
                order=PanelOrder.BLOCK_COLUMN,
            )
        },
        outputs={"sums": Port(number=0, kinds=(Kind.COLUMN,), meaning="a number per column")},
        by_columns=True,
    )


def clip_factor(*, scaled: bool = False) -> Chain:
    """Return the chain of the clip factor min(1, max_norm / (norm + 1e-6)), as
    ``torch.nn.utils.clip_grad_norm_`` defines the factor. norm is the square root of the sum of a
    tensor of one row.

    The factor is written to a constant. An update with ``clipped`` multiplies the gradient by the
    constant. The factor is 0 if the sum overflows, NaN if the sum is NaN.

    ``scaled``: the gradients are multiplied by the loss scale. The factor then also removes the
    loss scale. The sum of squares is written to o1, where a watched stream notes an overflow.

    Streams: s0 squares; o0 factor.
    Constants: tiny, 1e-6, max_norm.
    Instructions: 8 + 1 log2 B.
    """
    unscale = f"mul r0 K[{INVERSE_LOSS_SCALE}] when last"
    sums = {"sum": Port(number=1, kinds=(Kind.ROW,), meaning="of all squares")} if scaled else {}
    return Chain(
        name="clip_factor",
        text=lines(
            "r0 = add s0 r0 fresh keep",
            "turned add r0 lanes when last" + (" -> o1" if scaled else ""),
            # 1 / (1 / sqrt(sum)), since sum / sqrt(sum) would be NaN for a sum of Inf
            """
            r0 = max r0 K[tiny] when last
            r0 = rsq r0 when last
            r0 = rcp r0 when last
            """,
            f"r0 = {unscale}" if scaled else "",
            """
            r0 = add r0 K[1e-6] when last
            r0 = rcp r0 when last
            r0 = mul r0 K[max_norm] when last
            """,
            f"r0 = min r0 1 when last\n{unscale} -> o0" if scaled else "min r0 1 when last -> o0",
        ),
        inputs={"squares": Port(number=0, kinds=(Kind.F32,), meaning="sums of squares, 1 x n")},
        outputs={"factor": Port(number=0, kinds=(Kind.CONSTANT,), meaning="of all gradients")}
        | sums,
        constants={"tiny": 2.0**-126, "1e-6": 1e-6, "max_norm": None},
    )


def trust_ratio(*, factor: str | None = None) -> Chain:
    """Return the chain of the trust ratio of a weight, eta norm(w) / (norm(g) + decay norm(w)). The
    ratio is 1 if a norm is 0. The ratio is written to a constant.

    ``factor``: constant by which the update multiplies the gradient, None without one.

    Streams: s0 squares of w; s1 squares of g; o0 ratio.
    Constants: tiny, decay, eta.
    Instructions: 17 + 2 log2 B.
    """
    return Chain(
        name="trust_ratio",
        text=lines(
            """
            r0 = add s0 r0 fresh keep
            r1 = add s1 r1 fresh keep
            turned add r0 lanes when last
            turned add r1 lanes when last
            r2 = gt r0 0 when last
            r3 = gt r1 0 when last
            r2 = mul r2 r3 when last
            r0 = max r0 K[tiny] when last
            r0 = rsq r0 when last
            r0 = rcp r0 when last
            r1 = max r1 K[tiny] when last
            r1 = rsq r1 when last
            r1 = rcp r1 when last
            """,
            "" if factor is None else f"r1 = mul r1 K[{factor}] when last",
            """
            r1 = mad r0 K[decay] r1 when last
            r1 = rcp r1 when last
            r0 = mul r0 K[eta] when last
            r0 = mul r0 r1 when last
            sel r2 r0 1 when last -> o0
            """,
        ),
        inputs={
            name: Port(number=number, kinds=(Kind.F32,), meaning=f"squares of {name}, 1 x n")
            for number, name in enumerate(("w", "g"))
        },
        outputs={"ratio": Port(number=0, kinds=(Kind.CONSTANT,), meaning="trust ratio")},
        constants={"tiny": 2.0**-126, "decay": None, "eta": None}
        | ({factor: None} if factor is not None and not factor.isdigit() else {}),
    )


def accumulate() -> Chain:
    """Return the chain sum = sum + gradient, for microbatches in order.

    Streams: s0 gradient; s1 sum; o0 sum.
    Constants: none.
    Instructions: 1.
    """
    return Chain(
        name="accumulate",
        text=lines("r0 = add s1 s0 -> o0"),
        inputs={
            "gradient": Port(number=0, kinds=(Kind.PRODUCT, Kind.F32), meaning="of a microbatch"),
            "sum": Port(number=1, kinds=(Kind.F32, Kind.PANEL), meaning="of those before"),
        },
        outputs={"sum": Port(number=0, kinds=(Kind.F32, Kind.PANEL), meaning="with this one")},
    )
