"""Steps of routines, and a check that those which compute hold computation alone."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import OwnOperation
from ocannl.dialects.routine import RoutineOp
from ocannl.dialects.scalar.precisions import is_computed

# What is an operation of scalars, or a store or a loop around such.
SCALAR_DIALECTS = ("arith", "math", "loops")


class StepOp(OwnOperation):
    """Base of the steps of a routine, which run in order: nests, groups of nests, kernels, loops,
    collectives."""

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), RoutineOp | None):
            raise VerifyException("a step stands in a loops.func")
        super().verify_()


def check_computes(scope: Operation, what: str, own_dialect: str = "") -> None:
    """Checks all operations inside of a scope, called `what` in messages: scalar operations, reductions, and
    those of a dialect of its own.
    """
    for op in scope.walk():
        if op is scope:
            continue
        dialect = op.name.partition(".")[0]
        if dialect not in (*SCALAR_DIALECTS, own_dialect):
            raise VerifyException(f"{what} computes numbers, found `{op.name}`")
        if dialect in SCALAR_DIALECTS:
            for result in op.results:
                if not is_computed(result.type):
                    raise VerifyException(f"{what} computes numbers, found {result.type} of `{op.name}`")
