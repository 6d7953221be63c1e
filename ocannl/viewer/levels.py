"""The text of a program at every stage, line by line, with the origins of each line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp

from ocannl.dialects.ir.origins import at, in_layer, name_of, origins
from ocannl.dialects.ir.text_printer import op_lines
from ocannl.lowering.kernels_to_llvm import TracedText, traced_llvm
from ocannl.lowering.pipelines import PassMaker, run_passes
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.host.jit import emit_assembly


@dataclass(frozen=True)
class Stage:
    """The text after a pass: its level, the seconds that the pass took, and for each line the number of its
    text and that of its set of origins.
    """

    name: str
    level: str
    seconds: float
    lines: list[int]


@dataclass
class Levels:
    """Stages with shared tables: texts of lines; origins as name, file and line; and sets of origins."""

    texts: dict[str, int] = field(default_factory=dict[str, int])
    files: dict[str, int] = field(default_factory=dict[str, int])
    origins: dict[tuple[str, int, int], int] = field(default_factory=dict[tuple[str, int, int], int])
    sets: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    stages: list[Stage] = field(default_factory=list[Stage])
    _known: dict[int, tuple[LocationAttr, int]] = field(default_factory=dict[int, tuple[LocationAttr, int]])
    """Sets by the identity of a location, which hashes slowly."""

    def add(self, name: str, level: str, seconds: float, lines: Iterable[tuple[str, LocationAttr]]) -> None:
        numbers = [n for text, where in lines for n in (self.text(text), self.set_of(where))]
        self.stages.append(Stage(name, level, seconds, numbers))

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def set_of(self, location: LocationAttr) -> int:
        """The number of the set of origins in a location; that of none is 0."""
        known = self._known.get(id(location))
        if known is None:
            numbers = [self._origin(origin) for origin in origins(in_layer(location, None))]
            key = tuple(dict.fromkeys(number for number in numbers if number is not None))
            known = self._known[id(location)] = location, self.sets.setdefault(key, len(self.sets))
        return known[1]

    def _origin(self, origin: LocationAttr) -> int | None:
        where = at(origin)
        if where is None:
            return None
        file = self.files.setdefault(where.filename.data, len(self.files))
        key = name_of(origin) or "", file, where.line.data
        return self.origins.setdefault(key, len(self.origins))


Watch: TypeAlias = Callable[[str, ModuleOp, Levels], None]


def read_levels(
    module: ModuleOp,
    passes: Sequence[PassMaker],
    target: TargetDescription,
    watch: Watch,
    *,
    to_machine_code: bool,
) -> Levels:
    """Runs passes on a module, in place, and keeps the text after each; then LLVM IR and machine code.
    `watch` sees the module after each pass.
    """
    levels = Levels()

    def observe(name: str, after: ModuleOp, seconds: float) -> None:
        lines = [(text, UNKNOWN_LOC if op is None else op.location) for text, op in op_lines(after)]
        levels.add(name, level_of(after), seconds, lines)
        watch(name, after, levels)

    observe("as built", module, 0.0)
    run_passes(module, passes, observe=observe)
    if to_machine_code:
        traced = traced_llvm(module, target)
        levels.add("llvm", "llvm", 0.0, _of_functions(traced, traced.lines(), _DEFINED))
        assembly = _assembly_lines(emit_assembly(traced.text, target))
        levels.add("machine code", "machine code", 0.0, _of_functions(traced, assembly, _LABELLED))
    return levels


def level_of(module: ModuleOp) -> str:
    """The dialect of the first operation in a module: `texpr`, `assign`, `loops`."""
    first = module.body.block.first_op
    return "" if first is None else first.name.partition(".")[0]


# How functions begin in LLVM IR and in assembly, by name, where they end, and how they are called.
_DEFINED = (re.compile(r'define [^@]*@"?([^"(]+)'), re.compile(r"}"), re.compile(r'\bcall [^@]*@"?([^"(]+)'))
# A name of macOS has a line before that of C, and one of a place inside of a function no point.
_LABELLED = (
    re.compile(r'"?(?!L[A-Za-z_]+\d+(?:_\d+)?:)([^".\s#][^"#]*?)"?:(?:\s|$)'),
    re.compile(r"\s*\.(?:cfi_endproc|size)\b"),
    re.compile(r'\s*(?:callq?|jmp|bl?)\s+"?([^"]+)'),
)
# Lines of assembly that are for debuggers alone, and the number of the operation in one.
_FOR_DEBUGGERS = re.compile(r"\s*\.(?:loc|file\s+\d|cfi_\w+)\b|\.?L(?:tmp|func_begin|func_end)\w*:")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")


def _of_functions(
    traced: TracedText,
    lines: Iterable[tuple[str, int | None]],
    marks: tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]],
) -> Iterator[tuple[str, LocationAttr]]:
    """Lines with their origins: those of the operation that they are for, or the one before in the same
    function, and before the first those of the function. A call is for what the function is that it calls,
    other lines of those that call for the routine, and constants for the function below.
    """
    begin, end, call = marks
    name: str | None = None
    where: LocationAttr = UNKNOWN_LOC
    between: list[str] = []
    is_inside = False
    for line, number in lines:
        match = begin.match(line)
        if match:
            name = next((known for known in _names(match[1]) if traced.of_function(known) is not None), None)
            where = (None if name is None else traced.of_function(name)) or traced.whole
            yield from ((text, where) for text in between)
            between, is_inside = [], True
        elif number and name is not None:
            where = traced.of_operation(name, number)
        if not is_inside:
            between.append(line)
            continue
        called = call.search(line) if name is None else None
        found = [traced.of_function(known) for known in _names(called[1])] if called else []
        yield line, next(filter(None, found), where)
        if end.match(line):
            name, where, is_inside = None, UNKNOWN_LOC, False
    yield from ((text, UNKNOWN_LOC) for text in between)


def _names(symbol: str) -> tuple[str, str]:
    """Names that a function may have in C for a symbol of the target."""
    return symbol, symbol.removeprefix("_")


def _assembly_lines(assembly: str) -> Iterator[tuple[str, int | None]]:
    """The lines that are no debugger's, each with the number that is in force."""
    number: int | None = None
    for line in assembly.splitlines():
        if line.lstrip().startswith(".section") and ".debug" in line:
            return
        if match := _LOC.match(line):
            number = int(match[1])
        elif _LABELLED[0].match(line):
            number = None
        if not _FOR_DEBUGGERS.match(line):
            yield line, number
