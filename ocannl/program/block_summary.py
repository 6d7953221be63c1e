"""Summaries of blocks: what their parts give, keep and compute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import App
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_projections.infer_projections import InferProjectionsPass
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.program import graph
from ocannl.program.block_parts import WithFunction, memory_of
from ocannl.program.code import Code
from ocannl.program.dtypes import dtype_of
from ocannl.program.errors import ArgumentError
from ocannl.program.extract import ExtractedRoutine, extract
from ocannl.program.html import table_html
from ocannl.program.needed import needed
from ocannl.program.tensor import Tensor
from ocannl.program.text_table import table
from ocannl.program.values import operation_of

Calls: TypeAlias = list[tuple[WithFunction, tuple[Any, ...], Any]]
"""Blocks, what they were applied to, and what that gave."""

_calls: ContextVar[Calls | None] = ContextVar("calls", default=None)


@dataclass(frozen=True)
class SummaryRow:
    """One part of a block: its path, how it was configured, the shape of what it gave first, and in all its
    calls the parameters and the multiplications whose products are added up, two floating-point operations
    each; and the bytes of its parameters and of what it gave.
    """

    part: str
    block: str
    output: str
    parameters: int
    multiply_adds: int
    bytes: int


@dataclass(frozen=True)
class Summary:
    """The table of a block's parts; the first row is the whole."""

    rows: tuple[SummaryRow, ...]

    def __str__(self) -> str:
        return table(self._cells())

    def _repr_html_(self) -> str:
        return table_html(self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        heading = ("part", "block", "output", "parameters", "multiply-adds", "bytes")
        return [heading, *map(_cells_of, self.rows)]

    __repr__ = __str__


def _cells_of(row: SummaryRow) -> tuple[str, ...]:
    counts = (row.parameters, row.multiply_adds, row.bytes)
    return row.part, row.block, row.output, *(f"{count:,}" for count in counts)


class _Undone(Exception):
    """Leaves an attempt, so that nothing of it is kept."""


def note_call(block: WithFunction, args: tuple[Any, ...], result: Any) -> None:
    """Notes the application of a block, while a summary is made."""
    calls = _calls.get()
    if calls is not None:
        calls.append((block, args, result))


def summarize(
    block: Callable[..., Any], args: Sequence[Any], named: dict[str, Any], parts: Callable[[], Iterator[Part]]
) -> Summary:
    """The summary of a block that is applied to arguments, which is undone."""
    calls: Calls = []
    token = _calls.set(calls)
    rows: list[SummaryRow] = []
    try:
        with graph.solver().attempt():
            result = block(*args, **named)
            if not isinstance(result, Tensor):
                raise ArgumentError(f"a summary is of a block that gives a tensor, found {result!r}")
            rows = list(_Measured(result, calls).rows(parts()))
            raise _Undone
    except _Undone:
        return Summary(tuple(rows))
    finally:
        _calls.reset(token)


Part: TypeAlias = tuple[str, str, Any]
"""The path of a part, how it was configured, and the part."""


class _Measured:
    """A computed result, with final shapes."""

    def __init__(self, result: Tensor, calls: Calls) -> None:
        seen = [call for call in calls if isinstance(call[2], Tensor)]
        code = sum((call[2].forward for call in seen), result.forward)
        assert isinstance(code, Code)
        self.calls = seen
        self.program = extract(code.statements, "summary")
        run_passes(self.program.module, (InferShapesPass, InferPrecisionsPass))
        self.sizes = {value.owner: shape_of(copy) for value, copy in self.program.copies.items()}
        self.copies = {value.owner: copy for value, copy in self.program.copies.items()}
        self.work = _multiply_adds(self.program)

    def rows(self, parts: Iterator[Part]) -> Iterator[SummaryRow]:
        for path, title, part in parts:
            own = [(args, result) for block, args, result in self.calls if block is part]
            output = str(self.sizes[own[0][1].op]) if own else ""
            kept, made = self.parameters(part), {result.op for _, result in own}
            count = sum(math.prod(self.sizes[op].memory_sizes) for op in kept)
            size = sum(_bytes(self.copies[op]) for op in (*kept, *made))
            yield SummaryRow(path, title, output, count, sum(self.cost(*call) for call in own), size)

    def parameters(self, part: Any) -> list[Operation]:
        memory = [op for op in memory_of(part) if isinstance(op, texpr.ParamOp)]
        return [op for op in memory if op in self.sizes]

    def cost(self, args: tuple[Any, ...], result: Tensor) -> int:
        """The operations between arguments and a result."""
        given = [arg.op for arg in args if isinstance(arg, Tensor)]
        before = {*needed(given), *given}
        return sum(self.work[op] for op in {*needed([result.op]), result.op} - before)


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value).memory_sizes) * dtype_of(tensor_type(value).element).itemsize


def _multiply_adds(program: ExtractedRoutine) -> Counter[Operation]:
    """The points over which each operation adds up products."""
    sums = {
        copy.owner.location: operation_of(value)
        for value, copy in program.copies.items()
        if isinstance(copy.owner, texpr.ApplyOp) and _adds_products(copy.owner)
    }
    run_passes(program.module, (InferProjectionsPass,))
    found: Counter[Operation] = Counter()
    for op in program.routine.body.block.ops:
        if isinstance(op, texpr.ApplyOp) and op.location in sums and len(op.args) > 1:
            found[sums[op.location]] += sum(math.prod(dict(part.space).values()) for part in op.parts)
    return found


def _adds_products(op: texpr.ApplyOp) -> bool:
    term = op.term.data
    return op.accum_name == "add" and isinstance(term, App) and term.op == "mul"
