"""Make chains for the input of the first layer, and for copies."""

from dataclasses import replace

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.spec.stream_table import Kind, PanelOrder


def input_bytes() -> Chain:
    """Return the chain x = scale * byte. Rows of bytes, gathered by a list of row numbers, become
    an image.

    Streams: s0 bytes; o0 x.
    Constants: scale.
    Instructions: 1.
    """
    return Chain(
        name="input_bytes",
        text=lines("r0 = mul s0 K[scale] -> o0"),
        inputs={"bytes": Port(number=0, kinds=(Kind.GATHERED_U8, Kind.U8), meaning="samples")},
        outputs={"x": Port(number=0, kinds=(Kind.IMAGE, Kind.F32), meaning="first layer's X")},
        constants={"scale": None},
    )


def input_floats() -> Chain:
    """Return the chain x = value. Rows of floats, gathered by a list of row numbers, become an
    image.

    Streams: s0 values; o0 x.
    Constants: none.
    Instructions: 1.
    """
    return Chain(
        name="input_floats",
        text=lines("mov s0 -> o0"),
        inputs={
            "values": Port(
                number=0, kinds=(Kind.GATHERED_F32, Kind.F32, Kind.BF16), meaning="samples"
            )
        },
        outputs={"x": Port(number=0, kinds=(Kind.IMAGE, Kind.F32), meaning="first layer's X")},
    )


def bias() -> Port:
    """Return the stream of a bias, with a number for every column. The bias is in memory, or in the
    panel, where every row slot of a block has the numbers of the block's columns."""
    return Port(
        number=1,
        kinds=(Kind.COLUMN, Kind.PANEL),
        meaning="bias",
        order=PanelOrder.BLOCK_COLUMN,
    )


def add_bias_alone() -> Chain:
    """Return the chain z = y + b for a layer without an activation, with a result of floats.

    Streams: s0 y; s1 b; o0 z.
    Constants: none.
    Instructions: 1.
    """
    return Chain(
        name="add_bias_alone",
        text=lines("r0 = add s0 s1 -> o0"),
        inputs={
            "y": Port(number=0, kinds=(Kind.PRODUCT, Kind.F32), meaning="X W"),
            "b": bias(),
        },
        outputs={"z": Port(number=0, kinds=(Kind.F32, Kind.IMAGE), meaning="X W + b")},
    )


def copied() -> Chain:
    """Return the chain y = x, a copy between memory and the panel.

    Streams: s0 x; o0 y.
    Constants: none.
    Instructions: 1.
    """
    kinds = (Kind.F32, Kind.PANEL)
    return Chain(
        name="copied",
        text=lines("mov s0 -> o0"),
        inputs={"x": Port(number=0, kinds=kinds, meaning="a tensor")},
        outputs={"y": Port(number=0, kinds=kinds, meaning="the same")},
    )


def copied_columns() -> Chain:
    """Return the chain y = x for a vector with a number for every column, a copy between memory and
    the panel. The chain's tensor has B rows, so all row slots are inside the tensor.

    Streams: s0 x; o0 y.
    Constants: none.
    Instructions: 1.
    """

    def port(meaning: str) -> Port:
        return replace(bias(), number=0, meaning=meaning)

    return Chain(
        name="copied_columns",
        text=lines("mov s0 -> o0"),
        inputs={"x": port("a vector")},
        outputs={"y": port("the same")},
        by_columns=True,
    )
