"""The values of the program under construction: what belongs to them, and which of them are memory.

A value holds its operation, and that holds its operands: nothing refers to those that use it. So values live
as long as a handle, a statement or another value has them, and go at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import EllipsisType, MappingProxyType
from typing import Any, Literal, TypeAlias
from weakref import ref

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use

from ocannl.dialects import texpr
from ocannl.dialects.ir.op_helpers import held_result, hold_result_weakly, operands_of
from ocannl.dialects.scalar.terms import App
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.scan_arguments import ResultOp
from ocannl.dialects.texpr.tensor_type import TensorType, refine_type
from ocannl.passes.texpr.infer_shapes.sites import Trace, shown_name
from ocannl.program.indexing.id_checks import IdCheck
from ocannl.program.scopes import MemoryPath
from ocannl.runtime.cuda.gpu import CudaMemory

_order = itertools.count()

Sample: TypeAlias = Callable[[NDArray[np.uint32], Shape, np.dtype[Any]], NDArray[Any]]
"""Makes an initial value from a random key, a final shape and a dtype."""


Kind: TypeAlias = Literal["parameter", "statistic", "moment", "counter", "key"]
"""The kinds of memory that programs keep."""


class Asked:
    """A gradient or last value that was asked for. It is memory of its source, which remembers it here."""

    __slots__ = ("location", "type", "value")

    def __init__(self, value: Value) -> None:
        self.value = ref(value)
        self.type = value.type
        self.location = value.op.location


@dataclass(frozen=True, slots=True)
class Updates:
    """Statements that belong to an expression, under a label."""

    statements: Sequence[Operation]
    label: str


Contents: TypeAlias = NDArray[Any] | CudaMemory
"""The contents of data: on the host, or on a GPU."""

OF_NOTHING = "of_nothing"
"""The attribute of an operation under construction with the words for an error where its first operand turns
out to have no elements."""


class Value(OpResult[TensorType]):
    """The result of an operation under construction, and what belongs to it."""

    path: MemoryPath | None = None
    """Where memory was made."""
    array: Contents | None = None
    """The contents of data; no part of the program's text."""
    sample: Sample | None = None
    """Makes the initial value of a parameter or node; no part of the program's text."""
    kind: Kind | None = None
    """The kind of a node, if that was said; no part of the program's text."""
    id_checks: Sequence[IdCheck] = ()
    """The checks of the ids of the operation."""
    updates: Updates | None = None
    """The code that runs with a loss that depends on the value."""
    merged: Any = None
    """The memory of another context that a merge buffer has the value of; no part of the program's text."""
    normalized: Any = None
    """The tensors of which a block computed normalized weights; no part of the program's text."""
    asked: Mapping[type[texpr.OfOp], Asked] = MappingProxyType({})
    """The gradient and the last value, if they were asked for."""
    passed: bool = False
    """Whether `backward` went through it in eager mode when its gradient was not asked for."""
    new_axes: frozenset[int] = frozenset()
    """The axes that `None` among positions has made, counted from the last in the order of memory: -1, -2."""
    guessed_axes: frozenset[int] = frozenset()
    """Axes in the output row since nothing said a row, counted alike."""
    is_argument = False
    """Whether such axes are those of an argument of a function, which may have another row."""
    element: Attribute | EllipsisType | None = ...
    """Its element type as far as operands tell it, once that was asked for."""
    cell: Sequence[Value] = ()
    """The values of the cell of a scan, of which its body has copies; no part of the program's text."""
    final_shape: Shape | None = None
    """Its shape with the axes as they were written, once that was inferred for good."""
    is_settled = False
    """Whether it has its inferred type, and so has all that it depends on."""
    trace: Trace
    """Its place in messages."""
    made: int
    """When it was made, in the order of all values and statements."""
    stage: int | None = None
    """The stage of the program that computes or holds it; None for what each stage has for itself."""
    is_apart = False
    """Whether it is known to depend on no parameter, so that it belongs to no stage."""
    moved: Mapping[int, ref[Value]] = MappingProxyType({})
    """Its copies in other stages."""
    # That of `SSAValue`, without a call of Python each time that it is a key.
    __hash__ = object.__hash__

    def __init__(self, op: texpr.TensorOp) -> None:
        made = op.result
        self._type, self._name = made.type, made.name_hint
        self.op, self.index, self.made = op, 0, now()
        hold_result_weakly(op, self)
        self.trace = Trace(self, tuple([operand.trace.name for operand in values_of(op)]))

    def add_use(self, use: Use) -> None:
        """Nothing: those that use the value do not live as long as it does."""

    def remove_use(self, use: Use) -> None:
        """Nothing."""

    def rename(self, hint: str) -> None:
        """Gives it another name."""
        self.name_hint = hint
        self.trace.name = shown_name(self)

    def refine(self, type: TensorType) -> None:
        """Gives it its inferred type."""
        refine_type(self, type)
        if isinstance(self.op, texpr.OfOp):
            (source,) = values_of(self.op)
            source.asked[self.op.__class__].type = type


