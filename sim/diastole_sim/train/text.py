"""The text of the task ``text``: bytes in windows, of which some stretches are held out."""

from pathlib import Path

import numpy as np

from diastole_sim.train.samples import Samples

TEXT = Path(__file__).with_name("texts") / "python.txt"
CONTEXT = 64
"""Bytes of a window."""
STRETCH = 16
"""Windows that follow each other, all of them held out or none."""
HELD_OUT = 8
"""Stretches that are held out: 8 KiB."""


def load_text() -> Samples:
    """All whole windows of the text: inputs are bytes (windows, 64), labels the bytes that follow
    each."""
    data = np.frombuffer(TEXT.read_bytes(), np.uint8).astype(np.int64)
    count = (len(data) - 1) // CONTEXT
    windows = data[: count * CONTEXT].reshape(count, CONTEXT)
    labels = data[1 : count * CONTEXT + 1].reshape(count, CONTEXT)
    return Samples(inputs=windows, labels=labels)


def split_text(samples: Samples, *, seed: int) -> tuple[Samples, Samples]:
    """What is trained with, and what is held out: every nth stretch, the same for every seed."""
    stretches = len(samples.labels) // STRETCH
    every = stretches // HELD_OUT
    stretch = np.arange(len(samples.labels)) // STRETCH
    held_out = (stretch % every == every - 1) & (stretch < HELD_OUT * every)
    return samples.take(np.flatnonzero(~held_out)), samples.take(np.flatnonzero(held_out))
