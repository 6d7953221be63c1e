"""Runs after which values are shown that the program watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocannl.program.watching import Watch
from ocannl.runtime.device import Memory

Watched = Sequence[tuple[Watch, Memory]]


def show(watched: Watched) -> None:
    """Shows the present values."""
    for watch, memory in watched:
        watch.show(memory.read())


def watched_run(run: Callable[[], None], watched: Watched) -> Callable[[], None]:
    """A run that shows values afterwards."""

    def run_and_show() -> None:
        run()
        show(watched)

    return run_and_show
