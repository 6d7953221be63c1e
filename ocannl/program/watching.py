"""Statements that show values to Python after each run of a routine."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code, emit, is_recording
from ocannl.program.eager.setting import is_eager
from ocannl.program.expressions import SAME_SHAPE, apply
from ocannl.program.module.needed import needed_for
from ocannl.program.tensor import TensorLike, as_tensor
from ocannl.program.values import Value, values_of

Show = Callable[[NDArray[Any]], None]
_NOTE = "watch"


@dataclass(frozen=True)
class Watch:
    """A value that is shown after each run."""

    value: Value
    show: Show


def print_values(text: str, t: TensorLike) -> Code:
    """Code that prints a text and the value that a tensor has there, after each run of its routine; after the
    last one of `run_loop`. In eager mode it is printed at once.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"a value is printed after a text, found {text!r}")
    return _watched(t, lambda array: print(text, array))


def breakpoint(t: TensorLike) -> Code:
    """Code that enters Python's debugger after each run of its routine, as `breakpoint()` does, with the
    value that a tensor has there as `value`; after the last run of `run_loop`. In eager mode it does so at
    once.
    """
    return _watched(t, _enter_debugger)


def _enter_debugger(value: NDArray[Any]) -> None:
    builtins.breakpoint()  # the value is `value` here


def _watched(t: TensorLike, show: Show) -> Code:
    tensor = as_tensor(t)
    if is_eager() and not is_recording():
        show(tensor.numpy())
        return Code()
    _check_is_outside(tensor.ir_value)
    there = apply(Arg(0), [tensor.ir_value], logic=SAME_SHAPE, label=tensor.label)
    statement = texpr.ForwardOp(there, keep=True)
    vars(statement)[_NOTE] = show
    return emit(statement)


def _check_is_outside(value: Value) -> None:
    """Raises `ArgumentError` for a value of one iteration, which there is while the program runs alone."""
    if any(isinstance(op, ArgumentOp) for op in needed_for([value])):
        message = "a value inside of the cell of a scan is not shown: return it as y, and show that"
        raise ArgumentError(message)


def watches_of(statements: Iterable[Operation]) -> list[Watch]:
    """The values that statements show."""
    return [Watch(values_of(op)[0], show) for op in statements if (show := vars(op).get(_NOTE)) is not None]
