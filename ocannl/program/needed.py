"""The operations that others depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.program.values import Value, operation_of, values_of


def needed(
    statements: Sequence[Operation], ends: Callable[[texpr.TensorOp], bool] = lambda op: False
) -> list[texpr.TensorOp]:
    """The operations that statements depend on, operands first; of those that are `ends`, no operands."""
    return _closure(_operands(statements), ends)


def needed_for(
    values: Iterable[Value], ends: Callable[[texpr.TensorOp], bool] = lambda op: False
) -> list[texpr.TensorOp]:
    """The operations that values depend on, and their own, operands first; of those that are `ends`, no
    operands. It makes no statement of them, since operations and their uses refer to each other.
    """
    return _closure([operation_of(value) for value in values], ends)


def _closure(ops: Sequence[texpr.TensorOp], ends: Callable[[texpr.TensorOp], bool]) -> list[texpr.TensorOp]:
    done: dict[texpr.TensorOp, None] = {}
    stack = [(op, False) for op in reversed(ops)]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack += [(owner, False) for owner in reversed([] if ends(op) else _operands([op]))]
    return list(done)


def _operands(ops: Iterable[Operation]) -> list[texpr.TensorOp]:
    return [operation_of(value) for op in ops for value in values_of(op)]
