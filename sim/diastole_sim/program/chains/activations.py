"""Make chains for activations and for their derivatives.

An activation consists of two texts:

- ``forward`` reads z from r0. The text writes the value of the activation to o0, and the
  values for the backward pass to o1.
- ``backward`` reads the gradient by the value from s0 and the kept values from s1. The text writes
  the gradient by z to o0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import pi, sqrt
from types import MappingProxyType

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.program.chains.elementwise import IN_MEMORY, WRITTEN
from diastole_sim.spec.stream_table import Kind

FLOATS = (Kind.F32, Kind.BF16)
MASK = (Kind.MASK,)
TIMES_DERIVATIVE = "r0 = mul s0 s1 -> o0"
"""Text ``backward`` of activations that keep the derivative."""
GELU_LINEAR = 2 * sqrt(2 / pi)
GELU_CUBIC = 0.044715 * GELU_LINEAR


@dataclass(frozen=True, kw_only=True)
class Activation:
    """Activation of a layer.

    - ``forward``, ``backward``: texts as in the module's description.
    - ``kept``: accepted kinds of the kept values. ``keeps``: name of the kept values.
    - ``constants``: constants of the two texts, as in a chain.
    """

    name: str
    forward: str
    keeps: str = "derivative"
    kept: tuple[Kind, ...] = FLOATS
    backward: str = TIMES_DERIVATIVE
    constants: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))

    def forward_chain(self) -> Chain:
        """Return the chain value = f(input).

        Streams: s0 input; o0 value; o1 kept values.
        """
        return Chain(
            name=self.name,
            text=lines("r0 = mov s0", self.forward),
            inputs={"input": Port(number=0, kinds=IN_MEMORY, meaning="z")},
            outputs={
                "value": Port(number=0, kinds=WRITTEN, meaning="f(z)"),
                "kept": Port(number=1, kinds=self.kept, meaning=self.keeps),
            },
            constants=self._constants(self.forward),
        )

    def backward_chain(self) -> Chain:
        """Return the chain input = above f'(z), the gradient by z.

        Streams: s0 gradient by the value; s1 kept values; o0 gradient by z.
        """
        return Chain(
            name=f"{self.name}_gradient",
            text=lines(self.backward),
            inputs={
                "above": Port(number=0, kinds=IN_MEMORY, meaning="gradient by f(z)"),
                "kept": Port(number=1, kinds=self.kept, meaning=self.keeps),
            },
            outputs={"input": Port(number=0, kinds=WRITTEN, meaning="gradient by z")},
            constants=self._constants(self.backward),
        )

    def _constants(self, text: str) -> dict[str, float | None]:
        return {name: value for name, value in self.constants.items() if f"K[{name}]" in text}


def relu() -> Activation:
    """Return the activation max(z, 0), which keeps a mask of z > 0. A NaN stays NaN.

    Instructions: 3 forward, 1 backward.
    """
    return Activation(
        name="relu",
        forward="""
            r1 = gt r0 0 -> o1
            r0 = max r0 0 -> o0
        """,
        keeps="whether z > 0",
        kept=MASK,
        backward="r0 = sel s1 s0 0 -> o0",
    )


def leaky_relu(slope: float = 0.01) -> Activation:
    """Return the activation z where z > 0, else slope z. A mask of z > 0 is kept.

    Instructions: 4 forward, 2 backward.
    """
    return Activation(
        name="leaky_relu",
        forward="""
            r1 = gt r0 0 -> o1
            r2 = mul r0 K[slope]
            r0 = sel r1 r0 r2 -> o0
        """,
        keeps="whether z > 0",
        kept=MASK,
        backward="""
            r0 = mul s0 K[slope]
            r0 = sel s1 s0 r0 -> o0
        """,
        constants={"slope": slope},
    )


def sigmoid() -> Activation:
    """Return the activation s = 1 / (1 + exp(-z)), which keeps s (1 - s).

    Instructions: 7 forward, 1 backward.
    """
    return Activation(
        name="sigmoid",
        forward="""
            r1 = exp -r0
            r1 = add 1 r1
            r0 = rcp r1
            mov r0 -> o0
            r1 = add 1 -r0
            mul r0 r1 -> o1
        """,
    )


def silu() -> Activation:
    """Return the activation z s, where s is the sigmoid of z. The activation keeps s + z s (1 - s).

    Instructions: 7 forward, 1 backward.
    """
    return Activation(
        name="silu",
        forward="""
            r1 = exp -r0
            r1 = add 1 r1
            r1 = rcp r1
            r0 = mul r0 r1 -> o0
            r2 = add 1 -r1
            mad r0 r2 r1 -> o1
        """,
    )


def gelu() -> Activation:
    """Return the tanh form of GELU: z s, where s is the sigmoid of u = z (p + q z^2),
    p = 2 sqrt(2/pi) and q = 0.044715 p. The activation keeps s + z s (1 - s) (p + 3 q z^2). Not
    valid for |z| of 2^63 and more, where the square overflows.

    Instructions: 13 forward, 1 backward.
    """
    return Activation(
        name="gelu",
        forward="""
            r2 = mov K[p] when first
            r1 = mul r0 r0
            r3 = mad K[q] r1 r2
            r3 = mul r0 r3
            r3 = exp -r3
            r3 = add 1 r3
            r3 = rcp r3
            r0 = mul r0 r3 -> o0
            r1 = mad K[3q] r1 r2
            r4 = add 1 -r3
            r0 = mul r0 r4
            mad r0 r1 r3 -> o1
        """,
        constants={"p": GELU_LINEAR, "q": GELU_CUBIC, "3q": 3 * GELU_CUBIC},
    )


def tanh() -> Activation:
    """Return the activation (1 - E) / (1 + E) with the sign of z, where E = exp(-2 |z|). For
    |z| < 1/8 the value is z + z (z^2 (-1/3 + z^2 (2/15 - 17/315 z^2))), with a relative error of at
    most 1.4e-9. The activation keeps 1 - tanh^2.

    Instructions: 21 forward, 1 backward.
    """
    return Activation(
        name="tanh",
        forward="""
            r5 = mov K[2/15] when first
            r6 = mov K[-1/3] when first
            r1 = max r0 -r0
            r2 = gt K[1/8] r1
            r3 = mul r0 r0
            r4 = mad r3 K[-17/315] r5
            r4 = mad r3 r4 r6
            r4 = mul r3 r4
            r4 = mad r0 r4 r0
            r1 = mul K[-2] r1
            r1 = exp r1
            r3 = add 1 -r1
            r1 = add 1 r1
            r1 = rcp r1
            r1 = mul r3 r1
            r3 = gt 0 r0
            r1 = sel r3 -r1 r1
            r0 = sel r2 r4 r1 -> o0
            r1 = mul r0 r0
            add 1 -r1 -> o1
        """,
        constants={
            "2/15": 2 / 15,
            "-1/3": -1 / 3,
            "1/8": 0.125,
            "-17/315": -17 / 315,
            "-2": -2.0,
        },
    )


ACTIVATIONS: Mapping[str, Callable[[], Activation]] = {
    "relu": relu,
    "leaky-relu": leaky_relu,
    "gelu": gelu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
"""All activations, by the names that users give."""
