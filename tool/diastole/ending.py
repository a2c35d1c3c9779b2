"""Lets a process that is asked to end leave nothing behind: no program, worker or temporary folder.

SIGINT raises KeyboardInterrupt in every Python; SIGTERM and SIGHUP end a process on the spot. Here
they raise :class:`Ended` instead, and what has a ``finally`` or a context manager is undone.
"""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_END = 30
"""What a process has for its end. Further signals are ignored meanwhile; then SIGALRM ends it."""


class Ended(KeyboardInterrupt):
    """A signal asked this process to end. ``number``: of the signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code that shells give a process which a signal ended."""
        return 128 + self.number


@contextmanager
def ended_by_signals() -> Generator[None]:
    """Raise :class:`Ended` in the block for the first of :data:`SIGNALS`.

    A signal that is ignored stays so, as `nohup` wants it, and one that somebody else handles stays
    theirs. Outside of the main thread, where no signal can be handled, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    former: dict[int, Any] = {
        number: handler for number in SIGNALS if (handler := signal.getsignal(number)) in usual
    }
    process = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a fork, which inherited this: it ends as any process does
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _end(number, former)

    for number in former:
        signal.signal(number, handle)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(number: int, handled: dict[int, Any]) -> NoReturn:
    for each in handled:
        signal.signal(each, signal.SIG_IGN)
    signal.alarm(SECONDS_TO_END)
    raise Ended(number)
