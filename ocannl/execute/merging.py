"""Runs that read the memory of other contexts, or whose memory others read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ocannl.execute.memory.merge_buffers import MergeBuffer
from ocannl.execute.turns import Turn, taken


@dataclass(frozen=True, slots=True)
class Merging:
    """The turn of a routine's own context, those of the contexts that it reads, and the copies of what it
    reads there.
    """

    own: Turn
    merged: Sequence[Turn]
    buffers: Sequence[MergeBuffer]

    @property
    def is_needed(self) -> bool:
        return bool(self.merged) or self.own.is_shared

    @contextmanager
    def turn(self) -> Generator[None]:
        """A context in which nothing else writes the memory that is merged, or merges what is written."""
        with taken([*([self.own] if self.own.is_shared else []), *self.merged]):
            for buffer in self.buffers:
                buffer.fill()
            yield

    def around(self, run: Callable[[], None]) -> Callable[[], None]:
        """A run in such a context."""

        def run_in_turn() -> None:
            with self.turn():
                run()

        return run_in_turn
