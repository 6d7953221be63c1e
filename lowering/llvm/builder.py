"""LLVM function text under construction: values, loops, and code hoisted into loops that are still open.

No LLVM pass cleans up behind this text, so invariant code is emitted where it belongs: every open loop is a
scope with a place before the loop inside it, and with a table of what was computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field

from xdsl.ir import Operation

from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.machine import Machine
from ocannl.lowering.llvm.types import ValueType, vector

UNKNOWN = Machine()


@dataclass(slots=True)
class LoopScope:
    """An open body of a loop or a branch: `tail` is the place before the loop open in it, `known` its values
    so far, `last` the instructions that wait for its end.
    """

    tail: list[str] = field(default_factory=list[str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    last: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Position:
    """The value of an iteration variable or static index: `name + offset`, defined in the scope `depth`."""

    name: str | None
    offset: int = 0
    depth: int = 0


@dataclass(slots=True)
class Loop:
    """A loop that is still open: `phis` are its carried values, with their types and initial values."""

    label: str
    before: str
    bounds: tuple[int | str, int | str, int]
    index: str
    phis: list[str]
    initial: Sequence[tuple[str, str]]
    header: list[str]


@dataclass(slots=True)
class Repetition:
    """Code that runs again and again `until` a truth value holds, which it computes."""

    until: str = "true"


class FunctionBuilder:
    """The body of one function.

    Attributes:
        machine: the processor that runs it.
        checks: accesses are checked to be inside of their arrays.
        place: what follows the instructions that are emitted next: their place in the user's program, which
            `place_of` tells of an operation.
    """

    def __init__(
        self,
        machine: Machine = UNKNOWN,
        *,
        checks: bool = False,
        place_of: Callable[[Operation], str] | None = None,
    ) -> None:
        self.machine = machine
        self.checks = checks
        self.place_of = place_of
        self.lines: list[str | list[str]] = ["entry:"]
        self.scopes: list[LoopScope] = [LoopScope()]
        self.declarations: set[str] = set()
        self.block = "entry"
        self.place = ""
        self._values = 0
        self._blocks = 0

    def text(self) -> str:
        assert not any(scope.last for scope in self.scopes)
        flat: list[str] = []
        for line in self.lines:
            if isinstance(line, str):
                flat.append(line)
            else:
                flat += line
        return "\n".join(flat)

    def name(self) -> str:
        self._values += 1
        return f"%v{self._values}"

    def emit(self, instruction: str) -> str:
        """Appends an instruction and names its value."""
        self._values += 1
        name = f"%v{self._values}"
        self.lines.append(f"  {name} = {instruction}{self.place}")
        return name

    def allocate(self, type: str) -> str:
        """A place on the stack for a value, for the whole function."""
        place = self.name()
        self.lines.insert(1, f"  {place} = alloca {type}")
        return place

    def emit_void(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}{self.place}")

    def emit_last(self, instruction: str) -> None:
        """Appends an instruction at the end of the innermost open loop or branch."""
        self.scopes[-1].last.append(instruction)

    def end_body(self) -> None:
        """Appends what waits for the end of the innermost open loop or branch."""
        for instruction in self.scopes[-1].last:
            self.emit_void(instruction)
        self.scopes[-1].last.clear()

    def at(self, op: Operation) -> None:
        """Says for which operation the instructions that follow are."""
        if self.place_of is not None:
            self.place = self.place_of(op)

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def emit_at(self, depth: int, instruction: str) -> str:
        """The value of an instruction over values of an open scope, computed there, once."""
        known = self.scopes[depth].known
        if instruction not in known:
            if depth == self.depth:
                known[instruction] = self.emit(instruction)
            else:
                known[instruction] = self.name()
                self.scopes[depth].tail.append(f"  {known[instruction]} = {instruction}{self.place}")
        return known[instruction]

    def advance(self, depth: int, pointer: str, by: str, stride: int, type: ValueType) -> str:
        """`pointer + by * stride` in elements, computed in the scope `depth`."""
        if stride == 1:
            return self.emit_at(depth, f"getelementptr {type.element}, ptr {pointer}, i64 {by}")
        if stride < 0:
            by = self.emit_at(depth, f"mul i64 {by}, {stride}")
            return self.emit_at(depth, f"getelementptr {type.element}, ptr {pointer}, i64 {by}")
        return self.emit_at(depth, f"getelementptr [{stride} x {type.element}], ptr {pointer}, i64 {by}")

    def splat(self, value: str, type: ValueType, width: int, depth: int) -> str:
        """A vector of equal elements; `depth` is the scope that defines the scalar."""
        if value[0] != "%":
            return f"splat ({type.element} {value})"
        wide = vector(type, width).text
        single = self.emit_at(depth, f"insertelement {wide} poison, {type.element} {value}, i64 0")
        return self.emit_at(
            depth, f"shufflevector {wide} {single}, {wide} poison, <{width} x i32> zeroinitializer"
        )

    def open_loop(
        self, start: int | str, stop: int | str, step: int, initial: Sequence[tuple[str, str]] = ()
    ) -> Loop:
        """Enters `for index in range(start, stop, step)`, which runs at least once; bounds are numbers or
        values.

        `initial` are the types and first values of what the loop carries.
        """
        self._blocks += 1
        label = f"loop{self._blocks}"
        self.scopes[-1].tail = tail = []
        header: list[str] = []
        self.lines += [tail, f"  br label %{label}", f"{label}:", header]
        phis = [self.name() for _ in initial]
        loop = Loop(label, self.block, (start, stop, step), self.name(), phis, initial, header)
        self.block = label
        self.scopes.append(LoopScope())
        return loop

    def close_loop(self, loop: Loop, values: Sequence[str] = ()) -> None:
        """Leaves a loop; `values` are what it carries on, and its results after the last iteration."""
        self.end_body()
        start, stop, step = loop.bounds
        following = self.emit(f"add nuw nsw i64 {loop.index}, {step}")
        again = self.emit(f"icmp ult i64 {following}, {stop}")
        label = loop.label
        self.lines += [f"  br i1 {again}, label %{label}, label %{label}.end", f"{label}.end:"]
        latch = self.block
        loop.header.append(f"  {loop.index} = phi i64 [ {start}, %{loop.before} ], [ {following}, %{latch} ]")
        for phi, (type, first), value in zip(loop.phis, loop.initial, values, strict=True):
            loop.header.append(f"  {phi} = phi {type} [ {first}, %{loop.before} ], [ {value}, %{latch} ]")
        self.block = f"{label}.end"
        self.scopes.pop()

    def open_branch(self, condition: str) -> str:
        """Enters code that runs only if a truth value holds; returns the label that closes it."""
        self._blocks += 1
        label = f"if{self._blocks}"
        self.scopes[-1].tail = tail = []
        self.lines += [tail, f"  br i1 {condition}, label %{label}, label %{label}.end", f"{label}:"]
        self.block = label
        self.scopes.append(LoopScope())
        return label

    def close_branch(self, label: str) -> None:
        """Leaves the code of a branch."""
        self.end_body()
        self.lines += [f"  br label %{label}.end", f"{label}.end:"]
        self.block = f"{label}.end"
        self.scopes.pop()

    @contextmanager
    def repeated(self) -> Generator[Repetition]:
        """Code in a loop without a counter."""
        self._blocks += 1
        label, found = f"again{self._blocks}", Repetition()
        self.scopes[-1].tail = tail = []
        self.lines += [tail, f"  br label %{label}", f"{label}:"]
        self.block = label
        self.scopes.append(LoopScope())
        yield found
        self.end_body()
        self.lines += [f"  br i1 {found.until}, label %{label}.end, label %{label}", f"{label}.end:"]
        self.block = f"{label}.end"
        self.scopes.pop()
