"""Read a user's samples for a small classifier: ``inputs`` and ``labels`` of an .npz file."""

from pathlib import Path

import numpy as np

from diastole.errors import BadInput
from diastole.files.archive import Archive, Unreadable
from diastole_sim.train.samples import Samples

INPUTS, LABELS = "inputs", "labels"
FEWEST = 10
"""Least number of samples."""
MAX_CLASSES = 65_536


def read_samples(path: Path) -> Samples:
    """Return inputs (samples, features) in float32, and an integer label from 0 on for every
    sample. BadInput with a line for every mistake."""
    archive = Archive(path)
    missing = [name for name in (INPUTS, LABELS) if name not in archive.names]
    if missing:
        raise BadInput(
            f"{path}: the file needs inputs (samples x features) and labels (samples), but "
            f"has {', '.join(archive.names) or 'nothing'}"
        )
    try:
        inputs, labels = archive.read(INPUTS), archive.read(LABELS)
    except Unreadable as reason:
        raise BadInput(f"{path}: an array cannot be read: {reason}") from None
    problems: list[str] = []
    if inputs.dtype.kind not in "fiu" or inputs.ndim != 2 or 0 in inputs.shape:
        problems.append(
            f"inputs must be numbers (samples x features), not {inputs.dtype} of shape "
            f"{inputs.shape}"
        )
    elif not np.isfinite(inputs).all():
        problems.append("inputs must be finite")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        problems.append(
            f"labels must be integers (samples), not {labels.dtype} of shape {labels.shape}"
        )
    elif labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < MAX_CLASSES:
        low, high = int(labels.min()), int(labels.max())
        problems.append(f"labels must be in 0..{MAX_CLASSES - 1}, not {low}..{high}")
    if not problems and len(inputs) != len(labels):
        problems.append(
            f"labels must have one label for each of {len(inputs)} inputs, not {len(labels)} labels"
        )
    elif not problems and (len(inputs) < FEWEST or int(labels.max()) == 0):
        problems.append(
            f"the file must have at least {FEWEST} samples and a label above 0; the file "
            f"has {len(inputs)} samples, and the largest label is {int(labels.max())}"
        )
    if problems:
        raise BadInput(*(f"{path}: {problem}" for problem in problems))
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(inputs, dtype=np.float32)
    if not np.isfinite(single).all():
        raise BadInput(f"{path}: inputs must be within the range of float32")
    return Samples(inputs=single, labels=labels.astype(np.int64))
