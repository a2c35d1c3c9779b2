"""The picture of a training run: loss and accuracy, of the device and of the float32 run."""

from pathlib import Path
from typing import Any

from diastole_sim.train.job import History, TrainResult

DEVICE_COLOUR, FLOAT_COLOUR = "#c0392b", "#2c3e50"
SMOOTHED_STEPS = 11


def write_picture(result: TrainResult, path: Path | str) -> None:
    """Write a PNG with two plots over the steps: minibatch loss, and held-out accuracy.

    Losses are means of ``SMOOTHED_STEPS`` neighbouring minibatches. Needs matplotlib.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot there is no window

    figure: Any = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    curves = [
        (result.history, f"{result.backend} (quantised)", DEVICE_COLOUR, "-"),
        (result.float_history, "float32", FLOAT_COLOUR, "--"),
    ]
    for history, label, colour, style in curves:
        left.plot(*smoothed(history), color=colour, linestyle=style, label=label)
        steps, _, accuracies = zip(*history.held_out, strict=True)
        label = f"{label}: {accuracies[-1]:.2%}"
        right.plot(steps, accuracies, color=colour, linestyle=style, marker=".", label=label)
    left.set(xlabel="step", ylabel="minibatch loss", yscale="log")
    right.set(xlabel="step", ylabel="held-out accuracy", ylim=(min(0.8, result.accuracy), 1.0))
    left.legend(loc="upper right")
    right.legend(loc="lower right")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.suptitle(f"{result.task}, {result.steps} steps, seed {result.seed}")
    figure.savefig(path, dpi=120, format="png")


def smoothed(history: History) -> tuple[list[int], list[float]]:
    """Steps done, and the mean loss of the minibatches around each."""
    reach = SMOOTHED_STEPS // 2
    losses = history.losses
    windows = [losses[max(0, i - reach) : i + reach + 1] for i in range(len(losses))]
    return list(range(1, len(losses) + 1)), [sum(part) / len(part) for part in windows]
