"""Tensors under tinygrad's names: operators, values, types, and how tensors are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pytest
from support.peers.tinygrad.arguments import sizes
from support.peers.tinygrad.names import OF_NN, REASONS, RENAMED

import ocannl as oc
from ocannl import nn

Axes = int | Sequence[int] | None


def raw(value: Any) -> Any:
    """With OCANNL's tensors in place of those here."""
    if isinstance(value, Values):
        return value.t
    if isinstance(value, tuple | list):
        return type(value)(map(raw, value))
    return value


def lifted(cls: type[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of OCANNL's tensors as one of those of a class."""

    def call(*operands: Any, **settings: Any) -> Any:
        found = function(*map(raw, operands), **{name: raw(value) for name, value in settings.items()})
        return tuple(map(cls, found)) if isinstance(found, tuple) else cls(found)

    return call


class Named(type):
    """Names that the class lacks are OCANNL's pointwise functions, and else skip the test with a reason."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OF_NN:
            return lifted(cls, getattr(nn, OF_NN[name]))
        ours = getattr(oc, RENAMED.get(name, name), None)
        if ours is None or name in REASONS:
            pytest.skip(REASONS.get(name, f"there is no {name}"))
        return lifted(cls, ours)


def operator(name: str) -> Any:
    def method(self: Values, *other: Any) -> Values:
        return type(self)(getattr(self.t, name)(*map(raw, other)))

    return method


def comparison(function: Callable[..., oc.Tensor]) -> Any:
    def method(self: Values, other: Any) -> Values:
        return type(self)(function(self.t, raw(other)))

    return method


def operators(name: str) -> tuple[Any, Any]:
    """An operator, and with the other operand first."""
    return operator(f"__{name}__"), operator(f"__r{name}__")


class Values(metaclass=Named):
    """A tensor of OCANNL, its operators and its values."""

    __add__, __radd__ = operators("add")
    __sub__, __rsub__ = operators("sub")
    __mul__, __rmul__ = operators("mul")
    __truediv__, __rtruediv__ = operators("truediv")
    __floordiv__, __rfloordiv__ = operators("floordiv")
    __mod__, __rmod__ = operators("mod")
    __pow__, __rpow__ = operators("pow")
    __lshift__, __rlshift__ = operators("lshift")
    __rshift__, __rrshift__ = operators("rshift")
    __and__, __rand__ = operators("and")
    __or__, __ror__ = operators("or")
    __xor__, __rxor__ = operators("xor")
    __lt__, __le__, __gt__, __ge__ = map(operator, ("__lt__", "__le__", "__gt__", "__ge__"))
    __eq__, __ne__ = comparison(oc.eq), comparison(oc.ne)
    __neg__, __invert__ = operator("__neg__"), operator("__invert__")

    def __init__(self, data: Any, dtype: Any = None) -> None:
        if np.dtype(dtype) == np.uint64 or getattr(data, "dtype", None) == np.uint64:
            pytest.skip("no target stores integers of 64 bits without a sign")
        self.t: oc.Tensor = data if isinstance(data, oc.Tensor) else oc.tensor(raw(data), dtype)

    def __getattr__(self, name: str) -> Any:
        function = getattr(type(self), name)
        return lambda *operands, **settings: function(self, *operands, **settings)

    def numpy(self) -> Any:
        return np.asarray(self.t.numpy())

    def item(self) -> Any:
        return self.t.item()

    def realize(self, *others: Values) -> Self:
        return self

    clone = contiguous = realize

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.t.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return np.dtype(self.t.dtype)

    def gradient(self, *inputs: Values) -> list[Self]:
        return list(map(type(self), oc.grad(self.t, [x.t for x in inputs])))

    def backward(self) -> Self:
        """In eager mode, which keeps gradients."""
        with oc.eager():
            self.t.backward()
        return self

    @property
    def grad(self) -> Self:
        with oc.eager():
            return type(self)(self.t.grad.numpy())

    def detach(self) -> Self:
        return type(self)(oc.stop_gradient(self.t))

    def cast(self, dtype: Any) -> Self:
        return type(self)(oc.cast(self.t, np.dtype(dtype)))

    def int(self) -> Self:
        return self.cast(np.int32)

    def float(self) -> Self:
        return self.cast(np.float32)

    def half(self) -> Self:
        return self.cast(np.float16)

    def bool(self) -> Self:
        return self.cast(np.bool_)

    @classmethod
    def full(cls, shape: Any, value: Any, dtype: Any = None) -> Self:
        return cls(oc.full(shape, value, dtype or oc.tensor(value).dtype))

    @classmethod
    def arange(cls, first: Any, second: Any = None, step: Any = 1, dtype: Any = None) -> Self:
        start, stop = (0, first) if second is None else (first, second)
        if isinstance(step + start + stop, int):
            ends = [start, start + max(-(-(stop - start) // step) - 1, 0) * step]
            dtype = dtype or (np.int32 if np.can_cast(np.min_scalar_type(max(ends)), np.int32) else np.int64)
            np.array(ends, dtype)
        return cls(oc.arange(start, stop, step, dtype or np.float32))

    @classmethod
    def zeros(cls, *shape: Any, dtype: Any = np.float32) -> Self:
        return cls(oc.zeros(sizes(shape), dtype))

    @classmethod
    def ones(cls, *shape: Any, dtype: Any = np.float32) -> Self:
        return cls(oc.ones(sizes(shape), dtype))

    @classmethod
    def randn(cls, *shape: Any) -> Self:
        made = cls(np.random.randn(*sizes(shape)).astype(np.float32))
        with oc.eager():
            _ = made.t.grad  # Data have a gradient where it is asked for before `backward`.
        return made

    @classmethod
    def randint(cls, *shape: Any, low: int = 0, high: int = 10) -> Self:
        return cls(np.random.randint(low, high, sizes(shape)).astype(np.int32))

    def full_like(self, value: Any) -> Self:
        return type(self)(oc.full(self.shape, value, self.dtype))

    def zeros_like(self) -> Self:
        return self.full_like(0)

    def ones_like(self) -> Self:
        return self.full_like(1)
