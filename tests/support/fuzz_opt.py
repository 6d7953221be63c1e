"""Looks for texts that `ocannl-opt` ends on in a traceback, or never.

    python -m support.fuzz_opt 100000 --seed 1      # in tests/

Each text is a FileCheck test with a few changes: tokens, lines and numbers that are dropped, doubled,
exchanged or taken from other tests. It goes through the passes of a run line of any test, or a pipeline, and
to any target. What is found is told once for each place of the code.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from ocannl.lowering.pipelines import PIPELINES
from ocannl.tools.opt import main

from .layering import TESTS

SECONDS = 20.0
TOKEN = re.compile(r"[A-Za-z_.]+|\d+|\s+|.", re.DOTALL)
PASSES = re.compile(r"RUN:.*?(?:-p|--passes)[ =]'?\"?([\w,{}=-]+)")
NUMBERS = ("0", "1", "2", "3", "-1", "7", "1024", "2147483647", "9223372036854775808", "1e400", "9" * 400)
TARGETS = ("mlir", "llvm", "ptx", "metal")


class Hang(Exception):
    """A text that takes too long."""


class Mutator:
    """Changes of texts, by chance."""

    def __init__(self, texts: Sequence[str], chance: random.Random) -> None:
        self.chance = chance
        self.lines = [line for text in texts for line in text.splitlines() if line.strip()]
        self.tokens = [token for line in self.lines for token in TOKEN.findall(line)]

    def mutated(self, text: str) -> str:
        kinds: tuple[Callable[[str], str], ...] = (self.by_token, self.by_token, self.by_number, self.by_line)
        for _ in range(self.chance.randint(1, 3)):
            text = self.chance.choice(kinds)(text)
        return text

    def by_token(self, text: str) -> str:
        return self._changed(TOKEN.findall(text), self.tokens, "")

    def by_line(self, text: str) -> str:
        return self._changed(text.splitlines(), self.lines, "\n")

    def by_number(self, text: str) -> str:
        found = list(re.finditer(r"\d+", text))
        if not found:
            return text
        at = self.chance.choice(found)
        return text[: at.start()] + self.chance.choice(NUMBERS) + text[at.end() :]

    def _changed(self, parts: list[str], others: Sequence[str], between: str) -> str:
        at, to = self.chance.randrange(len(parts)), self.chance.randrange(len(parts))
        match self.chance.randrange(4):
            case 0:
                del parts[at]
            case 1:
                parts.insert(to, parts[at])
            case 2:
                parts[at], parts[to] = parts[to], parts[at]
            case _:
                parts[at] = self.chance.choice(others)
        return between.join(parts)


def failure(arguments: Sequence[str]) -> str | None:
    """The exception that leaves the tool, with the last line of ours that it passed, if there is one."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(arguments)
    except SystemExit:
        return None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "xdsl" not in frame.filename
        ]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return f"{type(error).__name__} at {place}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return None


def fuzz(count: int, seed: int, folder: Path) -> Counter[str]:
    """How often each failure was found; a text of each is in the folder."""
    chance = random.Random(seed)
    texts = [file.read_text() for file in sorted(TESTS.glob("filecheck/**/*.mlir"))]
    passes = sorted({found for text in texts for found in PASSES.findall(text)} | {*PIPELINES})
    mutator = Mutator(texts, chance)
    found: Counter[str] = Counter()
    file = folder / "mutant.mlir"
    for done in range(count):
        if done % 1000 == 0:
            print(f"{done} texts, {found.total()} failures", flush=True)
        original = chance.choice(texts)
        own = PASSES.findall(original)
        text = mutator.mutated(original)
        file.write_text(text)
        target = chance.choice(TARGETS)
        arguments = [str(file), "-p", chance.choice(own if own and chance.random() < 0.6 else passes)]
        arguments += [] if target == "mlir" else ["-t", target]
        what = failure(arguments)
        if what is None:
            continue
        place = what.partition(": ")[0]
        found[place] += 1
        if found[place] == 1:
            (folder / f"{len(found)}.mlir").write_text(f"// {' '.join(arguments[1:])}\n// {what}\n{text}")
            print(f"{len(found)}: {what}\n   {' '.join(arguments[1:])}", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    at = options.folder or Path(tempfile.mkdtemp(prefix="mutants"))
    at.mkdir(parents=True, exist_ok=True)
    for name, times in fuzz(options.count, options.seed, at).most_common():
        print(f"{times:7} {name}")
    print(f"texts in {at}")
