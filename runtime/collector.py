"""A pause of Python's garbage collector while modules are imported and operations are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident

from ocannl.runtime.systems.forks import at_fork

# The least number of objects, made in pauses and not freed since, for which all are looked at.
LEAST_MADE = 2_000_000
# Fewer than the 700 new objects (2,000 since Python 3.13) that make the collector look at them.
MOST_YOUNG = 500
# The questions for which the answer that others froze objects holds.
QUESTIONS = 10_000


class _Load:
    """The state of pauses, in numbers of objects and of questions."""

    made = 0
    """The objects that pauses made since the last full collection."""
    kept = 0
    """The objects that were left after that collection."""
    believed = 0
    """For how many more questions an earlier answer, that others froze objects, holds."""


# The threads in a pause. Where two begin or end at once, the collector may look at what it need not, no more.
_pausing: set[int] = set()


@contextmanager
def collector_paused() -> Generator[None]:
    """A context without garbage collection. Operations refer to each other and live as long as their module,
    so that collections would traverse all of them again and again, and free none.

    Objects that were made meanwhile count as old afterwards, so that the next collection does not traverse
    them. The collector does not count them then: when they may be half of all there are, a full collection
    frees the modules and the knowledge of shapes that nobody refers to any more. A pause lasts until no
    thread is in one.
    """
    thread = get_ident()
    if thread in _pausing or not (_pausing or gc.isenabled()):
        yield
        return
    gc.disable()
    _pausing.add(thread)
    try:
        yield
    finally:
        _end_pauses({thread})


def _end_pauses(threads: set[int]) -> None:
    _pausing.difference_update(threads)
    if not _pausing:
        if not _others_froze():
            _make_old()
        gc.enable()


def _after_fork() -> None:
    """Ends the pauses of threads that a forked child does not have."""
    if gone := _pausing - {get_ident()}:
        _end_pauses(gone)


at_fork(_after_fork)


def spare_collector() -> None:
    """Makes the objects of an operation that was just made count as old, as `collector_paused` does, before
    the collector would look at them.
    """
    if gc.isenabled() and gc.get_count()[0] > MOST_YOUNG and not _others_froze():
        _make_old()


def _others_froze() -> bool:
    """Whether code outside of this package has frozen objects, which a pause must not thaw. Counting frozen
    objects takes time in proportion to their number, so that a positive answer holds for a while.
    """
    if _Load.believed:
        _Load.believed -= 1
        return True
    if gc.get_freeze_count():
        _Load.believed = QUESTIONS
        return True
    return False


def _make_old() -> None:
    _Load.made += gc.get_count()[0]
    is_full = _Load.made > max(LEAST_MADE, _Load.kept)
    if is_full:
        gc.collect()
    gc.freeze()
    if is_full:
        _Load.made, _Load.kept = 0, gc.get_freeze_count()
    gc.unfreeze()
