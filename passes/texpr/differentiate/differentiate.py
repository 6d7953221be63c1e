"""`differentiate`: automatic differentiation on index maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.origins import merge
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr import (
    AssignOp,
    BackpropOp,
    GradOp,
    ParamOp,
    ScanOp,
    TensorOp,
    TexprRoutineOp,
    ZeroGradsOp,
)
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, DerivativeOp, JvpOp, VjpOp
from ocannl.dialects.texpr.nested import nested
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.passes.analysis.final_shapes import check_shapes
from ocannl.passes.analysis.values.derivative_paths import (
    all_operands,
    dependencies,
    dependents,
    differentiable_operands,
)
from ocannl.passes.texpr.differentiate.derivative_builder import (
    broadcast_to,
    combined,
    constant,
    gradient_type,
    identity,
    insert,
)
from ocannl.passes.texpr.differentiate.forward_mode import Tangents
from ocannl.passes.texpr.differentiate.reverse_mode import adjoints
from ocannl.passes.texpr.differentiate.tolerances import end_within_tolerances
from ocannl.passes.texpr.differentiate.written_memory import WrittenMemory

Directions: TypeAlias = tuple[tuple[SSAValue, SSAValue], ...]


@dataclass
class Gradients:
    """The memory of gradients in one routine, and the code that fills it."""

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
            node = insert(GradOp(value, gradient_type(value)), before, value).result
            node.name_hint = f"{value.name_hint}_grad" if value.name_hint else None
            self.nodes[value] = node
        return self.nodes[value]

    def path(self, value: SSAValue) -> list[Operation]:
        return dependencies(self.routine.body.block, [value])

    def targets(self, value: SSAValue, path: Iterable[Operation]) -> list[SSAValue]:
        """The values whose gradients are kept: parameters, and those whose gradient the program asks for."""
        on_path = dict.fromkeys(v for op in path for v in (*differentiable_operands(op), *op.results))
        on_path[value] = None
        return [v for v in on_path if isinstance(v.owner, ParamOp) or v in self.nodes]

    def zero(self, op: ZeroGradsOp, params: Iterable[SSAValue]) -> None:
        for target in dict.fromkeys([*self.targets(op.tensor, self.path(op.tensor)), *params]):
            node = self.node(target, op)
            set_pointwise(node, constant(0.0, tensor_type(node), op), None, op)

    def backprop(self, op: BackpropOp) -> None:
        path, seed = self.path(op.tensor), self.node(op.tensor, op)
        for target, adjoint in adjoints(path, op.tensor, seed, self.targets(op.tensor, path), op):
            if target is not op.tensor:
                set_pointwise(self.node(target, op), adjoint, "add", op)


def set_pointwise(target: SSAValue, value: SSAValue, accum: str | None, before: Operation) -> None:
    indices, space = identity(target, before)
    insert(
        AssignOp(target, value, accum=accum, result_map=indices, value_map=indices, space=space),
        before,
        target,
    )


@dataclass
class Derivatives:
    """The derivatives of one block that are expressions."""

    block: Block
    given: set[Operation] = field(init=False)
    """Values that exist before, or stand for one derivative already."""
    adjoint_of: dict[VjpOp, SSAValue] = field(default_factory=dict[VjpOp, SSAValue])
    tangents: dict[Directions, Tangents] = field(default_factory=dict[Directions, Tangents])

    def __post_init__(self) -> None:
        self.given = set(self.block.ops)

    def vjp(self, op: VjpOp) -> None:
        if op not in self.adjoint_of:
            self._sweep(op)
        self._replace(op, self.adjoint_of[op])

    def _sweep(self, op: VjpOp) -> None:
        """All adjoints of one value from one cotangent, in one sweep."""
        sweep = op.tensor, op.cotangent
        others = [other for other in self.block.ops if isinstance(other, VjpOp)]
        together = [other for other in others if (other.tensor, other.cotangent) == sweep]
        for other in together:
            check_float(other.wrt, other)
        targets = dict.fromkeys(other.wrt for other in together)
        path = dependencies(self.block, [op.tensor])
        found = dict(adjoints(path, op.tensor, self._seed(op), targets, op))
        for other in together:
            adjoint = found.get(other.wrt)
            self.adjoint_of[other] = zero_like(other, op) if adjoint is None else adjoint

    def _seed(self, op: VjpOp) -> SSAValue:
        if op.cotangent is not None:
            return broadcast_to(op.cotangent, op.tensor, op)
        shape = shape_of(op.tensor)
        if any(size != 1 for size in shape.memory_sizes):
            message = f"a gradient is of one number, and this tensor has the shape {shape}"
            way = "take its sum, as in (2 * x).sum(), or weight its elements by oc.vjp"
            raise OcannlError(at_line(op, f"{message}: {way}"))
        return constant(1.0, gradient_type(op.tensor), op)

    def jvp(self, op: JvpOp) -> None:
        for x in op.wrt:
            check_float(x, op)
        directions = tuple(zip(op.wrt, op.tangents, strict=True))
        if directions not in self.tangents:
            self.tangents[directions] = Tangents(self.block, directions, op)
        tangent = self.tangents[directions].of(op.tensor, op)
        self._replace(op, zero_like(op, op) if tangent is None else tangent)

    def _replace(self, op: VjpOp | JvpOp, value: SSAValue) -> None:
        """Replaces an expression by its derivative, which takes its name."""
        owner = value.owner
        assert isinstance(owner, Operation)
        if owner in self.given or value.type != op.result.type:
            value = combined(Arg(0), [value], op.result.type, op)
            assert isinstance(value.owner, Operation)
            owner = value.owner
        self.given.add(owner)
        merge(owner, op)
        value.name_hint = op.result.name_hint or value.name_hint
        op.result.replace_all_uses_with(value)
        Rewriter.erase_op(op)


def zero_like(op: TensorOp, before: Operation) -> SSAValue:
    return constant(0.0, op.result.type, before)


def check_float(value: SSAValue, op: Operation) -> None:
    element = tensor_type(value).element
    if isinstance(element, IntegerType):
        name = f"`{value.name_hint}`" if value.name_hint else "this tensor"
        message = f"{name} holds integers ({element}), which have no derivatives"
        raise OcannlError(at_line(op, f"{message}: give its array as floats, array.astype(np.float32)"))


def settle_custom_gradients(block: Block) -> None:
    """Replaces `texpr.custom` by its values, once derivatives are expanded. Raises `OcannlError`."""
    ops = list(block.ops)
    for op in ops:
        if isinstance(op, ScanOp):
            settle_custom_gradients(op.block)
    adjoint_ops = [op for op in ops if isinstance(op, AdjointOp)]
    for op in ops:
        if isinstance(op, CustomOp):
            value = combined(Arg(0), [op.source], op.result.type, op)
            value.name_hint = op.result.name_hint
            op.result.replace_all_uses_with(value)
            Rewriter.erase_op(op)
    if adjoint_ops:
        _erase_rules(list(block.ops), [op.result for op in adjoint_ops])


def _erase_rules(ops: Sequence[Operation], placeholders: Sequence[SSAValue]) -> None:
    of_rules = dependents(ops, placeholders, all_operands)
    for op in reversed(ops):
        if isinstance(op, TensorOp) and op.result in of_rules:
            Rewriter.erase_op(op)
        elif any(operand in of_rules for operand in op.operands):
            message = "the cotangent of a custom gradient has a value only inside its pullback"
            raise OcannlError(at_line(op, message))


def params_of(block: Block, value: SSAValue) -> list[SSAValue]:
    """The parameters that a value depends on differentiably, in program order."""
    operands = [v for op in dependencies(block, [value]) for v in differentiable_operands(op)]
    return [v for v in dict.fromkeys(operands) if isinstance(v.owner, ParamOp)]


def differentiate(routine: TexprRoutineOp) -> None:
    """Raises `OcannlError` where there is no derivative, or where an earlier pass is missing."""
    block = routine.body.block
    expressions = [op for op in nested(block) if isinstance(op, DerivativeOp)]
    code = [op for op in block.ops if isinstance(op, ZeroGradsOp | BackpropOp)]
    if expressions or code:
        for op in nested(block):
            check_shapes(op)
        WrittenMemory(block).check()
    # A parameter whose second derivative is zero still has a gradient, which is zero.
    params = {op: params_of(block, op.tensor) for op in code if expressions}
    if expressions:
        expand_derivatives(block)
    gradients = Gradients(routine)
    for op in code:
        if isinstance(op, ZeroGradsOp):
            gradients.zero(op, params.get(op, ()))
        else:
            gradients.backprop(op)
        Rewriter.erase_op(op)
    if expressions:
        settle_custom_gradients(block)
    end_within_tolerances(block)


def expand_derivatives(block: Block) -> None:
    """Expands derivatives in program order, so that a differentiated value contains none."""
    derivatives = Derivatives(block)
    for op in operations_of(block):
        if isinstance(op, ScanOp):
            expand_derivatives(op.block)
        elif isinstance(op, VjpOp):
            derivatives.vjp(op)
        elif isinstance(op, JvpOp):
            derivatives.jvp(op)


@dataclass(frozen=True)
class DifferentiatePass(ModulePass):
    """Automatic differentiation by source transformation, in reverse and forward mode (Griewank and Walther,
    "Evaluating Derivatives", 2008), inner derivatives first. Derivatives become adjoint and tangent
    expressions, and assignments to gradient nodes.
    """

    name = "differentiate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                differentiate(routine)
