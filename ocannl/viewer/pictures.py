"""Pictures of a scheduled routine: its kernels, its memory over time, and the graph of its
expressions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Map
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import CollectiveOp, FuncOp, LoadOp, NestOp, ReduceOp, RepeatOp, StoreOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.dialects.scalar.terms import App
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.costs.work import bytes_moved, flops
from ocannl.passes.analysis.dataflow.liveness import Lifetime, lifetimes
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import Step, accesses, all_steps, nests_of, nodes
from ocannl.passes.analysis.values.derivative_paths import all_operands
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.viewer.levels import Levels
from ocannl.viewer.reasons import Tiles

T = TypeVar("T")


@dataclass(frozen=True)
class ArrayUse:
    """An array that a nest reads or writes, and the variables and extents of the part that one register tile
    touches: for each axis, its size and coefficients by variable.
    """

    name: str
    is_written: bool
    axes: list[tuple[int, dict[str, int]]]
    origins: int


@dataclass(frozen=True)
class NestPicture:
    label: str
    space: dict[str, int]
    reduced: dict[str, int]
    schedule: str
    order: list[str]
    tile: dict[str, int]
    parallel: dict[str, int]
    merged: list[list[str]]
    arrays: list[ArrayUse]
    tiles: list[tuple[str, float, float | None, bool]]
    origins: int


@dataclass(frozen=True)
class StepPicture:
    """A kernel: its work, and its time where that was measured."""

    label: str
    flops: int
    bytes: int
    seconds: float | None
    origins: int
    nests: list[NestPicture]


@dataclass(frozen=True)
class NodePicture:
    """The memory of a node: the first and the last kernel that touch it; `offset` is None outside of the
    arena.
    """

    label: str
    bytes: int
    mode: str
    why: str
    offset: int | None
    first: int | None
    last: int | None
    origins: int


def pictures_of_steps(
    funcs: Sequence[FuncOp], levels: Levels, tiles: Tiles, seconds: Sequence[float] | None
) -> list[dict[str, Any]]:
    """The kernels of a routine, in the order in which they run; those of stages one stage after the other."""
    found: list[dict[str, Any]] = []
    for number, (step, stage) in enumerate(_with_stages([all_steps(func) for func in funcs])):
        picture = StepPicture(
            f"{stage}{_label(step)}",
            flops(step),
            bytes_moved(step),
            None if seconds is None else seconds[number],
            levels.set_of(step.location),
            [_nest(nest, levels, tiles) for nest in _nests(step)],
        )
        found.append(asdict(picture))
    return found


def _with_stages(found: Sequence[Sequence[T]]) -> list[tuple[T, str]]:
    """The items of all stages, each with the beginning of its label: nothing where there is one stage."""
    names = [f"stage {k}: " for k in range(len(found))] if len(found) > 1 else [""]
    return [(own, name) for of_stage, name in zip(found, names, strict=True) for own in of_stage]


def _label(step: Step) -> str:
    match step:
        case RepeatOp():
            return f"@{step.body.data}"
        case CollectiveOp():
            return f"{step.head} over {step.mesh.data}"
        case _:
            return step.label.data


def _nests(step: Step) -> list[NestOp]:
    """The nests of a step, those of a loop's body among them."""
    if isinstance(step, RepeatOp):
        return [nest for inner in all_steps(step.func) for nest in _nests(inner)]
    if isinstance(step, CollectiveOp):
        return []
    return nests_of(step)


def _nest(nest: NestOp, levels: Levels, tiles: Tiles) -> NestPicture:
    schedule = None if nest.schedule is None else nest.schedule.data
    reduced = {name: size for op in nest.walk() if isinstance(op, ReduceOp) for name, size in op.space.data}
    arrays: dict[tuple[SSAValue, Map, bool], ArrayUse] = {}
    for op in accesses(nest):
        is_written = isinstance(op, StoreOp)
        arrays.setdefault((op.node, op.indices.data, is_written), _use(op, is_written, levels))
    return NestPicture(
        nest.label.data,
        {n: s for n, s in scope_sizes(nest).items() if n not in reduced} | dict(nest.space.data),
        reduced,
        "" if schedule is None else schedule_text(schedule),
        [] if schedule is None else list(schedule.order),
        {} if schedule is None else dict(schedule.tiles),
        {} if schedule is None else dict(schedule.parallel),
        [] if schedule is None else [list(names) for names in schedule.merged],
        sorted(arrays.values(), key=lambda use: not use.is_written),
        tiles.of(nest),
        levels.set_of(nest.location),
    )


