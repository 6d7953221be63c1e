"""Tensors: handles on the values of the program under construction; and the dimensions and static indices
that stand beside them in expressions.

They are one module since each makes the others: the shape of a tensor has dimensions, sums of dimensions and
indices are tensors, and an index slices a tensor.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, ClassVar, NoReturn, SupportsIndex, TypeAlias, TypeGuard

import numpy as np
from xdsl.dialects.builtin import IntAttr

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import OcannlError, SpecError
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, Shape
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.program import expressions, graph
from ocannl.program.arithmetic import Arithmetic
from ocannl.program.checks import integer
from ocannl.program.code import Code, emit, is_recording
from ocannl.program.dtypes import SMALL_SCALARS
from ocannl.program.errors import ArgumentError
from ocannl.program.expressions import MOST_OPERANDS, SCALAR
from ocannl.program.location import here
from ocannl.program.stages import stage_text
from ocannl.program.values import Value, is_memory, label_of, operation_of

Number: TypeAlias = int | float | np.integer[Any] | np.floating[Any]

ARRAYS: tuple[type[object], ...] = (np.ndarray, list, tuple)


class Expression(Arithmetic["TensorLike", "Tensor"]):
    """Everything but numbers that can stand in a tensor expression."""

    __slots__ = ()

    def _pointwise(self, op: str, *operands: object) -> Tensor:
        return pointwise(op, *operands) if _fit(operands) else NotImplemented

    def _compose(self, left: object, right: object) -> Tensor:
        operands = left, right
        return compose(*operands) if _fit(operands) else NotImplemented


class Dim(Expression):
    """A dimension with a name. An einsum captures one (`d=d`); it is then a size for parameters, and a number
    in expressions.

    `int(d)` is its size; `ArgumentError` if that is not known yet. A dimension with a `basis` (a unit)
    matches only those of the same basis.
    """

    def __init__(self, name: str, size: int | None = None, *, basis: str | None = None) -> None:
        if basis is not None and size is None:
            raise ArgumentError(f"dimension {name!r} has a basis, so it needs a size")
        self.name = name
        known = None if size is None else KnownDim(integer(size, f"the size of `{name}`"), basis)
        self.term: DimTerm = known or graph.fresh_dim()

    @classmethod
    def of(cls, var: DimVar) -> Dim:
        """The dimension of a variable of inference."""
        dim = cls.__new__(cls)
        dim.name, dim.term = str(var), var
        return dim

    @property
    def known(self) -> int | None:
        """The size, or None while it is not known."""
        term = graph.known_dim(self.term)
        return term.size if isinstance(term, KnownDim) else None

    def __int__(self) -> int:
        size = self.known
        if size is None:
            raise ArgumentError(f"the size of dimension {self.name} is not known yet")
        return size

    __index__ = __int__

    def __repr__(self) -> str:
        size = self.known
        return self.name if size is None else f"{self.name}={size}"

    def tensor(self) -> Tensor:
        """The size as a number in an expression, or the product of the axes that it captured; known once
        shapes are.
        """
        return Tensor(graph.add(texpr.SizeOp(self.term, TensorType.of(SCALAR))))


Axis: TypeAlias = int | Dim | EllipsisType


class ShapeView:
    """A shape as far as it is known now. Reading it decides nothing.

    `str` gives `10|2->16`, with unknown rows as `..b3..` and unknown dimensions as `?d7`. `batch`, `input`
    and `output` are tuples of sizes, with a `Dim` for an unknown size and `...` for unknown axes.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def batch(self) -> tuple[Axis, ...]:
        """The sizes of the batch axes."""
        return _axes(self._shape.batch)

    @property
    def input(self) -> tuple[Axis, ...]:
        """The sizes of the input axes."""
        return _axes(self._shape.input)

    @property
    def output(self) -> tuple[Axis, ...]:
        """The sizes of the output axes."""
        return _axes(self._shape.output)

    @property
    def is_final(self) -> bool:
        """Whether all sizes are known."""
        return self._shape.is_final

    @property
    def array(self) -> tuple[int, ...]:
        """The shape of the tensor's array: batch, output, input axes. Raises `ArgumentError` if it is not
        final.
        """
        if not self._shape.is_final:
            raise ArgumentError(f"the shape {self} is not final: ask for oc.infer first")
        return self._shape.memory_sizes

    def __str__(self) -> str:
        return str(self._shape)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ShapeView):
            return self._shape == other._shape
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


def _axes(row: Row) -> tuple[Axis, ...]:
    def axis(term: DimTerm) -> Axis:
        return term.size if isinstance(term, KnownDim) else Dim.of(term)

    middle: tuple[Axis, ...] = () if row.var is None else (...,)
    return (*map(axis, row.leading), *middle, *map(axis, row.trailing))


