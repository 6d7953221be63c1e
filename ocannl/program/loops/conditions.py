"""Loops with a condition, and branches, which run when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ocannl.dialects.shapes.shape import Dim
from ocannl.program import expressions
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.cells import in_cell
from ocannl.program.loops.branch_types import check_branches
from ocannl.program.loops.carried_shapes import check_carries
from ocannl.program.loops.loop import (
    Loop,
    arguments,
    check_form,
    form_text,
    have_one_form,
    tensors,
    with_tensors,
)
from ocannl.program.mistakes.one_number import check_one_number
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.values import Value, now, values_of


def while_loop(cond: Callable[[Any], TensorLike], body: Callable[[Any], Any], init: Any, most: int) -> Any:
    """The state after `state = body(state)` as long as `cond(state)`, a tensor of one number, is not 0, and
    `most` times at most: a loop that runs when the program runs. It may run 0 times.

    `init` and what `body` returns are tensors or trees of them, of the same form and shapes. Derivatives go
    through it; in reverse mode there is memory for the states of `most` iterations. Raises as `oc.scan`.
    """
    since, count = now(), Dim(integer(most, "the most iterations of a loop"))
    state = [as_tensor(leaf).ir_value for leaf in tensors(init)]
    begin = [_one_number(as_tensor(cond(with_tensors(init, state)))).ir_value, *state]
    carries = arguments([(value, None) for value in begin], count, cond, body)
    inits = [values_of(carry.op)[0] for carry in carries]
    with in_cell():
        found = body(with_tensors(init, carries[1:]))
        check_form(found, init)
        flag = _one_number(as_tensor(cond(found))).ir_value
    loop = Loop(count, inits, [], carries, False, since, going=0)
    given = [as_tensor(leaf).ir_value for leaf in tensors(found)]
    check_carries("a loop", inits[1:], carries[1:], given)
    lasts, _ = loop.results([flag, *given], [])
    return with_tensors(init, lasts[1:])


def cond(flag: TensorLike, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
    """`f(*operands)` where a number is not 0, else `g(*operands)`; only that one runs. Both return tensors,
    or trees of them, of one form, the same shapes and dtypes; a number takes those of the other branch.
    """
    is_so = pointwise("ne", _one_number(as_tensor(flag)), 0)
    first = _if(is_so, f, operands, None)
    return _if(pointwise("not", is_so), g, operands, first).results


@dataclass(frozen=True, slots=True)
class _Branch:
    """The results of a branch, and the values that its function returned, None for numbers."""

    results: Any
    values: Sequence[Value | None]


def _one_number(flag: Tensor) -> Tensor:
    """A condition. Raises `ShapeError` where it is known to be more than one number."""
    way = "oc.where(condition, a, b) chooses at each point; condition.any() and .all() are one number"
    check_one_number(flag.ir_value, "a condition", way)
    return flag


def _if(
    flag: TensorLike, function: Callable[..., Any], operands: Sequence[Any], other: _Branch | None
) -> _Branch:
    """The results of a function if a flag holds, else those of another branch, by default zeros."""
    since, count = now(), Dim(1)
    with in_cell():
        found = function(*operands)
    leaves = tensors(found)
    values = [as_tensor(leaf).ir_value for leaf in leaves]
    returned = [v if isinstance(leaf, Tensor) else None for v, leaf in zip(values, leaves, strict=True)]
    if other is None:
        begin = [expressions.number_in("=", 0, value) for value in values]
    else:
        if not have_one_form(found, other.results):
            first, second = form_text(other.results, "result"), form_text(found, "result")
            message = f"both functions have one form of results: f gives {first}, g gives {second}"
            raise ArgumentError(message)
        check_branches(other.values, returned)
        begin = [as_tensor(leaf).ir_value for leaf in tensors(other.results)]
    inits = [as_tensor(flag).ir_value, *begin]
    carries = arguments([(value, None) for value in inits], count)
    loop = Loop(count, inits, [], carries, False, since, going=0, whole=True)
    lasts, _ = loop.results([carries[0], *values], [])
    return _Branch(with_tensors(found, lasts[1:]), returned)
