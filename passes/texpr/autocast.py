"""`autocast`: products in the precision in which parameters are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.texpr import ApplyOp, ScanOp, TexprRoutineOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.passes.analysis.projection import whole

PRODUCT = App("mul", (Arg(0), Arg(1)))


@dataclass(frozen=True)
class Mark:
    """That a value is computed with parameters that are used in a type; `is_weight`, that it is one of them,
    however its elements are arranged; `of_factors`, that it is the type of factors alone, of products with
    such a parameter.
    """

    element: Attribute
    is_weight: bool
    of_factors: bool = False


@dataclass
class Autocast:
    """One routine, with the marks of its values."""

    routine: TexprRoutineOp
    marks: dict[SSAValue, Mark] = field(default_factory=dict[SSAValue, Mark])
    sources: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Parameters by what they are used as."""

    def run(self) -> None:
        self.note(self.routine.body.block)
        if self.marks:
            self.rewrite(self.routine.body.block)

    def note(self, block: Block) -> None:
        for op in operations_of(block):
            if isinstance(op, ApplyOp):
                mark = self.mark_of(op)
                if mark is not None:
                    self.marks[op.result] = mark
            elif isinstance(op, ScanOp):
                self.note_scan(op)

    def mark_of(self, op: ApplyOp) -> Mark | None:
        if op.factors is not None:
            self.sources[op.result] = op.args[0]
            return Mark(op.factors, True, True)
        if op.compute is not None:
            return Mark(tensor_type(op.result).element, True)
        found = [mark for mark in map(self.marks.get, op.args) if mark is not None]
        if not found:
            return None
        is_weight = found[0].is_weight and op.term.data == Arg(0) and op.accum is None
        return replace(found[0], is_weight=is_weight)

    def note_scan(self, op: ScanOp) -> None:
        """Marks what a body is given, which for carries is also what it yields, and the results."""
        for argument, operand in zip(op.arguments, op.operands, strict=True):
            self.copy_mark(operand, argument)
        before = -1
        while before != len(self.marks):
            before = len(self.marks)
            self.note(op.block)
            for argument, value in zip(op.carry_arguments, op.yielded.carries, strict=True):
                self.copy_mark(value, argument)
        for value, result in zip(op.yielded.values, op.results, strict=True):
            self.copy_mark(value, result)

    def copy_mark(self, source: SSAValue, target: SSAValue) -> None:
        if source in self.marks and target not in self.marks:
            self.marks[target] = self.marks[source]

    def rewrite(self, block: Block) -> None:
        rounded: dict[SSAValue, SSAValue] = {}
        for op in operations_of(block):
            if isinstance(op, ScanOp):
                self.rewrite(op.block)
            elif isinstance(op, ApplyOp):
                op.properties.pop("compute", None)
                op.properties.pop("factors", None)
                if (mark := self.precision(op)) is not None:
                    self.round(op, mark, rounded)

    def precision(self, op: ApplyOp) -> Mark | None:
        """The mark by which a product is computed, None if it stays as it is."""
        marks = [self.marks[value] for value in op.args if value in self.marks]
        marks.sort(key=lambda mark: not mark.is_weight)
        if not marks or op.more is not None or op.accum_name != "add" or op.term.data != PRODUCT:
            return None
        element = marks[0].element
        operands = {tensor_type(value).element for value in op.args}
        if tensor_type(op.result).element != f32 or f32 not in operands or not operands <= {f32, element}:
            return None
        assert op.result_map is not None
        kept, first, second = (names_of(indices) for indices in (op.result_map.data, *op.maps))
        summed = (first & second) - kept
        is_matrix = (first & kept) - second and (second & kept) - first
        is_meant = marks[0].is_weight or (is_matrix and not marks[0].of_factors)
        return marks[0] if summed and is_meant else None

    def round(self, op: ApplyOp, mark: Mark, rounded: dict[SSAValue, SSAValue]) -> None:
        """Computes a product from rounded operands, in their type or as it was; its result has the type that
        it had.
        """
        part, element = op.parts[0], mark.element
        operands: list[SSAValue] = []
        for value in op.args:
            value = self.source(value, element)
            if tensor_type(value).element == element:
                operands.append(value)
                continue
            if value not in rounded:
                rounded[value] = self.cast(value, element, op)
            operands.append(rounded[value])
        combination = Combination(part.combination.term, tuple(operands), part.combination.maps)
        if mark.of_factors:
            op.project([Part(combination, part.result_map, part.space)], op.accum_name)
            return
        type = TensorType.of(shape_of(op.result), element)
        product = ApplyOp.of_parts([Part(combination, part.result_map, part.space)], type, op.accum_name)
        product.location, product.result.name_hint = op.location, name_in(element, op.result)
        assert op.parent is not None
        op.parent.insert_op_before(product, op)
        op.project([self.copy(product.result)], None)

    def source(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The parameter that a value is, if it is kept in a type."""
        source = self.sources.get(value)
        return value if source is None or tensor_type(source).element != element else source

    def cast(self, value: SSAValue, element: Attribute, before: ApplyOp) -> SSAValue:
        made = ApplyOp.of_parts([self.copy(value)], TensorType.of(shape_of(value), element), None)
        made.location, made.result.name_hint = before.location, name_in(element, value)
        assert before.parent is not None
        before.parent.insert_op_before(made, before)
        return made.result

    def copy(self, value: SSAValue) -> Part:
        indices, space = whole(shape_of(value).memory_sizes, self.routine.ranges)
        return Part(Combination(Arg(0), (value,), (indices,)), indices, space)


def name_in(element: Attribute, value: SSAValue) -> str | None:
    """A name for a value that is rounded to a type."""
    return value.name_hint and f"{value.name_hint}_{element}"


def names_of(indices: tuple[Linear, ...]) -> set[str]:
    return {name for index in indices for name in index.names}


def routines_of(module: ModuleOp) -> Iterator[TexprRoutineOp]:
    return (op for op in module.body.block.ops if isinstance(op, TexprRoutineOp))


@dataclass(frozen=True)
class AutocastPass(ModulePass):
    """Automatic mixed precision: products of f32 in which a parameter takes part that is used in fewer bits
    are computed from operands that are rounded to these, as are products of matrices that are computed with
    such parameters; sums, norms, losses and all that is pointwise stay as they are. So do results of products
    of which factors alone are meant.
    """

    name = "autocast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in routines_of(op):
            Autocast(routine).run()
