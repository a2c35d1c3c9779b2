"""Time of a layer of diastole.torch, over that of the golden model in numpy.

In a process of its own with one thread of each library, for both have threads of their own that
would wait for each other; by the processor's time, and in turn, so that other work on the computer
slows both alike.
"""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from diastole.devices import GoldenDevice
from diastole.errors import CheckFailed
from diastole.measure.figure import Figure, at_least
from diastole_sim.system import children

SIDE, FORMAT = 512, "bfp4"
ATTEMPTS = 40
LEAST_RATIO = 1.0
"""Numpy's time over that of torch: asked is that it is no slower."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def figures() -> Iterator[Figure]:
    """The figure of the README; without torch what it lacks."""
    what = f"Linear of diastole.torch, {SIDE}^3, {FORMAT}, both passes: numpy's time over it"
    if importlib.util.find_spec("torch") is None:
        yield Figure(what=what, asked="", measured="needs diastole[torch]", met=None)
        return
    environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
    command = [sys.executable, "-m", "diastole.measure.torch_speed"]
    done = children.run(command, env=environment, stderr=None, text=True)
    if done.returncode:
        raise CheckFailed(f"{' '.join(command)} failed with {done.returncode}")
    numpy_time, torch_time = json.loads(done.stdout)
    yield at_least(what, numpy_time / torch_time, LEAST_RATIO, "{:.2f} x")


def both_seconds(side: int = SIDE, attempts: int = ATTEMPTS) -> tuple[float, float]:
    """The best of some attempts, of the products and the bias of a layer in numpy, and of the
    layer: forward pass, both gradients, and that of the bias."""
    import torch

    from diastole.torch import Linear

    rng = np.random.default_rng(0)
    x, w, dy = rng.standard_normal((3, side, side)).astype(np.float32)
    bias = rng.standard_normal(side).astype(np.float32)
    golden = GoldenDevice(formats=FORMAT, seed=1)
    layer = Linear(side, side, device=GoldenDevice(formats=FORMAT, seed=1))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w.T))
        layer.bias.copy_(torch.from_numpy(bias))
    inputs, gradient = torch.from_numpy(x).requires_grad_(), torch.from_numpy(dy)

    def in_numpy() -> None:
        result = golden.forward(x, w, tags=(0, 1))
        np.add(result.y, bias)
        operands = result.operands
        golden.backward(operands["X"], operands["W"], dy, tags=(0, 1, 2))
        dy.sum(axis=0)

    def in_torch() -> None:
        layer.zero_grad()
        inputs.grad = None
        layer(inputs).backward(gradient)

    pairs = [(once(in_numpy), once(in_torch)) for _ in range(attempts)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def once(work: Callable[[], object]) -> float:
    """Seconds of the processor for one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    print(json.dumps(both_seconds()))
