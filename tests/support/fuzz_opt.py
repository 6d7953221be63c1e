"""Looks for texts that `ocannl-opt` ends on in a traceback, or never.

    python -m support.fuzz_opt 100000 --seed 1      # in tests/
    python -m support.fuzz_steadily opt 100000      # the same, with results on disk

Each text is a part of a FileCheck test, such as a routine, with a few changes: tokens, lines and numbers that
are dropped, doubled, exchanged or taken from other tests, and types that become other types. Some are in the
generic form, some have two parts, and some are a whole test. It goes through the passes of a run line of any
test, or a pipeline, for any processor, and to any target. Text of LLVM IR that comes out is read by LLVM.
What is found is told once for each place of the code.
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
from functools import cache
from pathlib import Path
from types import FrameType

import llvmlite.binding as llvm
from xdsl.universe import Universe

from ocannl.lowering.pipelines import PIPELINES
from ocannl.tools.opt import main

from .layering import TESTS

SECONDS = 20.0
END = re.compile(r"(?<=^}\n)|^// -----\n", re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_.]+|\d+|\s+|.", re.DOTALL)
PASSES = re.compile(r"RUN:.*?(?:-p|--passes)[ =]'?\"?([\w,{}=-]+)")
NUMBERS = ("0", "1", "2", "3", "-1", "7", "1024", "2147483647", "9223372036854775808", "1e400", "9" * 400)
TYPE = re.compile(r"\b(?:bf16|s?u?i\d+|f\d+(?:E\dM\d\w*)?|index)\b")
TYPES = ("bf16", "f16", "f32", "f64", "f80", "f8E4M3FN", "f8E5M2", "tf32", "index", "none", "complex<f32>")
INTEGERS = ("i1", "i7", "i8", "i16", "i32", "i64", "i128", "ui8", "ui32", "ui64", "si8", "i16777215")
TARGETS = ("mlir", "mlir", "llvm", "llvm", "ptx", "metal", "c")
SHARES = (0.85, 0.1)
"""The shares of texts of one part and of two; the others are whole tests."""
CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "graniterapids", "cortex-a72", "neoverse-n2", "apple-m1")


class Hang(Exception):
    """A text that takes too long."""


class Mutator:
    """Changes of texts, by chance."""

    def __init__(self, texts: Sequence[str], chance: random.Random) -> None:
        self.chance = chance
        self.lines = [line for text in texts for line in text.splitlines() if line.strip()]
        self.tokens = [token for line in self.lines for token in TOKEN.findall(line)]

    def mutated(self, text: str) -> str:
        kinds: tuple[Callable[[str], str], ...] = (
            *(self.by_token, self.by_token, self.by_number, self.by_line, self.by_type),
        )
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

    def by_type(self, text: str) -> str:
        """One type, here or everywhere, becomes another."""
        found = list(TYPE.finditer(text))
        if not found:
            return text
        at, new = self.chance.choice(found), self.chance.choice(TYPES + INTEGERS)
        if self.chance.random() < 0.5:
            return re.sub(rf"\b{re.escape(at[0])}\b", new, text)
        return text[: at.start()] + new + text[at.end() :]

    def _changed(self, parts: list[str], others: Sequence[str], between: str) -> str:
        if not parts:
            return ""
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
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            is_text = main(arguments) == 0 and "llvm" in arguments
        if is_text:
            llvm.parse_assembly(output.getvalue())
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


def generic(text: str) -> str:
    """The text in the generic form, or as it is if it is not a module."""
    output = io.StringIO()
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            is_module = main([file.name, "--print-op-generic"]) == 0
    return output.getvalue() if is_module else text


@cache
def originals() -> tuple[list[str], list[str]]:
    """The texts of all FileCheck tests, and lists of passes."""
    # The driver of xDSL looks through all installed packages three times, which is most of its time.
    Universe.get_multiverse = staticmethod(cache(Universe.get_multiverse))
    texts = [file.read_text() for file in sorted(TESTS.glob("filecheck/**/*.mlir"))]
    return texts, sorted({found for text in texts for found in PASSES.findall(text)} | {*PIPELINES})


@cache
def parts(text: str) -> list[str]:
    """The routines of a text, each with what stands before it."""
    return [part for part in END.split(text) if part.strip()]


def some(text: str, chance: random.Random) -> str:
    """A part of a text, two that follow each other, or all of it."""
    share, found = chance.random(), parts(text)
    if share > sum(SHARES):
        return text
    at = chance.randrange(len(found))
    return "".join(found[at : at + (1 if share < SHARES[0] else 2)])


@cache
def mutator() -> Mutator:
    return Mutator(originals()[0], random.Random())


def case(seed: int, number: int) -> tuple[str, list[str]]:
    """A text, and what is done with it."""
    chance = mutator().chance = random.Random(f"{seed} {number}")
    texts, passes = originals()
    original = chance.choice(texts)
    own = PASSES.findall(original)
    part = some(original, chance)
    text = mutator().mutated(generic(part) if chance.random() < 0.1 else part)
    target = chance.choice(TARGETS)
    arguments = ["-p", chance.choice(own if own and chance.random() < 0.6 else passes)]
    arguments += [] if target == "mlir" else ["-t", target]
    arguments += ["--cpu", chance.choice(CPUS)] if chance.random() < 0.5 else []
    return text, arguments


TOGETHER = 40


class Failure(Exception):
    """Something left the tool that should not have; the text is told."""


def run_cases(numbers: Sequence[int]) -> dict[str, int]:
    """Raises `Failure` for the first text that fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mutant.mlir"
        for number in numbers:
            text, arguments = case(0, number)
            file.write_text(text)
            if what := failure([str(file), *arguments]):
                raise Failure(f"{what}\n{' '.join(arguments)}\n{text}")
    return {}


def fuzz(count: int, seed: int, folder: Path) -> Counter[str]:
    """How often each failure was found; a text of each is in the folder."""
    found: Counter[str] = Counter()
    file = folder / "mutant.mlir"
    for number in range(count):
        if number % 1000 == 0:
            print(f"{number} texts, {found.total()} failures", flush=True)
        text, arguments = case(seed, number)
        file.write_text(text)
        what = failure([str(file), *arguments])
        if what is None:
            continue
        place = what.partition(": ")[0]
        found[place] += 1
        if found[place] == 1:
            (folder / f"{len(found)}.mlir").write_text(f"// {' '.join(arguments)}\n// {what}\n{text}")
            print(f"{len(found)}: {what}\n   {' '.join(arguments)}", flush=True)
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
