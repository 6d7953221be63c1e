"""Operations of tensor expressions, over the values of the program under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

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
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.changing_numbers import SCALAR, can_be_data, number_data, operator_key, with_data
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import here
from ocannl.program.values import Value

SAME_SHAPE = "... | ... -> ... => ... | ... -> ..."
MOST_OPERANDS = 3
MUL = App("mul", (Arg(0), Arg(1)))


def constant(value: float, element: Attribute | None = None) -> Value:
    """A number at every point of a shape to be inferred; without an element type, it has that of its uses."""
    return graph.add(texpr.ConstantOp(value, graph.fresh_type(element)))


def truth(value: bool) -> Value:
    """A truth value at every point of a shape to be inferred; in eager mode one without axes."""
    if not is_eager():
        return constant(int(value), BOOL)
    of_no_axes = TensorType.of(SCALAR, BOOL)
    return RECORDER.once(("truth", value), lambda: graph.add(texpr.ConstantOp(int(value), of_no_axes)))


def positions(size: DimTerm, label: str | None = None) -> Value:
    """The positions 0, 1, ..., size - 1 along one output axis."""

    def make() -> Value:
        shape = Shape(Row(), Row(), closed_row(size))
        return graph.add(texpr.RangeOp(TensorType.of(shape)), label)

    is_known = is_eager() and not isinstance(size, DimVar)
    return RECORDER.once(("positions", size), make) if is_known else make()


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
    return RECORDER.once(key, lambda: _appended(term, operands, logic, accum, dims, label, stop))


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
    if not is_eager():
        return _pointwise(op, _with_truths(op, operands))
    if (made := RECORDER.again(operator_key(op, operands))) is not None:
        return made
    operands = _with_numbers(_with_truths(op, operands))
    if not any(isinstance(operand, Value) for operand in operands):
        return _pointwise(op, operands)
    operands = with_data(op, operands)
    return RECORDER.once(operator_key(op, operands), lambda: _pointwise(op, operands))


def _pointwise(op: str, operands: Sequence[Value | float]) -> Value:
    """An operator with numbers as part of its term; of numbers alone, they are constants."""
    if not any(isinstance(operand, Value) for operand in operands):
        operands = [o if isinstance(o, Value) else constant(o) for o in operands]
    terms: list[Term] = []
    values: list[Value] = []
    for operand in operands:
        if isinstance(operand, Value):
            terms.append(Arg(len(values)))
            values.append(operand)
        else:
            terms.append(Const(operand))
    return apply(App(op, tuple(terms)), values, logic=".")


def _with_numbers(operands: Sequence[Value | float]) -> Sequence[Value | float]:
    """The operands, with numbers in place of constants, which are the same operands each time."""
    found = [number_of_constant(o) if isinstance(o, Value) else o for o in operands]
    return found if any(isinstance(operand, Value) for operand in found) else operands


def _with_truths(op: str, operands: Sequence[Value | float]) -> Sequence[Value | float]:
    """The operands, with True and False as truth values or as numbers."""
    if not any(isinstance(operand, bool) for operand in operands):
        return operands
    as_number = truth if SCALAR_OPS[op].kind in KEEPS_TRUTHS else int
    return [as_number(operand) if isinstance(operand, bool) else operand for operand in operands]


def number_in(place: Literal["=", "left of @", "right of @"], number: float, other: Value) -> Value:
    """A number that gets its shape from `other`: memory that is set to it, or the other side of a product. In
    eager mode, the same number at the same place is one value, and a number that changes becomes data.
    """
    if not is_eager():
        return constant(number)
    key, is_left = (place, other), place == "left of @"
    own = (Const(number),)
    if RECORDER.numbers.setdefault(key, own) != own and can_be_data(number, [other]):
        RECORDER.numbers[key] = ()
        data = number_data(number, [other])
        # The sum is as long as what it is multiplied with.
        return apply(MUL, [_known_constant((*key, "one"), 1), data], logic=".") if is_left else data
    return _known_constant(key, number)


def _known_constant(place: tuple[str | Value, ...], number: float) -> Value:
    """`constant`, the same one for the same place."""
    return RECORDER.once((*place, Const(number)), lambda: constant(number))


def number_for_part(number: float, memory: Value) -> Value:
    """A number that a part of memory is set to. In eager mode it is data where that is possible."""
    is_data = is_eager() and can_be_data(number, [memory])
    return number_data(number, [memory]) if is_data else constant(number)


def number_of_constant(value: Value) -> Value | float:
    """The number that a value is at every point of a shape that its uses tell; else the value."""
    op = value.op
    if not isinstance(op, texpr.ConstantOp) or tensor_type(value).element_or_none is not None:
        return value
    return value if isinstance(op.value, int) and abs(op.value) >= 2**31 else op.value


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
    """Raises `ArgumentError` for a spec that is not text, `SpecError` for too few or too many operands."""
    if not isinstance(spec, str):
        kind = type(spec).__name__
        of_two = 'oc.einsum("i j; j k => i k", x, y) and oc.concat("b | i; b | j => b | i^j", x, y)'
        joined = f", as in {of_two}" if kind in ("list", "tuple") else ""
        message = f"a spec is a string, found {kind}; it stands before the operands{joined}"
        raise ArgumentError(message)
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
