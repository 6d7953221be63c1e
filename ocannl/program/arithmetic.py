"""Python's operators, for everything that can stand in a tensor expression."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import users_text

OF_NUMPY = {
    "absolute": "abs",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "divide": "div",
    "invert": "bitwise_not",
    "less": "lt",
    "less_equal": "le",
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negative": "neg",
    "power": "pow",
    "reciprocal": "recip",
    "remainder": "mod",
    "rint": "round",
    "subtract": "sub",
}
"""Operators of the scalar table that NumPy calls by other names."""
SWAPPED = {"greater": "lt", "greater_equal": "le"}
"""Functions of NumPy that are operators of the table with their operands swapped."""

OperandT = TypeVar("OperandT")
ResultT = TypeVar("ResultT")


class Arithmetic(ABC, Generic[OperandT, ResultT]):
    """Pointwise operators, and `@`, the tensor product. NumPy's operators and functions are these, too."""

    __slots__ = ()

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> ResultT:
        """NumPy's pointwise functions: `np.sin(x)` is `oc.sin(x)`, and `np.float32(2) * x` is `2 * x`."""
        name = function.__name__
        if method == "__call__" and not options:
            if name == "matmul":
                return self._compose(*operands)
            if name in SWAPPED:
                return self._pointwise(SWAPPED[name], *reversed(operands))
            op = OF_NUMPY.get(name, name)
            if op in SCALAR_OPS and SCALAR_OPS[op].arity == len(operands):
                return self._pointwise(op, *operands)
        how = name if method == "__call__" else f"{name}.{method}"
        raise ArgumentError(
            f"np.{how} does not take a tensor expression{' with `out`' if 'out' in options else ''}; "
            "`t.numpy()` is its present value, and oc.eq compares element by element"
        )

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

    def __floordiv__(self, other: OperandT) -> ResultT:
        return self._pointwise("floor_divide", self, other)

    def __rfloordiv__(self, other: OperandT) -> ResultT:
        return self._pointwise("floor_divide", other, self)

    def __divmod__(self, other: OperandT) -> tuple[ResultT, ResultT]:
        return self // other, self % other

    def __rdivmod__(self, other: OperandT) -> tuple[ResultT, ResultT]:
        return self.__rfloordiv__(other), self.__rmod__(other)

    def __mod__(self, other: OperandT) -> ResultT:
        return self._pointwise("mod", self, other)

    def __rmod__(self, other: OperandT) -> ResultT:
        return self._pointwise("mod", other, self)

    def __pow__(self, other: OperandT) -> ResultT:
        return self._pointwise("pow", self, other)

    def __rpow__(self, other: OperandT) -> ResultT:
        return self._pointwise("pow", other, self)

    def __lshift__(self, other: OperandT) -> ResultT:
        return self._pointwise("left_shift", self, other)

    def __rlshift__(self, other: OperandT) -> ResultT:
        return self._pointwise("left_shift", other, self)

    def __rshift__(self, other: OperandT) -> ResultT:
        return self._pointwise("right_shift", self, other)

    def __rrshift__(self, other: OperandT) -> ResultT:
        return self._pointwise("right_shift", other, self)

    def __and__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_and", self, other)

    def __rand__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_and", other, self)

    def __or__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_or", self, other)

    def __ror__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_or", other, self)

    def __xor__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_xor", self, other)

    def __rxor__(self, other: OperandT) -> ResultT:
        return self._pointwise("bitwise_xor", other, self)

    def __invert__(self) -> ResultT:
        return self._pointwise("bitwise_not", self)

    def __matmul__(self, other: OperandT) -> ResultT:
        return self._compose(self, other)

    def __rmatmul__(self, other: OperandT) -> ResultT:
        return self._compose(other, self)

    def __neg__(self) -> ResultT:
        return self._pointwise("neg", self)

    def __pos__(self) -> ResultT:
        return self.tensor()

    def __round__(self, digits: int | None = None) -> ResultT:
        """To the nearest whole number, ties to even. Raises `ArgumentError` for digits behind the point."""
        if digits:
            raise ArgumentError("rounding is to whole numbers: 0.01 * oc.round(100 * x) has 2 digits")
        return self._pointwise("round", self)

    def __floor__(self) -> ResultT:
        return self._pointwise("floor", self)

    def __ceil__(self) -> ResultT:
        return self._pointwise("ceil", self)

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
            f"{_asked()} has no truth value yet: values are there when the program runs.\n"
            "  hint: oc.where(condition, a, b) chooses between values; an argument that Python itself has to "
            "know is named in oc.function(static=[...])"
        )


def _asked() -> str:
    """The user's condition that is running, where Python tells it."""
    try:
        asked = ast.parse(users_text() or "", mode="eval").body
    except SyntaxError:
        return "a tensor expression"
    asked = asked.test if isinstance(asked, ast.IfExp) else asked
    is_whole = isinstance(asked, ast.Compare | ast.Name | ast.Call | ast.Attribute | ast.Subscript)
    return f"`{ast.unparse(asked)}`" if is_whole else "a tensor expression"


class InPlace(ABC, Generic[OperandT, ResultT]):
    """In-place operators: in a code block they write memory."""

    __slots__ = ()

    @abstractmethod
    def _update(self, op: str, value: OperandT) -> ResultT:
        """Sets this to an operator of it and a value."""

    def __iadd__(self, value: OperandT) -> ResultT:
        return self._update("add", value)

    def __isub__(self, value: OperandT) -> ResultT:
        return self._update("sub", value)

    def __imul__(self, value: OperandT) -> ResultT:
        return self._update("mul", value)

    def __itruediv__(self, value: OperandT) -> ResultT:
        return self._update("div", value)
