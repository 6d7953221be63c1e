"""Tensors without operands: data, parameters, constants, ranges and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import ShapeError, SpecError
from ocannl.dialects.scalar.precisions import BOOL, computed_in, is_float
from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import Shape, closed_row
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.init import Initializer, Sample, scaled_uniform
from ocannl.init import constant as constant_init
from ocannl.program import graph
from ocannl.program.arguments.arrays import as_array, holds_arrays, is_array, signed, unchanging
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_truth, number
from ocannl.program.expressions import positions
from ocannl.program.location import here, user_location, warn_at
from ocannl.program.memory.added import add_data, add_memory
from ocannl.program.memory.gpu_contents import gpu_contents
from ocannl.program.memory.initial_values import ArraySample, ExpressionSample, Rows, rows_of_array
from ocannl.program.meshes.sharding import Shard
from ocannl.program.meshes.sharding import shard as shard_tensor
from ocannl.program.scopes import memory_path
from ocannl.program.tensor import Dim, Expression, Index, Tensor, as_tensor
from ocannl.program.types.casts import convert
from ocannl.program.types.dtypes import element_of, is_integer, is_numeric, stored_dtype
from ocannl.program.types.precision import param_precision
from ocannl.program.types.shapes import RowSizes, row_of
from ocannl.program.values import Kind


def data(
    array: ArrayLike,
    *,
    axes: str | None = None,
    bases: Mapping[int, str] | None = None,
    flat: bool = False,
    label: str | None = None,
    dtype: DTypeLike | None = None,
    shard: Shard | None = None,
) -> Tensor:
    """A data tensor with the contents of an array.

    All axes but the last are batch axes and the last is the output axis, or `axes` says which is which: one
    letter an array axis in memory order, as "bbo", "oi" or "b|i->o". `bases` gives axes, by their numbers in
    the array, a basis: `{-1: "rgb"}`. `flat` data are only so many numbers in a row (batch, output, input
    axes, row-major): their uses give them a shape. Arrays keep their dtype, in lists too, one of uint64 as
    int64; lists of floats are float32, of integers int32, of booleans bool. An array of another library on an
    NVIDIA GPU stays there, as a copy.
    """
    on_gpu = gpu_contents(array, dtype)
    contents = unchanging(contents_of(array, dtype), array) if on_gpu is None else on_gpu
    if flat and (axes is not None or bases):
        given = f"axes={axes!r}" if axes is not None else f"bases={bases!r}"
        raise SpecError(here(f"flat data have the axes of their uses, so {given} is not given"))
    element = element_of(contents.dtype)
    shape = None if flat else _data_shape(_dims_of(contents.shape, bases or {}), axes)
    type = graph.fresh_type(element) if shape is None else TensorType.of(shape, element)
    value = add_data(contents, type, label, flat=flat)
    if axes is None and contents.shape and not flat:
        value.guessed_axes = frozenset({-1})
    return placed(Tensor(value), shard)


def numbers(array: ArrayLike, need: str) -> NDArray[Any]:
    """An array of real numbers in the byte order of this machine. `need` begins what `ArgumentError` says."""
    found = as_array(array, need)
    if not is_numeric(found.dtype):
        raise ArgumentError(f"{need}, found {_no_numbers(found)}")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _no_numbers(found: NDArray[Any]) -> str:
    """Words for an array that holds no numbers."""
    if found.dtype != np.object_:
        return f"dtype {found.dtype}"
    if found.ndim == 0:
        return f"{type(found.item()).__name__}{_made_by_a_loop(found.item())}"
    strange = [item for item in found.flat if not isinstance(item, int | float | np.number)]
    if not strange:
        return f"dtype {found.dtype}: array.astype(np.float32) has numbers"
    return f"an array with objects of Python, such as {strange[0]!r}"


def _made_by_a_loop(value: object) -> str:
    return ": list(...) has what it gives" if isinstance(value, Iterator) else ""


def contents_of(array: ArrayLike, dtype: DTypeLike | None) -> NDArray[Any]:
    """The array that data of these contents have. Raises `ArgumentError`."""
    contents = numbers(array, "data needs an array of numbers")
    if dtype is not None:
        return _cast(contents, stored_dtype(dtype))
    contents = signed(contents)
    if holds_arrays(array) or contents.dtype == np.bool_:
        return contents
    if contents.dtype.kind != "i":
        return contents.astype(np.float32)
    return contents if contents.size and is_beyond(contents, np.int32) else contents.astype(np.int32)


def _cast(contents: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers of another dtype; fractions become integers towards 0. Raises `ArgumentError` for numbers that
    an integer of the dtype cannot be.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        converted = contents.astype(dtype)
        whole = np.trunc(contents) if is_integer(dtype) and not is_integer(contents.dtype) else contents
    if is_integer(dtype) and not np.array_equal(converted, whole):
        lost = whole[converted != whole].flat[0]
        raise ArgumentError(f"{lost} is no {dtype}")
    return converted


def is_beyond(contents: NDArray[Any], dtype: type[np.integer[Any]]) -> bool:
    """Whether a dtype lacks some of the integers."""
    bounds = np.iinfo(dtype)
    return bool(contents.min() < bounds.min or contents.max() > bounds.max)


def _dims_of(sizes: Sequence[int], bases: Mapping[int, str]) -> list[KnownDim]:
    """The axes of an array, some with a basis by their numbers."""
    dims = [KnownDim(size) for size in sizes]
    for axis, basis in bases.items():
        if not -len(dims) <= integer(axis, "the number of an axis", least=None) < len(dims):
            raise ArgumentError(f"an array with {len(dims)} axes has none of number {axis}")
        if not isinstance(basis, str) or not (basis.isidentifier() and basis.isascii()):
            raise ArgumentError(f"a basis is named by an identifier of ASCII letters, found {basis!r}")
        dims[axis] = KnownDim(dims[axis].size, basis)
    return dims


def _data_shape(sizes: Sequence[KnownDim], axes: str | None) -> Shape:
    if axes is not None and not isinstance(axes, str):
        raise ArgumentError(f"axes is a string of letters b, i and o, found {axes!r}")
    if axes is None:
        axes = "b" * (len(sizes) - 1) + "o" * min(len(sizes), 1)
    letters = axes.replace(" ", "").replace("|", "").replace("->", "").replace(",", "")
    if set(letters) - set("bio"):
        raise SpecError(here(f"axes are letters b, i and o, one an array axis, found {axes!r}"))
    if "->" in axes:
        letters = _memory_order(axes)
    if len(letters) != len(sizes):
        found = tuple([dim.size for dim in sizes])
        raise ShapeError(
            here(f"axes={axes!r} names {len(letters)} axes, but the array has {len(sizes)}: {found}")
        )
    if "".join(sorted(letters, key="boi".index)) != letters:
        raise SpecError(here(f"axes={axes!r} is not in memory order: batch, then output, then input axes"))
    rows = {
        kind: [dim for letter, dim in zip(letters, sizes, strict=True) if letter == kind] for kind in "bio"
    }
    return Shape(closed_row(*rows["b"]), closed_row(*rows["i"]), closed_row(*rows["o"]))


def _memory_order(axes: str) -> str:
    """`b|i->o` as the letters of the array's axes: memory holds output before input axes."""
    letters = [c for c in axes if c in "bio"]
    return "".join(sorted(letters, key="boi".index))


