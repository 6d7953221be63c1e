"""Tensors: handles on the values of the program under construction, and the operations between them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import ROW_KINDS, DimTerm, Row, RowKind, Shape
from ocannl.dialects.shapes.spec import SpecSyntaxError, parse_spec
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.program import graph
from ocannl.program.arithmetic import Arithmetic
from ocannl.program.checks import integer
from ocannl.program.dtypes import SMALL_SCALARS, float_element
from ocannl.program.location import here
from ocannl.program.misuse import ArgumentError
from ocannl.program.shapes import Dim, ShapeView

if TYPE_CHECKING:
    from ocannl.program.code import Code

Number: TypeAlias = int | float | np.integer[Any] | np.floating[Any]

SCALAR = Shape(Row(), Row(), Row())


class Index(Arithmetic):
    """A static index of a routine: a slice position, or a number in an expression, known when the routine
    runs.
    """

    _declared = itertools.count()

    def __init__(self, name: str, range: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ArgumentError(f"an index is named by an identifier of ASCII letters, found {name!r}")
        self.name = name
        self.range = None if range is None else integer(range, f"the range of index {name!r}", least=1)
        self._order = next(Index._declared)
        self._hash = hash((self.name, self.range))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and (self.name, self.range) == (other.name, other.range)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name if self.range is None else f"{self.name}[0..{self.range - 1}]"

    def tensor(self) -> Tensor:
        """The index as a number in an expression."""
        return Tensor(graph.add(self._tag(texpr.EmbedOp(Linear.var(self.name), TensorType.of(SCALAR)))))

    def slice(self, tensor: Tensor) -> Tensor:
        op = texpr.SliceOp(tensor.ir_value, Linear.var(self.name), graph.fresh_type())
        return Tensor(graph.add(self._tag(op)))

    def _tag(self, op: texpr.TensorOp) -> texpr.TensorOp:
        """Notes the index at an operation that uses it, for the routine's signature.

        There, indices stand in the order of their declaration.
        """
        op.attributes["indices"] = IndicesAttr(((self.name, self.range),))
        op.attributes["declared"] = IntAttr(self._order)
        return op


class Tensor(Arithmetic):
    """A tensor expression, or memory: a parameter, data, a node, a gradient or a value.

    It is a handle on a value of the program under construction. Handles of the same value are equal, and can
    be keys.
    """

    __slots__ = ("ir_value",)

    def __init__(self, op: texpr.TensorOp) -> None:
        self.ir_value: SSAValue = op.result

    def tensor(self) -> Tensor:
        return self

    @property
    def op(self) -> texpr.TensorOp:
        """The operation that makes this value."""
        op = self.ir_value.owner
        assert isinstance(op, texpr.TensorOp)
        return op

    @property
    def label(self) -> str:
        """The name given by the user, or one made from the operation."""
        match self.op:
            case texpr.MemoryOp() as memory:
                return memory.label.data
            case texpr.GradOp() as grad:
                return f"{handle(grad.source).label}.grad"
            case texpr.ValueOp() as value:
                return f"{handle(value.source).label}.value"
            case op:
                return self.ir_value.name_hint or _operation_name(op)

    @property
    def shape(self) -> ShapeView:
        """What is known of the shape now; closes nothing."""
        return ShapeView(graph.known_shape(self.ir_value))

    @property
    def T(self) -> Tensor:
        """Swaps the input and the output row."""
        return Tensor(apply(Arg(0), [self], logic="T"))

    @property
    def grad(self) -> Tensor:
        """The gradient node: memory that `backprop` adds to."""
        return Tensor(graph.memory_of_tensor(self.ir_value, texpr.GradOp))

    @property
    def value(self) -> Tensor:
        """The memory that the last computation of this expression left; asking for it keeps it on the
        device.
        """
        if is_memory(self):
            return self
        return Tensor(graph.memory_of_tensor(self.ir_value, texpr.ValueOp))

    @property
    def forward(self) -> Code:
        """Code that computes this expression and leaves its value in memory."""
        from ocannl.program.code import forward

        return forward(self)

    @property
    def zero_grads(self) -> Code:
        """Code that sets to zero the gradients of everything that this depends on."""
        from ocannl.program.code import zero_grads

        return zero_grads(self)

    @property
    def backprop(self) -> Code:
        """Code that adds to the gradients of everything that this depends on, from this tensor's gradient."""
        from ocannl.program.code import backprop

        return backprop(self)

    def einsum(self, spec: str, *, use_padding: bool = False, **dims: int | Dim) -> Tensor:
        """`oc.einsum(spec, self)`."""
        return einsum(spec, self, use_padding=use_padding, **dims)

    def ir(self, stage: str = "texpr") -> str:
        """The text of the program that computes this tensor, at a stage of the pipeline."""
        from ocannl.execute.stages import stage_text

        return stage_text(self.forward, self.label, stage)

    def named(self, label: str) -> Tensor:
        """The same tensor, under a name that shows in its IR and messages."""
        if not is_memory(self):
            self.ir_value.name_hint = graph.hint(label)
        return self

    def __getitem__(self, index: Index | int) -> Tensor:
        if isinstance(index, Index):
            return index.slice(self)
        if isinstance(index, int | np.integer):
            position = Linear((), _position(int(index)))
            return Tensor(graph.add(texpr.SliceOp(self.ir_value, position, graph.fresh_type())))
        raise ArgumentError(
            f"a tensor is sliced by an oc.index or an integer, along its leftmost batch axis, "
            f"found {type(index).__name__}; "
            "other axes are taken by an einsum spec with a fixed position"
        )

    def __setitem__(self, key: EllipsisType, value: TensorLike) -> None:
        if key is not ...:
            raise ArgumentError(
                "memory is set as a whole: t[...] = value; parts are set by oc.accumulate with a spec"
            )
        from ocannl.program.code import record_set

        record_set(self, value)

    def __iadd__(self, value: TensorLike) -> Tensor:
        return self._update("add", value)

    def __isub__(self, value: TensorLike) -> Tensor:
        return self._update("sub", value)

    def __imul__(self, value: TensorLike) -> Tensor:
        return self._update("mul", value)

    def __itruediv__(self, value: TensorLike) -> Tensor:
        return self._update("div", value)

    def _update(self, op: str, value: TensorLike) -> Tensor:
        from ocannl.program.code import is_recording, record_set

        result = pointwise(op, self, value)
        if not is_recording():
            return result
        record_set(self, result)
        return self

    def __iter__(self) -> None:
        raise ArgumentError("a tensor expression cannot be iterated; its axes are named in einsum specs")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other.ir_value is self.ir_value

    def __hash__(self) -> int:
        return hash(self.ir_value)

    def __repr__(self) -> str:
        return f"<{self.label}: {self.shape}>"


