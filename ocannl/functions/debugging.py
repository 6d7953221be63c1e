"""The values of a call of a function, as `oc.debug` has those of code."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.execute.context import Context
from ocannl.execute.reports import trace as execute_trace
from ocannl.execute.reports.traced_routine import TracedRoutine
from ocannl.functions.bound import Array, Bound
from ocannl.functions.trace import Trace
from ocannl.program.seeds import default_seed


def debugged(
    trace: Trace, context: Context, arrays: Sequence[Array], check_nans: bool
) -> execute_trace.Trace:
    """The values of all assignments of a call with arrays; memory is as before afterwards."""
    with context.without_new_memory():
        bound = Bound(trace, context, default_seed(), traces=True, check_nans=check_nans)
        bound.take(arrays)
        assert isinstance(bound.routine, TracedRoutine)
        return bound.routine.debugged({})
