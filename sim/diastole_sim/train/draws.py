"""Draw the random choices of the host: initial weights, the split, the order of the samples.

All random bits come from the counter-based generator of the hardware, under tags that no tensor of
a network has (a tensor's tag is 4 * layer + class). A seed therefore gives equal choices on every
computer, and no choice depends on the number of earlier choices.
"""

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.rounding import DRAW_BITS

SPLIT_TAG = 0xFFFF0000  # which samples are held out; step 0
ORDER_TAG = 0xFFFF0001  # the order of the training samples; step = epoch
WEIGHT_TAG = 0xFFFF0100  # plus the layer: initial weights; step 0


def permutation(count: int, *, seed: int, tag: int, step: int) -> NDArray[np.int64]:
    """Return a random order of 0..count-1. Each number has a random 32-bit key, and the numbers are
    sorted by key. Numbers with equal keys keep ascending order."""
    draws = tensor_draws((count, 2), seed=seed, tag=tag, step=step, bits=DRAW_BITS)
    return np.argsort(draws[:, 0] << DRAW_BITS | draws[:, 1], kind="stable")


def initial_weights(inputs: int, outputs: int, *, seed: int, layer: int) -> NDArray[np.float32]:
    """Return initial weights, (inputs, outputs), uniform in [-a, a) in steps of a / 2**15, where
    a = sqrt(6 / inputs).

    Source: He et al., ICCV 2015, for layers in front of a ReLU.
    """
    draws = tensor_draws(
        (inputs, outputs), seed=seed, tag=WEIGHT_TAG + layer, step=0, bits=DRAW_BITS
    )
    centred = (draws - 2 ** (DRAW_BITS - 1)).astype(np.float32) / np.float32(2 ** (DRAW_BITS - 1))
    return centred * np.sqrt(np.float32(6) / np.float32(inputs))