NO_ROWS: Rows = {"batch": (), "input": None, "output": None}


def _warn_of_shape(name: str, init: tuple[object, ...]) -> None:
    """Warns of values that look like sizes."""
    if init and all(type(size) is int and size > 0 for size in init):
        warn_at(
            user_location(),
            f"{init} are the values that `{name}` begins with: a shape is given by row, as output={init[0]}, "
            "and values as a list",
        )


def param(
    name: str,
    init: float | ArrayLike | Initializer | Expression | None = None,
    *,
    batch: RowSizes | None = (),
    input: RowSizes | None = None,
    output: RowSizes | None = None,
    dtype: DTypeLike | None = None,
    shard: Shard | None = None,
) -> Tensor:
    """A parameter. Rows that are not given are inferred; a batch row there is only when it is given.

    `init` is a number, an array (its axes are those of the rows, in memory order: batch, output, input; with
    no rows given the last axis of an array of two or more is the input axis, and one of shape () is a single
    number; with all rows given it may be flat) or an `oc.init`; by default uniform with variance 1 / fan_in.
    It may be any expression, which is broadcast to the parameter by rows: with no rows given the parameter
    has its shape, else rows that are not given are those of the expression, if it has axes there. It is
    computed when the parameter is initialized, after the parameters that it depends on. `shard` splits it
    over a mesh, as `oc.shard` does.

    Raises `ShapeError` for an array or an expression that does not fit the rows, and with no rows given for
    an expression whose shape is not known.
    """
    rows: Rows = {"batch": batch, "input": input, "output": output}
    sample: Sample
    if init is None:
        sample = scaled_uniform().sample
    elif isinstance(init, Initializer):
        sample = init.sample
    elif isinstance(init, Expression):
        sample = ExpressionSample(init.tensor())
    else:
        if isinstance(init, tuple) and rows == NO_ROWS:
            _warn_of_shape(name, cast("tuple[object, ...]", init))
        contents = numbers(init, "an initial value is a number, an array of them or an oc.init")
        has_dtype = holds_arrays(init) and not issubclass(type(init), np.generic)
        if dtype is None and contents.dtype == np.float64 and has_dtype:
            dtype = np.float64
        if contents.ndim:
            sample = ArraySample(unchanging(contents, init))
            rows = rows_of_array(name, contents, rows)
        else:
            sample = constant_init(contents.item()).sample
            if has_dtype and input is None and output is None:
                rows = {**rows, "input": (), "output": ()}
    path = memory_path(name)
    label = path.text
    if isinstance(sample, ExpressionSample):
        shape = sample.shape_with(rows)
    else:
        shape = Shape(row_of(rows["batch"]), row_of(rows["input"]), row_of(rows["output"]))
    setting = param_precision()
    element = element_of(dtype) or setting.kept
    value = add_memory(texpr.ParamOp(label, TensorType.of(shape, element)), path)
    if isinstance(sample, ExpressionSample):
        sample.check(value)
    value.sample = sample
    if setting.gradient is not None:
        graph.memory_of_tensor(value, texpr.GradOp, setting.gradient)
    kept = placed(Tensor(value), shard)
    used = setting.used if setting.used is not None else element
    if used is None or (used == element and setting.factors in (None, used)):
        return kept
    return convert(kept, used, compute=True, factors=setting.factors).named(label)


