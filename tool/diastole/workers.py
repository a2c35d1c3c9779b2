"""Count usable cores, and end a worker process together with its parent."""

import os
import time
from functools import cache
from threading import Thread

SECONDS_BETWEEN_LOOKS = 0.5
"""Period in seconds at which a process checks for its parent."""


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def end_with(parent: int) -> None:
    """End this process when ``parent`` ends. A killed parent sends no message."""
    Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
