"""Loops over positions of tensors, which run when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from ocannl.program.memory_axes import MemoryAxes, Place, Slot
from ocannl.program.needed import needed
from ocannl.program.scan_bodies import scan_body
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.trees import built, children, form_of, leaves_of, paths_of
from ocannl.program.values import Value, now, value_of

Cell = Callable[[Any, Any], tuple[Any, Any]]


def scan(
    cell: Cell,
    init: Any,
    xs: Any,
    reverse: bool = False,
    length: int | None = None,
    axis: int | None = None,
    *,
    checkpoint_every: int | None = None,
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

    With `checkpoint_every=k`, of a known number of positions, derivatives in reverse mode save the carry at
    every k-th position, and compute the k iterations from there again (Chen et al., "Training deep nets with
    sublinear memory cost", 2016). The cell is called once or twice then.
    """
    sequences = [_sequence(leaf, axis) for leaf in _tensors(xs)]
    if length is None and not sequences:
        raise ArgumentError("a scan without xs needs its length=")
    known = None if length is None else integer(length, "the length of a scan")
    if checkpoint_every is not None:
        every = integer(checkpoint_every, "the number of positions", least=1)
        found = _Scan(cell, init, xs, sequences, reverse, known).in_blocks(every)
    else:
        found = _Scan(cell, init, xs, sequences, reverse, known).run()
    return found


@dataclass(frozen=True)
class _Scan:
    """A scan of some sequences, along an axis of each."""

    cell: Cell
    init: Any
    xs: Any
    sequences: Sequence[tuple[Value, Axis]]
    reverse: bool
    length: int | None
    along: Axis | None = None
    """The axis of the positions in stacks; by default that of the first sequence."""

    def run(self, *, recompute: bool = False) -> tuple[Any, Any]:
        since = now()
        count: DimTerm = graph.fresh_dim() if self.length is None else Dim(self.length)
        inits = [as_tensor(leaf).ir_value for leaf in _tensors(self.init)]
        carries = [_argument(value, None, count) for value in inits]
        positions = [_argument(value, at, count) for value, at in self.sequences]
        carry, y = _pair(self.cell(_with(self.init, carries), _with(self.xs, positions)), self.init)
        stacked = [as_tensor(leaf).ir_value for leaf in _tensors(y)]
        loop = _Loop(count, inits, self.sequences, [*carries, *positions], self.reverse, since)
        loop.recompute = recompute
        lasts, stacks = loop.results(
            [as_tensor(leaf).ir_value for leaf in _tensors(carry)], [(v, self.axis) for v in stacked]
        )
        return _with(y, stacks), _with(self.init, lasts)

    @property
    def axis(self) -> Axis:
        """That of the positions in stacks."""
        return self.along or (self.sequences[0][1] if self.sequences else LAST_BATCH_AXIS)

    def size(self) -> int:
        """The number of positions. Raises `ShapeError` where it is not known."""
        if self.length is not None:
            return self.length
        value, axis = self.sequences[0]
        return MemoryAxes(value).known_size(Place(axis.row, axis.number))

    def in_blocks(self, every: int) -> tuple[Any, Any]:
        """A scan of scans of so many positions, and of the positions that are left."""
        size = self.size()
        blocks, left = divmod(size, every)
        if blocks < 2:
            return self.run()
        if not left:
            return self._of_blocks(every, blocks)
        ends = [[_cut(*one, size - left, first=first) for one in self.sequences] for first in (True, False)]
        whole, rest = (
            replace(self, sequences=[(value, at) for value, (_, at) in zip(end, self.sequences, strict=True)])
            for end in ends
        )
        whole, rest = replace(whole, length=size - left), replace(rest, length=left)
        if self.reverse:
            ys_rest, carry = rest.run(recompute=True)
            ys, last = replace(whole, init=carry)._of_blocks(every, blocks)
        else:
            ys, carry = whole._of_blocks(every, blocks)
            ys_rest, last = replace(rest, init=carry).run(recompute=True)
        pairs = zip(_tensors(ys), _tensors(ys_rest), strict=True)
        joined = [_joined(one.ir_value, other.ir_value, self.axis, size - left, left) for one, other in pairs]
        return _with(ys, joined), last

    def _of_blocks(self, every: int, blocks: int) -> tuple[Any, Any]:
        split = [_split(value, axis, every) for value, axis in self.sequences]
        outer = [_ahead(axis) for _, axis in self.sequences]

        def block(carry: Any, xs: Any) -> tuple[Any, Any]:
            given = [leaf.ir_value for leaf in _tensors(xs)]
            sequences = [(v, axis) for v, (_, axis) in zip(given, self.sequences, strict=True)]
            inner = _Scan(self.cell, carry, xs, sequences, self.reverse, every, self.axis)
            ys, last = inner.run(recompute=True)
            return last, ys

        sequences = [*zip(split, outer, strict=True)]
        along = _ahead(self.axis)
        around = _Scan(block, self.init, self.xs, sequences, self.reverse, blocks, along)
        ys, last = around.run()
        return _with(ys, [_merged(y.ir_value, self.axis) for y in _tensors(ys)]), last


