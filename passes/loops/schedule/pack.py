"""Packing: copies of operands in the order in which a nest reads them, contiguous along the lanes (Goto and
van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.assign.node import KEPT
from ocannl.dialects.index.linear import Linear, MapAttr, SpaceAttr, identity_map
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.ir.origins import derive, union
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.routine import enclosing_routine
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import names_in, operations, variable_sizes
from ocannl.passes.analysis.schedules.panels import has_row_panels
from ocannl.passes.analysis.schedules.shared_operands import fits_on_stack, points_that_share
from ocannl.passes.rewrites.indices import substitute_indices


def pack(
    nest: NestOp, loads: Sequence[LoadOp], schedule: Schedule, labels: Names, kept: Container[SSAValue] = ()
) -> tuple[Schedule, list[NestOp]]:
    """Makes loads read packed copies; returns the nest's new schedule, and the nests that write the copies.
    Those of the nodes `kept` are kept between runs.

    If whole vectors cover the variable of the lanes, it is split in two: the number of a panel, and the lane
    in it. So is the variable of the rows, if an operand that does not move along the lanes is packed.
    """
    schedule = with_own_lanes(nest, schedule)
    assert schedule.lanes is not None
    panel, schedule = split_in_panels(nest, schedule, schedule.lanes)
    space = dict(nest.space.data)
    if schedule.rows is not None and any(has_row_panels(load, space, schedule) for load in loads):
        _, schedule = split_in_panels(nest, schedule, schedule.rows)
    modes = [KEPT if load.node in kept else "local" for load in loads]
    return schedule, [
        copy_nest(nest, load, schedule, panel, labels, mode) for load, mode in zip(loads, modes, strict=True)
    ]


def with_own_lanes(nest: NestOp, schedule: Schedule) -> Schedule:
    """The schedule with the innermost variable of merged lanes as a loop of its own, where whole vectors
    cover it, so that it can be split.
    """
    assert schedule.lanes is not None
    loop, extent = schedule.lanes
    *outer, inner = loop.split("*")
    if not outer or dict(nest.space.data)[inner] % extent:
        return schedule
    merged = [group for group in schedule.merged if group != (*outer, inner)]
    merged += [tuple(outer)] if len(outer) > 1 else []
    place = schedule.order.index(loop)
    order = (*schedule.order[:place], "*".join(outer), inner, *schedule.order[place + 1 :])
    return replace(schedule, merged=tuple(merged), order=order, lanes=(inner, extent))


def split_in_panels(nest: NestOp, schedule: Schedule, tile: tuple[str, int]) -> tuple[str | None, Schedule]:
    """Splits a variable by the extent of the tile along it, if that divides its size; returns the variable
    that counts panels, if any, and the schedule.
    """
    variable, extent = tile
    size = dict(nest.space.data).get(variable, 0)
    if size <= extent or size % extent:
        return None, schedule
    return split(nest, schedule, variable, extent)


def split(nest: NestOp, schedule: Schedule, variable: str, width: int) -> tuple[str, Schedule]:
    """Splits a variable of a nest by `width`, which divides its size; returns the new variable, which counts
    panels, and the schedule.
    """
    func = enclosing_routine(nest)
    assert isinstance(func, FuncOp)
    panel = Names.of(func, nest).fresh(f"{variable}_panel")
    space: list[tuple[str, int]] = []
    for name, size in nest.space.data:
        space += [(panel, size // width), (variable, width)] if name == variable else [(name, size)]
    nest.properties["space"] = SpaceAttr(tuple(space))
    substitute_indices(operations(nest.body.block), {variable: Linear.of({panel: width, variable: 1})})
    place = schedule.order.index(variable)
    order = (*schedule.order[:place], panel, variable, *schedule.order[place + 1 :])
    return panel, replace(schedule, order=order)


def copy_nest(
    nest: NestOp, load: LoadOp, schedule: Schedule, panel: str | None, labels: Names, mode: str = "local"
) -> NestOp:
    """Makes a load read a copy that is laid out by its variables; returns the nest that writes it."""
    reader = step_that_copies(nest, load)
    outer = reader.space.data if isinstance(reader, GroupOp) else ()
    used = names_in(load.indices.data)
    names, sizes = copied_variables(nest, load, schedule, panel), variable_sizes(nest)
    space = (*(extent for extent in outer if extent[0] in used), *((name, sizes[name]) for name in names))
    source = load.node.owner
    assert isinstance(source, NodeOp)
    label = labels.fresh(f"{source.label.data}.packed")
    widened = only_extension(load)
    element = element_type(load.node) if widened is None else widened.result.type
    type = MemRefType(element, [size for _, size in space])
    node = NodeOp(label, mode, f"contiguous copy for {nest.label.data}", type)
    Rewriter.insert_op(node, after_declarations(reader))

    indices = identity_map(name for name, _ in space)
    copied: list[Operation] = [LoadOp(load.node, load.indices.data)]
    if widened is not None:
        copied.append(arith.ExtFOp(copied[0].results[0], element))
    stored = StoreOp(copied[-1].results[0], node.result, indices)
    copy = NestOp(label, space, Region(Block([*copied, stored])))
    derive([node, copy], load.location)
    Rewriter.insert_op(copy, InsertPoint.before(reader))
    if widened is None:
        load.operands[0] = node.result
        load.properties["indices"] = MapAttr(indices)
    else:
        packed = LoadOp(node.result, indices)
        packed.location = union(load.location, widened.location)
        Rewriter.replace_op(widened, packed)
        Rewriter.erase_op(load)
    return copy


def copied_variables(nest: NestOp, load: LoadOp, schedule: Schedule, panel: str | None) -> list[str]:
    """The variables along which a load moves, in the order of the axes of its copy.

    Variables of one loop stay together: the lanes last, or rows along which memory is read; a panel before
    the reduced variables.
    """
    assert schedule.lanes is not None
    sides = schedule.rows if has_row_panels(load, dict(nest.space.data), schedule) else schedule.lanes
    lanes = (sides or schedule.lanes)[0].split("*")
    sizes = variable_sizes(nest)
    used = {name for index in load.indices.data for name in index.names if name in sizes}
    own = dict.fromkeys(name for loop in schedule.loops(nest.space.data) for name in loop.split("*"))
    reduced = [
        name for loop in schedule.loops(tuple(sizes.items())) for name in loop.split("*") if name not in own
    ]
    outer = [name for name in own if name != panel and name not in lanes]
    inner = [*([] if panel is None else [panel]), *reduced, *lanes]
    return [name for name in (*outer, *inner) if name in used]


def only_extension(load: LoadOp) -> arith.ExtFOp | None:
    """The conversion of a load to a wider float, if that is its only use: the copy is then of that type."""
    users = [use.operation for use in load.result.uses]
    if len(users) == 1 and isinstance(users[0], arith.ExtFOp):
        return users[0]
    return None


def after_declarations(step: NestOp | GroupOp) -> InsertPoint:
    """Where to declare a node: after all others, which stand before the first step of a block."""
    op = step.prev_op
    while op is not None and not isinstance(op, NodeOp):
        op = op.prev_op
    if op is not None:
        return InsertPoint.after(op)
    assert step.parent is not None
    return InsertPoint.at_start(step.parent)


def step_that_copies(nest: NestOp, load: LoadOp) -> NestOp | GroupOp:
    """The step before which an operand is packed: the group around the nest, if several of its points share
    the operand, or the stack has no room for a copy of what one of them reads. The copy then has an axis for
    each variable of the group on which it depends.
    """
    group = nest.parent_op()
    if not isinstance(group, GroupOp):
        return nest
    return group if points_that_share(load) > 1 or not fits_on_stack(load, group) else nest
