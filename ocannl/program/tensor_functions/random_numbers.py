"""Counter-based random numbers in programs: functions of a key, a counter and the place of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.scalar.precisions import computed_in
from ocannl.dialects.scalar.streams import Stream
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.expressions import SCALAR
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.memory.added import add_data
from ocannl.program.scopes import scoped
from ocannl.program.seeds import Seed, default_seed
from ocannl.program.tensor import Index, Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.tracing.traced_calls import CallAttr, next_call
from ocannl.program.types.casts import convert
from ocannl.program.types.dtypes import float_element
from ocannl.program.types.shapes import RowSizes, row_of
from ocannl.program.values import Value

Rows = tuple[RowSizes | None, RowSizes | None, RowSizes | None]


def uniform(
    counter: TensorLike,
    *,
    key: str | int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    like: TensorLike | None = None,
    batch: RowSizes | None = None,
    input: RowSizes | None = None,
    output: RowSizes | None = None,
    dtype: DTypeLike | None = None,
    label: str = "uniform",
) -> Tensor:
    """Random numbers uniform in [low, high), up to rounding: `low + (high - low) * u`, where u in [0, 1) has
    24 random bits in f32, 53 in f64, and in a smaller float as many as its fraction and one.

    The number of an element depends on the key, the counter and the element's place in memory, on nothing
    else. The counter is an integer, an `oc.index` or a tensor of one whole number. Equal keys give equal
    numbers; a call without a key has its own, made from its label and scope, in all traces of a function.
    Rows that are not given are inferred from the uses, or are those of the tensor `like`. No gradient goes
    to the counter.
    """
    element, rows = _element(dtype), (batch, input, output)
    if (low, high) == (0.0, 1.0):
        return _units(1, counter, key, like, rows, element, label)[0]
    (unit,) = _units(1, counter, key, like, rows, _computed(element), label)
    return _rounded(low + (high - low) * unit, element).named(label)


def normal(
    counter: TensorLike,
    *,
    key: str | int | None = None,
    mean: float = 0.0,
    std: float = 1.0,
    like: TensorLike | None = None,
    batch: RowSizes | None = None,
    input: RowSizes | None = None,
    output: RowSizes | None = None,
    dtype: DTypeLike | None = None,
    label: str = "normal",
) -> Tensor:
    """Random numbers of a normal distribution, by Box and Muller's method; otherwise as `oc.uniform`.

    From the two uniform numbers `u`, `v` of an element: `sqrt(-2 log(1 - u)) cos(2 pi v)`, which is 5.8 at
    most in f32, and 8.6 in f64.
    """
    element = _element(dtype)
    u, v = _units(2, counter, key, like, (batch, input, output), _computed(element), label)
    standard = _standard_normal(u, v)
    number = standard if (mean, std) == (0.0, 1.0) else mean + std * standard
    return _rounded(number, element).named(label)


@remembered
def _standard_normal(u: Tensor, v: Tensor) -> Tensor:
    radius = pointwise("sqrt", -2 * pointwise("log", 1 - u))
    return radius * pointwise("cos", 2 * math.pi * v)


def _element(dtype: DTypeLike | None) -> Attribute | None:
    return None if dtype is None else float_element(dtype, "random numbers are")


def _computed(element: Attribute | None) -> Attribute | None:
    return None if element is None else computed_in(element)


def _rounded(number: Tensor, element: Attribute | None) -> Tensor:
    """A number that was computed for an element type in that type."""
    return number if element is None or element == computed_in(element) else convert(number, element)


def _units(
    count: int,
    counter: TensorLike,
    key: str | int | None,
    like: TensorLike | None,
    rows: Rows,
    element: Attribute | None,
    label: str,
) -> list[Tensor]:
    """The first `count` numbers in [0, 1) of each element's block, two at most."""
    if like is not None and rows != (None, None, None):
        raise ArgumentError("random numbers have the rows of `like`, or those given, not both")
    source = None if like is None else as_tensor(like).ir_value
    shape = Shape(*map(row_of, rows)) if source is None else shape_of(source)
    if key is None and is_eager() and not isinstance(counter, Index):
        key, counter = f"{scoped(label)} {default_seed()}", _numbered(counter)
    name, at = _key(key, label), _counter(counter)
    # `Numbering` makes keys of these, which start anew in every context.
    call = CallAttr(next_call(name)) if key is None else None

    def unit(second: bool) -> Value:
        op = UniformOp(Stream(name, second), at.ir_value, TensorType.of(shape, element), source)
        if call is not None:
            op.attributes["call"] = call
        return graph.add(op, label)

    def found(second: bool) -> Value:
        key = "uniform", name, second, at.ir_value, source, shape, element
        is_known = is_eager() and call is None and (source is not None or shape.is_final)
        made = RECORDER.once(key, lambda: unit(second)) if is_known else unit(second)
        return made if source is None else keep_all_axes(made, source)

    return [Tensor(found(second)) for second in (False, True)[:count]]


def _numbered(counter: TensorLike) -> Tensor:
    """A counter of which the upper half is the number of the call, as data: so each call draws others, and is
    found again.
    """
    given: Any = counter
    number = (next(Seed.now().calls) << 32) + int(given) % 2**32
    return _counted(number)


def _counted(number: int) -> Tensor:
    """A counter as data, since it changes each time."""
    return Tensor(add_data(np.asarray(number, np.int64), TensorType.of(SCALAR, i64), "call"))


def _key(key: str | int | None, label: str) -> str:
    """An integer is the key that its digits spell."""
    if key is None:
        return scoped(label)
    if isinstance(key, bool) or not isinstance(key, str | int | np.integer):
        raise ArgumentError(f"a key is a string or an integer, found {key!r}")
    return str(key)


def _counter(counter: TensorLike) -> Tensor:
    """Integers count modulo 2**64, exactly."""
    if isinstance(counter, int | np.integer) and not isinstance(counter, bool):
        signed = (int(counter) + 2**63) % 2**64 - 2**63
        if is_eager():
            return _counted(signed)
        return Tensor(graph.add(texpr.EmbedOp(Linear((), signed), TensorType.of(SCALAR))))
    if isinstance(counter, bool | float | np.floating):
        raise ArgumentError(f"a counter is an integer, an oc.index or a tensor, found {counter!r}")
    return as_tensor(counter)
