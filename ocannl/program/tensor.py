"""Tensors: handles on the values of the program under construction; and the dimensions and static indices
that stand beside them in expressions.

They are one module since each makes the others: the shape of a tensor has dimensions, sums of dimensions and
indices are tensors, and an index slices a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard, cast

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import OcannlError, SpecError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import DimTerm, DimVar
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.program import expressions, graph
from ocannl.program.arguments.arrays import is_array
from ocannl.program.arguments.checks import integer, whole
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import Number, is_number, is_truth, literal, number
from ocannl.program.arguments.static_index import StaticIndex, tagged
from ocannl.program.arithmetic import Arithmetic, InPlace
from ocannl.program.code import Code, emit, ends_block, is_recording, run
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.looks import Looks, not_iterated
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.expressions import MOST_OPERANDS, SCALAR
from ocannl.program.handle import Handle
from ocannl.program.indexing import new_axes, tensor_parts
from ocannl.program.indexing.memory_parts import Part, Parts, is_same_key, items_of
from ocannl.program.location import here
from ocannl.program.memory.assigned import checked_memory
from ocannl.program.memory.own_memory import OwnMemory
from ocannl.program.mistakes.moved_rows import warn_of_moved_rows
from ocannl.program.mistakes.no_tensor import no_tensor
from ocannl.program.mistakes.one_number import check_loss
from ocannl.program.mistakes.other_functions import METHODS
from ocannl.program.mistakes.other_names import NamesApart, missing
from ocannl.program.mistakes.transposed import warn_of_batch_axes
from ocannl.program.tensor_functions import reshapes
from ocannl.program.tensor_functions.points import Point, at_points
from ocannl.program.tensor_functions.reductions import Reducible
from ocannl.program.text.shown_program import ShownProgram
from ocannl.program.tracing.padded_axes import ask_counts, note_reduction
from ocannl.program.types.final_types import element_now
from ocannl.program.types.shape_view import ShapeView
from ocannl.program.values import Value, is_memory


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
        if not isinstance(cast("object", name), str):
            raise ArgumentError(f"a dimension is named by a string, found {name!r}")
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
        return Tensor(expressions.size_of(self.term))


class Index(StaticIndex, Expression):
    """A static index of a routine: a slice position, or a number in an expression, known when the routine
    runs.
    """

    def tensor(self) -> Tensor:
        """The index as a number in an expression."""
        return Tensor(graph.add(tagged(texpr.EmbedOp(Linear.var(self.name), TensorType.of(SCALAR)), self)))


class Tensor(
    Handle,
    Expression,
    InPlace["TensorLike", "Tensor"],
    Looks,
    OwnMemory["Tensor"],
    Reducible["Tensor"],
    NamesApart,
    ShownProgram,
):
    """A tensor expression, or memory: a parameter, data, a node, a gradient or a value.

    It is a handle on a value of the program under construction. Handles of the same value are equal, and can
    be keys.
    """

    __slots__ = ()
    in_place_of = METHODS

    def __setattr__(self, name: str, value: object) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            if hasattr(type(self), name):
                raise
            raise missing("'Tensor' object", name, (), self.in_place_of) from None

    def __init__(self, value: Value) -> None:
        if type(value) is not Value:
            raise ArgumentError("tensors are made by oc.data, oc.param and operators")
        super().__init__(value)
        if is_eager():
            RECORDER.note(self)

    def tensor(self) -> Tensor:
        """The tensor itself."""
        return self

    def _value(self) -> Value:
        return self.ir_value

    def _of(self, value: Value) -> Tensor:
        return Tensor(value)

    @property
    def shape(self) -> ShapeView[Dim]:
        """The shape, as far as it is known now. Reading it decides nothing."""
        return ShapeView(self.ir_value, Dim.of)

    @property
    def ndim(self) -> int:
        """The number of axes. Raises `ShapeError` where nothing determines the shape."""
        return len(self.shape)

    def __len__(self) -> int:
        sizes = self.shape.array
        if not sizes:
            raise ArgumentError(f"`{self.label}` is a single number: it has no length")
        return sizes[0]

    @property
    def count(self) -> Index | tuple[Index, ...]:
        """In a function with padded axes, `oc.function(axes={"x": "*bo"})`, the real size of the padded axis,
        as a number in expressions; of several, all in the order of memory.

        Raises `ArgumentError` where no axis is padded.
        """
        found: list[Index] = ask_counts(self.ir_value)
        if not found:
            raise ArgumentError(
                f'`{self.label}` has no padded axis: `*` marks one, as in oc.function(axes={{"x": "*bo"}})'
            )
        return found[0] if len(found) == 1 else tuple(found)

    @property
    def T(self) -> Tensor:
        """The transpose: input and output row exchanged. A warning says where there are batch axes only."""
        warn_of_batch_axes(self.ir_value)
        return Tensor(expressions.apply(Arg(0), [self.ir_value], logic="T"))

    def reshape(self, *shape: str | int | Sequence[int], **sizes: int | Dim) -> Tensor:
        """The elements, in the order of memory, in the shape of a slot: `t.reshape("b | h, w -> ...", h=4)`.
        Integers are sizes there, `...` the axes that the row has, and sizes that are not given follow. By
        sizes alone, `t.reshape(2, -1)`, all axes but the last are batch axes.

        Raises `ShapeError` where the sizes do not fit or follow, `SpecError` for a malformed spec.
        """
        if len(shape) == 1 and isinstance(shape[0], str):
            known = {name: int(size) for name, size in sizes.items()}
            return Tensor(reshapes.reshaped(self.ir_value, shape[0], known))
        plain = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return Tensor(reshapes.reshaped_to(self.ir_value, [integer(n, "a size", least=None) for n in plain]))

    def einsum(self, spec: str, *, use_padding: bool = False, **dims: int | Dim) -> Tensor:
        """`oc.einsum(spec, self)`."""
        return by_spec(spec, "add", "mul", [self], dims, use_padding=use_padding)

    def named(self, label: str) -> Tensor:
        """The same tensor, under a name that shows in its IR and messages."""
        if not is_memory(self.ir_value):
            self.ir_value.rename(graph.hint(label))
        return self

    def __getitem__(self, key: object) -> Tensor:
        """A part, by positions of the axes in the order of memory, as of a NumPy array: integers, slices,
        `...`, None, ids (integers in arrays or tensors) and masks (arrays). `x[i]` of an `oc.index` is
        along the leftmost batch axis; of a node or parameter without such, along its first axis.

        An id of a tensor that is not a position gives 0, and the run raises `OcannlError` at its end. Raises
        `ShapeError` where the axes are not known yet, and `IndexError` for positions that do not exist.
        """
        part = self._part(key)
        return SlicedMemory(part, self, key) if is_memory(self.ir_value) else Tensor(part)

    def _part(self, key: object) -> Value:
        if isinstance(key, Index) and not tensor_parts.is_written_without_batch(self.ir_value):
            return tensor_parts.slice_of_batch(self.ir_value, key)
        ids = [item.ir_value if isinstance(item, Tensor) else item for item in items_of(key)]
        return tensor_parts.part_of(self.ir_value, ids)

    @property
    def at(self) -> Parts[Tensor]:
        """`m.at[2:4]` is a part of memory as a place, for `ctx[m.at[2:4]] = array` and
        `oc.set(m.at[2:4], value)`.
        """
        return Parts(self)

    def __setitem__(self, key: object, value: TensorLike) -> None:
        """Sets memory, or a part at positions of its axes in the order of memory, in a code block."""
        part: Part[Tensor] = Part(self, key)
        if not (isinstance(value, SlicedMemory) and value.is_updated(part)):
            self._record(value, part)

    def _update(self, op: str, value: TensorLike) -> Tensor:
        result = pointwise(op, self, value)
        if is_recording():
            self._record(result)
            return self
        if not is_eager() or not is_memory(self.ir_value):
            return result
        new = result.ir_value
        del result  # else the write would compute it for this handle
        ENGINE.only.write(self.ir_value, new)
        return self

    def zero(self) -> None:
        """Sets memory to zero: in an `oc.code` block as a statement, in eager mode at once."""
        self._record(0.0)

    def backward(self, gradient: TensorLike | None = None) -> None:
        """Adds to the gradients of everything that this depends on, in eager mode at once, and as statements
        in an `oc.code` block. Without a gradient, this is one number, of gradient 1.

        Raises `OcannlError` if memory that this was computed from was written since, and `ShapeError` without
        a gradient where this is known to be more than one number.
        """
        if gradient is None:
            check_loss(self.ir_value)
        if is_recording():
            assign(self.grad, 1.0 if gradient is None else gradient)
            emit(texpr.BackpropOp(self.ir_value))
        elif is_eager():
            weights = None if gradient is None else as_tensor(gradient).ir_value
            ENGINE.only.backward(self.ir_value, weights)
        else:
            raise OcannlError(
                "backward() runs at once, in eager mode: `with oc.eager():`; elsewhere, "
                "train.grad_update(loss) is the code that computes gradients"
            )

    def _record(self, value: TensorLike, part: Part[Tensor] | None = None) -> None:
        """`self[...] = value` or that of a part, inside a code block, or at once in eager mode."""
        if is_eager() and not is_recording():
            if part is None or part.key is ...:
                new = number(value) if is_number(value) else as_tensor(value).ir_value
                ENGINE.only.write(as_memory(self), new)
            else:
                run(assign(part, value))
            return
        if not is_recording():
            as_memory(self if part is None else part.tensor)
            message = (
                "memory is assigned inside a `with oc.code(...)` block, or by oc.set(target, value); "
                "a context's copy is set by ctx[target] = array"
            )
            raise OcannlError(here(message))
        assign(self if part is None else part, value)

    def __bool__(self) -> bool:
        """In eager mode, whether the one number of this is not zero."""
        return self.is_true() if is_eager() else super().__bool__()

    def __iter__(self) -> Iterator[Tensor]:
        """In eager mode, the parts along the first axis."""
        if is_eager():
            return (self[at] for at in range(len(self)))
        raise not_iterated(self.ir_value)

    def __repr__(self) -> str:
        return f"<{self.label}: {self.shape}, {element_now(self.ir_value)}>"


class SlicedMemory(Tensor):
    """A part of memory, `m[2:4]`: an expression that in-place operators write through in a code block."""

    __slots__ = ("key", "memory", "update")

    def __init__(self, value: Value, memory: Tensor, key: object, update: Code | None = None) -> None:
        super().__init__(value)
        self.memory = memory
        self.key = key
        self.update = update
        """The code of the in-place operator that gave this."""

    def is_updated(self, part: Part[Tensor]) -> bool:
        """Whether an in-place operator has just set the part: after `m[2:4] += v`, Python sets `m[2:4]` to
        what that gave.
        """
        is_same = part.tensor == self.memory and is_same_key(part.key, self.key)
        return is_same and self.update is not None and ends_block(self.update)

    def _update(self, op: str, value: TensorLike) -> Tensor:
        result = pointwise(op, self, value)
        if not is_recording():
            return result
        update = assign(Part(self.memory, self.key), result)
        return SlicedMemory(self.memory._part(self.key), self.memory, self.key, update)


EXPRESSIONS = Tensor, Expression
"""The classes of what is no number in an expression. That a tensor is such is told by the first, at once:
classes with abstract methods are asked slowly.
"""
TensorLike: TypeAlias = Expression | Number
Target: TypeAlias = TensorLike | Part[Tensor]
"""A target of writes in code: memory, or a part of it."""


def _fit(operands: tuple[object, ...]) -> TypeGuard[tuple[TensorLike, ...]]:
    """Whether all can stand in an expression. Raises `ArgumentError` for lists, arrays, and objects of other
    builtin classes.
    """
    strange = [operand for operand in operands if not is_tensor_like(operand)]
    for operand in strange:
        kind = type(operand)
        if is_array(operand) or issubclass(kind, list | tuple) or kind.__module__ == "builtins":
            raise ArgumentError(f"a tensor does not combine with {no_tensor(operand)}")
    return not strange


def is_tensor_like(value: object) -> TypeGuard[TensorLike]:
    """Whether a value is a number, or anything else that can stand in a tensor expression."""
    return isinstance(value, EXPRESSIONS) or is_number(value)


def as_tensor(value: TensorLike) -> Tensor:
    """Numbers become constants, indices and dimensions numbers in the expression.

    Raises `ArgumentError` for everything else: arrays are given by `oc.data`.
    """
    if isinstance(value, EXPRESSIONS):
        return value.tensor()
    return Tensor(expressions.constant(number(value), BOOL if is_truth(value) else None))


def as_memory(target: TensorLike) -> Value:
    """The value of a tensor that can be assigned. Raises `OcannlError` for an expression."""
    return checked_memory(as_tensor(target).ir_value)


def assign(target: Target, value: TensorLike, accum: str | None = None) -> Code:
    """Code that sets memory or a part of it to the value of an expression, broadcast to its shape; with
    `accum`, accumulates it there.
    """
    memory = as_memory(target.tensor if isinstance(target, Part) else target)
    source = _source(value, target)
    if not isinstance(target, Part) or target.key is ...:
        source = new_axes.lined_up_with(memory, source)
        return emit(texpr.AssignOp(memory, source, accum=accum, logic="."))
    items = [item.ir_value if isinstance(item, Tensor) else item for item in target.items]
    part = tensor_parts.written_part(memory, items)
    op = texpr.AssignOp(memory, source, accum=accum, logic=".", at=part.positions, ids=part.ids)
    return emit(tagged(op, *part.indices))


def _source(value: TensorLike, target: Target) -> Value:
    """The value that memory is set to; a number is the same one each time in eager mode, or data."""
    if isinstance(value, Expression) or is_truth(value) or not isinstance(target, Tensor | Part):
        return as_tensor(value).ir_value
    if isinstance(target, Part):
        return expressions.number_for_part(number(value), target.tensor.ir_value)
    return expressions.number_in("=", number(value), target.ir_value)


def pointwise(op: str, *args: TensorLike) -> Tensor:
    """An operator of the scalar table, broadcast over its operands. Numbers beside tensors are part of it."""
    arity = SCALAR_OPS[op].arity
    if len(args) != arity:
        raise ArgumentError(f"{op} takes {arity} tensor{'s' * (arity > 1)}, found {len(args)}")
    if Point in map(type, args):
        return cast("Tensor", at_points(op, args))
    operands = [a.tensor().ir_value if isinstance(a, EXPRESSIONS) else literal(a) for a in args]
    return Tensor(new_axes.pointwise(op, operands))


def compose(left: TensorLike, right: TensorLike) -> Tensor:
    """`left @ right`: the input row of `left` meets the output row of `right`, and is summed over."""
    operands = [_factor(left, right, is_left=True), _factor(right, left, is_left=False)]
    product = expressions.apply(App("mul", (Arg(0), Arg(1))), operands, logic="@", accum="add")
    note_reduction(product.op, product)
    return Tensor(product)


def _factor(one: TensorLike, other: TensorLike, *, is_left: bool) -> Value:
    if is_eager() and isinstance(one, Tensor):
        own = expressions.number_of_constant(one.ir_value)
        one = one if isinstance(own, Value) else own
    if isinstance(one, EXPRESSIONS) or is_truth(one) or not isinstance(other, EXPRESSIONS):
        return as_tensor(one).ir_value
    value, found = number(one), other.tensor().ir_value
    return expressions.number_in("left of @" if is_left else "right of @", value, found)


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
    for name, dim in dims.items():
        if name not in spec and not (isinstance(dim, Dim) or whole(dim) is not None):
            raise ArgumentError(f"`{name}` is no argument here, and no name of the spec {spec!r}")
    bound = [*bound_dims(dims).items()]
    operands = [as_tensor(arg).ir_value for arg in args]
    result = expressions.spec_apply(spec, accum, combine, operands, bound, use_padding=use_padding)
    note_reduction(result.op, result)
    warn_of_moved_rows(spec)
    return Tensor(result)


def bound_dims(dims: Mapping[str, int | Dim]) -> dict[str, DimTerm]:
    """The dimensions that names of a spec stand for."""
    return {name: _bound_dim(name, dim) for name, dim in dims.items()}


def _bound_dim(name: str, dim: int | Dim) -> DimTerm:
    if isinstance(dim, Dim):
        return dim.term
    size = whole(dim)
    if size is None:
        raise SpecError(
            here(f"`{name}` is fixed by an integer or captured by an oc.Dim, found {type(dim).__name__}")
        )
    return Dim(name, size).term
