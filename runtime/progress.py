"""The progress of a long compilation, as a line on a terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import field

from ocannl.dialects.records import dataclass

# The seconds after which it is shown.
PATIENCE = 2.0
ERASE_LINE = "\r\x1b[K"


@dataclass
class Progress:
    """A line on standard error, where that is a terminal, which goes when the compilation has ended."""

    routine: str
    started: float = field(default_factory=time.perf_counter)
    is_shown: bool = False

    def passed(self, step: str) -> None:
        """Shows which step has ended last, once all so far took long."""
        seconds = time.perf_counter() - self.started
        if seconds > PATIENCE and sys.stderr is not None and sys.stderr.isatty():
            self.is_shown = True
            self._write(f"{ERASE_LINE}compiling {self.routine} for {seconds:.0f} s, past {step}")

    def end(self) -> None:
        if self.is_shown:
            self._write(ERASE_LINE)

    def _write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)
