"""Load the text of the task ``text``: bytes in windows, with some stretches held out."""

from pathlib import Path

import numpy as np

from diastole_sim.train.samples import Samples

TEXT = Path(__file__).with_name("texts") / "python.txt"
CONTEXT = 64
"""Bytes of a window."""
STRETCH = 16
"""Number of consecutive windows that are held out together or not at all."""
HELD_OUT = 8
"""Number of held-out stretches, 8 KiB together."""


def load_text() -> Samples:
    """Return all whole windows of the text. Inputs are bytes (windows, 64), labels are the bytes
    after each input byte."""
    data = np.frombuffer(TEXT.read_bytes(), np.uint8).astype(np.int64)
    count = (len(data) - 1) // CONTEXT
    windows = data[: count * CONTEXT].reshape(count, CONTEXT)
    labels = data[1 : count * CONTEXT + 1].reshape(count, CONTEXT)
    return Samples(inputs=windows, labels=labels)


def split_text(samples: Samples, *, seed: int) -> tuple[Samples, Samples]:
    """Return the training samples and the held-out samples. Every nth stretch is held out, equal
    for every seed."""
    stretches = len(samples.labels) // STRETCH
    every = stretches // HELD_OUT
    stretch = np.arange(len(samples.labels)) // STRETCH
    held_out = (stretch % every == every - 1) & (stretch < HELD_OUT * every)
    return samples.take(np.flatnonzero(~held_out)), samples.take(np.flatnonzero(held_out))
