"""Checks of ids at run time: statements that count invalid ids, and the error for a count above zero."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.passes.texpr.infer_shapes.messages import describe

# The statement that counts the ids of an operation that are no positions.
_counting: WeakKeyDictionary[Operation, texpr.ForwardOp] = WeakKeyDictionary()


def check_ids(op: Operation, count: SSAValue) -> None:
    """Makes every routine that uses an operation raise an error if `count` is not zero after a run."""
    _counting[op] = texpr.ForwardOp(count)


def id_checks(ops: Iterable[Operation]) -> dict[Operation, texpr.ForwardOp]:
    """Those among operations whose ids are checked, with the statements that count."""
    return {op: _counting[op] for op in ops if op in _counting}


def raise_for_ids(op: Operation, count: float) -> None:
    """Raises `OcannlError` if ids of an operation were no positions."""
    if count:
        what = (
            "1 id is no position of its axis"
            if count == 1
            else f"{count:g} ids are no positions of their axis"
        )
        raise OcannlError(at_line(op, f"in `{describe(op)}`, {what}"))
