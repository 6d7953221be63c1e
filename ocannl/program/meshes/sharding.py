"""Placements in a program: the axes of tensors that it splits over axes of a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ocannl.dialects import texpr
from ocannl.dialects.routine import STAGE
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import ROW_KINDS, RowKind
from ocannl.dialects.texpr.placement import AskedAxis, Placement, PlacementAttr
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import SAME_SHAPE, apply
from ocannl.program.module.needed import needed_for
from ocannl.program.tensor import Tensor, TensorLike, as_tensor

Shard: TypeAlias = Mapping[Any, str | tuple[str, ...]]
"""Axes of a mesh by the row, the number, or the row and the number of the axis that is split; as a mapping
is invariant in its keys, they are checked when it is used."""
"""Axes of a mesh by the axes of a tensor: a row, `{"batch": "data"}`; an axis of one,
`{("output", 0): "model"}`; or an axis by its number in memory order, `{0: "data"}`. One may be split over
several, `{"batch": ("data", "microbatch")}`.
"""

ROWS: Mapping[str, RowKind] = {kind: kind for kind in ROW_KINDS}


def shard(t: TensorLike, placement: Shard) -> Tensor:
    """The same tensor, split over axes of a mesh: `oc.shard(h, {"output": "model"})`. What is not named is
    not split over the mesh axes that are named; `{}` is whole on all ranks.

    It is the tensor itself, memory too, which is so from then on; or, where that has another placement, one
    of the same value. Raises `ArgumentError` for what names no axis.
    """
    tensor, attribute = as_tensor(t), placement_of(placement)
    op = tensor.op
    if isinstance(op, texpr.ApplyOp | texpr.MemoryOp | texpr.OfOp) and op.placement in (None, attribute):
        op.properties["placement"] = attribute
        return tensor
    return shard(Tensor(apply(Arg(0), [tensor.ir_value], logic=SAME_SHAPE)).named(tensor.label), placement)


def is_split(t: TensorLike) -> bool:
    """Whether the program splits a tensor, or what it is computed from, over a mesh."""
    return any(
        isinstance(op, texpr.ApplyOp | texpr.MemoryOp | texpr.OfOp)
        and op.placement is not None
        and bool(op.placement.data.asked)
        for op in needed_for([as_tensor(t).ir_value])
    )


def placement_of(shard: Shard) -> PlacementAttr:
    """The placement that `shard=` asks for. Raises `ArgumentError`."""
    if not isinstance(shard, Mapping):
        raise ArgumentError(
            f'axes are given to those of a mesh, as in shard={{"batch": "data"}}; found {shard!r}'
        )
    asked: dict[str, AskedAxis] = {}
    for axis, mesh in [(axis, own) for axis, over in shard.items() for own in _each(over)]:
        if not isinstance(mesh, str) or not mesh.isidentifier():
            raise ArgumentError(f"an axis of a mesh has a name, found {mesh!r}")
        if mesh == STAGE:
            how = "what is built in `with oc.stage(i):` is computed by the ranks of one"
            raise ArgumentError(f"no axis of a tensor is split over stages: {how}")
        if mesh in asked:
            raise ArgumentError(f'two axes of a tensor cannot share the mesh axis "{mesh}"')
        asked[mesh] = _asked(axis)
    return PlacementAttr(Placement(tuple(asked.items())))


def _each(over: str | tuple[str, ...]) -> tuple[str, ...]:
    return over if isinstance(over, tuple) else (over,)


def _asked(axis: object) -> AskedAxis:
    if isinstance(axis, str) and axis in ROWS:
        return AskedAxis(ROWS[axis], None)
    if isinstance(axis, int) and not isinstance(axis, bool):
        return AskedAxis(None, axis)
    match axis:
        case (str(row), int(number)) if row in ROWS:
            return AskedAxis(ROWS[row], number)
        case _:
            pass
    rows = ", ".join(ROW_KINDS)
    raise ArgumentError(f'an axis is a row ({rows}), one of it as ("output", 0), or a number; found {axis!r}')
