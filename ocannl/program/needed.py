"""The operations that others depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Operation

from ocannl.dialects import texpr


def needed(
    statements: Sequence[Operation], ends: Callable[[texpr.TensorOp], bool] = lambda op: False
) -> list[texpr.TensorOp]:
    """The operations that statements depend on, operands first; of those that are `ends`, no operands."""
    done: dict[texpr.TensorOp, None] = {}
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(_operands(statements))]
    while stack:
        op, ready = stack.pop()
        assert isinstance(op, texpr.TensorOp)
        if op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack += [(owner, False) for owner in reversed([] if ends(op) else _operands([op]))]
    return list(done)


def _operands(ops: Iterable[Operation]) -> list[Operation]:
    return [v.owner for op in ops for v in op.operands if isinstance(v.owner, Operation)]
