"""Operations of tensor expressions, over the values of the program under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.kinds import KEEPS_TRUTHS
from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, Shape, closed_row
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.program import graph
from ocannl.program.dtypes import dtype_of, is_integer
from ocannl.program.eager import RECORDER, is_eager
from ocannl.program.errors import ArgumentError
from ocannl.program.location import here
from ocannl.program.memory import add_data
from ocannl.program.values import Value

SCALAR = Shape(Row(), Row(), Row())
SAME_SHAPE = "... | ... -> ... => ... | ... -> ..."
MOST_OPERANDS = 3
NUMBERS_MATTER = ("pow",)
"""Operators of which a number says what is computed."""


def constant(value: float, element: Attribute | None = None) -> Value:
    """A number at every point of a shape to be inferred; without an element type, it has that of its uses."""
    return graph.add(texpr.ConstantOp(value, graph.fresh_type(element)))


def truth(value: bool) -> Value:
    """A truth value at every point of a shape to be inferred; in eager mode one without axes."""
    if not is_eager():
        return constant(int(value), BOOL)
    key = "truth", value
    if key not in RECORDER.applied:
        RECORDER.applied[key] = graph.add(texpr.ConstantOp(int(value), TensorType.of(SCALAR, BOOL)))
    return RECORDER.applied[key]


def positions(size: DimTerm, label: str | None = None) -> Value:
    """The positions 0, 1, ..., size - 1 along one output axis."""
    shape = Shape(Row(), Row(), closed_row(size))
    return graph.add(texpr.RangeOp(TensorType.of(shape)), label)


def size_of(dim: DimTerm) -> Value:
    """A size as a number, known once shapes are."""
    return graph.add(texpr.SizeOp(dim, TensorType.of(SCALAR)))


def apply(
    term: Term,
    operands: Sequence[Value],
    *,
    logic: str,
    accum: str | None = None,
    dims: Sequence[tuple[str, DimTerm]] = (),
    label: str | None = None,
    stop: bool = False,
) -> Value:
    """Appends one tensor operation. Raises `ShapeError` where the shapes cannot fit."""
    if not is_eager() or any(isinstance(dim, DimVar) for _, dim in dims):
        return _appended(term, operands, logic, accum, dims, label, stop)
    # What is done again need not be made to be found.
    key = term, *operands, logic, accum, *dims, stop
    value = RECORDER.applied.get(key)
    if value is None:
        value = RECORDER.applied[key] = _appended(term, operands, logic, accum, dims, label, stop)
    return value


def _appended(
    term: Term,
    operands: Sequence[Value],
    logic: str,
    accum: str | None,
    dims: Sequence[tuple[str, DimTerm]],
    label: str | None,
    stop: bool,
) -> Value:
    op = texpr.ApplyOp(term, operands, graph.fresh_type(), accum=accum, logic=logic, dims=dims, stop=stop)
    return graph.add(op, label or _operator_hint(term, accum))


def _operator_hint(term: Term, accum: str | None) -> str | None:
    """Unary operators name their results in the IR."""
    return term.op if isinstance(term, App) and len(term.args) == 1 and accum is None else None


def pointwise(op: str, operands: Sequence[Value | float]) -> Value:
    """An operator of the scalar table, broadcast over its operands. Numbers beside values are part of it, and
    so are True and False where they count as numbers.
    """
    keeps_truths = SCALAR_OPS[op].kind in KEEPS_TRUTHS
    operands = [_number_or_truth(o, keeps_truths) if isinstance(o, bool) else o for o in operands]
    if not any(isinstance(operand, Value) for operand in operands):
        operands = [o if isinstance(o, Value) else constant(o) for o in operands]
    elif is_eager() and op not in NUMBERS_MATTER:
        operands = _with_places(op, operands)
    terms: list[Term] = []
    values: list[Value] = []
    for operand in operands:
        if isinstance(operand, Value):
            terms.append(Arg(len(values)))
            values.append(operand)
        else:
            terms.append(Const(operand))
    return apply(App(op, tuple(terms)), values, logic=".")


def _number_or_truth(value: bool, is_truth: bool) -> Value | int:
    return truth(value) if is_truth else int(value)


def _with_places(op: str, operands: Sequence[Value | float]) -> Sequence[Value | float]:
    """The operands, with data in place of a number that is another one each time, such as a learning rate: so
    that it is no part of the program.
    """
    numbers = tuple([operand for operand in operands if not isinstance(operand, Value)])
    if not numbers:
        return operands
    key = op, *[operand if isinstance(operand, Value) else None for operand in operands]
    if RECORDER.numbers.setdefault(key, numbers) == numbers:
        return operands
    element = _element_of_numbers([o for o in operands if isinstance(o, Value)], numbers)
    if element is None:
        return operands
    RECORDER.numbers[key] = ()
    return [o if isinstance(o, Value) else _number_data(o, element) for o in operands]


def _number_data(number: float, element: Attribute) -> Value:
    return add_data(np.asarray(number, dtype_of(element)), TensorType.of(SCALAR, element), "number")


def _element_of_numbers(values: Sequence[Value], numbers: Sequence[float]) -> Attribute | None:
    """The element type that numbers have beside values; None where it is not known, or not that of data."""
    elements = {tensor_type(value).element_or_none for value in values} - {BOOL}
    if elements <= {f32, f64}:
        return f64 if f64 in elements else f32 if elements else None
    (element, *others) = elements
    if element is None or others or not is_integer(dtype_of(element)):
        return None
    limits = np.iinfo(dtype_of(element))
    fit = all(isinstance(number, int) and limits.min <= number <= limits.max for number in numbers)
    return element if fit else None


def number_in(place: Literal["=", "left of @", "right of @"], number: float, other: Value) -> Value:
    """A number that gets its shape from `other`: memory that is set to it, or the other side of a product. In
    eager mode the same one is the same value, and one that is another one each time is data where it may be.
    """
    if not is_eager():
        return constant(number)
    key = place, other
    if place != "left of @" and RECORDER.numbers.setdefault(key, (number,)) != (number,):
        element = _element_of_numbers([other], [number])
        if element is not None:
            RECORDER.numbers[key] = ()
            return _number_data(number, element)
    known = *key, number
    if known not in RECORDER.applied:
        RECORDER.applied[known] = constant(number)
    return RECORDER.applied[known]


def number_for_part(number: float, memory: Value) -> Value:
    """A number that a part of memory is set to: data in eager mode, where it may be, as parts are others."""
    element = _element_of_numbers([memory], [number]) if is_eager() else None
    return constant(number) if element is None else _number_data(number, element)


def convert(
    value: Value, element: Attribute, *, compute: bool = False, factors: Attribute | None = None
) -> Value:
    """The value in an element type, of the same shape; with `compute`, one in whose type products of it are
    computed, from factors that are rounded to `factors`.
    """
    cast = texpr.ApplyOp(
        Arg(0), [value], graph.fresh_type(element), logic=SAME_SHAPE, compute=compute, factors=factors
    )
    return graph.add(cast, "cast")


def check_spec(spec: object, operands: int, most: int | None = MOST_OPERANDS) -> None:
    """Raises `ArgumentError` for a spec that is no text, `SpecError` for too few or too many operands."""
    if not isinstance(spec, str):
        raise ArgumentError(f"a spec is a string, found {type(spec).__name__}; it stands before the operands")
    if not operands or (most is not None and operands > most):
        raise SpecError(here(f"a spec takes one to three operands, found {operands}: {spec!r}"))


def spec_apply(
    spec: str,
    accum: str,
    combine: str,
    operands: Sequence[Value],
    dims: Sequence[tuple[str, DimTerm]],
    *,
    use_padding: bool = False,
) -> Value:
    """An operation by an einsum spec; several operands are combined by `combine`, one stands for itself.

    With `use_padding`, the axes `s*o + d*k` that do not say it themselves are padded. Raises `SpecError` for
    a malformed spec, `ShapeError` where shapes cannot fit it.
    """
    term: Term = Arg(0)
    for place in range(1, len(operands)):
        term = App(combine, (term, Arg(place)))
    return apply(term, operands, logic=_padded(spec) if use_padding else spec, accum=accum, dims=dims)


def _padded(spec: str) -> str:
    """The spec with the padding that its operation asks for; malformed text is left for shape inference."""
    try:
        return str(parse_spec(spec).padded())
    except SpecSyntaxError:
        return spec
