"""A check that arithmetic is not in small floats, which are storage formats only."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.scalar.small_floats import small_format

# Operations on small floats that are allowed beside loads and stores.
ALLOWED = (arith.ConstantOp, arith.ExtFOp, arith.TruncFOp, arith.SelectOp, arith.BitcastOp)


def check_no_small_arithmetic(op: Operation) -> None:
    """Arithmetic, reductions among it, is of f32 and f64."""
    for inner in op.walk():
        dialect, _, name = inner.name.partition(".")
        computes = dialect in ("arith", "math") or name in ("reduce", "combine", "position")
        if not computes or isinstance(inner, ALLOWED):
            continue
        for value in (*inner.operands, *inner.results):
            format = small_format(value.type)
            if format is not None:
                raise VerifyException(
                    f"`{inner.name}` of {format.name}, which is only stored: "
                    "arithmetic is of f32 and f64, so use arith.extf and arith.truncf"
                )
