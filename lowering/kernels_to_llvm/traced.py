"""LLVM IR whose lines tell for which operations they are."""

from __future__ import annotations

import re
from functools import cached_property

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.ir.origins import union
from ocannl.dialects.loops import FuncOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import EntrySlots
from ocannl.lowering.kernels_to_llvm.emulate import Emulation
from ocannl.lowering.kernels_to_llvm.module import EmulationEmitter
from ocannl.lowering.llvm.debug_info import DebugInfo
from ocannl.lowering.loops_to_llvm.calls import Call
from ocannl.passes.analysis.nests import functions
from ocannl.passes.analysis.targets.target import TargetDescription

_DEFINED = re.compile(r'define internal void @"([^"]+)"')
_PLACE = re.compile(r",? !dbg !(\d+)")
_NUMBER = re.compile(r"!DILocation\(line: (\d+), scope: (!\d+)\)")


class OperationNumbers(DebugInfo):
    """Line tables whose lines are the numbers of operations in the step that a function is for."""

    is_shared = True

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Operation, int] = {}

    def function(self, name: str, op: Operation) -> str | None:
        self._numbers = {inner: number for number, inner in enumerate(op.walk(), 1)}
        return super().function(name, op)

    def place_of(self, op: Operation) -> tuple[str, int] | None:
        number = self._numbers.get(op)
        return None if number is None else ("operations", number)


class _TracingEmitter(EmulationEmitter):
    """Notes which steps the functions that it emits are for."""

    def __init__(self, target: TargetDescription) -> None:
        super().__init__(Emulation(), False, target)
        self.debug = OperationNumbers()
        self.steps: dict[str, list[Operation]] = {}
        self.emitted: dict[str, list[str]] = {}
        self.plain: dict[str, str] = {}

    def function(self, name: str, rest: str) -> str:
        """Functions that differ in places only are one."""
        plain = _PLACE.sub("", rest)
        if plain not in self.plain:
            self.plain[plain] = super().function(name, rest)
        return self.plain[plain]

    def call(self, func: FuncOp, step: Operation, places: EntrySlots) -> Call:
        before = len(self.parts)
        call = super().call(func, step, places)
        made = [match[1] for match in map(_DEFINED.match, self.parts[before:]) if match]
        for name in self.emitted.setdefault(call.kernel, made):
            self.steps.setdefault(name, []).append(step)
        return call


@dataclass(frozen=True)
class TracedText:
    """LLVM IR with the numbers of operations as its lines, and the steps that each function runs, by name."""

    text: str
    steps: dict[str, list[Operation]]
    whole: LocationAttr
    """The origins of what calls these functions."""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of the operation for each node of a place."""
        lines = [line.partition(" = ") for line in self.text.splitlines() if line.startswith("!")]
        found = {node[1:]: _NUMBER.match(text) for node, _, text in lines}
        return {node: int(match[1]) for node, match in found.items() if match}

    @cached_property
    def _operations(self) -> dict[str, list[list[Operation]]]:
        return {name: [list(step.walk()) for step in steps] for name, steps in self.steps.items()}

    def of_function(self, name: str) -> LocationAttr | None:
        """The origins of a function; None for one that is for no step."""
        steps = self.steps.get(name)
        return None if steps is None else union(*(step.location for step in steps))

    def of_operation(self, name: str, number: int) -> LocationAttr:
        """The origins of an operation by its number, in all steps that a function runs."""
        return union(*(operations[number - 1].location for operations in self._operations[name]))

    def lines(self) -> list[tuple[str, int | None]]:
        """The lines without places, each with the number of its operation."""
        code, _, _ = self.text.partition("\n\n!llvm.dbg.cu")
        found: list[tuple[str, int | None]] = []
        for line in code.splitlines():
            places = _PLACE.findall(line)
            found.append((_PLACE.sub("", line), self._numbers.get(places[-1]) if places else None))
        return found


def traced_llvm(module: ModuleOp, target: TargetDescription) -> TracedText:
    """The text of `to_llvm`, with the operations that its lines are for."""
    emitter = _TracingEmitter(target)
    text = emitter.emit(module)
    return TracedText(text, emitter.steps, union(*(func.location for func in functions(module))))
