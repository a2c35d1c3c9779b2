"""Starts programs that never outlive this process: whatever ends a call ends its program too."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

SECONDS_TO_END = 3
"""What a program has to remove its temporary files, before it is killed."""
LOOK_SECONDS = 0.05


@contextmanager
def started(words: Sequence[object], **options: Any) -> "Generator[subprocess.Popen[Any]]":
    """Start a program in a session of its own, and end it with all that it started if it still
    runs when the block ends. ``options``: of :class:`subprocess.Popen`."""
    with subprocess.Popen([str(word) for word in words], start_new_session=True, **options) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                end(run)


def end(program: "subprocess.Popen[Any]") -> None:
    """End a program of :func:`started` and everything in its session: it is asked first, so that
    compilers remove their temporary files, and killed after :data:`SECONDS_TO_END`."""
    _signal(program, signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_END
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    _signal(program, signal.SIGKILL)  # what the program started may have stayed
    program.wait()


def _signal(program: "subprocess.Popen[Any]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, number)


class Programs:
    """Programs that run side by side in threads, and end together.

    A thread cannot be interrupted: whoever waits for the threads calls :meth:`end` instead, after
    which no program of this group runs or starts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._ended = False

    def run(
        self, words: Sequence[object], *, seconds: float | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[Any]":
        """Run a program to its end and return its exit code and all that it printed.

        ``seconds``: after which it is ended, with subprocess.TimeoutExpired. ``options``: of
        :class:`subprocess.Popen`, besides the pipes. InterruptedError after :meth:`end`.
        """
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self._lock:
            if self._ended:
                raise InterruptedError("ended")
            context = started(words, **given | options)
            program = context.__enter__()
            self._running.add(program)
        try:
            out, err = program.communicate(timeout=seconds)
        finally:
            context.__exit__(None, None, None)
            with self._lock:
                self._running.discard(program)
        return subprocess.CompletedProcess(program.args, program.returncode, out, err)

    def end(self) -> None:
        """End every program of the group."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for program in running:
            end(program)


def run(
    words: Sequence[object], *, seconds: float | None = None, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run one program to its end, as :meth:`Programs.run` does."""
    return Programs().run(words, seconds=seconds, **options)


def call(words: Sequence[object], **options: Any) -> int:
    """Run one program that prints where this process does, and return its exit code."""
    with started(words, stdin=subprocess.DEVNULL, **options) as program:
        return program.wait()
