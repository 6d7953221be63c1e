"""Loops that run when the program runs, under construction: their arguments, bodies and results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, Region

from ocannl.dialects.ir.origins import derive
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import Dim, DimTerm
from ocannl.dialects.texpr import ForwardOp
from ocannl.dialects.texpr.axes import LAST_BATCH_AXIS, Axis
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.program import expressions, graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import built, form_of, leaves_of, paths_of
from ocannl.program.blocks.closures import used_by
from ocannl.program.eager.cells import depth
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.indexing.id_checks import IdCheck
from ocannl.program.indexing.new_axes import keep_all_axes, keep_last_guess
from ocannl.program.loops.scan_bodies import scan_body
from ocannl.program.module.needed import needed_for
from ocannl.program.tensor import Tensor
from ocannl.program.values import Value, value_of


def tensors(tree: Any) -> list[Any]:
    """The leaves of a tree without None."""
    return [leaf for leaf in leaves_of(tree) if leaf is not None]


def with_tensors(tree: Any, values: Sequence[Value]) -> Any:
    """The tree with other values in place of its tensors."""
    others = iter(values)
    leaves: Iterator[Any] = iter([None if leaf is None else Tensor(next(others)) for leaf in leaves_of(tree)])
    return built(form_of(tree), leaves)


def have_one_form(tree: Any, other: Any) -> bool:
    """Whether trees have the same parts, and tensors at the same places."""
    return form_of(tree) == form_of(other) and len(tensors(tree)) == len(tensors(other))


def form_text(tree: Any, name: str) -> str:
    """The names of the tensors of a tree, by which their parts go."""
    paths = zip(paths_of(form_of(tree), name), leaves_of(tree), strict=True)
    return ", ".join(path for path, leaf in paths if leaf is not None) or "nothing"


def check_form(carry: Any, init: Any) -> None:
    """Raises `ArgumentError` for a carry of another form than what it begins with."""
    if not have_one_form(carry, init):
        begins, ends = form_text(init, "carry"), form_text(carry, "carry")
        raise ArgumentError(f"the carry keeps its form: it begins as {begins}, and then {ends} is returned")


def argument(value: Value, axis: Axis | None, count: DimTerm) -> Value:
    """Stands for a carry, or for the position of a sequence."""
    made = graph.add(ArgumentOp(value, axis, count, graph.fresh_type()), value.name_hint)
    if axis is None:
        keep_all_axes(made, value)
    elif axis.row == "batch":
        keep_last_guess(made, value)
    return made


Sources: TypeAlias = Sequence[tuple[Value, Axis | None]]
"""The values that carries begin with, which have no axis, and sequences, which have one."""


def arguments(sources: Sources, count: DimTerm, *cells: Callable[..., Any]) -> Sequence[Value]:
    """Stand for the carries, and for the positions of sequences. In eager mode, those of loops over the same
    are the same, so that a cell that is called again makes nothing new.

    A carry that begins with a number has a shape that the cell tells, by what it uses.
    """
    key = _arguments_key(sources, count, cells) if is_eager() else None
    if key is None:
        return [argument(*source, count) for source in sources]
    known = RECORDER.loops.get(key)
    if known is None:
        known = RECORDER.loops[key] = [argument(*source, count) for source in sources]
    return known


def _arguments_key(
    sources: Sources, count: DimTerm, cells: Sequence[Callable[..., Any]]
) -> tuple[Any, ...] | None:
    """None where the number of positions is not known."""
    if not isinstance(count, Dim):
        return None
    named = [(expressions.number_of_constant(value), axis) for value, axis in sources]
    is_told = all(isinstance(value, Value) for value, _ in named)
    return "arguments", depth(), count, *named, *([] if is_told else map(used_by, cells))


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
    within: float | None = None
    moved: Collection[Operation] = ()
    """The operations whose updates are not those of the body."""

    def results(
        self, carries: Sequence[Value], stacked: Sequence[tuple[Value, Axis]]
    ) -> tuple[list[Value], list[Value]]:
        """The last carries and the stacks."""
        key = self._key(carries, stacked)
        known = None if key is None else RECORDER.loops.get(key)
        if known is None:
            known = self._made(carries, stacked)
            if key is not None:
                RECORDER.loops[key] = known
        lasts, stacks = [*known[: len(carries)]], [*known[len(carries) :]]
        for last, value in zip(lasts, carries, strict=True):
            keep_all_axes(last, value)
        for stack, (value, axis) in zip(stacks, stacked, strict=True):
            keep_last_guess(stack, self._told_by(value, axis))
        return lasts, stacks

    def _told_by(self, value: Value, axis: Axis) -> Value:
        """The value that has the row of the last axis of a stack: that of one iteration, or, where the
        positions may be along that axis, the first sequence.
        """
        return value if axis.row == "batch" else next((v for v, at in self.sequences if at == axis), value)

    def _key(self, carries: Sequence[Value], stacked: Sequence[tuple[Value, Axis]]) -> tuple[Any, ...] | None:
        """The key that equal loops share in eager mode; None for one that sets memory."""
        if not is_eager() or self.moved:
            return None
        how = self.count, self.reverse, self.going, self.whole, self.recompute, self.within
        given = *self.inits, *self.sequences, *self.arguments
        return "loop", how, given, tuple(carries), tuple(stacked)

    def _made(self, carries: Sequence[Value], stacked: Sequence[tuple[Value, Axis]]) -> list[Value]:
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
            within=self.within,
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
        first.cell = body.originals
        count = len(carries) + len(stacked)
        first.id_checks = [_checked(check, stack) for check, stack in zip(checks, found[count:], strict=True)]
        return found[:count]

    def _id_checks(self, values: Sequence[Value]) -> list[IdCheck]:
        """The checks of ids in the cell, which are done in each iteration."""
        made = [value_of(op) for op in needed_for(values)]
        return [check for value in made if value.made > self.since for check in value.id_checks]


def _checked(check: IdCheck, stack: Value) -> IdCheck:
    """The check of all iterations."""
    least = expressions.apply(Arg(0), [stack], logic="... | ... -> ... => 0", accum="min")
    return IdCheck(check.op, check.ids, check.size, ForwardOp(least), check.place)
