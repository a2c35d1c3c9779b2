"""List the tasks for training by name: data, network and parameters of the training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from diastole_sim.train.draws import SPLIT_TAG, permutation
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.network import Network
from diastole_sim.train.samples import Samples
from diastole_sim.train.text import load_text, split_text
from diastole_sim.train.transformer import Transformer, TransformerSizes

if TYPE_CHECKING:
    from diastole_sim.graph.graph import Graph

HIDDEN, BATCH = 64, 64
"""Units of the hidden layer of a perceptron, and most samples of a step."""


class Splits(Protocol):
    """Function that divides samples into training samples and held-out samples."""

    def __call__(self, samples: Samples, *, seed: int) -> tuple[Samples, Samples]: ...


class Builds(Protocol):
    """Function that makes the network for the form of the samples, with parameters in the format
    ``master``."""

    def __call__(self, training: Samples, *, seed: int, master: Master = ...) -> Network: ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """Task for training.

    - ``about``: one line for people.
    - ``load``: function that returns all samples.
    - ``split``: function that splits the samples.
    - ``network``: function that makes the network of a host; None for a task that a program trains.
    - ``batch``: samples per step.
    - ``rate``: learning rate of step 0.
    - ``steps``: default number of steps.
    - ``evaluate_every``: steps between two evaluations of the held-out samples.
    - ``needs``: distribution with the samples, None if Diastole has the samples.
    - ``classifies``: True if a perceptron learns labels of features. A machine with a vector unit
      learns such a task by a program.
    - ``graph``: network and loss for a program; None for a perceptron. ``first``: initial
      parameters of the graph by name, None for those that the graph names.
    """

    name: str
    about: str
    load: Callable[[], Samples]
    split: Splits
    batch: int
    rate: float
    momentum: float
    steps: int
    evaluate_every: int
    network: Builds | None = None
    needs: str | None = None
    classifies: bool = False
    graph: "Graph | None" = None
    first: Mapping[str, NDArray[np.float32]] | None = None


def decoder(training: Samples, *, seed: int, master: Master = FLOAT32) -> Transformer:
    """Return a decoder of bytes."""
    sizes = TransformerSizes(context=training.inputs.shape[1])
    return Transformer(sizes, seed=seed, master=master)


def load_digits() -> Samples:
    """Return 1797 handwritten digits, 8x8 pixels of 0..16, scaled to 0..1, from scikit-learn's
    package.

    Source: E. Alpaydin and C. Kaynak, UCI Optical Recognition of Handwritten Digits, 1998.
    """
    # Import only for this task, since the import is slow.
    from sklearn.datasets import load_digits as bundled  # pyright: ignore[reportMissingTypeStubs]

    digits = cast(Any, bundled())
    return Samples(
        inputs=digits.data.astype(np.float32) / np.float32(16),
        labels=digits.target.astype(np.int64),
    )


def split(samples: Samples, *, seed: int) -> tuple[Samples, Samples]:
    """Return four fifths of the samples, in random order, for training, and the held-out fifth,
    rounded up."""
    count = len(samples.labels)
    order = permutation(count, seed=seed, tag=SPLIT_TAG, step=0)
    held_out = held_out_count(count)
    return samples.take(order[held_out:]), samples.take(order[:held_out])


def held_out_count(count: int) -> int:
    """Return a fifth of ``count``, rounded up."""
    return -(-count // 5)


def task_of_samples(samples: Samples, name: str) -> Task:
    """Return a task of a user's own samples, learnt as the digits are: features of one size, labels
    from 0 on."""
    training = len(samples.labels) - held_out_count(len(samples.labels))
    return Task(
        name=name,
        about="features and labels of your own",
        load=partial(_same, samples),
        split=split,
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
        batch=4,
        rate=0.05,
        momentum=0.9,
        steps=300,
        evaluate_every=150,
        network=decoder,
    ),
]
TASKS = {task.name: task for task in _TASKS}
OTHER_NAMES = {"digits-mlp": "digits"}
TASK_NAMES = tuple(sorted((*TASKS, *OTHER_NAMES)))
"""Names that :func:`find_task` accepts."""


def find_task(name: str) -> Task:
    """Return the task with the name; ValueError with all known names if the name is unknown."""
    if name not in TASK_NAMES:
        raise ValueError(f"task must be one of {', '.join(TASK_NAMES)}, not {name!r}")
    return TASKS[OTHER_NAMES.get(name, name)]
