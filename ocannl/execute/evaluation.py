"""Values of expressions that no routine keeps, computed each time that they are looked at.

Looking changes nothing: shapes are inferred on a copy, and what is computed goes to memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import ref

from numpy.typing import NDArray
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import ShapeError, UninitializedError
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.execute.inference import check_elements
from ocannl.execute.memory.node import Node
from ocannl.execute.memory.nodes import Nodes, array_in, is_final
from ocannl.execute.meshes import put_on_mesh
from ocannl.execute.routine import Compiler, Rerun, Routine
from ocannl.program import graph
from ocannl.program.code import Code, computing
from ocannl.program.module.extract import ExtractedRoutine, extract, origin_of
from ocannl.program.module.needed import needed, needed_for
from ocannl.program.tensor import Tensor
from ocannl.program.values import Value, is_memory, value_of, values_of
from ocannl.runtime.collector import collector_paused
from ocannl.runtime.compile import compile_module
from ocannl.runtime.interface import Interface
from ocannl.runtime.locks import shared


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A value's type, as far as it was known when a copy of it was closed."""

    value: ref[Value]
    shape: Shape | None
    """Where it was not final."""
    element: Attribute | None

    @staticmethod
    def of(value: Value) -> Knowledge:
        """The type as it is known now."""
        shape = graph.known_shape(value)
        return Knowledge(ref(value), None if shape.is_final else shape, tensor_type(value).element_or_none)

    def is_current(self) -> bool:
        """Whether no more is known by now."""
        value = self.value()
        if value is None or tensor_type(value).element_or_none != self.element:
            return False
        return self.shape is None or graph.known_shape(value) == self.shape


def open_types(program: ExtractedRoutine, used: Collection[texpr.TensorOp]) -> list[Knowledge]:
    """The known types of those values of a program whose types are not final. Gradients count only where they
    are used: they are in the program of everything that has one.
    """
    values = [value for value in program.copies if isinstance(value, Value)]
    known = [Knowledge.of(v) for v in values if not isinstance(v.op, texpr.OfOp) or v.op in used]
    return [one for one in known if one.shape is not None or one.element is None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A compiled computation of expressions from the present memory."""

    rerun: Rerun
    results: Sequence[Node]
    copied: Sequence[tuple[Node, Node]]
    """Memory that the computation reads and would write, with the copy that it has instead."""
    types: Sequence[Knowledge]

    def is_current(self) -> bool:
        """Whether the expression would be compiled in the same way now."""
        return all(known.is_current() for known in self.types)

    def values(self) -> list[NDArray[Any]]:
        """The values now."""
        for source, copy in self.copied:
            copy.memory.write(source.memory.read())
        self.rerun.call()
        return [result.memory.read() for result in self.results]


@collector_paused()
def evaluation(context: Compiler, nodes: Nodes, *tensors: Tensor) -> Evaluation:
    """Compiles the computation of expressions. Raises `UninitializedError` where one has no value."""
    label = tensors[-1].label
    code = Code([op for t in tensors for op in computing(t.ir_value).statements], label)
    used = needed(code.statements)
    if any("indices" in op.attributes for op in used):
        raise UninitializedError(
            f"`{label}` depends on static indices, and no routine keeps its value: "
            "ask for `.value` before compiling the routine that computes it, or compile oc.forward of it"
        )
    # Not even the keys of random numbers are used up.
    program = extract(code.statements, label, context.numbering.copy())
    put_on_mesh(program, nodes, context.mesh)
    types = open_types(program, set(used))
    executable = compile_module(program.module, context.target, context.device)
    check_elements(program)
    own, copied = _nodes_to_look(nodes, program, executable.interface)
    routine = Routine(context, code, label, program, executable, own)
    routine.prepare()
    results = [own[routine.keys[tensor.ir_value, False]] for tensor in tensors]
    return Evaluation(routine.rerun, results, copied, types)


def present_values(context: Compiler, nodes: Nodes, values: Iterable[Value]) -> dict[Value, NDArray[Any]]:
    """The values now of those that have one; expressions without memory by one computation."""
    found: dict[Value, NDArray[Any]] = {}
    computed: list[Value] = []
    values = list(values)
    valueless = _without_value(nodes, values)
    for value in values:
        node = _node(nodes, value)
        if node is not None and node.written:
            found[value] = node.memory.read()
        elif node is None and value.op not in valueless:
            computed.append(value)
    if computed:
        with suppress(ShapeError), shared:  # Memory has its values even where shapes do not fit.
            arrays = evaluation(context, nodes, *map(Tensor, computed)).values()
            found |= zip(computed, arrays, strict=True)
    return found


def _without_value(nodes: Nodes, values: Sequence[Value]) -> set[texpr.TensorOp]:
    """The operations that have no value: memory that nothing has written, and what is computed from such
    memory or from static indices.
    """
    found = set[texpr.TensorOp]()
    for op in needed_for(values):
        if is_memory(op.result):
            node = _node(nodes, value_of(op))
            lacks = node is None or not node.written
        else:
            lacks = "indices" in op.attributes or any(operand.op in found for operand in values_of(op))
        if lacks:
            found.add(op)
    return found


def _node(nodes: Nodes, value: Value) -> Node | None:
    """The node of a value, or one with the initial value that its memory has."""
    node = nodes.find(value)
    return nodes.initial(value) if node is None and is_memory(value) else node


def _nodes_to_look(
    nodes: Nodes, program: ExtractedRoutine, interface: Interface
) -> tuple[dict[str, Node], list[tuple[Node, Node]]]:
    """The nodes by label for a routine that must leave the context as it is, and the pairs of a node and its
    copy. Nodes that the routine writes are copies or new, and so is memory whose type is still open.
    """
    used: dict[str, Node] = {}
    copied: list[tuple[Node, Node]] = []
    for label in interface.layout.nodes:
        array, (value, is_gradient) = array_in(interface, label), origin_of(program, label)
        present = nodes.present(value, is_gradient)
        is_written = label in interface.facts.writes
        if not is_written and (present is not None or is_final(value)):
            used[label] = nodes.allocate(value, is_gradient, array)
            continue
        node = used[label] = nodes.new(value, is_gradient, array, shape_of(program.copies[value]))
        if is_written and label in interface.facts.reads and present is not None:
            node.written = present.written
            copied.append((present, node))
    return used, copied
