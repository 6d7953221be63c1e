"""`fuse-operands`: what widens an operand of a product runs panel by panel beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.footprints import NestFootprint
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.fusion.row_fusion import NestChain, is_far
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import (
    Step,
    accesses,
    all_steps,
    covering_axes,
    declaration,
    functions,
    node_mode,
    operations,
    used_nodes,
    variable_sizes,
    written_nodes,
)
from ocannl.passes.analysis.patterns.dot_products import find_dot_product
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.rewrites.indices import substitute_indices
from ocannl.passes.rewrites.row_groups import Builder

# How many times as large an operand is as what it is computed from.
WIDER = 2
# A panel has so many bytes at most, which second-level caches hold beside a packed copy of it, and the stack
# too; where there is room for these, a multiple of so many results, as a vector has.
PANEL_BYTES, COLUMNS = 2**18, 16


class PanelBuilder(Builder):
    """Makes groups with room for a panel."""

    largest_inside = PANEL_BYTES


@dataclass(frozen=True)
class FuseOperandsPass(TargetOptions, ModulePass):
    """Producer-consumer fusion of a product and what widens one of its operands, such as weights of few bits:
    they become a group, which computes a panel of the operand and multiplies it before the next one.

    It applies to operands that no cache of a core holds, that only the product reads, and that are computed
    from at most half their bytes, each element once.
    """

    name = "fuse-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.target
        for func in functions(op):
            for producer, product in list(widened_operands(func, target)):
                join(func, producer, product, target)


def widened_operands(func: FuncOp, target: TargetDescription) -> Iterator[tuple[NestOp, NestOp]]:
    """The nests that widen an operand of a product, each with that product."""
    steps = all_steps(func)
    uses = Counter(node for step in steps for node in set(used_nodes(step)))
    writers = {node: step for step in steps for node in set(written_nodes(step))}
    for at, product in enumerate(steps):
        if not isinstance(product, NestOp):
            continue
        for node in used_nodes(product):
            producer = writers.get(node)
            if (
                node_mode(node) == "local"
                and uses[node] == 2
                and is_far(byte_size(declaration(node)), target)
                and isinstance(producer, NestOp)
                and producer is not product
                and sums_up(product, target)
                and widens(producer, node)
                and can_wait(producer, steps[steps.index(producer) + 1 : at])
            ):
                yield producer, product
                break


def sums_up(nest: NestOp, target: TargetDescription) -> bool:
    """Whether a nest sums up operands, on no matrix unit."""
    if nest.schedule is not None or nest.clashing or not all(variable_sizes(nest).values()):
        return False
    view = NestFootprint.of(nest)
    return bool(view.places_reduced) and find_dot_product(nest, target) is None


def widens(nest: NestOp, node: SSAValue) -> bool:
    """Whether a nest computes each element of a node alone, once, from far fewer bytes."""
    view = NestFootprint.of(nest)
    if nest.schedule is not None or nest.clashing or view.summed is not None or view.written != {node}:
        return False
    (store, *others) = [op for op in accesses(nest) if op.node is node]
    covers = isinstance(store, StoreOp) and covering_axes(store, nest.space.data) is not None
    read = sum(bytes for other, bytes in view.reach.items() if other is not node)
    return covers and not others and WIDER * read <= view.reach[node]


def can_wait(nest: NestOp, steps: list[Step]) -> bool:
    """Whether a nest may run after some steps instead of before them."""
    read = set(used_nodes(nest))
    return not any(read & set(written_nodes(step)) for step in steps)


def join(func: FuncOp, producer: NestOp, product: NestOp, target: TargetDescription) -> None:
    """Makes a group of a product and what computes its operand, and another one of the remainder."""
    chain = chain_of(producer, product)
    if chain is None:
        return
    blocks = panel(chain)
    row = next((row for row, block in blocks.items() if chain.rows[row] % block), None)
    producer.detach()
    Rewriter.insert_op(producer, InsertPoint.before(product))
    pairs = [(producer, product)]
    if row is not None:
        whole = chain.rows[row] // blocks[row] * blocks[row]
        pairs.append(split_off(chain, row, whole))
    for pair in pairs:
        found = chain_of(*pair)
        if found is None:  # a remainder of one point
            continue
        counts = {row: size // blocks[row] for row, size in found.rows.items() if size > blocks[row]}
        if counts:
            uses = Counter(node for node in found.touched if node_mode(node) == "local")
            PanelBuilder(func, found, labels_of(func), blocks, target).build(uses + uses)


def chain_of(producer: NestOp, product: NestOp) -> NestChain | None:
    """Both nests along the rows of the operand that are no points of the sum."""
    view = NestFootprint.of(product)
    chain = NestChain.of(NestFootprint.of(producer)).join(view)
    return None if chain is None else chain.along(product.space.names)


def panel(chain: NestChain) -> dict[str, int]:
    """The points of each row in a panel of the operand: the inner ones all, if there is room for them."""
    producer = chain.members[0].view
    (node,) = producer.written
    room = PANEL_BYTES * math.prod(chain.rows.values()) // producer.reach[node]
    blocks: dict[str, int] = {}
    for row in reversed([name for name in producer.sizes if name in chain.rows]):
        size, most = chain.rows[row], max(1, room)
        block = largest_divisor(size, most)
        if not blocks and most >= COLUMNS and 2 * block < min(size, most):
            block = most // COLUMNS * COLUMNS
        blocks[row] = block
        room = room // block if block == size else 1
    return blocks


def split_off(chain: NestChain, row: str, whole: int) -> tuple[NestOp, NestOp]:
    """Leaves so many points of a row to both nests, and puts nests of the others behind them."""
    (node,) = chain.members[0].view.written
    old, (axis,) = declaration(node), (axis for axis, name in chain.axes[node].items() if name == row)
    rest = resized(old, f"{old.label.data} remainder", axis, chain.rows[row] - whole)
    less = resized(old, old.label.data, axis, whole)
    (producer, product) = (
        remainder(member.view.nest, member.variables[row], whole, node, rest.result)
        for member in chain.members
    )
    node.replace_all_uses_with(less.result)
    Rewriter.insert_op([less, rest], InsertPoint.after(old))
    Rewriter.erase_op(old)
    Rewriter.insert_op([producer, product], InsertPoint.after(chain.members[-1].view.nest))
    return producer, product


def resized(old: NodeOp, label: str, axis: int, size: int) -> NodeOp:
    """A declaration like another one, with another size of one axis."""
    sizes = [*memref_shape(old.result)]
    sizes[axis] = size
    made = NodeOp(label, "local", old.why.data, MemRefType(element_type(old.result), sizes))
    made.result.name_hint, made.location = old.result.name_hint, old.location
    return made


def remainder(nest: NestOp, variable: str, whole: int, node: SSAValue, rest: SSAValue) -> NestOp:
    """Restricts a nest to so many points of a variable; gives one of the others, with `rest` for a node."""
    made, sizes = nest.clone(), dict(nest.space.data)
    made.properties["label"] = StringAttr(f"{nest.label.data} remainder")
    made.properties["space"] = SpaceAttr(tuple((sizes | {variable: sizes[variable] - whole}).items()))
    nest.properties["space"] = SpaceAttr(tuple((sizes | {variable: whole}).items()))
    for op in operations(made.body.block):
        if isinstance(op, LoadOp | StoreOp) and op.node is node:
            op.operands[op.operands.index(node)] = rest
        else:
            substitute_indices([op], {variable: Linear.of({variable: 1}, whole)})
    return made
