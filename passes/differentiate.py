"""Reverse-mode differentiation on index maps.

The adjoint of `lhs[f(p)] = accum(lhs[f(p)], op(rhs[g(p)], ...))` with respect to one operand is the same
iteration space with the maps exchanged: `rhs_grad[g(p)] += lhs_grad[f(p)] * d op`. For a `max` or `min`
accumulation a contribution is gated by equality with the result, so every point that attains it receives the
gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.combine import Combination
from ocannl.dialects.errors import OcannlError, at_line
from ocannl.dialects.linear import Linear, clashing_variables
from ocannl.dialects.parts import Part
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.tensor_type import TensorType, shape_of, tensor_type
from ocannl.dialects.term import App, Arg, Const, Term, derivative, simplify
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    BackpropOp,
    ConstantOp,
    GradOp,
    ParamOp,
    TexprRoutineOp,
    ZeroGradsOp,
)
from ocannl.passes.images import covers
from ocannl.passes.projection import Projection

OpT = TypeVar("OpT", bound=Operation)


def gradient_element(value: SSAValue) -> Attribute:
    """Gradients of floats have their precision, those of integers are f32."""
    element = tensor_type(value).element
    return element if isinstance(element, Float32Type | Float64Type) else f32


@dataclass
class Gradients:
    """Reverse mode in one routine: gradient nodes, and adjoint expressions put before the code that needs
    them.
    """

    routine: TexprRoutineOp
    nodes: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def __post_init__(self) -> None:
        """Gradients declared after code that fills them are declared where their tensors are."""
        block, code_seen = self.routine.body.block, False
        for op in list(block.ops):
            code_seen = code_seen or isinstance(op, ZeroGradsOp | BackpropOp)
            if isinstance(op, GradOp) and isinstance(op.source.owner, Operation):
                self.nodes.setdefault(op.source, op.result)
                if code_seen:
                    op.detach()
                    block.insert_op_after(op, op.source.owner)

    def node(self, value: SSAValue, before: Operation) -> SSAValue:
        """The gradient node of a value, declared if need be."""
        if value not in self.nodes:
            type = TensorType(tensor_type(value).shape, gradient_element(value))
            node = insert(GradOp(value, type), before).result
            node.name_hint = f"{value.name_hint}_grad" if value.name_hint else None
            self.nodes[value] = node
        return self.nodes[value]

    def dependencies(self, value: SSAValue) -> list[ApplyOp]:
        """The operations that a value is differentiably computed by, in the order of the program."""
        needed: set[Operation] = set()
        stack = [value.owner]
        while stack:
            op = stack.pop()
            if isinstance(op, ApplyOp) and op.stop is None and op not in needed:
                needed.add(op)
                stack += [a.owner for a in op.args]
        return [op for op in self.routine.body.block.ops if op in needed and isinstance(op, ApplyOp)]

    def targets(self, value: SSAValue, path: Sequence[ApplyOp]) -> list[SSAValue]:
        """The values whose gradients are kept: parameters, and what the program asks the gradient of."""
        on_path = dict.fromkeys(v for op in path for v in (*op.args, op.result))
        on_path[value] = None
        return [v for v in on_path if isinstance(v.owner, ParamOp) or v in self.nodes]

    def zero(self, op: ZeroGradsOp) -> None:
        for target in self.targets(op.tensor, self.dependencies(op.tensor)):
            node = self.node(target, op)
            zero = insert(ConstantOp(0.0, tensor_type(node)), op)
            set_pointwise(node, zero.result, None, op)

    def backprop(self, op: BackpropOp) -> None:
        path = self.dependencies(op.tensor)
        targets = self.targets(op.tensor, path)
        active = set(targets)
        for step in path:
            if any(a in active for a in step.args):
                active.add(step.result)
        contributions: dict[SSAValue, list[SSAValue]] = {op.tensor: [self.node(op.tensor, op)]}

        def settle(value: SSAValue) -> SSAValue:
            total = sum_of(contributions[value], op)
            if value in targets and value is not op.tensor:
                set_pointwise(self.node(value, op), total, "add", op)
            return total

        for step in reversed(path):
            if step.result not in contributions or step.result not in active:
                continue
            adjoint = settle(step.result)
            for part, index, arg in operands_of(step):
                if arg in active and (adjoined := contribution(step, part, index, adjoint)) is not None:
                    contributions.setdefault(arg, []).append(insert(adjoined, op).result)
        for target in targets:
            if target in contributions and not isinstance(target.owner, ApplyOp):
                settle(target)


def insert(op: OpT, before: Operation) -> OpT:
    block = before.parent_block()
    assert block is not None
    op.location = before.location
    block.insert_op_before(op, before)
    return op


def identity(value: SSAValue, at: Operation) -> tuple[tuple[Linear, ...], tuple[tuple[str, int], ...]]:
    """One variable an axis of a tensor, and their space; the routine's static indices keep their names."""
    routine = enclosing_routine(at)
    projection = Projection(set(routine.ranges) if routine is not None else set())
    maps = projection.result(shape_of(value)).memory
    return maps, tuple(projection.space.items())


