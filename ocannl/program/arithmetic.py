"""Python's operators, for everything that can stand in a tensor expression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ocannl.program.errors import ArgumentError

OperandT = TypeVar("OperandT")
ResultT = TypeVar("ResultT")


class Arithmetic(ABC, Generic[OperandT, ResultT]):
    """Pointwise operators, and `@`, the tensor product. Those of NumPy arrays defer to them."""

    __slots__ = ()
    __array_ufunc__ = None

    @abstractmethod
    def tensor(self) -> ResultT:
        """This as a tensor."""

    @abstractmethod
    def _pointwise(self, op: str, *operands: object) -> ResultT:
        """An operator of the scalar table; NotImplemented for an operand of an unknown class."""

    @abstractmethod
    def _compose(self, left: object, right: object) -> ResultT:
        """`left @ right`; NotImplemented for an operand of an unknown class."""

    def __add__(self, other: OperandT) -> ResultT:
        return self._pointwise("add", self, other)

    def __radd__(self, other: OperandT) -> ResultT:
        return self._pointwise("add", other, self)

    def __sub__(self, other: OperandT) -> ResultT:
        return self._pointwise("sub", self, other)

    def __rsub__(self, other: OperandT) -> ResultT:
        return self._pointwise("sub", other, self)

    def __mul__(self, other: OperandT) -> ResultT:
        return self._pointwise("mul", self, other)

    def __rmul__(self, other: OperandT) -> ResultT:
        return self._pointwise("mul", other, self)

    def __truediv__(self, other: OperandT) -> ResultT:
        return self._pointwise("div", self, other)

    def __rtruediv__(self, other: OperandT) -> ResultT:
        return self._pointwise("div", other, self)

    def __mod__(self, other: OperandT) -> ResultT:
        return self._pointwise("mod", self, other)

    def __rmod__(self, other: OperandT) -> ResultT:
        return self._pointwise("mod", other, self)

    def __pow__(self, other: OperandT) -> ResultT:
        return self._pointwise("pow", self, other)

    def __rpow__(self, other: OperandT) -> ResultT:
        return self._pointwise("pow", other, self)

    def __matmul__(self, other: OperandT) -> ResultT:
        return self._compose(self, other)

    def __rmatmul__(self, other: OperandT) -> ResultT:
        return self._compose(other, self)

    def __neg__(self) -> ResultT:
        return self._pointwise("neg", self)

    def __pos__(self) -> ResultT:
        return self.tensor()

    def __abs__(self) -> ResultT:
        return self._pointwise("abs", self)

    def __lt__(self, other: OperandT) -> ResultT:
        return self._pointwise("lt", self, other)

    def __le__(self, other: OperandT) -> ResultT:
        return self._pointwise("le", self, other)

    def __gt__(self, other: OperandT) -> ResultT:
        return self._pointwise("lt", other, self)

    def __ge__(self, other: OperandT) -> ResultT:
        return self._pointwise("le", other, self)

    def __bool__(self) -> bool:
        raise ArgumentError(
            "a tensor expression has no truth value while the program is being built; "
            "use oc.where for a choice by value"
        )
