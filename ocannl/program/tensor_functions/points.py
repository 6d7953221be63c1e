"""Points of tensors, as functions of points see them: terms of the scalar table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.kinds import KEEPS_TRUTHS
from ocannl.dialects.scalar.terms import App, Const, Term
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import Number, is_truth, number
from ocannl.program.arithmetic import Arithmetic


class Point(Arithmetic["PointLike", "Point"]):
    """A point of a result, as a term over points of operands."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    def tensor(self) -> Point:
        return self

    def _pointwise(self, op: str, *operands: object) -> Point:
        return at_points(op, operands)

    def _compose(self, left: object, right: object) -> Point:
        raise ArgumentError("a function of points has no products `@`: they sum over several of them")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ArgumentError(f"a function of points computes by operators alone: a point has no `{name}`")


PointLike: TypeAlias = Point | Number


def at_points(op: str, operands: Sequence[object]) -> Point:
    """An operator of the scalar table at points and numbers."""
    arity = SCALAR_OPS[op].arity
    if len(operands) != arity:
        raise ArgumentError(f"{op} takes {arity} operands, found {len(operands)}")
    if SCALAR_OPS[op].kind in KEEPS_TRUTHS and any(map(is_truth, operands)):
        raise ArgumentError("a function of points has truth values by comparisons, not by True and False")
    return Point(App(op, tuple(map(_term, operands))))


def _term(operand: object) -> Term:
    if isinstance(operand, Point):
        return operand.term
    if isinstance(operand, Arithmetic):
        raise ArgumentError("a function of points gets the tensors that it computes from as arguments")
    return Const(number(cast(Number, operand)))
