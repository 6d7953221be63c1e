"""The functions of ours that kernels call: they stand before the kernels, each if one calls it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation

from ocannl.dialects.scalar.far_op import FAR_FUNCTIONS, FarOp
from ocannl.dialects.scalar.small_floats import F8E4M3FN, F8E5M2
from ocannl.lowering.c_family.word_functions import narrowing, narrowing_function, widening, widening_function
from ocannl.lowering.kernels_to_metal.far import far_function, far_name
from ocannl.lowering.kernels_to_metal.scalar import converting
from ocannl.lowering.kernels_to_metal.small_floats import METAL, STORED_AS_BITS

# The functions by name, in the order of the text.
FUNCTIONS: dict[str, Callable[[], str]] = {
    **{
        name(format): partial(function, format, STORED_AS_BITS[format.name], METAL)
        for format in (F8E5M2, F8E4M3FN)
        for name, function in ((widening, widening_function), (narrowing, narrowing_function))
    },
    **{far_name(function): partial(far_function, function) for function in FAR_FUNCTIONS},
}


def called(ops: Iterable[Operation]) -> set[str]:
    """The names of the functions that operations call."""
    return {name for op in ops if (name := _called(op)) is not None}


def _called(op: Operation) -> str | None:
    match op:
        case FarOp():
            return far_name(op.function.data)
        case arith.ExtFOp() | arith.TruncFOp():
            return converting(op.input.type, op.result.type)
        case _:
            return None


def definitions(names: Collection[str]) -> list[str]:
    """The texts of functions by their names."""
    return [function() for name, function in FUNCTIONS.items() if name in names]