def now() -> int:
    """A number above those of all values and statements so far."""
    return next(_order)


def note_statement(op: Operation) -> None:
    """Notes when a statement was made."""
    vars(op)["made"] = now()


def when_made(statement: Operation) -> int:
    """When a statement was made; those that nobody noted came before all others."""
    return vars(statement).get("made", -1)


def values_of(op: Operation) -> tuple[Value, ...]:
    """The operands of an operation under construction."""
    operands: tuple[Any, ...] = operands_of(op)
    return operands


def operation_of(value: SSAValue) -> texpr.TensorOp:
    """The operation that makes a value."""
    op = value.owner
    assert isinstance(op, texpr.TensorOp)
    return op


def value_of(op: texpr.TensorOp) -> Value:
    """The value that an operation under construction makes."""
    value = held_result(op)
    assert isinstance(value, Value)
    return value


def label_of(value: SSAValue) -> str:
    """The name given by the user, or one made from the operation."""
    match operation_of(value):
        case texpr.MemoryOp() as memory:
            return memory.label.data
        case texpr.GradOp() as grad:
            return f"{label_of(grad.source)}.grad"
        case texpr.ValueOp() as kept:
            return f"{label_of(kept.source)}.value"
        case op:
            return value.name_hint or operation_name(op)


def operation_name(op: texpr.TensorOp) -> str:
    """The name of an unlabelled expression, by its operation."""
    if isinstance(op, ResultOp):
        op = operation_of(op.scan)
    if isinstance(op, texpr.ScanOp):
        return op.kind
    if not isinstance(op, texpr.ApplyOp):
        return op.name.removeprefix("texpr.")
    if op.logic is not None and op.logic.data not in (".", "T"):
        return "product" if op.logic.data == "@" else "einsum"
    term = op.term.data
    return term.op if isinstance(term, App) else "transpose"


_MEMORY = (texpr.MemoryOp, texpr.OfOp)


def is_memory(value: SSAValue) -> bool:
    """Parameters, data, nodes, gradients and values are memory; everything else is an expression."""
    return _are_memory(type(value.owner))


@cache
def _are_memory(kind: type[Operation | Block]) -> bool:
    # Checks of instances of abstract classes are slow where eager mode asks.
    return issubclass(kind, _MEMORY)


def kept_parameter(value: Value) -> Value | None:
    """The memory of a parameter of which a value is what products see, in a narrower float."""
    if not isinstance(value.op, texpr.ApplyOp) or value.op.compute is None:
        return None
    (kept,) = values_of(value.op)
    return kept if is_memory(kept) else None


def memory_key(value: Value) -> tuple[Value, bool]:
    """The value that owns the memory of a value, and whether the memory is its gradient."""
    op = value.op
    if isinstance(op, texpr.OfOp):
        return values_of(op)[0], isinstance(op, texpr.GradOp)
    return value, False
