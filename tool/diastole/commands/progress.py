"""Show the progress of long work: a bar on a terminal, elsewhere a plain line for every tenth."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator

from diastole.console import note

Report = Callable[[int, int, float | None], None]
"""Function to call with the steps done, all steps, and the present loss, None without a loss."""


@contextlib.contextmanager
def progress(what: str, *, lines: bool = True) -> Generator[Report]:
    """Yield a function that shows reported steps on standard error. Without ``lines``, only a
    terminal shows progress."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        Console = Progress = None
    if Console is None or Progress is None or sys.stderr is None or not sys.stderr.isatty():
        yield _lines(what) if lines else _silent
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)

        def report(done: int, steps: int, loss: float | None) -> None:
            bar.update(task, completed=done, total=steps, description=what + _loss_text(loss))

        yield report


def _lines(what: str) -> Report:
    tenths, begun = 0, time.monotonic()

    def report(done: int, steps: int, loss: float | None) -> None:
        nonlocal tenths
        if done * 10 // steps > tenths or done == steps:
            tenths = done * 10 // steps
            left = (time.monotonic() - begun) / done * (steps - done)
            time_left = f", about {left:.0f} s left" if left >= 1 else ""
            note(f"{what}: step {done} of {steps}{_loss_text(loss)}{time_left}")

    return report


def _loss_text(loss: float | None) -> str:
    return "" if loss is None else f", loss {loss:.4f}"


def _silent(done: int, steps: int, loss: float | None) -> None:
    """Print nothing."""
