"""Operators of everything that can stand in a tensor expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocannl.program.misuse import ArgumentError

if TYPE_CHECKING:
    from ocannl.program.tensor import Tensor, TensorLike

ARRAYS: tuple[type[object], ...] = (np.ndarray, list, tuple)


class Arithmetic:
    """Pointwise operators, and `@`, the tensor product. NumPy arrays leave them to us."""

    __array_ufunc__ = None

    def tensor(self) -> Tensor:
        """This as a tensor."""
        raise ArgumentError(f"{type(self).__name__} is no tensor")

    def __add__(self, other: TensorLike) -> Tensor:
        return _pointwise("add", self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return _pointwise("add", other, self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return _pointwise("sub", self, other)

    def __rsub__(self, other: TensorLike) -> Tensor:
        return _pointwise("sub", other, self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return _pointwise("mul", self, other)

    def __rmul__(self, other: TensorLike) -> Tensor:
        return _pointwise("mul", other, self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return _pointwise("div", self, other)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return _pointwise("div", other, self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return _pointwise("mod", self, other)

    def __rmod__(self, other: TensorLike) -> Tensor:
        return _pointwise("mod", other, self)

    def __pow__(self, other: TensorLike) -> Tensor:
        return _pointwise("pow", self, other)

    def __rpow__(self, other: TensorLike) -> Tensor:
        return _pointwise("pow", other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return _compose(self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return _compose(other, self)

    def __neg__(self) -> Tensor:
        from ocannl.program.tensor import pointwise

        return pointwise("neg", self)

    def __pos__(self) -> Tensor:
        return self.tensor()

    def __abs__(self) -> Tensor:
        from ocannl.program.tensor import pointwise

        return pointwise("abs", self)

    def __lt__(self, other: TensorLike) -> Tensor:
        return _pointwise("lt", self, other)

    def __le__(self, other: TensorLike) -> Tensor:
        return _pointwise("le", self, other)

    def __gt__(self, other: TensorLike) -> Tensor:
        return _pointwise("lt", other, self)

    def __ge__(self, other: TensorLike) -> Tensor:
        return _pointwise("le", other, self)

    def __bool__(self) -> bool:
        raise ArgumentError(
            "a tensor expression has no truth value while the program is being built; "
            "use oc.where for a choice by value"
        )


def _pointwise(op: str, left: TensorLike, right: TensorLike) -> Tensor:
    from ocannl.program.tensor import pointwise

    return pointwise(op, left, right) if _fit(left, right) else NotImplemented


def _compose(left: TensorLike, right: TensorLike) -> Tensor:
    from ocannl.program.tensor import compose

    return compose(left, right) if _fit(left, right) else NotImplemented


def _fit(*operands: object) -> bool:
    """Whether all can stand in an expression. Raises `ArgumentError` for arrays, which belong in `oc.data`,
    and for what else knows nothing of tensors.
    """
    from ocannl.program.tensor import is_tensor_like

    strange = [operand for operand in operands if not is_tensor_like(operand)]
    for operand in strange:
        if isinstance(operand, ARRAYS):
            raise ArgumentError(
                f"a tensor and a {type(operand).__name__}: an array becomes a tensor by oc.data"
            )
        if type(operand).__module__ == "builtins":
            raise ArgumentError(f"a tensor does not combine with a {type(operand).__name__}")
    return not strange
