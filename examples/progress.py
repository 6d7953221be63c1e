"""A progress bar: rich's where it is installed, and otherwise a line that rewrites itself."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

Advance = Callable[[str], None]


@contextmanager
def progress(total: int, plain: bool) -> Generator[Advance]:
    """A function to call after each of `total` parts, with a note to show."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield from simple_progress(total)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(no_color=plain)) as bar:
        task = bar.add_task("", total=total)
        yield lambda note: bar.update(task, advance=1, description=note)


def simple_progress(total: int) -> Generator[Advance]:
    done = 0

    def advance(note: str) -> None:
        nonlocal done
        done += 1
        filled = 40 * done // total
        print(f"\r[{'#' * filled:40}] {done}/{total} {note}", end="", file=sys.stderr, flush=True)

    yield advance
    print(file=sys.stderr)
