"""Forward mode: tangents, from the first operation to the last.

The tangent of `lhs[f(p)] = accum(lhs[f(p)], op(rhs[g(p)], ...))` has the same iteration space and maps, and
adds up the tangents of the operands times the derivatives of `op`: it is the transpose of reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, Term, product, total
from ocannl.dialects.texpr import ApplyOp, ScanOp
from ocannl.dialects.texpr.derivatives import CustomOp
from ocannl.dialects.texpr.parts import Part
from ocannl.passes.analysis.values.derivative_paths import (
    all_operands,
    dependencies,
    dependents,
    differentiable_operands,
)
from ocannl.passes.texpr.differentiate.derivative_builder import (
    broadcast_to,
    gradient_type,
    insert,
    parts_of,
    sum_of,
)
from ocannl.passes.texpr.differentiate.fixed_points import tangent_of_fixed_point
from ocannl.passes.texpr.differentiate.products import products_beside_zeros
from ocannl.passes.texpr.differentiate.reverse_mode import adjoints
from ocannl.passes.texpr.differentiate.scan_tangent import tangents_of_scan
from ocannl.passes.texpr.differentiate.slopes import ZERO, partial, through


class Tangents:
    """The tangents of values that depend on some values with given tangents; each is made once."""

    def __init__(self, block: Block, given: Iterable[tuple[SSAValue, SSAValue]], before: Operation) -> None:
        self.block = block
        seeds: dict[SSAValue, list[SSAValue]] = {}
        for value, tangent in given:
            seeds.setdefault(value, []).append(broadcast_to(tangent, value, before))
        self.seeds = {value: sum_of(tangents, before) for value, tangents in seeds.items()}
        self.known: dict[SSAValue, SSAValue | None] = {}

    def of(self, value: SSAValue, before: Operation) -> SSAValue | None:
        """The tangent of a value; None where it is zero.

        Raises `OcannlError` where there is no derivative.
        """
        for op in dependencies(self.block, [value], self._unknown_operands):
            pushed = self._pushed(op, before)
            for result in op.results:
                if result not in self.known:
                    found = [t for t in (self.seeds.get(result), pushed.get(result)) if t is not None]
                    self.known[result] = sum_of(found, before) if found else None
        return self._known(value)

    def _unknown_operands(self, op: Operation) -> Sequence[SSAValue]:
        """The differentiable operands of an operation that has results without a known tangent: a scan gets
        further ones for its adjoint.
        """
        return () if all(result in self.known for result in op.results) else differentiable_operands(op)

    def _known(self, value: SSAValue) -> SSAValue | None:
        return self.known[value] if value in self.known else self.seeds.get(value)

    def _pushed(self, op: Operation, before: Operation) -> dict[SSAValue, SSAValue]:
        """The tangents of results, by those of the operands."""
        if isinstance(op, ScanOp) and op.within is not None:
            return tangent_of_fixed_point(op, self._known, before, _in_block)
        if isinstance(op, ScanOp):
            return tangents_of_scan(op, self._known, before, _in_block)
        if isinstance(op, CustomOp):
            tangent = self._through_custom(op, before)
        else:
            assert isinstance(op, ApplyOp)
            tangent = self._through_apply(op, before)
        return {} if tangent is None else {op.result: tangent}

    def _through_apply(self, op: ApplyOp, before: Operation) -> SSAValue | None:
        results = (op.result, *products_beside_zeros(op, before))
        parts = [self._part(op, part, results) for part in parts_of(op)]
        if all(part.combination.term == ZERO for part in parts):
            return None
        if op.accum is not None:
            parts = [part for part in parts if part.combination.term != ZERO]
        accum = None if op.accum is None else "add"
        made = insert(ApplyOp.of_parts(parts, gradient_type(op.result), accum), before, op)
        if op.moves is not None:
            made.set_stages(op.moves)
        tangent = made.result
        tangent.name_hint = f"{op.result.name_hint}_tangent" if op.result.name_hint else None
        return tangent

    def _part(self, op: ApplyOp, part: Part, results: Sequence[SSAValue]) -> Part:
        args, maps = part.combination.operands, part.combination.maps
        result = Arg(len(args))
        operands, indices = [*args, *results], [*maps, *[part.result_map] * len(results)]
        products: list[Term | None] = []
        for index, (operand, map) in enumerate(zip(args, maps, strict=True)):
            tangent = self._known(operand)
            if tangent is not None:
                products.append(product(partial(op, part, index, result), Arg(len(operands))))
                operands.append(tangent)
                indices.append(map)
        slope = total(products)
        term = ZERO if slope is None else through(op, part, slope, result)
        combination = Combination.of(term, operands, indices)
        return Part(combination, part.result_map, part.space)

    def _through_custom(self, op: CustomOp, before: Operation) -> SSAValue | None:
        """The tangent through a custom pullback that is linear in the cotangent: its transpose.

        Raises `OcannlError` for one that is not.
        """
        found: list[SSAValue] = []
        for x, pullback in zip(op.wrt, op.pullbacks, strict=True):
            tangent = self._known(x)
            if tangent is None:
                continue
            seed = broadcast_to(tangent, pullback, before)
            path = dependencies(self.block, [pullback])
            transposed = [a for _, a in adjoints(path, pullback, seed, [op.adjoint], before)]
            if not self._is_linear(pullback, op.adjoint, transposed):
                message = (
                    "there is no forward mode through this custom gradient: "
                    "its pullback is not linear in the cotangent"
                )
                raise OcannlError(at_line(op, message))
            found += transposed
        return sum_of(found, before) if found else None

    def _is_linear(self, value: SSAValue, argument: SSAValue, transposed: Sequence[SSAValue]) -> bool:
        """Whether a value depends on `argument` only through operations that are linear in it."""
        path = dependencies(self.block, [value], all_operands)
        active = dependents(path, [argument], all_operands)
        steps = [op for op in path if any(r in active and r is not argument for r in op.results)]
        if not all(isinstance(op, ApplyOp) and op.stop is None for op in steps):
            return False
        slopes = dependencies(self.block, transposed, all_operands)
        return active.isdisjoint({*transposed, *(operand for op in slopes for operand in op.operands)})


def _in_block(
    block: Block, given: Iterable[tuple[SSAValue, SSAValue]], before: Operation
) -> Callable[[SSAValue], SSAValue | None]:
    tangents = Tangents(block, given, before)
    return lambda value: tangents.of(value, before)