class Index(Expression):
    """A static index of a routine: a slice position, or a number in an expression, known when the routine
    runs.
    """

    _declared = itertools.count()
    names: ClassVar[set[str]] = set()
    """The names of all indices that were ever declared."""

    def __init__(self, name: str, range: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ArgumentError(f"an index is named by an identifier of ASCII letters, found {name!r}")
        self.name = name
        self.range = None if range is None else integer(range, f"the range of index {name!r}", least=1)
        self._order = next(Index._declared)
        Index.names.add(name)
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
        """The part of a tensor at this index, along its leftmost batch axis."""
        op = texpr.SliceOp(tensor.ir_value, Linear.var(self.name), graph.fresh_type())
        return Tensor(graph.add(self._tag(op)))

    def _tag(self, op: texpr.TensorOp) -> texpr.TensorOp:
        """Notes the index at an operation that uses it, for the routine's signature.

        There, indices stand in the order of their declaration.
        """
        op.attributes["indices"] = IndicesAttr(((self.name, self.range),))
        op.attributes["declared"] = IntAttr(self._order)
        return op


class Tensor(Expression):
    """A tensor expression, or memory: a parameter, data, a node, a gradient or a value.

    It is a handle on a value of the program under construction. Handles of the same value are equal, and can
    be keys.
    """

    __slots__ = ("__weakref__", "ir_value")

    def __init__(self, value: Value) -> None:
        if type(value) is not Value:
            raise ArgumentError("tensors are made by oc.data, oc.param and operators")
        self.ir_value = value

    def tensor(self) -> Tensor:
        """The tensor itself."""
        return self

    @property
    def op(self) -> texpr.TensorOp:
        """The operation that makes this value."""
        return operation_of(self.ir_value)

    @property
    def label(self) -> str:
        """The name given by the user, or one made from the operation."""
        return label_of(self.ir_value)

    @property
    def shape(self) -> ShapeView:
        """The shape, as far as it is known now. Reading it decides nothing."""
        return ShapeView(graph.known_shape(self.ir_value))

    @property
    def T(self) -> Tensor:
        """The transpose: input and output row exchanged."""
        return Tensor(expressions.apply(Arg(0), [self.ir_value], logic="T"))

    @property
    def grad(self) -> Tensor:
        """The gradient node, of the tensor's shape: memory that `backprop` adds to."""
        return Tensor(graph.memory_of_tensor(self.ir_value, texpr.GradOp))

    @property
    def value(self) -> Tensor:
        """The memory of this expression's last computed value. Routines that are compiled afterwards keep it
        on the device.
        """
        if is_memory(self.ir_value):
            return self
        return Tensor(graph.memory_of_tensor(self.ir_value, texpr.ValueOp))

    @property
    def forward(self) -> Code:
        """Code that computes this expression and leaves its value in memory."""
        return emit(texpr.ForwardOp(self.ir_value), self.label)

    @property
    def zero_grads(self) -> Code:
        """Code that sets the gradients of everything that this depends on to zero."""
        return emit(texpr.ZeroGradsOp(self.ir_value))

    @property
    def backprop(self) -> Code:
        """Code that adds to the gradients of everything that this depends on, from this tensor's gradient."""
        return emit(texpr.BackpropOp(self.ir_value))

    def einsum(self, spec: str, *, use_padding: bool = False, **dims: int | Dim) -> Tensor:
        """`oc.einsum(spec, self)`."""
        return by_spec(spec, "add", "mul", [self], dims, use_padding=use_padding)

    def ir(self, stage: str = "texpr", *, origins: bool = False, target: str | None = None) -> str:
        """The text of the program that computes this tensor, at a stage of the pipeline; with `origins`, each
        operation is followed by the expressions and lines that it comes from. Schedules are for the processor
        `target`, by LLVM's name: by default `OCANNL_TARGET`, else `x86-64-v4`.
        """
        return stage_text(self.forward.statements, self.label, stage, origins=origins, target=target)

    def named(self, label: str) -> Tensor:
        """The same tensor, under a name that shows in its IR and messages."""
        if not is_memory(self.ir_value):
            self.ir_value.rename(graph.hint(label))
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
        self._record(value)

    def __iadd__(self, value: TensorLike) -> Tensor:
        return self._update("add", value)

    def __isub__(self, value: TensorLike) -> Tensor:
        return self._update("sub", value)

    def __imul__(self, value: TensorLike) -> Tensor:
        return self._update("mul", value)

    def __itruediv__(self, value: TensorLike) -> Tensor:
        return self._update("div", value)

    def _update(self, op: str, value: TensorLike) -> Tensor:
        result = pointwise(op, self, value)
        if not is_recording():
            return result
        self._record(result)
        return self

    def _record(self, value: TensorLike) -> None:
        """`self[...] = value` inside a code block."""
        if not is_recording():
            raise OcannlError(
                "memory is assigned inside a `with oc.code(...)` block, or by oc.set(target, value); "
                "a context's copy is set by ctx[target] = array"
            )
        assign(self, value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Neither copied nor pickled: the value is in the memory of contexts."""
        raise ArgumentError(
            f"`{self.label}` is a handle on memory, or on how to compute it: its values are copied and saved "
            "from a context, by `ctx[t]` and `ctx.save(path, model)`"
        )

    def __iter__(self) -> None:
        raise ArgumentError("a tensor expression cannot be iterated; its axes are named in einsum specs")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other.ir_value is self.ir_value

    def __hash__(self) -> int:
        return hash(self.ir_value)

    def __repr__(self) -> str:
        return f"<{self.label}: {self.shape}>"


TensorLike: TypeAlias = Expression | Number


def _position(index: int) -> int:
    if index < 0:
        raise IndexError(f"a fixed position counts from the front, found {index}")
    return index


def _fit(operands: tuple[object, ...]) -> TypeGuard[tuple[TensorLike, ...]]:
    """Whether all can stand in an expression. Raises `ArgumentError` for arrays, which become tensors by
    `oc.data`, and for objects of other builtin classes.
    """
    strange = [operand for operand in operands if not is_tensor_like(operand)]
    for operand in strange:
        if isinstance(operand, ARRAYS):
            raise ArgumentError(
                f"a tensor and a {type(operand).__name__}: an array becomes a tensor by oc.data"
            )
        if type(operand).__module__ == "builtins":
            raise ArgumentError(f"a tensor does not combine with a {type(operand).__name__}")
    return not strange


def is_tensor_like(value: object) -> TypeGuard[TensorLike]:
    """Whether a value is a number, or anything else that can stand in a tensor expression."""
    return isinstance(value, Expression) or _is_number(value)


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, (int, float, np.number, np.bool_, *SMALL_SCALARS)) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )


def as_tensor(value: TensorLike) -> Tensor:
    """Numbers become constants, indices and dimensions numbers in the expression.

    Raises `ArgumentError` for everything else: arrays are given by `oc.data`.
    """
    return value.tensor() if isinstance(value, Expression) else Tensor(expressions.constant(number(value)))


def number(value: Number) -> float:
    """A number as it stands in an expression. Raises `ArgumentError` for everything else."""
    if _is_number(value):
        return float(value)
    raise ArgumentError(
        f"expected a tensor or a number, found {type(value).__name__}; an array becomes a tensor by oc.data"
    )


def as_memory(target: TensorLike) -> Value:
    """The value of a tensor that can be assigned. Raises `OcannlError` for an expression."""
    tensor = as_tensor(target)
    if not is_memory(tensor.ir_value):
        raise OcannlError(
            f"`{tensor.label}` is an expression, not memory: "
            "only parameters, data, nodes, gradients and values are assigned"
        )
    return tensor.ir_value


def assign(target: TensorLike, value: TensorLike) -> Code:
    """Code that sets memory to the value of an expression, broadcast to its shape."""
    return emit(texpr.AssignOp(as_memory(target), as_tensor(value).ir_value, logic="."))


def pointwise(op: str, *args: TensorLike) -> Tensor:
    """An operator of the scalar table, broadcast over its operands. Numbers beside tensors are part of it."""
    arity = SCALAR_OPS[op].arity
    if len(args) != arity:
        raise ArgumentError(f"{op} takes {arity} tensors, found {len(args)}")
    operands = [a.tensor().ir_value if isinstance(a, Expression) else number(a) for a in args]
    return Tensor(expressions.pointwise(op, operands))


def compose(left: TensorLike, right: TensorLike) -> Tensor:
    """`left @ right`: the input row of `left` meets the output row of `right`, and is summed over."""
    operands = [as_tensor(left).ir_value, as_tensor(right).ir_value]
    return Tensor(expressions.apply(App("mul", (Arg(0), Arg(1))), operands, logic="@", accum="add"))


def by_spec(
    spec: str,
    accum: str,
    combine: str,
    args: Sequence[TensorLike],
    dims: Mapping[str, int | Dim],
    *,
    use_padding: bool = False,
    most: int | None = MOST_OPERANDS,
) -> Tensor:
    """`expressions.spec_apply` of tensors, as many as `most`; dimensions are given by name."""
    expressions.check_spec(spec, len(args), most)
    bound = [(name, _bound_dim(name, dim)) for name, dim in dims.items()]
    operands = [as_tensor(arg).ir_value for arg in args]
    return Tensor(expressions.spec_apply(spec, accum, combine, operands, bound, use_padding=use_padding))


def _bound_dim(name: str, dim: int | Dim) -> DimTerm:
    if isinstance(dim, Dim):
        return dim.term
    if isinstance(dim, bool) or not isinstance(dim, SupportsIndex):
        raise SpecError(
            here(f"`{name}` is fixed by an integer or captured by an oc.Dim, found {type(dim).__name__}")
        )
    return Dim(name, operator.index(dim)).term