def set_pointwise(target: SSAValue, value: SSAValue, accum: str | None, before: Operation) -> None:
    indices, space = identity(target, before)
    insert(
        AssignOp(target, value, accum=accum, result_map=indices, value_map=indices, space=space),
        before,
    )


def sum_of(values: Iterable[SSAValue], before: Operation) -> SSAValue:
    first, *others = values
    for other in others:
        indices, space = identity(first, before)
        combination = Combination.of(App("add", (Arg(0), Arg(1))), [first, other], [indices, indices])
        total = ApplyOp.projected(combination, tensor_type(first), None, indices, space)
        first = insert(total, before).result
    return first


def operands_of(op: ApplyOp) -> Iterator[tuple[Part, int, SSAValue]]:
    """The operands of each part, with their numbers in it."""
    if not op.is_projected:
        raise OcannlError(at_line(op, "an operation has no index maps yet: run infer-projections first"))
    for part in op.parts:
        for index, operand in enumerate(part.combination.operands):
            yield part, index, operand


def contribution(op: ApplyOp, part: Part, index: int, adjoint: SSAValue) -> ApplyOp | None:
    """The adjoint expression of one argument; None where the derivative is identically zero."""
    args, arg_maps = part.combination.operands, part.combination.maps
    target, target_map = args[index], arg_maps[index]
    operands = [*args, op.result, adjoint]
    maps = [*arg_maps, part.result_map, part.result_map]
    term = _adjoint_term(op, part, index, Arg(len(operands) - 2), Arg(len(operands) - 1))
    if term == Const(0.0):
        return None
    accum = None if covers(target_map, dict(part.space), shape_of(target).memory_sizes) else "add"
    type = TensorType(tensor_type(target).shape, gradient_element(target))
    adjoined = ApplyOp.projected(Combination.of(term, operands, maps), type, accum, target_map, part.space)
    hint = target.name_hint
    adjoined.result.name_hint = f"{hint}_grad" if hint else None
    return adjoined


def _adjoint_term(op: ApplyOp, part: Part, index: int, result: Arg, adjoint: Arg) -> Term:
    term, accum = part.combination.term, op.accum_name
    if op.more is None and not clashing_variables(part.result_map, dict(part.space)):
        # One point a cell: the accumulation is only with the neutral element.
        accum = None
    match accum:
        case None:
            return simplify(App("mul", (adjoint, derivative(term, index, result.index))))
        case "add":
            return simplify(App("mul", (adjoint, derivative(term, index))))
        case "max" | "min":
            slope = simplify(App("mul", (adjoint, derivative(term, index))))
            attained = App("eq", (result, term))
            return slope if slope == Const(0.0) else App("where", (attained, slope, Const(0.0)))
        case other:
            raise OcannlError(at_line(op, f"there is no gradient through an accumulation by `{other}`"))


def differentiate(routine: TexprRoutineOp) -> None:
    gradients = Gradients(routine)
    for op in list(routine.body.block.ops):
        if isinstance(op, ZeroGradsOp):
            gradients.zero(op)
        elif isinstance(op, BackpropOp):
            gradients.backprop(op)
        else:
            continue
        Rewriter.erase_op(op)


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """Replaces `texpr.zero_grads` and `texpr.backprop` by adjoint expressions and assignments to gradient
    nodes.
    """

    name = "differentiate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                differentiate(routine)
