"""End a process on a signal and leave nothing behind: no program, worker or temporary folder.

SIGINT raises KeyboardInterrupt in every Python. SIGTERM and SIGHUP end a process at once. Inside
:func:`end_on_signals` all three signals raise :class:`Ended` instead, and code in a ``finally``
or a context manager still runs.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS_TO_END = 30
"""Time that a process has for its end. Further signals are ignored meanwhile; then SIGALRM ends the
process."""
SECONDS_TO_RAISE_AGAIN = 0.01


class Ended(KeyboardInterrupt):
    """A signal asked the process to end. ``number`` is the number of the signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """Exit code that shells give a process ended by a signal."""
        return 128 + self.number


@contextmanager
def end_on_signals() -> Generator[None]:
    """Raise :class:`Ended` in the block for the first of :data:`SIGNALS`.

    An ignored signal stays ignored, as `nohup` requires. A signal with a handler of the caller
    keeps the handler. Outside the main thread no signal can be handled, and nothing changes.

    Python drops an exception that leaves a finalizer or a callback of a weak reference. An
    :class:`Ended` dropped there is raised again, outside of the finalizer.
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
        if os.getpid() != process:  # a forked child inherits the handler, and ends at once
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _end(number, former)

    unraisable = sys.unraisablehook

    def dropped(fault: "sys.UnraisableHookArgs") -> None:
        if isinstance(fault.exc_value, Ended):
            _raise_soon(fault.exc_value.number)
        else:
            unraisable(fault)

    for number in former:
        signal.signal(number, handle)
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        signal.alarm(0)
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(number: int, handled: dict[int, Any]) -> NoReturn:
    for each in handled:
        signal.signal(each, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # a design that is dropped half-way warns of unused parts
    signal.alarm(SECONDS_TO_END)
    raise Ended(number)


def _raise_soon(number: int) -> None:
    """Raise :class:`Ended` for a signal from the timer, shortly after the return."""

    def handle(_: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS_TO_END)
        raise Ended(number)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_RAISE_AGAIN)
