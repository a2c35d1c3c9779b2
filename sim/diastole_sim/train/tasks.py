"""The tasks that can be trained, by name: their data, their network and how it is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diastole_sim.train.draws import SPLIT_TAG, permutation


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Inputs (samples, features) in float32 and their labels (samples,) in 0..classes-1."""

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]

    def take(self, which: NDArray[np.int64]) -> "Samples":
        return Samples(inputs=self.inputs[which], labels=self.labels[which])


@dataclass(frozen=True, kw_only=True)
class Task:
    """One thing to learn. ``load`` gives all samples; the rest says how they are learnt.

    ``hidden`` units, ``batch`` samples per step, ``rate`` the learning rate of step 0, ``steps``
    unless told otherwise; the held-out samples are looked at every ``evaluate_every`` steps.
    """

    name: str
    load: Callable[[], Samples]
    classes: int
    hidden: int
    batch: int
    rate: float
    momentum: float
    steps: int
    evaluate_every: int


def load_digits() -> Samples:
    """1797 handwritten digits, 8x8 pixels of 0..16, scaled to 0..1; from scikit-learn's package.

    Source: E. Alpaydin and C. Kaynak, UCI Optical Recognition of Handwritten Digits, 1998.
    """
    # Imported here: slow, and wanted by this task only.
    from sklearn.datasets import load_digits as bundled  # pyright: ignore[reportMissingTypeStubs]

    digits = cast(Any, bundled())
    return Samples(
        inputs=digits.data.astype(np.float32) / np.float32(16),
        labels=digits.target.astype(np.int64),
    )


def split(samples: Samples, *, seed: int) -> tuple[Samples, Samples]:
    """All but a fifth, in random order, to train with, and the held-out fifth (rounded up)."""
    count = len(samples.labels)
    order = permutation(count, seed=seed, tag=SPLIT_TAG, step=0)
    held_out = -(-count // 5)
    return samples.take(order[held_out:]), samples.take(order[:held_out])


_TASKS = [
    Task(
        name="digits",
        load=load_digits,
        classes=10,
        hidden=64,
        batch=64,
        rate=0.5,
        momentum=0.8,
        steps=300,
        evaluate_every=25,
    ),
]
TASKS = {task.name: task for task in _TASKS}


def find_task(name: str) -> Task:
    """The task of that name; ValueError, naming those that exist, if there is none."""
    if name not in TASKS:
        raise ValueError(f"task must be one of {', '.join(sorted(TASKS))}, not {name!r}")
    return TASKS[name]
