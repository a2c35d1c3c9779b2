"""Draw a training run: loss and accuracy of the device and of the float32 run, and the chosen
widths."""

from pathlib import Path
from typing import IO, Any

from diastole_sim.train.history import History
from diastole_sim.train.job import TrainResult

DEVICE_COLOUR, FLOAT_COLOUR = "#c0392b", "#2c3e50"
SMOOTHED_STEPS = 11


def write_picture(result: TrainResult, path: Path | str | IO[bytes], kind: str = "png") -> None:
    """Write a PNG, or another ``kind`` of picture, with two plots over the steps: minibatch loss
    and held-out accuracy. If widths were chosen, a third plot below has the widths of every tensor.

    Losses are means of ``SMOOTHED_STEPS`` neighbouring minibatches. Needs matplotlib.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot there is no window

    figure: Any = Figure(figsize=(11, 6.4 if result.widths else 4.2), layout="constrained")
    if result.widths:
        panels = figure.subplot_mosaic([["loss", "accuracy"], ["widths", "widths"]])
        left, right = panels["loss"], panels["accuracy"]
        _draw_widths(panels["widths"], result.widths)
    else:
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
    figure.savefig(path, dpi=120, format=kind)


def _draw_widths(axes: Any, widths: dict[str, str]) -> None:
    """Draw a row for each tensor and a column for each conversion of the tensor. Darker is
    wider."""
    from matplotlib.colors import ListedColormap

    rows = [[int(digit) for digit in digits] for digits in widths.values()]
    choices = sorted({width for row in rows for width in row})
    length = max(map(len, rows))
    shades = [[choices.index(width) for width in row] + [-1] * (length - len(row)) for row in rows]
    greys = [str(0.9 - 0.7 * n / max(1, len(choices) - 1)) for n in range(len(choices))]
    colours = ListedColormap(["white", *greys])
    axes.pcolormesh(shades, cmap=colours, vmin=-1, vmax=max(1, len(choices) - 1))
    axes.set_yticks([row + 0.5 for row in range(len(rows))], list(widths))
    axes.invert_yaxis()
    shown = ", ".join(f"{width} bits" for width in choices)
    axes.set(xlabel="step", title=f"widths ({shown}; darker is wider)")


def smoothed(history: History) -> tuple[list[int], list[float]]:
    """Return the numbers of steps done, and the mean loss of the minibatches around each step."""
    reach = SMOOTHED_STEPS // 2
    losses = history.losses
    windows = [losses[max(0, i - reach) : i + reach + 1] for i in range(len(losses))]
    return list(range(1, len(losses) + 1)), [sum(part) / len(part) for part in windows]