TensorLike: TypeAlias = Arithmetic | Number


def _operation_name(op: texpr.TensorOp) -> str:
    """What an unnamed expression is called: by its operation."""
    if not isinstance(op, texpr.ApplyOp):
        return op.name.removeprefix("texpr.")
    if op.logic is not None and op.logic.data not in (".", "T"):
        return "product" if op.logic.data == "@" else "einsum"
    term = op.term.data
    return term.op if isinstance(term, App) else "transpose"


def handle(value: SSAValue) -> Tensor:
    """The tensor of a value."""
    op = value.owner
    assert isinstance(op, texpr.TensorOp)
    return Tensor(op)


def _position(index: int) -> int:
    if index < 0:
        raise IndexError(f"a fixed position counts from the front, found {index}")
    return index


def is_memory(tensor: Tensor) -> bool:
    """Parameters, data, nodes, gradients and values are memory; everything else is an expression."""
    return isinstance(tensor.op, texpr.MemoryOp | texpr.OfOp)


def memory_key(tensor: Tensor) -> tuple[SSAValue, bool]:
    """The value that owns a tensor's memory, and whether the memory is its gradient."""
    op = tensor.op
    if isinstance(op, texpr.OfOp):
        return op.source, isinstance(op, texpr.GradOp)
    return tensor.ir_value, False