def constant(value: float, *, label: str | None = None) -> Tensor:
    """A number, or True or False, at every point of its shape, which is inferred from its uses."""
    type = graph.fresh_type(BOOL if is_truth(value) else None)
    return Tensor(graph.add(texpr.ConstantOp(number(value), type), label))


def arange(size: int | Dim, *, label: str | None = None) -> Tensor:
    """`oc.range(n)`: the positions 0, 1, ..., n - 1 along one output axis; `n` may be an `oc.Dim`."""
    axis = size.term if isinstance(size, Dim) else KnownDim(integer(size, "the size of a range"))
    return Tensor(positions(axis, label))


def node(
    label: str,
    *,
    like: Tensor | None = None,
    of: Tensor | None = None,
    batch: RowSizes | None = (),
    input: RowSizes | None = (),
    output: RowSizes | None = None,
    init: float | None = None,
    dtype: DTypeLike | None = None,
    kind: Kind | None = None,
    shard: Shard | None = None,
) -> Tensor:
    """A non-differentiable tensor node: memory for code to write, of the shape and precision of `like` or of
    the given rows; without a `dtype` it is of f32 or f64, or an integer as `like`.

    It starts at `init`. Without one it starts at zero where a routine updates it from its own value, and
    reading it before anything wrote it is an error otherwise.

    With `of`, a parameter or node, it is called by the name of that, `mlp.w.label`, and without rows it is
    like it. `kind` is what `oc.state` says that it is for. `shard` splits it over a mesh, as `oc.shard` does.
    """
    if of is not None and output is None:
        like = of
    if like is not None:
        source = as_tensor(like).ir_value.type
        assert isinstance(source, TensorType)
        shape, element = source.shape.data, element_of(dtype) or at_least_f32(source.element_or_none)
    else:
        shape = Shape(row_of(batch), row_of(input), row_of(output))
        element = element_of(dtype)
    path = memory_path(label) if of is None else memory_path(label, of=of.ir_value.path)
    value = add_memory(texpr.NodeOp(path.text, TensorType.of(shape, element)), path)
    value.kind = kind
    if init is not None:
        if is_array(init) and np.ndim(cast(Any, init)):
            raise ArgumentError(
                f"a node starts at one number, found an array: oc.data(array, label={label!r}) is memory "
                f"that starts at it, and ctx[{label}] = array sets a node"
            )
        value.sample = constant_init(init).sample
    return placed(Tensor(value), shard)


def placed(memory: Tensor, placement: Shard | None) -> Tensor:
    """Memory, split over a mesh where that is said."""
    return memory if placement is None else shard_tensor(memory, placement)


def at_least_f32(element: Attribute | None) -> Attribute | None:
    """The element type of memory that is updated: f32 for smaller floats, which would lose small updates."""
    return computed_in(element) if element is not None and is_float(element) else element


def index(name: str, range: int | None = None) -> Index:
    """A static index: `oc.index("batch_n", 80)` runs over 0..79 in loops; without a range it is set or
    advanced.
    """
    return Index(name, range)
