"""A check of exchanges that are on their way while ranks compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign.collective import CollectiveBase
from ocannl.dialects.assign.repeat import RepeatBase

Stored = Callable[[Operation], SSAValue | None]


def check_in_flight(steps: Sequence[Operation], stored_by: Stored) -> None:
    """Checks that each exchange which is started is waited for once, and that steps between neither touch its
    target nor write its source. `stored_by` gives the node that an operation inside of a step stores to.
    """
    in_flight: dict[tuple[SSAValue, ...], CollectiveBase] = {}
    for step in steps:
        if isinstance(step, CollectiveBase) and step.is_wait:
            started = in_flight.pop(tuple(step.arrays), None)
            if started is None or (started.kind, started.mesh) != (step.kind, step.mesh):
                raise VerifyException(f"`{step.head}` waits for what was not started")
        for other in in_flight.values():
            _check_apart(step, other, stored_by)
        if isinstance(step, CollectiveBase) and step.phase is not None and not step.is_wait:
            in_flight[tuple(step.arrays)] = step
    for started in in_flight.values():
        raise VerifyException(f"`{started.head}` is not waited for")


def _check_apart(step: Operation, started: CollectiveBase, stored_by: Stored) -> None:
    target, source = started.arrays
    for op in step.walk():
        if target in op.operands:
            raise VerifyException(f"`{step.name}` touches what `{started.head}` is still receiving")
        written = op.written if isinstance(op, CollectiveBase | RepeatBase) else [stored_by(op)]
        if source in written:
            raise VerifyException(f"`{step.name}` writes what `{started.head}` is still sending")
