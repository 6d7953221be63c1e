"""Sums over keys of products with the gradient of a softmax's weights, as sums over features.

With `o = sum_t p[t] v[t]` and `dp[t] = sum_d do[d] v[t, d]`, the sum `sum_t p[t] dp[t]` that the gradient of
a softmax asks for is `sum_d do[d] o[d]` (Dao et al., 2022, appendix B.4): it needs no scores. Where some of
these are rounded to 16 bits, both sums are as near to the exact one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import names_in
from ocannl.passes.loops.online_softmax.hidden_blocks import stored_value
from ocannl.passes.loops.online_softmax.recognize import Softmax, load_or_none
from ocannl.passes.loops.online_softmax.score_nests import Kind, ScoreNest, variable
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.declarations import declare


@dataclass
class Factors:
    """A product: its sign, factors with the nests that compute them, and the row values that divide it."""

    sign: int = 1
    of: dict[SSAValue, ScoreNest] = field(default_factory=dict[SSAValue, ScoreNest])
    divisors: Counter[SSAValue] = field(default_factory=Counter[SSAValue])


def factors(softmax: Softmax, member: ScoreNest, value: SSAValue) -> Factors | None:
    """The factors of a value, also through scores that nests store; None if one stands there twice."""
    found, waiting = Factors(), [(member, value)]
    while waiting:
        member, value = stored_value(softmax, *waiting.pop())
        op = value.owner
        if isinstance(op, arith.ExtFOp | arith.TruncFOp):
            waiting.append((member, op.input))
        elif isinstance(op, arith.NegfOp):
            found.sign = -found.sign
            waiting.append((member, op.operand))
        elif isinstance(op, arith.MulfOp):
            waiting += [(member, op.lhs), (member, op.rhs)]
        elif (
            isinstance(op, arith.DivfOp)
            and (load := load_or_none(op.rhs))
            and is_of_row(softmax, load, member)
        ):
            found.divisors[load.node] += 1
            waiting.append((member, op.lhs))
        elif value in found.of:
            return None
        else:
            found.of[value] = member
    return found


def is_of_row(softmax: Softmax, load: LoadOp, member: ScoreNest) -> bool:
    """Whether a load is of a value that a nest reduced the keys of a row to."""
    written = [node for m in softmax.nests.members if m.kind is Kind.ROWS for node in m.written]
    return load.node in written and variable(member.at[softmax.nests.keys]) not in names_in(load.indices.data)


def shorten(softmax: Softmax) -> bool:
    """Replaces a sum over keys by one over features. Whether there was one."""
    return any(shortened(softmax, sum, mean) for sum in softmax.nests.members for mean in softmax.sums)


def shortened(softmax: Softmax, sum: ScoreNest, mean: ScoreNest) -> bool:
    """Replaces one sum over keys, where `mean` has the weighted sum of values, or prepares that. Whether it
    did.
    """
    if sum is mean or sum.kind is not Kind.ROWS:
        return False
    if sum.reductions[0].accum.data != "add":
        return False
    whole = factors(softmax, sum, sum.reductions[0].yielded)
    part = factors(softmax, mean, mean.reductions[0].yielded)
    if whole is None or part is None or part.divisors - whole.divisors:
        return False
    products = [value for value in whole.of if value not in part.of]
    values = [value for value in part.of if value not in whole.of]
    if len(products) != 1 or len(values) != 1 or len(whole.of) != len(part.of):
        return False
    product, value = products[0].owner, load_or_none(values[0])
    if not isinstance(product, ReduceOp) or product.result.type != sum.reductions[0].result.type:
        return False
    if value is None:
        return False
    made = sum_of_features(softmax, sum, mean, product, whole.of[products[0]], value)
    if made is None:
        return False
    if unrounded(mean.stores[0].value) is mean.reductions[0].result:
        replace(sum, made, whole, part)
    else:
        keep_result(mean)
    return True


def sum_of_features(
    softmax: Softmax, sum: ScoreNest, mean: ScoreNest, product: ReduceOp, reader: ScoreNest, value: LoadOp
) -> ReduceOp | None:
    """The sum over features of the gradient and the mean, in the nest of a sum; None unless `product` is the
    sum over features of that gradient and the `value` of which `mean` has the mean.
    """
    gradient = other_factor(product, value.node)
    if gradient is None or product.accum.data != "add" or len(product.space.data) != 1:
        return None
    gradient_load, value_load = gradient
    (feature,) = product.space.names
    own = [name for name in mean.nest.space.names if name not in names_in(mean.at)]
    if len(own) != 1 or dict(mean.nest.space.data)[own[0]] != product.space.data[0][1]:
        return None
    to_reader = translation(mean, reader, {own[0]: feature})
    to_sum = translation(reader, sum, {feature: feature})
    if translated(value.indices.data, to_reader) != value_load.indices.data:
        return None
    at_mean = translated(mean.stores[0].indices.data, to_reader)
    places = [None if at is None else translated(at, to_sum) for at in (gradient_load.indices.data, at_mean)]
    key = variable(reader.at[softmax.nests.keys])
    if None in places or key in names_in(gradient_load.indices.data) or feature in sum.sizes:
        return None
    loads = [
        LoadOp(n, p)
        for n, p in zip((gradient_load.node, mean.written[0]), places, strict=True)
        if p is not None
    ]
    ops, (left, right) = widened(loads, product.result.type)
    multiplied = arith.MulfOp(left, right)
    body = Region(Block([*ops, multiplied, YieldOp(multiplied.result)]))
    return ReduceOp("add", product.space.data, body, product.result.type)


def keep_result(mean: ScoreNest) -> None:
    """Stores the weighted sum itself, and what is made of it in a nest of its own."""
    nest, sum, store = mean.nest, mean.reductions[0].result, mean.stores[0]
    func = nest.parent_op()
    assert isinstance(func, FuncOp)
    label = labels_of(func).fresh(f"{nest.label.data}.mean")
    why = "weighted sum that gradients need"
    node = NodeOp(label, "local", why, MemRefType(sum.type, list(memref_shape(store.node))))
    derive([node], nest.location)
    declare(func, node)
    load = LoadOp(node.result, store.indices.data)
    values: dict[SSAValue, SSAValue] = {sum: load.result}
    rest = [op.clone(values) for op in nest.body.block.ops if op is not sum.owner]
    other = NestOp(nest.label.data, nest.space.data, Region(Block([load, *rest])))
    derive([load, other], nest.location)
    Rewriter.insert_op(other, InsertPoint.after(nest))
    kept = StoreOp(sum, node.result, store.indices.data)
    derive([kept], store.location)
    Rewriter.replace_op(store, kept)
    remove_unused_operations(nest.body.block)


def unrounded(value: SSAValue) -> SSAValue:
    """A value before conversions to other floats."""
    while isinstance(op := value.owner, arith.ExtFOp | arith.TruncFOp):
        value = op.input
    return value


def widened(loads: Sequence[LoadOp], type: Attribute) -> tuple[list[Operation], list[SSAValue]]:
    """Loads with conversions to a type where it is wider, and their values."""
    ops, values = list[Operation](loads), list[SSAValue]()
    for load in loads:
        value: SSAValue = load.result
        if value.type != type:
            ops.append(wide := arith.ExtFOp(value, type))
            value = wide.result
        values.append(value)
    return ops, values


def other_factor(product: ReduceOp, node: SSAValue) -> tuple[LoadOp, LoadOp] | None:
    """The loads of a sum of products with a node: of the other factor, and of the node."""
    multiplied = product.yielded.owner
    if not isinstance(multiplied, arith.MulfOp):
        return None
    factors = [load_or_none(unrounded(operand)) for operand in multiplied.operands]
    loads = [load for load in factors if load is not None]
    own = [load for load in loads if load.node is node]
    others = [load for load in loads if load.node is not node]
    return (others[0], own[0]) if len(own) == len(others) == 1 else None


def translation(one: ScoreNest, other: ScoreNest, more: Mapping[str, str]) -> dict[Linear, Linear]:
    """Indices in one nest as they are in another one."""
    found = dict(zip(one.at, other.at, strict=True))
    return found | {Linear.var(name): Linear.var(new) for name, new in more.items()}


def translated(indices: Map, known: Mapping[Linear, Linear]) -> Map | None:
    """An index map in another nest; None where one of its indices is unknown there."""
    found = [index if index.is_constant else known.get(index) for index in indices]
    complete = [index for index in found if index is not None]
    return tuple(complete) if len(complete) == len(found) else None


def replace(sum: ScoreNest, made: ReduceOp, whole: Factors, part: Factors) -> None:
    """Puts a sum over features in the place of one over keys, with its sign and what else divides it."""
    old, ops = sum.reductions[0], list[Operation]([made])
    result: SSAValue = made.result
    if whole.sign != part.sign:
        ops.append(negated := arith.NegfOp(result))
        result = negated.result
    for node, count in (whole.divisors - part.divisors).items():
        load = next(op for op in sum.loads if op.node is node)
        for _ in range(count):
            again = LoadOp(node, load.indices.data)
            division = arith.DivfOp(result, again.result)
            ops += [again, division]
            result = division.result
    derive(ops, old.location)
    Rewriter.replace_op(old, ops, [result])
    remove_unused_operations(sum.nest.body.block)
