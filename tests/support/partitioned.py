"""An interpreter of projected tensor expressions, on all ranks of a mesh at once, in NumPy and f64.

Values are computed where code needs them, from the memory of that moment. Memory in excess of what is real is
NaN, so that nothing that is read from there can be right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.terms import evaluate
from ocannl.dialects.texpr.collectives import AllGatherOp, AllReduceOp, AllToAllOp, ReduceScatterOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.lowering.expression_nodes import memory_of
from ocannl.passes.texpr.partition.program import placement_of

Array = NDArray[Any]
Collective = AllReduceOp | AllGatherOp | ReduceScatterOp | AllToAllOp
Values = list[Array]
"""The value on each rank."""


@dataclass
class Ranks:
    """The ranks of a mesh, the last axis fastest, with the static indices of each."""

    mesh: Mapping[str, int]
    indices: Mapping[str, int]

    @property
    def places(self) -> list[dict[str, int]]:
        sizes = (range(size) for size in self.mesh.values())
        return [dict(zip(self.mesh, place, strict=True)) for place in itertools.product(*sizes)]

    @property
    def names(self) -> list[dict[str, int]]:
        """The static indices of each rank."""
        ranks = [{f"{axis}.rank": at for axis, at in place.items()} for place in self.places]
        return [{**self.indices, **own} for own in ranks]

    def groups(self, axis: str) -> list[list[int]]:
        """The ranks that differ only in their place along an axis, in order."""
        found: dict[tuple[int, ...], list[int]] = {}
        for rank, place in enumerate(self.places):
            found.setdefault(tuple(at for own, at in place.items() if own != axis), []).append(rank)
        return [*found.values()]


@dataclass
class Interpreter:
    """A routine on all ranks, over `memory` by label."""

    ranks: Ranks
    contents: Mapping[str, Array]
    memory: dict[SSAValue, Values] = field(default_factory=dict[SSAValue, Values])
    known: dict[SSAValue, Values] = field(default_factory=dict[SSAValue, Values])

    def run(self, module: ModuleOp) -> None:
        (routine,) = module.body.block.ops
        for op in routine.regions[0].block.ops:
            if isinstance(op, texpr.MemoryOp | texpr.OfOp):
                self.memory.setdefault(memory_of(op.result), self._begin(op))
        for op in routine.regions[0].block.ops:
            self._statement(op)

    def _begin(self, op: texpr.MemoryOp | texpr.OfOp) -> Values:
        """The parts of what memory begins with; zeros where nothing is said."""
        label = op.label.data if isinstance(op, texpr.MemoryOp) else ""
        splits = placement_of(op).splits
        sizes = [*shape_of(op.result).memory_sizes]
        for split in reversed(splits):
            sizes[split.axis] = split.size
        whole = self.contents.get(label, np.zeros(sizes)).astype(np.float64)
        found: Values = []
        for place in self.ranks.places:
            part = whole
            for split in splits:
                part = cut(part, split.axis, place[split.mesh], self.ranks.mesh[split.mesh])
            found.append(part.copy())
        return found

    def _statement(self, op: Operation) -> None:
        match op:
            case texpr.ForwardOp():
                self.memory[op.tensor] = self.value(op.tensor)
            case texpr.AssignOp():
                self._assign(op)
                self.known.clear()
            case _:
                pass

    def _assign(self, op: texpr.AssignOp) -> None:
        assert op.result_map is not None
        assert op.value_map is not None
        assert op.space is not None
        values, accum = self.value(op.value), op.accum_name
        ids = [self.value(own) for own in op.ids]
        for rank, names in enumerate(self.ranks.names):
            target = self.memory[memory_of(op.target)][rank]
            if op.reset is not None:
                neutral = 0.0 if accum is None else neutral_number(accum, tensor_type(op.target).element)
                target[...] = neutral
            points: dict[str, Any] = {**points_of(op.space.data), **names}
            maps = op.maps_of_ids
            for number, (own, indices) in enumerate(zip(ids, maps, strict=True)):
                points[f"at${number}"] = own[rank][at(indices, points)].astype(np.int64)
            own = np.broadcast_to(values[rank][at(op.value_map.data, points)], points[""].shape)
            store(target, at(op.result_map.data, points), own, accum)

    def value(self, value: SSAValue) -> Values:
        """The value now, on each rank."""
        if value not in self.known:
            self.known[value] = self._compute(value)
        return self.known[value]

    def _compute(self, value: SSAValue) -> Values:
        op, sizes = value.owner, shape_of(value).memory_sizes
        match op:
            case texpr.ValueOp():
                return self.memory[op.source]
            case texpr.MemoryOp() | texpr.OfOp():
                return self.memory[memory_of(value)]
            case texpr.ConstantOp():
                return [np.full(sizes, op.value) for _ in self.ranks.places]
            case texpr.RangeOp():
                return [np.arange(sizes[0], dtype=np.float64) for _ in self.ranks.places]
            case texpr.EmbedOp():
                return [np.full(sizes, float(number(op.index, names))) for names in self.ranks.names]
            case texpr.UniformOp():
                seed = len(op.stream.data.key) if hasattr(op.stream.data, "key") else 1
                return [np.random.default_rng(seed).random(sizes) for _ in self.ranks.places]
            case texpr.ApplyOp():
                return self._apply(op)
            case texpr.ScanOp():
                self._scan(op)
                return self.known[value]
            case AllReduceOp() | AllGatherOp() | ReduceScatterOp() | AllToAllOp():
                return self._collective(op)
            case _:
                raise AssertionError(f"{op} has no meaning here")

    def _apply(self, op: texpr.ApplyOp) -> Values:
        operands = [self.value(operand) for operand in op.args]
        element = op.result.type.element
        start = 0.0 if op.accum_name is None else neutral_number(op.accum_name, element)
        found: Values = []
        for rank, names in enumerate(self.ranks.names):
            result, place = np.full(shape_of(op.result).memory_sizes, start), 0
            for part in op.parts:
                own = operands[place : place + len(part.combination.operands)]
                apply_part(result, part, [values[rank] for values in own], names, op.accum_name)
                place += len(own)
            found.append(np.trunc(result) if isinstance(element, IntegerType) else result)
        return found

    def _scan(self, op: texpr.ScanOp) -> None:
        carried = op.carried.data
        carries = [
            [np.broadcast_to(own, shape_of(argument).memory_sizes).copy() for own in self.value(init)]
            for argument, init in zip(op.carry_arguments, op.inits, strict=True)
        ]
        stacks = [
            [np.zeros(shape_of(result).memory_sizes) for _ in self.ranks.places]
            for result in op.results[carried:]
        ]
        outside = {value: self.value(value) for value in op.operands}
        for step in range(op.size):
            if op.flag is not None and not carries[op.flag][0].any():
                break
            place = op.size - 1 - step if op.reversed is not None else step
            body = Interpreter(
                Ranks(self.ranks.mesh, {**self.ranks.indices, op.index: step}), {}, self.memory
            )
            body.known |= dict(zip(op.carry_arguments, carries, strict=True))
            body.known |= dict(
                zip(op.captured_arguments, (outside[value] for value in op.captured), strict=True)
            )
            for argument, (value, axis) in zip(op.sequence_arguments, op.sequences, strict=True):
                number = axis.in_memory(shape_of(value))
                body.known[argument] = [own.take(place, number) for own in outside[value]]
            following = [body.value(value) for value in op.yielded.carries]
            for stack, result, (value, axis) in zip(
                stacks, op.results[carried:], op.yielded.stacked, strict=True
            ):
                number = axis.in_memory(shape_of(result))
                for whole, own in zip(stack, body.value(value), strict=True):
                    whole[(slice(None),) * number + (place,)] = own
            carries = following
        self.known |= dict(zip(op.results, [*carries, *stacks], strict=True))

    def _collective(self, op: Collective) -> Values:
        values, axis = self.value(op.tensor), op.mesh.data
        found = [*values]
        for group in self.ranks.groups(axis):
            own = [values[rank] for rank in group]
            if isinstance(op, AllReduceOp | ReduceScatterOp):
                whole = reduce(SCALAR_OPS[op.accum.data].reference, own)
            else:
                joined = np.concatenate(own, op.source.data)
                whole = joined.take(range(op.size.data), op.source.data)
            for place, rank in enumerate(group):
                is_cut = isinstance(op, ReduceScatterOp | AllToAllOp)
                found[rank] = cut(whole, op.target.data, place, len(group)) if is_cut else whole
        return found

    def whole(self, value: SSAValue) -> Array:
        """Memory put together again; ranks that have the same have the same bits."""
        op = value.owner
        assert isinstance(op, Operation)
        parts = dict(enumerate(self.memory[memory_of(value)]))
        found = [*parts.values()]
        for split in reversed(placement_of(op).splits):
            for group in self.ranks.groups(split.mesh):
                joined = np.concatenate([found[rank] for rank in group], split.axis)
                for rank in group:
                    found[rank] = joined.take(range(split.size), split.axis)
        for other in found[1:]:
            np.testing.assert_array_equal(found[0], other)
        return found[0]


def cut(whole: Array, axis: int, place: int, ranks: int) -> Array:
    """A rank's part of an axis, with NaN beyond the end."""
    local = -(-whole.shape[axis] // ranks)
    extra = local * ranks - whole.shape[axis]
    margins = [(0, extra if own == axis else 0) for own in range(whole.ndim)]
    padded = np.pad(whole.astype(np.float64), margins, constant_values=np.nan)
    return padded.take(range(place * local, (place + 1) * local), axis)


def points_of(space: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """The values of each variable at all points of a space."""
    sizes = tuple(size for _, size in space)
    grid = np.indices(sizes).reshape(len(space), math.prod(sizes))
    points: dict[str, Any] = {name: values for (name, _), values in zip(space, grid, strict=True)}
    return points | {"": np.zeros(math.prod(sizes), np.int64)}


def number(index: Linear, values: Mapping[str, Any]) -> Any:
    return index.constant + sum(coefficient * values[name] for name, coefficient in index.terms)


def at(indices: Sequence[Linear], points: Mapping[str, Any]) -> tuple[Array, ...]:
    return tuple(points[""] + number(index, points) for index in indices)


def apply_part(
    result: Array, part: Part, operands: Sequence[Array], names: Mapping[str, int], accum: str | None
) -> None:
    combination = part.combination
    points: dict[str, Any] = {**points_of(part.space), **names}
    reads = [own[at(m, points)] for own, m in zip(operands, combination.maps, strict=True)]
    term = np.broadcast_to(evaluate(combination.term, reads), points[""].shape)
    store(result, at(part.result_map, points), term, accum)


def store(target: Array, place: tuple[Array, ...], values: Array, accum: str | None) -> None:
    if not place:
        target, place = target.reshape(1), (np.zeros(len(values), np.int64),)
    for index, size in zip(place, target.shape, strict=True):
        assert not len(index) or (index.min() >= 0 and index.max() < size)
    if accum is None:
        target[place] = values
    elif accum == "add":
        np.add.at(target, place, values)
    else:
        for point, value in zip(zip(*place, strict=True), values, strict=True):
            target[point] = SCALAR_OPS[accum].reference(target[point], value)
