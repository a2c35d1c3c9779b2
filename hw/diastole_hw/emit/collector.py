"""Python's garbage collector, out of the way while a design is made."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Nothing is collected inside, and what was left there soon after, if it was on before.

    A design is millions of small objects, of which most are needed until its modules are written:
    looking for garbage among them again and again takes a fifth of the time of an emission. Without
    it the preset ``server`` takes 0.75 GB instead of 0.2.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
