"""Loops over positions of tensors, which run when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Region

from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import Dim, DimTerm
from ocannl.dialects.texpr import ForwardOp
from ocannl.dialects.texpr.axes import LAST_BATCH_AXIS, Axis
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.program import expressions, graph
from ocannl.program.checks import integer
from ocannl.program.errors import ArgumentError
from ocannl.program.id_checks import IdCheck
from ocannl.program.memory_axes import MemoryAxes
from ocannl.program.needed import needed
from ocannl.program.scan_bodies import scan_body
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.trees import built, form_of, leaves_of, paths_of
from ocannl.program.values import Value, now, value_of

Cell = Callable[[Any, Any], tuple[Any, Any]]


def scan(
    cell: Cell, init: Any, xs: Any, reverse: bool = False, length: int | None = None, axis: int | None = None
) -> tuple[Any, Any]:
    """The stacked results `ys` and the last carry of a cell that runs at each position of `xs` in turn: a
    loop that runs when the program runs, as `jax.lax.scan`.

    `cell(carry, x)` returns `(carry, y)`. It is called once, with tensors that stand for those of one
    iteration. The carry begins with `init`, and keeps its form and its shapes. `init`, `xs` and `y` are
    tensors or trees of them (tuples, lists, dictionaries); `xs` may be None, if `length` is given, and so may
    `y`. The positions are along the last batch axis of each tensor of `xs`, or along `axis` in the order of
    memory; `x` is without it, and `ys` have it in the same place. `reverse` begins at the last position; `ys`
    stay in the order of `xs`.

    Parameters and other tensors that the cell uses are the same in all iterations, and what does not depend
    on `carry` or `x` is computed once. Random numbers are others in each iteration. The time to compile does
    not depend on the number of positions. Raises `ArgumentError` for a carry of another form, `ShapeError`
    where shapes do not fit, and when compiled `OcannlError` for tensors of one iteration that are used
    outside.
    """
    since = now()
    sequences = [_sequence(leaf, axis) for leaf in _tensors(xs)]
    if length is None and not sequences:
        raise ArgumentError("a scan without xs needs its length=")
    count: DimTerm = graph.fresh_dim() if length is None else Dim(integer(length, "the length of a scan"))
    inits = [as_tensor(leaf).ir_value for leaf in _tensors(init)]
    carries = [_argument(value, None, count) for value in inits]
    positions = [_argument(value, at, count) for value, at in sequences]
    found = cell(_with(init, carries), _with(xs, positions))
    carry, y = _pair(found, init)
    stacked = [as_tensor(leaf).ir_value for leaf in _tensors(y)]
    at = sequences[0][1] if sequences else LAST_BATCH_AXIS
    loop = _Loop(count, inits, sequences, [*carries, *positions], reverse, since)
    lasts, stacks = loop.results(
        [as_tensor(leaf).ir_value for leaf in _tensors(carry)], [(value, at) for value in stacked]
    )
    return _with(y, stacks), _with(init, lasts)


def while_loop(cond: Callable[[Any], TensorLike], body: Callable[[Any], Any], init: Any, most: int) -> Any:
    """The state after `state = body(state)` as long as `cond(state)`, a tensor of one number, is not 0, and
    `most` times at most: a loop that runs when the program runs. It may run 0 times.

    `init` and what `body` returns are tensors or trees of them, of the same form and shapes. Derivatives go
    through it; in reverse mode there is memory for the states of `most` iterations. Raises as `oc.scan`.
    """
    since, count = now(), Dim(integer(most, "the most iterations of a loop"))
    inits = [as_tensor(cond(init)).ir_value, *(as_tensor(leaf).ir_value for leaf in _tensors(init))]
    carries = [_argument(value, None, count) for value in inits]
    found = body(_with(init, carries[1:]))
    _check_form(found, init)
    flag = as_tensor(cond(found)).ir_value
    loop = _Loop(count, inits, [], carries, False, since, going=0)
    lasts, _ = loop.results([flag, *(as_tensor(leaf).ir_value for leaf in _tensors(found))], [])
    return _with(init, lasts[1:])


def cond(flag: TensorLike, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
    """`f(*operands)` where a number is not 0, else `g(*operands)`; only that one runs. Both return tensors,
    or trees of them, of one form and the same shapes.
    """
    is_so = pointwise("ne", as_tensor(flag), 0)
    first = _if(is_so, f, operands, None)
    return _if(pointwise("not", is_so), g, operands, first)


def _if(flag: TensorLike, function: Callable[..., Any], operands: Sequence[Any], other: Any) -> Any:
    """What a function returns if a flag holds, else another tree, by default of zeros."""
    since, count = now(), Dim(1)
    found = function(*operands)
    if other is not None:
        _check_form(found, other, "the results of both functions have one form: that of f")
    values = [as_tensor(leaf).ir_value for leaf in _tensors(found)]
    zeros = [expressions.constant(0) for _ in values]
    begin = zeros if other is None else [as_tensor(leaf).ir_value for leaf in _tensors(other)]
    inits = [as_tensor(flag).ir_value, *begin]
    carries = [_argument(value, None, count) for value in inits]
    loop = _Loop(count, inits, [], carries, False, since, going=0, whole=True)
    lasts, _ = loop.results([carries[0], *values], [])
    return _with(found, lasts[1:])


def _tensors(tree: Any) -> list[Any]:
    """The leaves of a tree without None."""
    return [leaf for leaf in leaves_of(tree) if leaf is not None]


def _with(tree: Any, values: Sequence[Value]) -> Any:
    """The tree with other values in place of its tensors."""
    others = iter(values)
    leaves: Iterator[Any] = iter([None if leaf is None else Tensor(next(others)) for leaf in leaves_of(tree)])
    return built(form_of(tree), leaves)


def _sequence(leaf: Any, axis: int | None) -> tuple[Value, Axis]:
    value = as_tensor(leaf).ir_value
    if axis is None:
        return value, LAST_BATCH_AXIS
    place = MemoryAxes(value).place(integer(axis, "the number of an axis", least=None))
    return value, Axis(place.row, place.number)


def _argument(value: Value, axis: Axis | None, count: DimTerm) -> Value:
    """Stands for a carry, or for the position of a sequence."""
    return graph.add(ArgumentOp(value, axis, count, graph.fresh_type()), value.name_hint)


def _pair(found: Any, init: Any) -> tuple[Any, Any]:
    """What a cell has returned: a carry of the form of `init`, and `y`."""
    if not isinstance(found, tuple) or len(cast("tuple[Any, ...]", found)) != 2:
        raise ArgumentError(f"the cell of a scan returns (carry, y), found {type(found).__name__}")
    carry, y = cast("tuple[Any, Any]", found)
    _check_form(carry, init)
    return carry, y


def _check_form(carry: Any, init: Any, what: str = "the carry keeps its form: it begins as") -> None:
    if form_of(carry) != form_of(init) or len(_tensors(carry)) != len(_tensors(init)):
        forms = form_of(init), form_of(carry)
        names = [", ".join(paths_of(form, "carry")) or "nothing" for form in forms]
        raise ArgumentError(f"{what} {names[0]}, and then {names[1]} is returned")


@dataclass
class _Loop:
    """A scan whose cell has been called."""

    count: DimTerm
    inits: Sequence[Value]
    sequences: Sequence[tuple[Value, Axis]]
    arguments: Sequence[Value]
    reverse: bool
    since: int
    going: int | None = None
    whole: bool = False

    def results(
        self, carries: Sequence[Value], stacked: Sequence[tuple[Value, Axis]]
    ) -> tuple[list[Value], list[Value]]:
        """The last carries and the stacks."""
        checks = self._id_checks([*carries, *(value for value, _ in stacked)])
        least = [(check.statement.operands[0], LAST_BATCH_AXIS) for check in checks]
        own = [*stacked, *((value, axis) for value, axis in least if isinstance(value, Value))]
        body = scan_body(self.arguments, carries, own, self.since, self.whole)
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
        )
        op.attributes["results"] = ArrayAttr(types)
        # So that references alone free the operation.
        op.body.parent = None
        values = [*carries, *(value for value, _ in own)]
        first = graph.add(op, values[0].name_hint)
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
        made = [value_of(op) for op in needed([ForwardOp(value) for value in values])]
        return [check for value in made if value.made > self.since for check in value.id_checks]


def _checked(check: IdCheck, stack: Value) -> IdCheck:
    """The check of all iterations."""
    least = expressions.apply(Arg(0), [stack], logic="... | ... -> ... => 0", accum="min")
    return IdCheck(check.op, check.ids, check.axis, ForwardOp(least), check.place)