def is_tensor_like(value: object) -> bool:
    return isinstance(value, (Arithmetic, int, float, np.number, np.bool_, *SMALL_SCALARS)) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )


def as_tensor(value: TensorLike) -> Tensor:
    """Numbers become constants, indices and dimensions numbers in the expression.

    Raises `ArgumentError` for everything else: arrays are given by `oc.data`.
    """
    if isinstance(value, Arithmetic):
        return value.tensor()
    return Tensor(graph.add(texpr.ConstantOp(number(value), graph.fresh_type())))


def number(value: Number) -> float:
    """A number as it stands in an expression. Raises `ArgumentError` for everything else."""
    if is_tensor_like(value):
        return float(value)
    raise ArgumentError(
        f"expected a tensor or a number, found {type(value).__name__}; an array becomes a tensor by oc.data"
    )


def apply(
    term: Term,
    args: Sequence[TensorLike],
    *,
    logic: str,
    accum: str | None = None,
    dims: Sequence[tuple[str, DimTerm]] = (),
    label: str | None = None,
    stop: bool = False,
) -> texpr.ApplyOp:
    """Appends one tensor operation. Raises `ShapeError` where the shapes cannot fit."""
    operands = [as_tensor(a).ir_value for a in args]
    op = texpr.ApplyOp(term, operands, graph.fresh_type(), accum=accum, logic=logic, dims=dims, stop=stop)
    return graph.add(op, label or _operator_hint(term, accum))


def _operator_hint(term: Term, accum: str | None) -> str | None:
    """Unary operators name their results in the IR."""
    return term.op if isinstance(term, App) and len(term.args) == 1 and accum is None else None


def pointwise(op: str, *args: TensorLike) -> Tensor:
    """An operator of the scalar table, broadcast over its operands. Numbers beside tensors are part of it."""
    entry = SCALAR_OPS[op]
    if len(args) != entry.arity:
        raise ArgumentError(f"{op} takes {entry.arity} tensors, found {len(args)}")
    if not any(isinstance(a, Arithmetic) for a in args):
        return Tensor(apply(App(op, tuple(map(Arg, range(len(args))))), args, logic="."))
    terms: list[Term] = []
    operands: list[TensorLike] = []
    for arg in args:
        terms.append(Arg(len(operands)) if isinstance(arg, Arithmetic) else Const(number(arg)))
        operands += [arg] if isinstance(arg, Arithmetic) else []
    return Tensor(apply(App(op, tuple(terms)), operands, logic="."))


def compose(left: TensorLike, right: TensorLike) -> Tensor:
    """`left @ right`: the input row of `left` meets the output row of `right`, and is summed over."""
    return Tensor(apply(App("mul", (Arg(0), Arg(1))), [left, right], logic="@", accum="add"))


MOST_OPERANDS = 3


def spec_apply(
    spec: str,
    accum: str,
    combine: str,
    args: Sequence[TensorLike],
    dims: Mapping[str, int | Dim],
    *,
    use_padding: bool = False,
    most: int | None = MOST_OPERANDS,
) -> Tensor:
    """An operation by an einsum spec; several operands are combined by `combine`, one stands for itself.

    With `use_padding`, the axes `s*o + d*k` that do not say it themselves are padded. Raises `SpecError` for
    a malformed spec, `ShapeError` where shapes cannot fit it.
    """
    if not isinstance(spec, str):
        raise ArgumentError(f"a spec is a string, found {type(spec).__name__}; it stands before the operands")
    if not args or (most is not None and len(args) > most):
        raise SpecError(here(f"a spec takes one to three operands, found {len(args)}: {spec!r}"))
    term: Term = Arg(0)
    for place in range(1, len(args)):
        term = App(combine, (term, Arg(place)))
    bound = [(name, _bound_dim(name, dim)) for name, dim in dims.items()]
    logic = _padded(spec) if use_padding else spec
    return Tensor(apply(term, args, logic=logic, accum=accum, dims=bound))


def _padded(spec: str) -> str:
    """The spec with the padding that its operation asks for; malformed text is left for shape inference."""
    try:
        return str(parse_spec(spec).padded())
    except SpecSyntaxError:
        return spec


