"""Start programs that never outlive the calling process: the end of a call ends the program."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

SECONDS_TO_END = 3
"""Seconds for a program to remove temporary files before the program is killed."""
LOOK_SECONDS = 0.05


@contextmanager
def started(words: Sequence[object], **options: Any) -> "Generator[subprocess.Popen[Any]]":
    """Start a program in a new session. If the program still runs at the end of the block, end the
    program and everything started by it. ``options``: options of :class:`subprocess.Popen`."""
    with subprocess.Popen([str(word) for word in words], start_new_session=True, **options) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                end(run)


def end(program: "subprocess.Popen[Any]") -> None:
    """End a program of :func:`started` and everything in the program's session. A first signal asks
    the program to end, so that compilers remove temporary files. After :data:`SECONDS_TO_END` the
    program is killed."""
    _signal(program, signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_END
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    _signal(program, signal.SIGKILL)  # children of the program may have stayed
    program.wait()


def _signal(program: "subprocess.Popen[Any]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, number)


class Programs:
    """Group of programs that run in parallel threads, and end together.

    A thread cannot be interrupted. A caller that waits for the threads therefore calls :meth:`end`.
    Afterwards no program of the group runs or starts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[Any]] = set()
        self._ended = False

    def run(
        self, words: Sequence[object], *, seconds: float | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[Any]":
        """Run a program to the end, and return the exit code and the whole output.

        ``seconds``: time limit, after which the program is ended with subprocess.TimeoutExpired.
        ``options``: options of :class:`subprocess.Popen`, besides the pipes. InterruptedError after
        :meth:`end`.
        """
        defaults = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        with self._lock:
            if self._ended:
                raise InterruptedError("the programs have been ended")
            context = started(words, **defaults | options)
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
    """Run a single program to the end, as :meth:`Programs.run` does."""
    return Programs().run(words, seconds=seconds, **options)


def call(words: Sequence[object], **options: Any) -> int:
    """Run a program with the output of the calling process, and return the program's exit code."""
    with started(words, stdin=subprocess.DEVNULL, **options) as program:
        return program.wait()
