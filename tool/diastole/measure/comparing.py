"""Time and losses of the task `text`, and the time of a comparison; on the golden model."""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from diastole.config.file import from_document
from diastole.errors import CheckFailed
from diastole.measure.figure import Figure, at_most, shown
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.system import children
from diastole_sim.train import TASKS, run_task

DIGITS = Path(__file__).parents[3] / "docs" / "digits.toml"
TASK = TASKS["text"]
MOST_OVER_FLOAT32 = 0.03
"""Of the held-out loss."""
MOST_COMPARING_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True)
class TextCase:
    """A format of all classes, in groups of its own if None. ``most_seconds``: None where only the
    loss is shown."""

    format: str
    block: str | None = None
    most_seconds: float | None = None


CASES: Mapping[str, TextCase] = {
    "bfp4 1x16": TextCase(format="bfp4", block="1x16", most_seconds=240),
    "MXFP8 E4M3": TextCase(format="mxfp8_e4m3", most_seconds=360),
    "bfp2 1x16": TextCase(format="bfp2", block="1x16"),
}


def losses(steps: int | None = None) -> Iterator[Figure]:
    """Of seed 0: seconds of wall time, of the float32 run too, on one core; and the loss."""
    for name, case in CASES.items():
        document = {"format": dict.fromkeys(CLASS_NAMES, case.format)}
        if case.block is not None:
            document["block"] = dict.fromkeys(CLASS_NAMES, case.block)
        device = GoldenDevice(from_document(document).numerics, 0)
        began = time.perf_counter()
        result = run_task(TASK, device, backend="golden", steps=steps)
        seconds = time.perf_counter() - began
        over, what = result.loss / result.float_loss - 1, f"{TASK.name}, {name}"
        if case.most_seconds is None:
            yield shown(f"{what}: loss over float32's", over)
        else:
            yield at_most(f"{what}: seconds", seconds, case.most_seconds, "{:.0f}")
            yield at_most(f"{what}: loss over float32's", over, MOST_OVER_FLOAT32)


def figures(plan: Path = DIGITS) -> Iterator[Figure]:
    """And seconds of the comparison that ``plan`` asks for, on all cores, from the beginning."""
    yield from losses()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        words = ["compare", "--plan", str(plan), "--results", str(results), "--json"]
        began = time.perf_counter()
        done = children.run([sys.executable, "-m", "diastole", *words], stderr=None)
        seconds = time.perf_counter() - began
    if done.returncode:
        raise CheckFailed(f"diastole {' '.join(words)} failed with {done.returncode}")
    record = json.loads(done.stdout)
    count = len(record["configurations"])
    what = f"compare of {count} configurations, {len(record['seeds'])} seeds, {record['task']}"
    yield at_most(f"{what}: seconds", seconds, MOST_COMPARING_SECONDS, "{:.0f}")
