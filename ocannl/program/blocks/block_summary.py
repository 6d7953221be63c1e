"""Summaries of blocks: what their parts give, keep and compute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import App
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_projections.infer_projections import InferProjectionsPass
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.program import graph
from ocannl.program.arguments.arrays import is_array
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import leaves_of
from ocannl.program.blocks.block_parts import WithFunction, memory_of
from ocannl.program.code import Code
from ocannl.program.eager.setting import mode
from ocannl.program.leaves import data
from ocannl.program.module.extract import ExtractedRoutine, extract
from ocannl.program.module.needed import needed
from ocannl.program.tensor import Tensor
from ocannl.program.text.html import table_html
from ocannl.program.text.text_table import table
from ocannl.program.types.dtypes import dtype_of, is_integer
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
    """The summary of a block that is applied to arguments, tensors or arrays, which is undone."""
    calls: Calls = []
    token = _calls.set(calls)
    rows: list[SummaryRow] = []
    try:
        # Eager mode finds a block as a whole, without a call of its parts.
        with mode(False), graph.solver().attempt():
            result = block(*map(_given, args), **{name: _given(arg) for name, arg in named.items()})
            if not _tensors(result):
                raise ArgumentError(f"a summary is of a block that gives tensors, found {result!r}")
            rows = list(_Measured(result, calls).rows(parts()))
            raise _Undone
    except _Undone:
        return Summary(tuple(rows))
    finally:
        _calls.reset(token)


def _given(arg: Any) -> Any:
    """An argument; an array as data, of integers as ids."""
    if isinstance(arg, Tensor) or not is_array(arg):
        return arg
    array = np.asarray(arg)
    return data(array, axes="b" * array.ndim if is_integer(array.dtype) else None)


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in leaves_of(result) if isinstance(leaf, Tensor)]


Part: TypeAlias = tuple[str, str, Any]
"""The path of a part, how it was configured, and the part."""


class _Measured:
    """A computed result, with final shapes."""

    def __init__(self, result: Any, calls: Calls) -> None:
        seen = [call for call in calls if _tensors(call[2])]
        values = [value for made in (result, *(call[2] for call in seen)) for value in _tensors(made)]
        code = sum((value.forward for value in values[1:]), values[0].forward)
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
            output = ", ".join(str(self.sizes[value.op]) for value in _tensors(own[0][1])) if own else ""
            kept, made = self.parameters(part), {value.op for _, result in own for value in _tensors(result)}
            count = sum(math.prod(self.sizes[op].memory_sizes) for op in kept)
            size = sum(_bytes(self.copies[op]) for op in (*kept, *made))
            yield SummaryRow(path, title, output, count, sum(self.cost(*call) for call in own), size)

    def parameters(self, part: Any) -> list[Operation]:
        memory = [op for op in memory_of(part) if isinstance(op, texpr.ParamOp)]
        return [op for op in memory if op in self.sizes]

    def cost(self, args: tuple[Any, ...], result: Any) -> int:
        """The operations between arguments and results."""
        given, made = ([value.op for value in _tensors(tree)] for tree in (args, result))
        return sum(self.work[op] for op in {*needed(made), *made} - {*needed(given), *given})


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value).memory_sizes) * dtype_of(tensor_type(value).element).itemsize


def _multiply_adds(program: ExtractedRoutine) -> Counter[Operation]:
    """The points over which each operation adds up products; a loop's are those of all its iterations."""
    counted = {
        copy.owner.location: operation_of(value)
        for value, copy in program.copies.items()
        if isinstance(copy.owner, texpr.ApplyOp | ScanOp)
    }
    run_passes(program.module, (InferProjectionsPass,))
    found: Counter[Operation] = Counter()
    for op in program.routine.body.block.ops:
        if isinstance(op, texpr.ApplyOp | ScanOp) and op.location in counted:
            found[counted[op.location]] += _points(op)
    return found


def _points(op: Operation) -> int:
    if isinstance(op, ScanOp):
        return op.size * sum(map(_points, op.body.block.ops))
    if isinstance(op, texpr.ApplyOp) and _adds_products(op) and len(op.args) > 1:
        return sum(math.prod(dict(part.space).values()) for part in op.parts)
    return 0


def _adds_products(op: texpr.ApplyOp) -> bool:
    term = op.term.data
    return op.accum_name == "add" and isinstance(term, App) and term.op == "mul"
