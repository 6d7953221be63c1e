"""Python's garbage collector, and operations: they refer to each other, and live as long as their module."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Nothing is collected: a collection while a module is compiled would look at all of its operations,
    again and again.

    What was made meanwhile counts as old afterwards, so that the next collection does not look at it either.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
