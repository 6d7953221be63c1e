"""Checks of ids at run time: statements that count invalid ids, and the error for a count above zero."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import drop_uses
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.values import Value, value_of


def check_ids(value: Value, count: SSAValue) -> None:
    """Makes every routine that uses a value raise an error if `count` is not zero after a run."""
    value.id_check = texpr.ForwardOp(count)
    drop_uses(value.id_check)


def id_checks(ops: Iterable[texpr.TensorOp]) -> dict[Operation, texpr.ForwardOp]:
    """Those among operations whose ids are checked, with the statements that count."""
    return {op: check for op in ops if (check := value_of(op).id_check) is not None}


def raise_for_ids(op: Operation, count: float) -> None:
    """Raises `OcannlError` if ids of an operation were no positions."""
    if count:
        what = (
            "1 id is no position of its axis"
            if count == 1
            else f"{count:g} ids are no positions of their axis"
        )
        raise OcannlError(at_line(op, f"in `{describe(op)}`, {what}"))
