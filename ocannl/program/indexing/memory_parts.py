"""Parts of memory as places that are read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

TensorT = TypeVar("TensorT")


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[TensorT]):
    """`m.at[2:4]`: memory at positions, in the order of memory. `ctx[part]` reads and sets it; in code,
    `oc.set` and `oc.accumulate` write it.
    """

    tensor: TensorT
    key: object

    @property
    def items(self) -> tuple[object, ...]:
        """The positions of axes in turn."""
        return items_of(self.key)


def items_of(key: object) -> tuple[object, ...]:
    """The contents of brackets as a tuple."""
    return cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)


def is_same_key(a: object, b: object) -> bool:
    """Whether a statement wrote both in one place. Python may make a slice twice, and nothing else."""
    return a is b or (isinstance(a, slice) and a == b)


@dataclass(frozen=True, slots=True, eq=False)
class Parts(Generic[TensorT]):
    """`m.at`, whose positions in brackets name a part."""

    tensor: TensorT

    def __getitem__(self, key: object) -> Part[TensorT]:
        return Part(self.tensor, key)
