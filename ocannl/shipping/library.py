"""A routine as a library: its nodes under names of C, and its object code for a processor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.execute.routine import Routine
from ocannl.lowering.arena import ALIGNMENT, PADDING
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.loops_to_llvm.library import LibraryArray, library_text
from ocannl.passes.analysis.target import TargetDescription
from ocannl.runtime.host.jit import emit_object, llvm_target
from ocannl.runtime.interface import Interface, the_func

PARAMETER = "parameter"
# Words that are no names in C and C++, those that are most like labels of tensors.
# Split, since a list of so many strings is a page long.
KEYWORDS = frozenset(
    """
    auto bool break case catch char class const continue default delete do double else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new operator private protected
    public register restrict return short signed sizeof static struct switch template this throw true try
    typedef typename union unsigned using virtual void volatile while workspace
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Node:
    """A node of a routine: its label and its name in C; what it is; its values, where it has some; and with
    `offset`, where these are in the file of parameters.
    """

    label: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    why: str
    is_read: bool
    is_written: bool
    values: NDArray[Any] | None
    offset: int | None = None

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Library:
    """A routine for a processor: its nodes in the order of its memory, its static indices with their ranges,
    and object code.
    """

    name: str
    target: TargetDescription
    nodes: tuple[Node, ...]
    indices: tuple[tuple[str, int | None], ...]
    workspace_bytes: int
    code: bytes

    @property
    def loaded(self) -> list[Node]:
        """The nodes whose values are in a file of their own."""
        return [node for node in self.nodes if node.offset is not None]

    def file_contents(self) -> bytes:
        """The file of parameters: their values, each from a multiple of 64 bytes on."""
        found = bytearray()
        for node in self.loaded:
            assert node.offset is not None
            assert node.values is not None
            found += bytes(node.offset - len(found)) + node.values.tobytes()
        return bytes(found) + bytes(PADDING)


def c_name(text: str) -> str:
    """The nearest name of C."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "node"
    if name[0].isdigit():
        return f"n{name}"
    return f"{name}_" if name in KEYWORDS else name


def c_names(labels: Iterable[str]) -> dict[str, str]:
    """A name of C for each label, all different."""
    names: dict[str, str] = {}
    for label in labels:
        name = base = c_name(label)
        number = 2
        while name in names.values():
            name, number = f"{base}_{number}", number + 1
        names[label] = name
    return names


def library(routine: Routine, name: str, target: TargetDescription, *, are_loaded: bool) -> Library:
    """Compiles a routine for a processor, with the present values of its nodes. `are_loaded` parameters are
    not part of the code.
    """
    module = routine.lowered(target)
    func = the_func(module)
    interface = Interface.of(func)
    nodes = _nodes(interface, routine.present_arrays(), are_loaded=are_loaded)
    code = library_code(to_llvm(module, target=target), interface.layout, interface.name, name, nodes, target)
    arena = max(interface.layout.arena_bytes, 1) + PADDING
    return Library(name, target, nodes, tuple(interface.ranges.items()), arena, code)


def _nodes(interface: Interface, arrays: Mapping[str, NDArray[Any]], *, are_loaded: bool) -> tuple[Node, ...]:
    labels, facts = interface.layout.nodes, interface.facts
    names, found, offset = c_names(labels), list[Node](), 0
    for label in labels:
        node, values = interface.nodes[label], arrays.get(label)
        is_apart = are_loaded and node.why == PARAMETER and values is not None
        found.append(
            Node(
                label,
                names[label],
                node.shape,
                node.dtype,
                node.why,
                label in facts.reads,
                label in facts.writes,
                values,
                offset if is_apart else None,
            )
        )
        if is_apart:
            offset += -(-found[-1].bytes // ALIGNMENT) * ALIGNMENT
    return tuple(found)


def library_code(
    text: str, layout: EntryLayout, routine: str, name: str, nodes: Iterable[Node], target: TargetDescription
) -> bytes:
    """The object file of a library."""
    arrays = [
        LibraryArray(
            node.bytes,
            None if node.values is None or node.offset is not None else node.values.tobytes(),
            is_inside=node.offset is None,
        )
        for node in nodes
    ]
    return emit_object(library_text(text, layout, routine, name, arrays, llvm_target(target)), target)
