"""A pause of Python's garbage collector while operations are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """A context without garbage collection. Operations refer to each other and live as long as their module,
    so that collections would traverse all of them again and again, and free none.

    Objects that were made meanwhile count as old afterwards, so that the next collection does not traverse
    them.
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
