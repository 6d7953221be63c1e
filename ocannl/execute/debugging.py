"""Reports of a run: the values that it computed, and where two runs differ."""

from __future__ import annotations

from ocannl.execute.context import Context, default_context
from ocannl.execute.routine import Routine
from ocannl.execute.trace import Difference, Trace, first_difference
from ocannl.execute.traced_routine import TracedRoutine
from ocannl.program.code import Code
from ocannl.program.tensor import TensorLike


def debug(
    code: Code | TensorLike, ctx: Context | None = None, *, check_nans: bool = True, **indices: int
) -> Trace:
    """The values of all assignments of a run of code, or of the computation of a tensor, in a context, by
    default the default one. Memory is as before afterwards.

    Raises what compiling and running raise, and with `check_nans` `OcannlError` at the first value that is
    NaN or infinite.
    """
    own = ctx or default_context()
    with own.without_new_memory():
        return _traced(own.compile(code, trace=True, check_nans=check_nans)).debugged(indices)


def diff(a: Routine, b: Routine) -> Difference | None:
    """The first value in which runs of two routines of one program differ by more than rounding, such as on
    two backends; None where none does. Memory is as before afterwards.

    Raises what compiling and running raise, and `OcannlError` where the programs differ.
    """
    first, second = (_traced(routine.traced()).debugged({}) for routine in (a, b))
    return first_difference(first, second)


def _traced(routine: Routine) -> TracedRoutine:
    assert isinstance(routine, TracedRoutine)
    return routine
