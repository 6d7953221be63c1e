"""A routine as a library: its nodes under names of C, and its object code for a processor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ocannl.dialects.loops import FuncOp
from ocannl.execute.routine import Routine
from ocannl.lowering.arena import ALIGNMENT, PADDING
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.loops_to_c import to_c
from ocannl.lowering.loops_to_c.names import c_names
from ocannl.lowering.loops_to_llvm.library import LibraryArray, library_text
from ocannl.passes.analysis.nests import nodes
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.host.jit import emit_object, llvm_target
from ocannl.runtime.interface import Interface, the_func
from ocannl.runtime.systems.system import System
from ocannl.shipping.c_source import c_source
from ocannl.shipping.node import Node

PARAMETER, GRADIENT = "parameter", "gradient"


@dataclass(frozen=True)
class Library:
    """A routine for a processor: its nodes in the order of its memory, its static indices with their ranges,
    and object code; or its text in C, for any processor.
    """

    name: str
    target: TargetDescription
    nodes: tuple[Node, ...]
    indices: tuple[tuple[str, int | None], ...]
    workspace_bytes: int
    code: bytes
    is_text: bool = False

    @property
    def about(self) -> str:
        """How it was made."""
        return "written by OCANNL in C" if self.is_text else f"compiled by OCANNL for {self.target.cpu}"

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


def library(
    routine: Routine,
    name: str,
    target: TargetDescription,
    under: System | None = None,
    *,
    are_loaded: bool,
    as_text: bool = False,
) -> Library:
    """Compiles a routine for a processor under a system, or writes it `as_text` of C, with the present values
    of its nodes. `are_loaded` parameters are not part of the code.
    """
    module = routine.lowered(target, "c" if as_text else "cpu")
    erase_idle_gradients(the_func(module))
    interface = Interface.of(the_func(module))
    own = _nodes(interface, routine.present_arrays(), are_loaded=are_loaded)
    arena = max(interface.layout.arena_bytes, 1) + PADDING
    if as_text:
        code = c_source(to_c(module, name), name, own, arena).encode()
    else:
        text = to_llvm(module, target=target)
        code = library_code(text, interface.layout, interface.name, name, own, target, under)
    return Library(name, target, own, tuple(interface.ranges.items()), arena, code, as_text)


def erase_idle_gradients(func: FuncOp) -> None:
    """Erases gradients of trained parameters, where the routine has nothing to do with them."""
    for node in nodes(func):
        if node.why.data == GRADIENT and node.result.first_use is None:
            node.detach()
            node.erase()


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
    text: str,
    layout: EntryLayout,
    routine: str,
    name: str,
    nodes: Iterable[Node],
    target: TargetDescription,
    under: System | None,
) -> bytes:
    """The object file of a library for a processor, under a system."""
    arrays = [
        LibraryArray(
            node.bytes,
            None if node.values is None or node.offset is not None else node.values.tobytes(),
            is_inside=node.offset is None,
        )
        for node in nodes
    ]
    whole = library_text(text, layout, routine, name, arrays, llvm_target(target, under))
    return emit_object(whole, target, under=under)
