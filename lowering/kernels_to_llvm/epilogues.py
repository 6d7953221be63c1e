"""Epilogues: what a thread does with the results of all reductions, at many points of register variables.

Operation by operation, all values between two of them are registers at once, more than there are. Slice by
slice, for one value of a register variable after the other, few are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import StoreOp
from ocannl.lowering.kernels.registers import Variables, needs_all_threads

# So many operations on results at so many points are worth slices.
LONG_EPILOGUE, MANY_POINTS = 16, 64


def epilogue_start(ops: Sequence[Operation]) -> int:
    """Where in the body of a kernel the operations begin that follow all control flow and synchronization."""
    return 1 + max((k for k, op in enumerate(ops) if op.regions or needs_all_threads(op)), default=-1)


def slice_variable(
    epilogue: Sequence[Operation], over: Mapping[SSAValue, Variables], sizes: Mapping[str, int]
) -> str | None:
    """The register variable whose values a long epilogue is emitted for in turn; None if it is whole."""
    stored = [over[op.value] for op in epilogue if isinstance(op, StoreOp)]
    if not stored or len(epilogue) < LONG_EPILOGUE:
        return None
    name = next((n for n in sizes if all(n in names for names in stored)), None)
    count = max(math.prod(sizes[n] for n in names) for names in stored)
    return name if count >= MANY_POINTS else None
