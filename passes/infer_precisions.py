"""Infers the element types that the user left open."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.tensor_op import LikeOp, TensorOp
from ocannl.dialects.tensor_type import TensorType, refine_type
from ocannl.dialects.texpr import ApplyOp, AssignOp, SliceOp, TexprRoutineOp

_RANK: dict[type[Attribute], int] = {Float32Type: 1, Float64Type: 2}


def widest(types: list[Attribute]) -> Attribute | None:
    """The widest float type; integers, which are converted where they are read, count only alone."""
    floats = [t for t in types if type(t) in _RANK]
    return max(floats, key=lambda t: _RANK[type(t)], default=None)


@dataclass
class Precisions:
    """Element types by value: up from operands to results, down from results into leaves, to a fixpoint."""

    known: dict[SSAValue, Attribute]
    changed: bool = False

    def element(self, value: SSAValue) -> Attribute | None:
        assert isinstance(value.type, TensorType)
        return value.type.element_or_none or self.known.get(value)

    def learn(self, value: SSAValue, element: Attribute | None) -> None:
        if element is None or self.element(value) is not None:
            return
        self.known[value] = element
        self.changed = True

    def up(self, op: Operation) -> None:
        if isinstance(op, SliceOp):
            self.learn(op.result, self.element(op.source))
        elif isinstance(op, ApplyOp):
            self.learn(op.result, widest([e for e in map(self.element, op.operands) if e is not None]))
        elif isinstance(op, LikeOp):
            self.learn(op.result, _float_or(self.element(op.like)))
            self.learn(op.like, self.element(op.result))

    def down(self, op: Operation) -> None:
        if isinstance(op, ApplyOp | SliceOp):
            for operand in op.operands:
                self.learn(operand, self._demand(operand))
        elif isinstance(op, LikeOp):
            for result, operand in op.refinements:
                self.learn(operand, _float_or(self.element(result)))
        elif isinstance(op, AssignOp):
            self.learn(op.value, _float_or(self.element(op.target)))
            self.learn(op.target, self.element(op.value))

    def _demand(self, operand: SSAValue) -> Attribute | None:
        """The widest precision of the results that a value is used for."""
        users = (use.operation for use in operand.uses)
        results = [self.element(user.result) for user in users if isinstance(user, ApplyOp | SliceOp)]
        return widest([e for e in results if e is not None])


def _float_or(element: Attribute | None) -> Attribute | None:
    return element if element is None or type(element) in _RANK else f32


def infer_precisions(routine: TexprRoutineOp) -> None:
    ops = list(routine.body.block.ops)
    precisions = Precisions({})
    while True:
        precisions.changed = False
        for op in ops:
            precisions.up(op)
        for op in reversed(ops):
            precisions.down(op)
        if not precisions.changed:
            break
    for op in ops:
        if isinstance(op, TensorOp) and op.result.type.element_or_none is None:
            element = precisions.known.get(op.result, f32)
            refine_type(op.result, TensorType(op.result.type.shape, element))


@dataclass(frozen=True)
class InferPrecisionsPass(ModulePass):
    """Bottom-up from operands, top-down into leaves and parameters; what nothing determines is f32."""

    name = "infer-precisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                infer_precisions(routine)
