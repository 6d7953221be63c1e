"""Every operator of the scalar table as a function of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.program import expressions
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here
from ocannl.program.tensor import Dim, Tensor, TensorLike, as_tensor, bound_dims, pointwise
from ocannl.program.tensor_functions.contraction_order import slot_names
from ocannl.program.tensor_functions.remembered import remembered

# Where a table's name is a word of Python or hides a builtin of another meaning.
PUBLIC_NAMES = {
    "max": "maximum",
    "min": "minimum",
    "or": "logical_or",
    "and": "logical_and",
    "not": "logical_not",
}


class Operator(Protocol):
    """A pointwise function of one to three tensors or numbers; with a `spec`, of the points that it names."""

    def __call__(self, *args: TensorLike, spec: str | None = None, **dims: int | Dim) -> Tensor: ...


def _operator(op: str, name: str) -> Operator:
    def function(*args: TensorLike, spec: str | None = None, **dims: int | Dim) -> Tensor:
        return pointwise(op, *args) if spec is None and not dims else _by_spec(op, spec, args, dims)

    function.__name__ = function.__qualname__ = name
    operands = ", ".join("abc"[: SCALAR_OPS[op].arity])
    function.__doc__ = f"""`{name}({operands})` at every point of the broadcast operands; or of the axes that
    `spec` names, as in `oc.einsum`, all of which the result has: nothing is accumulated.
    """
    return function


def _by_spec(op: str, spec: str | None, args: Sequence[TensorLike], dims: Mapping[str, int | Dim]) -> Tensor:
    if spec is None:
        raise ArgumentError(f"sizes by name, such as {next(iter(dims))}, belong to a `spec`")
    arity = SCALAR_OPS[op].arity
    if len(args) != arity:
        raise ArgumentError(f"{op} takes {arity} tensor{'s' * (arity > 1)}, found {len(args)}")
    expressions.check_spec(spec, arity)
    try:
        parsed = parse_spec(spec, arity)
    except SpecSyntaxError as error:
        raise SpecError(here(str(error))) from None
    kept = set(slot_names(parsed.result))
    lost = [name for slot in parsed.operands for name in slot_names(slot) if name not in kept]
    if lost:
        raise SpecError(here(f"{op} accumulates nothing, and the result of {spec!r} has no `{lost[0]}`"))
    operands = [as_tensor(arg).ir_value for arg in args]
    term = App(op, tuple(map(Arg, range(arity))))
    return Tensor(expressions.apply(term, operands, logic=spec, dims=[*bound_dims(dims).items()]))


@remembered
def clip(x: TensorLike, low: TensorLike | None = None, high: TensorLike | None = None) -> Tensor:
    """`x` at least `low` and then at most `high`, either of which may be left out. The gradient goes to `x`
    inside and at the bounds, else to the bound. Truth values between `False` and `True` stay such.
    """
    above = as_tensor(x) if low is None else pointwise("max", x, low)
    return above if high is None else pointwise("min", above, high)


OPERATORS: dict[str, Operator] = {
    PUBLIC_NAMES.get(op, op): _operator(op, PUBLIC_NAMES.get(op, op)) for op in SCALAR_OPS
}
