"""`hoist-from-loops`: nests of a body that do the same in every iteration run once, before the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import (
    Indexed,
    accesses,
    all_steps,
    declaration,
    functions,
    names_in,
    node_mode,
    operations,
    used_nodes,
    variable_sizes,
    written_nodes,
)


def invariant_nests(body: FuncOp, index: str, taken: Collection[str]) -> list[NestOp]:
    """The nests of a body that compute local nodes, which no other step writes, from what stays as it is.

    None has a variable with a name that is `taken` by the callers.
    """
    steps = all_steps(body)
    writers = Counter(node for step in steps for node in written_nodes(step))
    varying, touched, found = set(writers), set[SSAValue](), list[NestOp]()
    for step in steps:
        written = written_nodes(step)
        is_first = touched.isdisjoint(written)
        touched.update(used_nodes(step))
        if not isinstance(step, NestOp) or not is_first or depends_on(step, index):
            continue
        if any(node_mode(node) != "local" or writers[node] > 1 for node in written):
            continue
        loaded = {op.node for op in accesses(step) if isinstance(op, LoadOp)}
        if varying.isdisjoint(loaded) and not variable_sizes(step).keys() & set(taken):
            varying.difference_update(written)
            found.append(step)
    return found


def depends_on(nest: NestOp, index: str) -> bool:
    return any(
        isinstance(op, Indexed) and index in names_in(op.indices.data) for op in operations(nest.body.block)
    )


def move_before(
    repeat: RepeatOp, caller: FuncOp, invariant: Sequence[NestOp], kept: Collection[SSAValue]
) -> None:
    """Copies invariant nests of a body before a loop, with their nodes; the body gets those that are kept."""
    bound, labels = repeat.bound, labels_of(caller)
    values: dict[SSAValue, SSAValue] = {}
    for nest in invariant:
        for node in used_nodes(nest):
            old = declaration(node)
            if node in values:
                continue
            if node_mode(node) != "local":
                values[node] = bound[old.label.data]
                continue
            label = labels.fresh(old.label.data)
            new = NodeOp(
                label, "local", f"computed before the loop over @{repeat.body.data}", old.result.type
            )
            new.result.name_hint, new.location = node.name_hint, old.location
            Rewriter.insert_op(new, InsertPoint.before(all_steps(caller)[0]))
            values[node] = new.result
            if node in kept:
                repeat.bind(old.label.data, new.result)
        Rewriter.insert_op(copied(nest, dict(values)), InsertPoint.before(repeat))


def hoist(body: FuncOp, repeats: Sequence[tuple[RepeatOp, FuncOp]]) -> None:
    """Moves what does not vary in a body before all loops over it."""
    index = repeats[0][0].index.data
    # A variable of a nest would be taken for a static index of the caller.
    taken = {name for _, caller in repeats for name in caller.ranges.keys() - body.ranges.keys()}
    invariant = invariant_nests(body, index, taken)
    computed = [node for nest in invariant for node in written_nodes(nest)]
    left = [step for step in all_steps(body) if step not in invariant]
    kept = {node for step in left for node in used_nodes(step)}.intersection(computed)
    for repeat, caller in repeats:
        move_before(repeat, caller, invariant, kept)
    for nest in invariant:
        Rewriter.erase_op(nest)
    for node in computed:
        if node in kept:
            declaration(node).set_mode("on_device", "computed before the loop")
        else:
            Rewriter.erase_op(declaration(node))


@dataclass(frozen=True)
class HoistFromLoopsPass(ModulePass):
    """Loop-invariant code motion of whole nests: what a body computes from nodes that it does not write, and
    without its index, is computed before the loop, such as packed panels of weights (Aho, Lam, Sethi and
    Ullman, "Compilers", section 9.5).

    It applies to nests that alone write local nodes. These become local nodes of the callers, given to the
    body. Bodies of inner loops come first, so that a nest may leave several loops.
    """

    name = "hoist-from-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = functions(op)
        loops = [(step, func) for func in found for step in all_steps(func) if isinstance(step, RepeatOp)]
        for body in found:
            repeats = [(repeat, caller) for repeat, caller in loops if repeat.func is body]
            if repeats and len({repeat.index.data for repeat, _ in repeats}) == 1:
                hoist(body, repeats)
