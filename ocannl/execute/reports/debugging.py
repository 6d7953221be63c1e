"""Reports of a run: the values that it computed, and where two runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.execute.context import Context, default_context
from ocannl.execute.reports.trace import Difference, Trace, first_difference
from ocannl.execute.reports.traced_routine import TracedRoutine
from ocannl.execute.routine import Routine
from ocannl.program.arguments.arrays import is_array
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code
from ocannl.program.mistakes.other_names import NEIGHBOURS
from ocannl.program.tensor import Expression, TensorLike


def debug(
    code: Code | TensorLike, ctx: Context | None = None, *, check_nans: bool = True, **indices: int
) -> Trace:
    """The values of all assignments of a run of code, or of the computation of a tensor, in a context, by
    default the default one. Memory is as before afterwards.

    Raises what compiling and running raise, and with `check_nans` `OcannlError` at the first value that is
    NaN or infinite.
    """
    if callable(code) and not isinstance(code, Code | Expression):
        raise ArgumentError("code or a tensor is debugged, and a function by a call: f.debug(x)")
    own = ctx or default_context()
    with own.without_new_memory():
        return _traced(own.compile(code, trace=True, check_nans=check_nans)).debugged(indices)


def diff(a: Routine | Trace, b: Routine | Trace) -> Difference | None:
    """The first value in which runs of two routines of one program differ by more than rounding, such as on
    two backends; None where none does. Memory is as before afterwards. Traces are compared as they are:
    `oc.diff(f.debug(x), g.debug(x))`.

    Raises what compiling and running raise, and `OcannlError` where the programs differ.
    """
    return first_difference(*(_trace_of(one) for one in (a, b)))


def _trace_of(what: object) -> Trace:
    if isinstance(what, Trace):
        return what
    if not isinstance(what, Routine):
        found = type(what).__name__
        message = f"runs of routines are compared, or traces such as of `f.debug(x)`, found {found}"
        way = (
            f"; the differences of neighbours are {NEIGHBOURS}"
            if isinstance(what, Expression | Sequence) or is_array(what)
            else ""
        )
        raise ArgumentError(f"{message}{way}")
    return _traced(what.traced()).debugged({})


def _traced(routine: Routine) -> TracedRoutine:
    assert isinstance(routine, TracedRoutine)
    return routine
