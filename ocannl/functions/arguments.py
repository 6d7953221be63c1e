"""The arguments of functions: arrays, numbers and static values, and the signatures that they make."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ocannl.program.arguments.arrays import as_array, is_array, signed
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import Form
from ocannl.program.tensor import Expression


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The shape and dtype of an array; a number has no axes.

    Attributes:
        counts: the padded axes, with the names of their real sizes; their sizes are the padded ones.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    counts: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        padded = dict(self.counts)
        sizes = [f"*{size}" if axis in padded else str(size) for axis, size in enumerate(self.shape)]
        return f"{self.dtype}[{', '.join(sizes)}]" if self.shape else str(self.dtype)


@dataclass(frozen=True, slots=True)
class Static:
    """A value that is part of the signature."""

    value: Hashable = field(compare=False)
    key: Hashable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _told_apart(self.value))

    def __str__(self) -> str:
        return repr(self.value)


def _told_apart(value: Hashable) -> Hashable:
    """A key of a value that others which Python calls equal do not have, as 1, 1.0 and True, or 0.0 and -0.0;
    of tuples and sets by their elements.
    """
    kind = cast("type[object]", type(value))
    if isinstance(value, tuple):
        return kind, *map(_told_apart, cast("tuple[Hashable, ...]", value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_told_apart, cast("frozenset[Hashable]", value)))
    is_inexact = issubclass(kind, float | complex | np.inexact)
    return kind, repr(value) if is_inexact else value


LeafType: TypeAlias = ArrayType | Static


@dataclass(frozen=True, slots=True)
class Signature:
    """The key of a trace: the form of its arguments, and their leaves by name."""

    form: Form
    leaves: tuple[tuple[str, LeafType], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}: {leaf}" for name, leaf in self.leaves)

    __repr__ = __str__


def array_types(signature: Signature) -> list[ArrayType]:
    """The types of the arrays, without what is static."""
    return [leaf for _, leaf in signature.leaves if isinstance(leaf, ArrayType)]


def array_of(leaf: object, name: str) -> NDArray[Any] | None:
    """An argument as an array on the host, which may share its memory; None for what is not an array.

    Python's integers are int32, or int64 where they do not fit, and its other numbers float32.
    """
    if isinstance(leaf, bool):
        return np.asarray(leaf)
    if is_array(leaf):
        return signed(as_array(leaf, f"argument `{name}` is an array of numbers"))
    if isinstance(leaf, int):
        fits = -(2**31) <= leaf < 2**31
        try:
            return np.asarray(leaf, np.int32 if fits else np.int64)
        except OverflowError:
            raise ArgumentError(f"argument `{name}` is an integer of more than 64 bits: {leaf}") from None
    if isinstance(leaf, float):
        return np.asarray(leaf, np.float32)
    return None


def is_number_or_array(leaf: object) -> bool:
    """Whether an argument is a number or an array, and no tensor of a program."""
    if isinstance(leaf, int | float):
        return True
    return is_array(leaf) and not isinstance(leaf, Expression)


def static_of(leaf: object, name: str) -> Static:
    """A static value. Raises `ArgumentError` for what cannot be a key."""
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentError(
            f"argument `{name}` is static, so that it has to be hashable, found {type(leaf).__name__}"
        ) from None
    assert isinstance(leaf, Hashable)
    return Static(leaf)


def shared_letters(axes: Mapping[str, str], path: str) -> str | None:
    """The letters that `axes` has for a leaf: by its own path, or by that of a collection around it."""
    parts = path.split(".")
    names: Sequence[str] = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((axes[name] for name in names if name in axes), None)
