"""Einsum and its variants with other operators, concatenation and stacking."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ocannl.dialects.ir.errors import ShapeError, SpecError
from ocannl.dialects.shapes.shape import ROW_KINDS, RowKind
from ocannl.dialects.shapes.spec import Spec
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import MOST_OPERANDS, check_spec
from ocannl.program.location import here
from ocannl.program.tensor import Dim, Tensor, TensorLike, as_tensor, by_spec
from ocannl.program.tensor_functions.contraction_order import contraction_steps
from ocannl.program.tensor_functions.remembered import remembered


def einsum(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Sums of products by a spec: `oc.einsum("i j; j k => i k", a, b)`.

    Axes that the result does not have are summed over. `dims` fix (`h=8`) or capture (`d=oc.Dim("d")`)
    dimensions of the spec by name, and give the numbers of named coefficients. Windows `s*o + d*k` are padded
    with zeros if `use_padding` is set; else they stay inside the axis. More than three operands, whose axes
    are names, are multiplied a few at a time, in the order of least cost by the sizes that are known now.

    Raises `SpecError` for a malformed spec or a wrong number of operands, `ShapeError` where shapes do not
    fit it.
    """
    if len(args) <= MOST_OPERANDS:
        return by_spec(spec, "add", "mul", args, dims, use_padding=use_padding)
    left = [as_tensor(arg) for arg in args]
    for step in contraction_steps(_parsed(spec, len(args)), [t.ir_value for t in left], _given(dims)):
        taken = [left[place] for place in step.places]
        left = [t for place, t in enumerate(left) if place not in step.places]
        text = str(step.spec)
        used = {name: dim for name, dim in dims.items() if re.search(rf"\b{name}\b", text)}
        left.append(by_spec(text, "add", "mul", taken, used))
    return left[0]


def _parsed(spec: str, operands: int) -> Spec:
    check_spec(spec, operands, None)
    try:
        return parse_spec(spec, operands)
    except SpecSyntaxError as error:
        raise SpecError(here(str(error))) from None


def _given(dims: Mapping[str, int | Dim]) -> dict[str, int]:
    known = {name: dim.known if isinstance(dim, Dim) else integer(dim, name) for name, dim in dims.items()}
    return {name: size for name, size in known.items() if size is not None}


def einmax(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Maxima of products by a spec, over the axes that the result does not have; otherwise as `oc.einsum`."""
    return by_spec(spec, "max", "mul", args, dims, use_padding=use_padding)


def einmin(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Minima of products by a spec, over the axes that the result does not have; otherwise as `oc.einsum`."""
    return by_spec(spec, "min", "mul", args, dims, use_padding=use_padding)


def tropical(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Maxima of sums by a spec, the product of the tropical semiring; otherwise as `oc.einsum`."""
    return by_spec(spec, "max", "add", args, dims, use_padding=use_padding)


def outer_sum(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Sums of sums by a spec; otherwise as `oc.einsum`."""
    return by_spec(spec, "add", "add", args, dims, use_padding=use_padding)


def concat(spec: str, *args: TensorLike, **dims: int | Dim) -> Tensor:
    """Concatenates any number of tensors along an axis: `oc.concat("a; b; c => a^b^c", x, y, z)`.

    Axes that the result does not have are summed over. Raises as `oc.einsum` does.
    """
    return by_spec(spec, "add", "add", args, dims, most=None)


def stack(tensors: Sequence[TensorLike], axis: RowKind) -> Tensor:
    """Stacks tensors of one shape along a new axis: the first of the `axis` row, "batch", "input" or
    "output".

    Raises `ShapeError` where the shapes differ.
    """
    if axis not in ROW_KINDS:
        raise ArgumentError(f"a new axis is in the batch, input or output row, found {axis!r}")
    if isinstance(tensors, Tensor):
        raise ArgumentError(f"several tensors are stacked, as in oc.stack([a, b], {axis!r}); found one")
    if not tensors:
        raise ArgumentError("there is nothing to stack")
    return _stacked(axis, *tensors)


@remembered
def _stacked(axis: RowKind, *tensors: TensorLike) -> Tensor:
    parts = [f"part{i}" for i in range(len(tensors))]
    slots = f"{_slot(axis, '')} => {_slot(axis, 'part,')}"
    single = [einsum(slots, t, part=1).named(as_tensor(t).label) for t in tensors]
    if len(single) == 1:
        return single[0]
    operands = "; ".join(_slot(axis, f"{part},") for part in parts)
    try:
        return concat(f"{operands} => {_slot(axis, '^'.join(parts) + ',')}", *single)
    except ShapeError:
        shapes = ", ".join(f"`{each.label}` has {each.shape}" for each in map(as_tensor, tensors))
        way = "oc.concat joins what differs along one axis"
        raise ShapeError(here(f"tensors that are stacked have one shape: {shapes}; {way}")) from None


def _slot(kind: RowKind, axis: str) -> str:
    """A slot of three open rows, with an axis at the front of one."""
    batch, input, output = (f"{axis} ..." if row == kind else "..." for row in ROW_KINDS)
    return f"{batch} | {input} -> {output}"