def _use(op: LoadOp | StoreOp, is_written: bool, levels: Levels) -> ArrayUse:
    assert isinstance(op.node.owner, NodeOp)
    axes = [
        (size, dict(index.terms)) for size, index in zip(memref_shape(op.node), op.indices.data, strict=True)
    ]
    return ArrayUse(op.node.owner.label.data, is_written, axes, levels.set_of(op.node.owner.location))


def pictures_of_memory(funcs: Sequence[FuncOp], levels: Levels) -> list[dict[str, Any]]:
    """The nodes that have memory, with the kernels of all stages counted through."""
    alive: dict[SSAValue, Lifetime] = {}
    before = 0
    for func in funcs:
        alive |= {
            node: Lifetime(before + life.first, before + life.last) for node, life in lifetimes(func).items()
        }
        before += len(all_steps(func))
    found: list[dict[str, Any]] = []
    for node, stage in _with_stages([nodes(func) for func in funcs]):
        if node.mode.data == "virtual":
            continue
        life = alive.get(node.result)
        picture = NodePicture(
            f"{stage}{node.label.data}",
            byte_size(node),
            node.mode.data,
            node.why.data,
            None if node.offset is None else node.offset.data,
            None if life is None else life.first,
            None if life is None else life.last,
            levels.set_of(node.location),
        )
        found.append(asdict(picture))
    return found


def pictures_of_expressions(
    routine: texpr.TexprRoutineOp, levels: Levels, checks: Collection[str]
) -> list[dict[str, Any]]:
    """The expressions that a program computes or differentiates, in order, with the block of each, its shape,
    and the numbers and shapes of its operands; all where none is. What only tells of wrong ids, by the labels
    of `checks`, is left out.
    """
    block = routine.body.block
    roots = [op.tensor for op in block.ops if isinstance(op, texpr.OnTensorOp)]
    roots = [value for value in roots if value.name_hint not in checks]
    wanted = set(slice_in(block, roots, all_operands))
    ops = [op for op in block.ops if isinstance(op, texpr.TensorOp) and (op in wanted or not wanted)]
    numbers: dict[SSAValue, int] = {result: number for number, op in enumerate(ops) for result in op.results}
    blocks = blocks_of(ops)
    # What a program is for is seen beside its blocks, such as a loss, unless it is a block's own.
    for op in ops:
        if op.result in roots and not any(isinstance(value.owner, texpr.ParamOp) for value in op.operands):
            blocks[op.result] = ""
    return [
        {
            "name": label_of(op) or op.name,
            "op": op.name.partition(".")[2],
            "does": action_of(op),
            "shape": str(shape_of(op.result)),
            "block": blocks[op.result],
            "operands": [numbers[value] for value in op.operands if value in numbers],
            "given": [str(shape_of(value)) for value in op.operands if value in numbers],
            "origins": levels.set_of(op.location),
        }
        for op in ops
    ]


def action_of(op: texpr.TensorOp) -> str:
    """The operator of an expression, after its accumulation: `add= mul`."""
    if isinstance(op, texpr.ScanOp):
        return op.kind
    if not isinstance(op, texpr.ApplyOp):
        return op.name.partition(".")[2]
    term = op.term.data
    does = term.op if isinstance(term, App) else "copy"
    return f"{op.accum_name}= {does}" if op.accum_name else does


def label_of(op: texpr.TensorOp) -> str:
    return op.label.data if isinstance(op, texpr.MemoryOp) else op.result.name_hint or ""


def blocks_of(ops: Sequence[texpr.TensorOp]) -> dict[SSAValue, str]:
    """The path of the block that each expression belongs to: that of a parameter that it uses; without one,
    that of its last operand that has a block, or else of its first user.
    """
    blocks: dict[SSAValue, str] = {}
    for op in ops:
        if isinstance(op, texpr.ParamOp):
            blocks[op.result] = label_of(op).rpartition(".")[0]
            continue
        own = [blocks[value] for value in op.operands if isinstance(value.owner, texpr.ParamOp)]
        others = [blocks.get(value, "") for value in reversed(op.operands)]
        blocks |= dict.fromkeys(op.results, next(filter(None, [*own, *others]), ""))
    without = {value for value, block in blocks.items() if not block}
    for op in reversed(ops):
        # Users are met from the last to the first, which stays.
        for value in op.operands if blocks[op.result] else ():
            if value in without:
                blocks[value] = blocks[op.result]
    return blocks
