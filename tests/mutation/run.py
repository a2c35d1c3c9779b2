"""Tries faults, each in a process of its own, since a fault can hang or end the simulation.

A fault that no scene notices may change nothing at all: that is tried to be proved.
"""

import faulthandler
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from mutation import check
from mutation.plant import VARIABLE

SECONDS = 600
"""After which a fault is given up, and has not been noticed: a hang ends the check before."""
JOBS = 2


NOTICED, EQUAL, SURVIVES, FAILED = "noticed", "equal", "SURVIVES", "FAILED"
"""FAILED: the check itself did, and says nothing of the fault."""


@dataclass(frozen=True)
class Verdict:
    """On the fault of a number; ``why``: what noticed it, or how the check failed."""

    number: int
    verdict: str
    why: str
    seconds: float


@dataclass(frozen=True)
class Trial:
    """``planted``: the product with its faults; ``prove``: whether a number's fault is proved to
    change nothing."""

    planted: Path
    recorded: check.Recorded
    prove: Callable[[int], bool] = lambda number: False

    def judge(self, number: int) -> tuple[str, str]:
        """In this process."""
        os.environ[VARIABLE] = str(number)
        if why := check.noticed(self.planted, self.recorded):
            return NOTICED, why
        return (EQUAL if self.prove(number) else SURVIVES), ""

    def run(self, numbers: Iterable[int], *, jobs: int = JOBS) -> Iterator[Verdict]:
        """A verdict for each number, in the order in which they end."""
        context = multiprocessing.get_context("fork")
        left, running = list(numbers), {}
        while left or running:
            while left and len(running) < jobs:
                number = left.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=self._child, args=(number, theirs))
                process.start()
                theirs.close()
                running[ours] = (number, process, time.monotonic())
            ended = wait(list(running), timeout=1)
            for ours, (number, process, began) in list(running.items()):
                seconds = time.monotonic() - began
                if ours in ended:
                    verdict = _said(ours, process)
                elif seconds > SECONDS:
                    process.kill()
                    verdict = SURVIVES, "out of time"
                else:
                    continue
                process.join()
                del running[ours]
                yield Verdict(number, *verdict, seconds)

    def _child(self, number: int, theirs: Connection) -> None:
        faulthandler.disable()  # a simulation that gives up says so with its signal
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # Verilator says there what does not settle
            os.dup2(nowhere, stream)
        try:
            theirs.send(self.judge(number))
        except Exception:  # whatever it is, it is no judgement of the fault
            theirs.send((FAILED, traceback.format_exc()))
        theirs.close()
        os._exit(0)


def _said(ours: Connection, process: BaseProcess) -> tuple[str, str]:
    try:
        return ours.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        if code == -signal.SIGABRT:  # by Verilator, where what is combinational does not settle
            return NOTICED, "the simulation gave up"
        return FAILED, f"the check ended with {code}"
