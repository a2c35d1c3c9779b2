"""The tasks that can be trained, by name: their data, their network and how it is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from diastole_sim.train.draws import SPLIT_TAG, permutation
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.network import Network, Perceptron
from diastole_sim.train.samples import Samples
from diastole_sim.train.text import load_text, split_text
from diastole_sim.train.transformer import Transformer, TransformerSizes

HIDDEN, BATCH = 64, 64
"""Units of the hidden layer of a perceptron, and samples of a step, at most."""


class Splits(Protocol):
    """Divides samples into those to train with and those that are held out."""

    def __call__(self, samples: Samples, *, seed: int) -> tuple[Samples, Samples]: ...


class Builds(Protocol):
    """Makes the network for samples such as these, whose parameters are kept in ``master``."""

    def __call__(self, training: Samples, *, seed: int, master: Master = ...) -> Network: ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """One thing to learn. ``load`` gives all samples; the rest says how they are learnt.

    ``about``: one line for people. ``batch`` samples per step, ``rate`` the learning rate of step
    0, ``steps`` unless told otherwise; the held-out samples are looked at every ``evaluate_every``
    steps. ``needs``: the distribution that has the samples, if it is another one. ``classifies``:
    features by a perceptron, which a machine with a vector unit learns by a program.
    """

    name: str
    about: str
    load: Callable[[], Samples]
    split: Splits
    network: Builds
    batch: int
    rate: float
    momentum: float
    steps: int
    evaluate_every: int
    needs: str | None = None
    classifies: bool = False


def perceptron(
    training: Samples, *, seed: int, master: Master = FLOAT32, hidden: int, classes: int
) -> Perceptron:
    """Of one hidden layer, for features and classes."""
    return Perceptron((training.inputs.shape[1], hidden, classes), seed=seed, master=master)


def decoder(training: Samples, *, seed: int, master: Master = FLOAT32) -> Transformer:
    """Of bytes."""
    sizes = TransformerSizes(context=training.inputs.shape[1])
    return Transformer(sizes, seed=seed, master=master)


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
    held_out = held_out_count(count)
    return samples.take(order[held_out:]), samples.take(order[:held_out])


def held_out_count(count: int) -> int:
    """A fifth, rounded up."""
    return -(-count // 5)


def given_task(samples: Samples, name: str) -> Task:
    """A user's own samples, learnt as the digits are: features of one size, labels from 0 on."""
    classes = int(samples.labels.max()) + 1
    training = len(samples.labels) - held_out_count(len(samples.labels))
    return Task(
        name=name,
        about="features and labels of your own",
        load=partial(_same, samples),
        split=split,
        network=partial(perceptron, hidden=HIDDEN, classes=classes),
        batch=min(BATCH, training),
        rate=0.5,
        momentum=0.8,
        steps=300,
        evaluate_every=25,
        classifies=True,
    )


def _same(samples: Samples) -> Samples:
    return samples


_TASKS = [
    Task(
        name="digits",
        about="handwritten digits, a perceptron of 64-64-10 units",
        load=load_digits,
        split=split,
        network=partial(perceptron, hidden=HIDDEN, classes=10),
        batch=BATCH,
        rate=0.5,
        momentum=0.8,
        steps=300,
        evaluate_every=25,
        needs="scikit-learn",
        classifies=True,
    ),
    Task(
        name="text",
        about="the next byte of a text, a transformer of 2 layers",
        load=load_text,
        split=split_text,
        network=decoder,
        batch=4,
        rate=0.05,
        momentum=0.9,
        steps=300,
        evaluate_every=150,
    ),
]
TASKS = {task.name: task for task in _TASKS}
OTHER_NAMES = {"digits-mlp": "digits"}
TASK_NAMES = tuple(sorted((*TASKS, *OTHER_NAMES)))
"""All that :func:`find_task` knows."""


def find_task(name: str) -> Task:
    """The task of that name; ValueError, naming those that exist, if there is none."""
    if name not in TASK_NAMES:
        raise ValueError(f"task must be one of {', '.join(TASK_NAMES)}, not {name!r}")
    return TASKS[OTHER_NAMES.get(name, name)]
