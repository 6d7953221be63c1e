"""The state of programs: what they keep from one run to the next, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from ocannl.dialects import texpr
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.blocks.block_parts import memory_of
from ocannl.program.code import Code
from ocannl.program.memory.live_in_memory import LiveInMemory
from ocannl.program.names import free, memory_names
from ocannl.program.tensor import Expression, Tensor, as_tensor
from ocannl.program.updates import updates
from ocannl.program.values import Kind, Value, is_memory, label_of, values_of


class Held(ABC):
    """State that Python holds, and not the memory of a context: an index of a routine, the place in data."""

    label: str
    kind: Kind

    @abstractmethod
    def read(self) -> NDArray[Any]:
        """The value now."""

    @abstractmethod
    def write(self, array: ArrayLike) -> None:
        """Sets it to an array of the same shape and dtype."""


@runtime_checkable
class Stateful(Protocol):
    """An object that has state: a routine, function, block, optimizer, or data."""

    def state_roots(self) -> Iterable[Root]:
        """That whose state it is."""
        ...


Root: TypeAlias = Expression | Code | Stateful | Held | Callable[..., Any] | Sequence[Any] | Mapping[Any, Any]
"""One or several objects that have state."""


class State(dict[str, "Tensor | Held"]):
    """Memory by name. `kinds` says what each is for; `paths` has the names without numbers, and `updated` the
    names of what code updates from its own value, so that it starts at zero.

    `inferred` is the code and the tensors whose inference gives what is open its shape.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, Kind] = {}
        self.paths: dict[str, str] = {}
        self.updated: set[str] = set()
        self.inferred: list[Tensor | Code] = []

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {self.kinds[name]} {entry!r}" for name, entry in self.items())


def state(what: Root) -> State:
    """Everything that a tensor, code, a routine, function, block, optimizer or data keep from one run to the
    next, by name; of a list or the values of a dictionary, all of it together. A block may be any function
    that uses parameters from outside.

    This is memory that is read before it is set: parameters, running statistics, moments, counters, gradients
    that accumulate; and what is not memory, the unranged indices of a routine and the place in
    `train.batches`. `.kinds` says of each name whether it is a 'parameter', 'statistic', 'moment', 'counter'
    or 'key'. Raises `ArgumentError` for what has no state.
    """
    found = _Found()
    found.add(what)
    return found.named()


@dataclass
class _Found:
    """The memory found so far, before it has names."""

    memory: LiveInMemory = field(default_factory=LiveInMemory)
    held: dict[Held, None] = field(default_factory=dict[Held, None])
    inferred: list[Tensor | Code] = field(default_factory=list[Tensor | Code])

    def add(self, what: object) -> None:
        match what:
            case Expression():
                tensor = as_tensor(what)
                self.add_tensor(tensor)
            case Code():
                self.inferred.append(what)
                self.memory.add(what.statements)
            case Held():
                self.held[what] = None
            case Stateful():
                self.add(list(what.state_roots()))
            case Mapping():
                self.add(list(cast(Mapping[object, object], what).values()))
            case list() | tuple() | set() | frozenset():
                for one in cast(Iterable[object], what):
                    self.add(one)
            case _ if callable(what):
                self.memory.values |= dict.fromkeys(memory_of(what).values())
            case _:
                raise ArgumentError(
                    "state is that of tensors, code, routines, functions, blocks, optimizers and data, "
                    f"or lists of them; found {what!r}"
                )

    def add_tensor(self, tensor: Tensor) -> None:
        if is_memory(tensor.ir_value):
            self.memory.values[tensor.ir_value] = None
        else:
            self.inferred.append(tensor)
            self.memory.add(updates(tensor).statements, tensor.ir_value)

    def named(self) -> State:
        """The state under distinct names: those of memory, of its gradients and values, and of the rest."""
        result = State()
        result.inferred = self.inferred
        own = [v.op for v in self.memory.values] + [values_of(v.op)[0].op for v in self._of()]
        names = memory_names(dict.fromkeys(own))
        for value in self.memory.values:
            source = value if isinstance(value.op, texpr.MemoryOp) else values_of(value.op)[0]
            suffix = "" if source is value else label_of(value).removeprefix(label_of(source))
            path = label_of(source) if source.path is None else source.path.text
            wanted = names.get(source.op, path) + suffix
            name = self._put(result, wanted, path + suffix, Tensor(value), self._kind(value))
            if value in self.memory.updated:
                result.updated.add(name)
        for held in self.held:
            self._put(result, held.label, held.label, held, held.kind)
        return result

    def _of(self) -> list[Value]:
        return [v for v in self.memory.values if isinstance(v.op, texpr.OfOp)]

    def _put(self, result: State, name: str, path: str, entry: Tensor | Held, kind: Kind) -> str:
        name = free(name, {*result}) if name in result else name
        result[name], result.kinds[name], result.paths[name] = entry, kind, path
        return name

    def _kind(self, value: Value) -> Kind:
        if isinstance(value.op, texpr.ParamOp):
            return "parameter"
        if value in self.memory.counters:
            return "key"
        return value.kind or ("moment" if isinstance(value.op, texpr.GradOp) else "statistic")
