"""Make chains for optimisers, as torch.optim defines the optimisers.

``options``: treatment of the gradient, and whether the update is for a bias. Constants with a t in
the name change from step to step.
"""

from diastole_sim.program.chain import Chain, lines
from diastole_sim.program.chains.updates import TINY, TRUST_RATIO, Options, update_chain

PLAIN = Options()


def sgd(options: Options = PLAIN, *, momentum: bool = True, nesterov: bool = False) -> Chain:
    """Return the chain of gradient descent: v = momentum v + g, w = w - lr_t v, where v begins as
    zeros. ``nesterov``: w = w - lr_t (g + momentum v). Without ``momentum``: w = w - lr_t g.
    ValueError for nesterov without momentum.

    Streams: s0 g; s1 w; s2 v; o0 w; o1 v; o2 image.
    Constants: momentum, -lr_t.
    Instructions: 3.
    """
    if nesterov and not momentum:
        raise ValueError("nesterov needs momentum=True")
    _, g = options.gradient()
    moved = "r1" if momentum else g
    return update_chain(
        "sgd",
        options,
        lines(
            f"r1 = mad s2 K[momentum] {g} -> o1" if momentum else "",
            f"r1 = mad r1 K[momentum] {g}" if nesterov else "",
            f"r2 = mad {moved} K[-lr_t] s1 -> o0",
        ),
        state=("v",) if momentum else (),
        constants=({"momentum": None} if momentum else {}) | {"-lr_t": None},
    )


def lars(options: Options = PLAIN, *, momentum: bool = True) -> Chain:
    """Return the chain of :func:`sgd` for the gradient times the trust ratio of the parameter.

    Streams: s0 g; s1 w; s2 v; o0 w; o1 v; o2 image.
    Constants: trust-ratio, momentum, -lr_t.
    Instructions: 4.
    """
    _, g = options.gradient()
    return update_chain(
        "lars",
        options,
        lines(
            f"r1 = mul {g} K[{TRUST_RATIO}]",
            "r1 = mad s2 K[momentum] r1 -> o1" if momentum else "",
            "r2 = mad r1 K[-lr_t] s1 -> o0",
        ),
        state=("v",) if momentum else (),
        constants={TRUST_RATIO: None} | ({"momentum": None} if momentum else {}) | {"-lr_t": None},
    )


def rmsprop(options: Options = PLAIN, *, momentum: bool = False) -> Chain:
    """Return the chain of RMSprop: v = alpha v + (1 - alpha) g^2, w = w - lr_t g / (sqrt(v) + eps).
    ``momentum``: u = momentum u + g / (sqrt(v) + eps), w = w - lr_t u. v and u begin as zeros.

    Streams: s0 g; s1 w; s2 v; o0 w; o1 v; o2 image.
    Constants: 1-alpha, alpha, tiny, eps, -lr_t.
    Instructions: 11.
    """
    _, g = options.gradient()
    return update_chain(
        "rmsprop",
        options,
        lines(
            f"""
            r1 = mul {g} {g}
            r1 = mul r1 K[1-alpha]
            r1 = mad s2 K[alpha] r1 -> o1
            r3 = max r1 K[tiny]
            r3 = rsq r3
            r4 = mad r3 K[eps] 1
            r4 = rcp r4
            r3 = mul r3 r4
            r3 = mul {g} r3
            """,
            "r3 = mad s3 K[momentum] r3 -> o2" if momentum else "",
            "r2 = mad r3 K[-lr_t] s1 -> o0",
        ),
        state=("v", "u") if momentum else ("v",),
        constants={"1-alpha": None, "alpha": None}
        | TINY
        | {"eps": None}
        | ({"momentum": None} if momentum else {})
        | {"-lr_t": None},
    )


def adagrad(options: Options = PLAIN) -> Chain:
    """Return the chain of Adagrad: v = v + g^2, w = w - lr_t g / (sqrt(v) + eps). v begins as
    zeros.

    Source: Duchi et al., JMLR 12 (2011).

    Streams: s0 g; s1 w; s2 v; o0 w; o1 v; o2 image.
    Constants: tiny, eps, -lr_t.
    Instructions: 10.
    """
    _, g = options.gradient()
    text = lines(f"""
        r1 = mul {g} {g}
        r1 = add s2 r1 -> o1
        r3 = max r1 K[tiny]
        r3 = rsq r3
        r4 = mad r3 K[eps] 1
        r4 = rcp r4
        r3 = mul r3 r4
        r3 = mul {g} r3
        r2 = mad r3 K[-lr_t] s1 -> o0
    """)
    constants = TINY | {"eps": None, "-lr_t": None}
    return update_chain("adagrad", options, text, state=("v",), constants=constants)


def adam(options: Options = PLAIN) -> Chain:
    """Return the chain of Adam: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
    q = sqrt(v) / sqrt(1 - b2^t) + eps, w = w - lr_t / (1 - b1^t) m / q. m and v begin as zeros, and
    t counts from 1.

    Streams: s0 g; s1 w; s2 m; s3 v; o0 w; o1 m; o2 v; o3 image.
    Constants: eps, 1-b1, b1, 1-b2, b2, tiny, 1/sqrt(1-b2^t), -lr_t/(1-b1^t).
    Instructions: 14.
    """
    return _adam("adam", options, "r2 = mad r2 K[-lr_t/(1-b1^t)] s1 -> o0", {})


def adamw(options: Options = PLAIN) -> Chain:
    """Return the chain of :func:`adam` with a separate decay of w:
    w = (1 - lr_t decay) w - lr_t / (1 - b1^t) m / q.

    Streams: s0 g; s1 w; s2 m; s3 v; o0 w; o1 m; o2 v; o3 image.
    Constants: eps, 1-b1, b1, 1-b2, b2, tiny, 1/sqrt(1-b2^t), -lr_t/(1-b1^t), 1-lr_t*decay.
    Instructions: 15.
    """
    return _adam(
        "adamw",
        options,
        """
        r3 = mul s1 K[1-lr_t*decay]
        r2 = mad r2 K[-lr_t/(1-b1^t)] r3 -> o0
        """,
        {"1-lr_t*decay": None},
    )


def _adam(name: str, options: Options, step: str, constants: dict[str, float | None]) -> Chain:
    _, g = options.gradient()
    return update_chain(
        name,
        options,
        lines(
            f"""
            r4 = mov K[1/sqrt(1-b2^t)] when first
            r1 = mul {g} K[1-b1]
            r1 = mad s2 K[b1] r1 -> o1
            r3 = mul {g} {g}
            r3 = mul r3 K[1-b2]
            r3 = mad s3 K[b2] r3 -> o2
            r2 = max r3 K[tiny]
            r2 = rsq r2
            r3 = mad r2 K[eps] r4
            r3 = rcp r3
            r2 = mul r2 r3
            r2 = mul r1 r2
            """,
            step,
        ),
        state=("m", "v"),
        constants={"eps": None, "1-b1": None, "b1": None, "1-b2": None, "b2": None}
        | TINY
        | {"1/sqrt(1-b2^t)": None, "-lr_t/(1-b1^t)": None}
        | constants,
    )
