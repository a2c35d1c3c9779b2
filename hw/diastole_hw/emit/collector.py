"""Keep Python's garbage collector out of the way while a design is made."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

OBJECTS = 10_000_000
"""Number of new objects after which a search for garbage is worthwhile: about 1.2 GB. The preset
``server`` makes 6 million objects."""


@contextmanager
def collector_seldom() -> Generator[None]:
    """Run the garbage collector only after :data:`OBJECTS` new objects inside the context, and as
    before afterwards.

    A design consists of millions of small objects, most of which are needed until the modules are
    written. Repeated searches for garbage among the objects take a fifth of the time of an
    emission. With this context the preset ``server`` takes 0.75 GB instead of 0.2 GB.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
