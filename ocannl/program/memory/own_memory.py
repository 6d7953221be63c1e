"""The memory that belongs to a tensor: its gradient, its last value, and that value in other contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ocannl.dialects import texpr
from ocannl.program import graph
from ocannl.program.handle import Handle, check_updated
from ocannl.program.memory import merging
from ocannl.program.values import Value, is_memory, kept_parameter

TensorT = TypeVar("TensorT", bound=Handle)


class OwnMemory(ABC, Generic[TensorT]):
    """A tensor, of the value that `_value` gives."""

    __slots__ = ()

    @abstractmethod
    def _value(self) -> Value: ...

    @abstractmethod
    def _of(self, value: Value) -> TensorT: ...

    @property
    def grad(self) -> TensorT:
        """The gradient node, of the tensor's shape: memory that `backprop` adds to. Of a parameter that is
        kept in a wider float than it is used in, that of what is kept.
        """
        value = self._value()
        return self._of(graph.memory_of_tensor(kept_parameter(value) or value, texpr.GradOp))

    @grad.setter
    def grad(self, updated: TensorT) -> None:
        """Accepts the result of `p.grad *= 2` in a code block, which has set the memory already."""
        check_updated(updated, self.grad, "grad")

    @property
    def value(self) -> TensorT:
        """The memory of this expression's last computed value. Routines that are compiled afterwards keep it
        on the device.
        """
        value = self._value()
        return self._of(value if is_memory(value) else graph.memory_of_tensor(value, texpr.ValueOp))

    @value.setter
    def value(self, updated: TensorT) -> None:
        """Accepts the result of `t.value *= 2` in a code block, which has set the memory already."""
        check_updated(updated, self.value, "value")

    def merge(self, ctx: merging.Shared) -> TensorT:
        """The merge buffer of this memory: the value that it has in another context of this process, as the
        run of a routine begins. `p.grad += p.grad.merge(ctx2)`, in code for one context, adds what another
        one has. Of an expression it is that of its `value`. It is memory that cannot be assigned.

        Runs of routines in `ctx`, and runs elsewhere that read its memory so, take turns from now on. The
        value is read in place where both contexts are of the CPU, and is copied for each run else.

        Raises `ArgumentError` for what is not a context; a run raises `UninitializedError`, with this line,
        where nothing has written the memory in `ctx`.
        """
        return self._of(merging.merge(self.value.ir_value, ctx))
