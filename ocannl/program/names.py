"""Names of memory: its path, with numbers where paths repeat among what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from xdsl.ir import Operation

from ocannl.dialects.texpr import MemoryOp, ParamOp
from ocannl.program.scopes import MemoryPath, Scope
from ocannl.program.values import value_of


def memory_names(ops: Iterable[Operation]) -> dict[Operation, str]:
    """Distinct names for the memory among operations; those of parameters depend on parameters alone.

    Where paths repeat, numbers in order of making tell scopes and labels apart: `linear.w`, `linear_1.w`. The
    parameters of one scope share its number.
    """
    memory = [op for op in ops if isinstance(op, MemoryOp)]
    found: dict[Operation, str] = {}
    for kind in (True, False):
        paths = {op: _path(op) for op in memory if isinstance(op, ParamOp) is kind}
        numbering = _Numbering(paths, set(found.values()))
        numbering.number(list(paths), 0, "")
        found |= numbering.names
    return found


def _path(op: MemoryOp) -> MemoryPath:
    path = value_of(op).path
    assert path is not None, "memory is made with its path"
    return path


class _Numbering:
    """Names memory scope by scope, without taking a name that is taken."""

    def __init__(self, paths: dict[MemoryOp, MemoryPath], taken: set[str]) -> None:
        self.paths = paths
        self.taken = taken
        self.names: dict[MemoryOp, str] = {}

    def number(self, ops: Sequence[MemoryOp], depth: int, prefix: str) -> None:
        """Names what was made in one scope, or in several that need not be told apart."""
        leaves: list[MemoryOp] = []
        inner: dict[Scope, list[MemoryOp]] = {}
        for op in sorted(ops, key=lambda op: self.paths[op].order):
            scopes = self.paths[op].scopes
            if len(scopes) == depth:
                leaves.append(op)
            else:
                inner.setdefault(scopes[depth], []).append(op)
        wanted = {op: prefix + self.paths[op].label for op in leaves}
        labels = set(wanted.values())
        for op, name in wanted.items():
            self.names[op] = name if name not in self.taken else free(name, self.taken, labels)
            self.taken.add(self.names[op])
        self.number_scopes(inner, depth, prefix)

    def number_scopes(self, inner: dict[Scope, list[MemoryOp]], depth: int, prefix: str) -> None:
        labels = {scope.label for scope in inner}
        for label in sorted(labels):
            alike = sorted((scope for scope in inner if scope.label == label), key=lambda scope: scope.order)
            repeats = len(alike) > 1 and self.repeat([inner[scope] for scope in alike])
            used: set[str] = set()
            for scope in alike:
                name = free(label, labels, used) if used else label
                if repeats:
                    used.add(name)
                self.number(inner[scope], depth + 1, f"{prefix}{name}.")

    def repeat(self, scopes: Iterable[Sequence[MemoryOp]]) -> bool:
        """Whether several scopes have memory of the same labels."""
        found = [{self.paths[op].text for op in ops} for ops in scopes]
        return len(set[str]().union(*found)) < sum(map(len, found))


def free(label: str, *taken: set[str]) -> str:
    """The first of `w_1`, `w_2` and so on that is not taken."""
    names = (f"{label}_{number}" for number in count(1))
    return next(name for name in names if not any(name in known for known in taken))
