"""Reverse mode: adjoints, from the last operation to the first.

The adjoint of `lhs[f(p)] = accum(lhs[f(p)], op(rhs[g(p)], ...))` with respect to one operand is the same
iteration space with the maps exchanged: `rhs_grad[g(p)] += lhs_grad[f(p)] * d op`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.images import box_of, covers, tiles
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, product
from ocannl.dialects.texpr import ApplyOp, ScanOp
from ocannl.dialects.texpr.derivatives import CustomOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.values.derivative_paths import all_operands, dependencies, dependents
from ocannl.passes.texpr.differentiate.derivative_builder import (
    adjoint_type,
    insert,
    parts_of,
    sum_of,
    sum_to,
)
from ocannl.passes.texpr.differentiate.fixed_points import through_fixed_point
from ocannl.passes.texpr.differentiate.products import products_beside_zeros
from ocannl.passes.texpr.differentiate.scan_adjoint import through_scan
from ocannl.passes.texpr.differentiate.slopes import partial, through


def adjoints(
    path: Sequence[Operation],
    value: SSAValue,
    seed: SSAValue,
    targets: Collection[SSAValue],
    before: Operation,
) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The targets on which `value` depends, with their adjoints, where that of `value` is `seed`.

    `path` is the backward slice of `value`. Expressions are put before an operation. A target on which
    `value` does not depend is left out. Raises `OcannlError` where there is no gradient.
    """
    yield from adjoints_of(path, {value: [seed]}, targets, before)


def adjoints_of(
    path: Sequence[Operation],
    seeds: Mapping[SSAValue, Sequence[SSAValue]],
    targets: Collection[SSAValue],
    before: Operation,
) -> Iterator[tuple[SSAValue, SSAValue]]:
    """`adjoints`, where those of several values are the sums of `seeds`."""
    active = dependents(path, targets)
    contributions = {value: [*given] for value, given in seeds.items()}
    for step in reversed(path):
        reached = [result for result in step.results if result in contributions and result in active]
        found: dict[SSAValue, SSAValue] = {r: _total(contributions.pop(r), before) for r in reached}
        for result, adjoint in found.items():
            _place_like(result, adjoint)
        yield from ((result, adjoint) for result, adjoint in found.items() if result in targets)
        for operand, contribution in _contributions(step, found, active, before):
            contributions.setdefault(operand, []).append(contribution)
    for target in targets:
        if target in contributions:
            yield target, _total(contributions[target], before)


def _total(values: Sequence[SSAValue], before: Operation) -> SSAValue:
    """The sum of contributions. Those to boxes of cells, as of slices, are one operation, so that none needs
    an array of its own that is zero elsewhere.
    """
    ops = [value.owner for value in values if _is_box(value) and isinstance(value.owner, ApplyOp)]
    if len(ops) < 2:
        return sum_of(values, before)
    parts = [part for op in ops for part in op.parts]
    type, hint = ops[0].result.type, ops[0].result.name_hint
    images = [(part.result_map, dict(part.space)) for part in parts]
    accum = None if tiles(images, shape_of(ops[0].result).memory_sizes) else "add"
    others = [value for value in values if value.owner not in ops]
    together = insert(ApplyOp.of_parts(parts, type, accum), before, *ops).result
    for op in ops:
        Rewriter.erase_op(op)
    together.name_hint = hint
    return sum_of([together, *others], before)


def _place_like(value: SSAValue, adjoint: SSAValue) -> None:
    """Splits an adjoint over a mesh as the program says of its value, so that what moves there moves back."""
    own, other = value.owner, adjoint.owner
    asked = own.placement if isinstance(own, ApplyOp) else None
    if asked is not None and asked.data.asked and isinstance(other, ApplyOp) and other.placement is None:
        other.properties["placement"] = asked


def _is_box(value: SSAValue) -> bool:
    """Whether a contribution fills a box of cells, each by one point, and has no other users."""
    op = value.owner
    if not isinstance(op, ApplyOp) or op.accum_name != "add" or value.uses.get_length() or op.moves:
        return False
    return all(box_of(part.result_map, dict(part.space)) is not None for part in op.parts)


def _contributions(
    op: Operation, adjoints: Mapping[SSAValue, SSAValue], active: Collection[SSAValue], before: Operation
) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The contributions of an operation, by the adjoints of its results, to those of its active operands."""
    if not adjoints:
        return
    if isinstance(op, ScanOp):
        through = through_scan if op.within is None else through_fixed_point
        yield from through(op, adjoints, active, before, adjoints_of)
        return
    (adjoint,) = adjoints.values()
    if isinstance(op, CustomOp):
        yield from _pulled_back(op, adjoint, active, before)
    elif isinstance(op, ApplyOp):
        results = (op.result, *products_beside_zeros(op, before))
        for part in parts_of(op):
            for index, operand in enumerate(part.combination.operands):
                found = _contribution(op, part, index, adjoint, results) if operand in active else None
                if found is not None:
                    yield operand, insert(found, before, op).result


def _contribution(
    op: ApplyOp, part: Part, index: int, adjoint: SSAValue, results: Sequence[SSAValue]
) -> ApplyOp | None:
    """The adjoint expression of one argument; None where the derivative is identically zero. `results` are
    the operation's result, and what the derivative needs of its cells besides.
    """
    args, arg_maps = part.combination.operands, part.combination.maps
    target, target_map = args[index], arg_maps[index]
    result = Arg(len(args))
    slope = product(partial(op, part, index, result), Arg(len(args) + len(results)))
    if slope is None:
        return None
    term = through(op, part, slope, result)
    operands = [*args, *results, adjoint]
    maps = [*arg_maps, *[part.result_map] * (1 + len(results))]
    accum = None if covers(target_map, dict(part.space), shape_of(target).memory_sizes) else "add"
    combination = Combination.of(term, operands, maps)
    adjoined = ApplyOp.projected(combination, adjoint_type(target), accum, target_map, part.space)
    hint = target.name_hint
    adjoined.result.name_hint = f"{hint}_grad" if hint else None
    if op.moves is not None:
        start, end = op.moves
        adjoined.set_stages((end, start))
    return adjoined


def _pulled_back(
    op: CustomOp, adjoint: SSAValue, active: Collection[SSAValue], before: Operation
) -> Iterator[tuple[SSAValue, SSAValue]]:
    pairs = [(x, value) for x, value in zip(op.wrt, op.pullbacks, strict=True) if x in active]
    values = substituted([value for _, value in pairs], op.adjoint, adjoint, before)
    for (x, _), value in zip(pairs, values, strict=True):
        yield x, sum_to(value, x, before)


def substituted(
    values: Sequence[SSAValue], old: SSAValue, new: SSAValue, before: Operation
) -> list[SSAValue]:
    """Expressions with one value for another: copies of the operations that depend on it."""
    block = before.parent_block()
    assert block is not None
    copies = {old: new}
    for op in dependencies(block, values, all_operands):
        if any(operand in copies for operand in op.operands):
            copy = op.clone(copies)
            insert(copy, before, op)
    return [copies.get(value, value) for value in values]