def _ahead(axis: Axis) -> Axis:
    """The axis of blocks, before that of the positions in them."""
    return axis if axis.number >= 0 else Axis(axis.row, axis.number - 1)


def _slot(value: Value, axis: Axis) -> tuple[Slot, str]:
    """The axes of a value in a spec, and the name of one."""
    slot = MemoryAxes(value).slot("x")
    return slot, slot.at(Place(axis.row, axis.number))


def _cut(value: Value, axis: Axis, at: int, *, first: bool) -> Value:
    """The positions before one, or those from it on."""
    slot, name = _slot(value, axis)
    kept = "head" if first else "tail"
    spec = f"{slot.with_axes({name: ('head^tail',)})} => {slot.with_axes({name: (kept,)})}"
    return expressions.spec_apply(spec, "add", "mul", [value], [("head", Dim(at))])


def _split(value: Value, axis: Axis, size: int) -> Value:
    """With an axis of blocks of so many positions before that of positions in them."""
    slot, name = _slot(value, axis)
    spec = f"{slot.with_axes({name: ('block&place',)})} => {slot.with_axes({name: ('block', 'place')})}"
    return expressions.spec_apply(spec, "add", "mul", [value], [("place", Dim(size))])


def _merged(value: Value, axis: Axis) -> Value:
    """With one axis for that of blocks and that of the positions in them."""
    slot, _ = _slot(value, axis)
    names = slot.rows[axis.row]
    at = names.index(slot.at(Place(axis.row, axis.number))) - (axis.number < 0)
    left, right = names[at : at + 2]
    merged = slot.with_axes({left: (f"{left}&{right}",), right: ()})
    return expressions.spec_apply(f"{slot} => {merged}", "add", "mul", [value], [])


def _joined(one: Value, other: Value, axis: Axis, size: int, left: int) -> Value:
    """Two values one after the other along an axis."""
    slot, name = _slot(one, axis)
    own, rest = (slot.with_axes({name: (end,)}) for end in ("head", "tail"))
    spec = f"{own}; {rest} => {slot.with_axes({name: ('head^tail',)})}"
    dims = [("head", Dim(size)), ("tail", Dim(left))]
    return expressions.spec_apply(spec, "add", "add", [one, other], dims)


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
    """The results of a function if a flag holds, else another tree, by default of zeros."""
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
    """The two results of a cell: a carry of the form of `init`, and `y`."""
    parts, name = children(found), type(found).__name__
    if not isinstance(found, tuple) or parts is None or len(parts) != 2:
        raise ArgumentError(f"the cell of a scan returns (carry, y), found {name}")
    carry, y = parts.values()
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
    recompute: bool = False

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
            recompute=self.recompute,
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
