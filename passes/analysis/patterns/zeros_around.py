"""Nodes that have zeros around a box of their cells, as images with padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from ocannl.dialects.loops import FuncOp, NestOp, StoreOp
from ocannl.passes.analysis.nests import (
    Opaque,
    Step,
    accesses,
    all_steps,
    covering_axes,
    nests_of,
    node_mode,
    used_nodes,
    variable_sizes,
    written_nodes,
)

# The cells along each axis outside of which a node has zeros.
Box = tuple[range, ...]


def zeros_around(func: FuncOp) -> dict[Step, dict[SSAValue, Box]]:
    """The local nodes that have zeros around a box of cells when a step of a function begins, for each step
    that may read such nodes.
    """
    steps = all_steps(func)
    writers: dict[SSAValue, list[Step]] = {}
    for step in steps:
        for node in written_nodes(step):
            writers.setdefault(node, []).append(step)
    boxes = {node: box for node, own in writers.items() if (box := box_of(node, own)) is not None}
    found: dict[Step, dict[SSAValue, Box]] = {}
    ended = set[Step]()
    for step in steps:
        used = used_nodes(step) if boxes and not isinstance(step, Opaque) else []
        own = {node: boxes[node] for node in used if node in boxes and ended.issuperset(writers[node])}
        if own:
            found[step] = own
        ended.add(step)
    return found


def box_of(node: SSAValue, writers: Sequence[Step]) -> Box | None:
    """The box of the cells to which something else than zero is stored; None where that is not known, where
    there is none, or where no nest before has set all cells to zero.
    """
    if node_mode(node) != "local" or any(isinstance(step, Opaque) for step in writers):
        return None
    box: Box | None = None
    is_reset = False
    for step in writers:
        assert not isinstance(step, Opaque)
        around = () if isinstance(step, NestOp) else step.space.data
        for nest in nests_of(step):
            sizes = dict(around) | variable_sizes(nest)
            for op in accesses(nest):
                if op.node is not node or not isinstance(op, StoreOp):
                    continue
                if is_zero(op.value):
                    is_reset |= covering_axes(op, (*around, *nest.space.data)) is not None
                    continue
                stored = None if op.positions or not is_reset else stored_box(op, sizes)
                if stored is None:
                    return None
                box = stored if box is None else tuple(map(hull, box, stored))
    return box


def is_zero(value: SSAValue) -> bool:
    """Whether a value is the number 0 of floats."""
    made = value.owner
    constant = made.value if isinstance(made, arith.ConstantOp) else None
    return isinstance(constant, FloatAttr) and constant.value.data == 0


def stored_box(store: StoreOp, sizes: Mapping[str, int]) -> Box | None:
    """The least box of cells that a store reaches; None where that is not known before the run."""
    extremes = [index.extremes(sizes) for index in store.indices.data]
    found = tuple(range(ends[0], ends[1] + 1) for ends in extremes if ends is not None)
    return found if len(found) == len(extremes) else None


def hull(first: range, second: range) -> range:
    return range(min(first.start, second.start), max(first.stop, second.stop))
