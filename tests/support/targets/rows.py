"""The rows of the table of targets: all programs that every target is to run as the CPU does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.differentiable import FORMS, LOGICS, Logic, arrays_of
from support.nn.check import Case
from support.nn.tables import NAMES, fresh_cases
from support.operators import random_operands, special
from support.targets.arrays import ARRAY_PROGRAMS
from support.targets.examples import EXAMPLES
from support.targets.functions import PROGRAMS, SMALL_PROGRAMS, computed

import ocannl as oc
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.kinds import WHOLE
from ocannl.program.tensor_functions.operators import OPERATORS, PUBLIC_NAMES, Operator

Array = NDArray[Any]
DType: TypeAlias = type[np.floating[Any]]
Values: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class Row:
    """A program: what it computes on a device, with numbers of a type, by name.

    Attributes:
        run: computes.
        in_f64: whether it can be had in f64, too.
        tolerance: in f32, relative to the greatest value of an array.
    """

    run: Callable[[oc.Context, DType], Values]
    in_f64: bool = True
    tolerance: float = 1e-4


@cache
def blocks(dtype: DType) -> Mapping[str, Case]:
    """Those for numbers of a type."""
    return fresh_cases()


def block(name: str) -> Row:
    """A block, and the gradients of its parameters and inputs."""

    def run(ctx: oc.Context, dtype: DType) -> Values:
        found = blocks(dtype)[name].found_on(ctx, dtype)
        gradients = {f"{k}.grad": a for k, a in found.param_gradients.items()}
        inputs = {f"input {k}.grad": a for k, a in enumerate(found.input_gradients)}
        return {"value": found.value, **gradients, **inputs}

    return Row(run)


def with_gradients(ctx: oc.Context, build: Callable[..., oc.Tensor], inputs: list[oc.Tensor]) -> Values:
    """The value of a function, and the gradients of a sum in which all its results count differently."""
    result = build(*inputs)
    oc.infer(result)
    rows = {"b": result.shape.batch, "o": result.shape.output, "i": result.shape.input}
    axes = "".join(letter * len(row) for letter, row in rows.items())
    weights = 1 + 0.5 * np.sin(1 + np.arange(np.prod(result.shape.array)).reshape(result.shape.array))
    dtype = ctx[inputs[0]].dtype if inputs else np.float32
    gradients = oc.vjp(result, inputs, oc.data(weights.astype(dtype), axes=axes, label="weights"))
    ctx.compile(sum(map(oc.forward, (result, *gradients)), oc.Code()), name="gradients")()
    return {"value": ctx[result], **{f"x{k}.grad": ctx[g] for k, g in enumerate(gradients)}}


def on_integers(function: Operator, arity: int, ctx: oc.Context, dtype: DType) -> Values:
    """An operator of integers, on numbers of 8 and of 32 bits."""
    inner = [np.array([0, 1, 2, 7, 31, 100, -1, -3, -128, 127], dtype) for dtype in (np.int8, np.int32)]
    inner[1][-2:] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    pairs = [np.meshgrid(inner[k], inner[1 - k]) for k in range(2)]
    tensors = {f"value {k}": function(*map(oc.data, pair[:arity])) for k, pair in enumerate(pairs)}
    return computed(ctx, tensors)


def operator(name: str) -> Row:
    """An operator of all special values, and its gradients at random ones."""
    function = OPERATORS[name]
    (op,) = (op for op in SCALAR_OPS.values() if PUBLIC_NAMES.get(op.name, op.name) == name)
    if op.kind in WHOLE:
        return Row(partial(on_integers, function, op.arity))

    def run(ctx: oc.Context, dtype: DType) -> Values:
        values = np.meshgrid(special(dtype), special(dtype))
        arrays = [*values, np.roll(values[0], 5, axis=1) + 0][: op.arity]
        result = function(*(oc.data(a) for a in arrays))
        ctx.compile(result, name="operator")()
        shapes: list[tuple[int, ...]] = [(5, 1, 17), (7, 1), ()]
        params = [oc.data(abs(a) if name == "pow" else a) for a in random_operands(dtype, shapes)]
        return {"special": ctx[result], **with_gradients(ctx, function, params[: op.arity])}

    return Row(run)


def logic(entry: Logic) -> Row:
    """An einsum, a slice, a gather ...: what the tables of gradients have."""
    build, _, shapes, rows = entry

    def run(ctx: oc.Context, dtype: DType) -> Values:
        arrays = zip(arrays_of(*shapes), rows, strict=True)
        return with_gradients(ctx, build, [oc.data(a.astype(dtype), axes=axes) for a, axes in arrays])

    return Row(run)


ROWS: dict[str, Row] = {
    **{f"operator: {name}": operator(name) for name in OPERATORS},
    **{f"logic: {name}": logic(entry) for name, entry in (LOGICS | FORMS).items()},
    **{name: block(name) for name in NAMES},
    **{f"program: {name}": Row(run) for name, run in (PROGRAMS | ARRAY_PROGRAMS).items()},
    **{f"small: {name}": Row(run, in_f64=False, tolerance=4e-2) for name, run in SMALL_PROGRAMS.items()},
    **{f"example: {name}": Row(run, in_f64=False, tolerance=1e-3) for name, run in EXAMPLES.items()},
}
