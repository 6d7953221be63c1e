"""Axes that a program asks to be split, in memory order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Map
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.texpr import ApplyOp, AssignOp, TensorOp, TexprRoutineOp
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.placement import AskedAxis, PlacementAttr
from ocannl.dialects.texpr.tensor_type import shape_of


def check_axes(routine: TexprRoutineOp, mesh: Mapping[str, int]) -> None:
    """Raises `OcannlError` for placements along axes that their tensors have not, or over axes that the mesh
    has not; one device has no mesh, and keeps all of them whole.
    """
    for op in routine.walk():
        placement = op.properties.get("placement")
        if isinstance(op, TensorOp) and isinstance(placement, PlacementAttr):
            for name, asked in placement.data.asked or ():
                if mesh and name not in (*mesh, MICROBATCH):
                    axes = ", ".join(f"{axis} = {size}" for axis, size in mesh.items())
                    raise OcannlError(at_line(op, f'the mesh ({axes}) has no axis "{name}"'))
                if shape_of(op.result).is_final:
                    asked_axis(op, asked, name)


def asked_axis(op: TensorOp, asked: AskedAxis, mesh: str) -> int:
    """The number of an axis in memory order. Of a row it is the first one that the program does not read at a
    fixed position: a step of training takes its batch from data of many.

    Raises `OcannlError` where there is no such axis.
    """
    shape = shape_of(op.result)
    sizes = len(shape.memory_sizes)
    if asked.row is None:
        own = [*range(sizes)]
    else:
        own = [Axis(asked.row, number).in_memory(shape) for number in range(len(shape.row(asked.row).axes))]
    if asked.number is not None and -len(own) <= asked.number < len(own):
        return own[asked.number]
    if asked.number is None and own:
        moving = [axis for axis in own if not is_fixed(op.result, axis)]
        return (moving or own)[0]
    row = "" if asked.row is None else f" in its {asked.row} row"
    number = "axis" if asked.number is None else f"axis {asked.number}"
    name = op.result.name_hint or "the tensor"
    message = f'`{name}` has no {number}{row} to split over "{mesh}": its shape is {shape}'
    raise OcannlError(at_line(op, message))


def is_fixed(value: SSAValue, axis: int) -> bool:
    """Whether all reads and writes of a value have an axis at one position."""
    indices = [map[axis].names for map, names in maps_of(value) if not names.intersection(map[axis].names)]
    return bool(indices) and len(indices) == len([*maps_of(value)])


def maps_of(value: SSAValue) -> Iterator[tuple[Map, set[str]]]:
    """The index maps at which a value is read and written, each with the variables of its space."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, ApplyOp) and op.is_projected:
            for part in op.parts:
                combination = part.combination
                for operand, indices in zip(combination.operands, combination.maps, strict=True):
                    if operand is value:
                        yield indices, {name for name, _ in part.space}
        elif isinstance(op, AssignOp) and op.space is not None:
            names = {name for name, _ in op.space.data}
            pairs = [(op.target, op.result_map), (op.value, op.value_map)]
            yield from ((m.data, names) for own, m in pairs if own is value and m is not None)
            yield from ((m, names) for own, m in zip(op.ids, op.maps_of_ids, strict=True) if own is value)
