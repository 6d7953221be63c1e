"""Loops that run when the program runs, under construction: their arguments, bodies and results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, Region

from ocannl.dialects.ir.origins import derive
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.texpr import ForwardOp
from ocannl.dialects.texpr.axes import LAST_BATCH_AXIS, Axis
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.program import expressions, graph
from ocannl.program.errors import ArgumentError
from ocannl.program.id_checks import IdCheck
from ocannl.program.needed import needed_for
from ocannl.program.scan_bodies import scan_body
from ocannl.program.tensor import Tensor
from ocannl.program.trees import built, form_of, leaves_of, paths_of
from ocannl.program.values import Value, value_of


def tensors(tree: Any) -> list[Any]:
    """The leaves of a tree without None."""
    return [leaf for leaf in leaves_of(tree) if leaf is not None]


def with_tensors(tree: Any, values: Sequence[Value]) -> Any:
    """The tree with other values in place of its tensors."""
    others = iter(values)
    leaves: Iterator[Any] = iter([None if leaf is None else Tensor(next(others)) for leaf in leaves_of(tree)])
    return built(form_of(tree), leaves)


def check_form(carry: Any, init: Any, what: str = "the carry keeps its form: it begins as") -> None:
    if form_of(carry) != form_of(init) or len(tensors(carry)) != len(tensors(init)):
        forms = form_of(init), form_of(carry)
        names = [", ".join(paths_of(form, "carry")) or "nothing" for form in forms]
        raise ArgumentError(f"{what} {names[0]}, and then {names[1]} is returned")


def argument(value: Value, axis: Axis | None, count: DimTerm) -> Value:
    """Stands for a carry, or for the position of a sequence."""
    return graph.add(ArgumentOp(value, axis, count, graph.fresh_type()), value.name_hint)


@dataclass
class Loop:
    """A scan whose cell has been called."""

    count: DimTerm
    inits: Sequence[Value]
    sequences: Sequence[tuple[Value, Axis]]
    arguments: Sequence[Value]
    reverse: bool
    since: int
    going: int | None = None
    whole: bool = False
    recompute: bool = False
    moved: Collection[Operation] = ()
    """The operations whose updates are not those of the body."""

    def results(
        self, carries: Sequence[Value], stacked: Sequence[tuple[Value, Axis]]
    ) -> tuple[list[Value], list[Value]]:
        """The last carries and the stacks."""
        checks = self._id_checks([*carries, *(value for value, _ in stacked)])
        least = [(check.statement.operands[0], LAST_BATCH_AXIS) for check in checks]
        own = [*stacked, *((value, axis) for value, axis in least if isinstance(value, Value))]
        body = scan_body(self.arguments, carries, own, self.since, self.whole, self.moved)
        types = [graph.fresh_type() for _ in (*carries, *own)]
        if not types:
            raise ArgumentError("a scan has a carry, or its cell returns a y")
        op = ScanOp(
            "t",
            self.count,
            self.inits,
            self.sequences,
            body.captured,
            types[:1],
            Region(body.block),
            reverse=self.reverse,
            going=self.going,
            recompute=self.recompute,
        )
        op.attributes["results"] = ArrayAttr(types)
        # So that references alone free the operation.
        op.body.parent = None
        values = [*carries, *(value for value, _ in own)]
        first = graph.add(op, values[0].name_hint)
        derive([op.yielded], op.location)
        others = [
            graph.add(ResultOp(first, number, types[number]), value.name_hint)
            for number, value in enumerate(values)
            if number
        ]
        found = [first, *others]
        lasts, stacks = found[: len(carries)], found[len(carries) :]
        first.id_checks = [
            _checked(check, stack) for check, stack in zip(checks, stacks[len(stacked) :], strict=True)
        ]
        return lasts, stacks[: len(stacked)]

    def _id_checks(self, values: Sequence[Value]) -> list[IdCheck]:
        """The checks of ids in the cell, which are done in each iteration."""
        made = [value_of(op) for op in needed_for(values)]
        return [check for value in made if value.made > self.since for check in value.id_checks]


def _checked(check: IdCheck, stack: Value) -> IdCheck:
    """The check of all iterations."""
    least = expressions.apply(Arg(0), [stack], logic="... | ... -> ... => 0", accum="min")
    return IdCheck(check.op, check.ids, check.size, ForwardOp(least), check.place)
