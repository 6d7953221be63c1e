"""The precision of parameters, by scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from numpy.typing import DTypeLike
from xdsl.ir import Attribute

from ocannl.dialects.ir.errors import PrecisionError
from ocannl.program.location import here
from ocannl.program.types.dtypes import dtype_of, float_element


@dataclass(frozen=True)
class ParamPrecision:
    """The types in which parameters are kept, in which they are used, to which factors of their products are
    rounded, and which their gradients have; None where that is inferred.
    """

    kept: Attribute | None = None
    used: Attribute | None = None
    factors: Attribute | None = None
    gradient: Attribute | None = None


_precision: ContextVar[ParamPrecision] = ContextVar("precision")
_INFERRED = ParamPrecision()


def param_precision() -> ParamPrecision:
    """The precision of parameters that are made now."""
    return _precision.get(_INFERRED)


@contextmanager
def precision(
    params: DTypeLike,
    *,
    compute: DTypeLike | None = None,
    factors: DTypeLike | None = None,
    grads: DTypeLike | None = None,
) -> Generator[None, None, None]:
    """Parameters made inside are of the dtype `params`, unless they have one of their own.

    With `compute`, they are kept in `params` and used in `compute`: what `oc.param` returns is then the
    parameter as an expression of that dtype. `oc.params` still finds the memory that is kept, initialized
    and updated, which has gradients of its own dtype; or of `grads`, in which they are then computed. With
    `factors`, sums of products of these parameters are computed from factors that are rounded to that dtype,
    and are left as they are. Raises `PrecisionError` for what is no floating dtype.
    """
    kept = float_element(params, "parameters are")
    used = None if compute is None else float_element(compute, "parameters are used as numbers")
    rounded = None if factors is None else float_element(factors, "factors are")
    if rounded is not None:
        few, many = dtype_of(rounded), dtype_of(used or kept)
        if few.itemsize >= many.itemsize:
            what = f"factors have fewer bits than the parameters that are used, found {few} beside {many}"
            raise PrecisionError(here(what))
    gradient = None if grads is None else float_element(grads, "gradients are")
    token = _precision.set(ParamPrecision(kept, used, rounded, gradient))
    try:
        yield
    finally:
        _precision.reset(token)