def _bound_dim(name: str, dim: int | Dim) -> DimTerm:
    if isinstance(dim, Dim):
        return dim.term
    if isinstance(dim, bool) or not isinstance(dim, SupportsIndex):
        raise SpecError(
            here(f"`{name}` is fixed by an integer or captured by an oc.Dim, found {type(dim).__name__}")
        )
    return Dim(name, operator.index(dim)).term


def einsum(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """Sums of products by a spec: `oc.einsum("i j; j k => i k", a, b)`. One operand is summed.

    `dims` fix (`h=8`) or capture (`d=oc.Dim("d")`) dimensions of the spec by name, and give the numbers of
    named coefficients. Windows `s*o + d*k` are padded with zeros if `use_padding` is set; else they stay
    inside the axis.
    """
    return spec_apply(spec, "add", "mul", args, dims, use_padding=use_padding)


def einmax(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """The maximum over the axes that the spec leaves out; several operands are multiplied."""
    return spec_apply(spec, "max", "mul", args, dims, use_padding=use_padding)


def tropical(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """The maximum of sums (tropical product) by a spec."""
    return spec_apply(spec, "max", "add", args, dims, use_padding=use_padding)


def outer_sum(spec: str, *args: TensorLike, use_padding: bool = False, **dims: int | Dim) -> Tensor:
    """The sum of sums by a spec."""
    return spec_apply(spec, "add", "add", args, dims, use_padding=use_padding)


def concat(spec: str, *args: TensorLike, **dims: int | Dim) -> Tensor:
    """Joins any number of tensors along an axis: `oc.concat("a; b; c => a^b^c", x, y, z)`.

    What the result says several times, or not at all, is summed. Raises as `oc.einsum` does.
    """
    return spec_apply(spec, "add", "add", args, dims, most=None)


def stack(tensors: Sequence[TensorLike], axis: RowKind) -> Tensor:
    """Tensors of one shape along a new axis: the first of the `axis` row, "batch", "input" or "output".

    Raises `ShapeError` where the shapes differ.
    """
    if axis not in ROW_KINDS:
        raise ArgumentError(f"a new axis is in the batch, input or output row, found {axis!r}")
    if not tensors:
        raise ArgumentError("there is nothing to stack")
    parts = [f"part{i}" for i in range(len(tensors))]
    slots = f"{_slot(axis, '')} => {_slot(axis, 'part,')}"
    single = [einsum(slots, t, part=1).named(as_tensor(t).label) for t in tensors]
    if len(single) == 1:
        return single[0]
    operands = "; ".join(_slot(axis, f"{part},") for part in parts)
    return concat(f"{operands} => {_slot(axis, '^'.join(parts) + ',')}", *single)


def _slot(kind: RowKind, axis: str) -> str:
    """A slot of three open rows, with an axis at the front of one."""
    batch, input, output = (f"{axis} ..." if row == kind else "..." for row in ROW_KINDS)
    return f"{batch} | {input} -> {output}"


def size_of(dim: Dim) -> Tensor:
    """The size of a dimension as a number, or the product of the axes that it captured; known once shapes
    are.
    """
    return Tensor(graph.add(texpr.SizeOp(dim.term, TensorType.of(SCALAR))))


SAME_SHAPE = "... | ... -> ... => ... | ... -> ..."


def convert(x: TensorLike, element: Attribute) -> Tensor:
    """The value in an element type, of the same shape."""
    type = graph.fresh_type(element)
    return Tensor(graph.add(texpr.ApplyOp(Arg(0), [as_tensor(x).ir_value], type, logic=SAME_SHAPE), "cast"))


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The value in a floating dtype, rounded to the nearest number of it, and to the even one of two.

    What is too large becomes infinity, or NaN where there is none. The gradient is converted back. Raises
    `PrecisionError` for a dtype that no target stores, and for integers.
    """
    return convert(x, float_element(dtype, "a cast is to a value"))


def stop_gradient(x: TensorLike) -> Tensor:
    """The same value; no gradient goes through it."""
    return Tensor(apply(Arg(0), [x], logic=".", stop=True, label="stop_gradient"))
