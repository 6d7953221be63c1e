"""The memory of tensors on the device of one context."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.execute.memory.merge_buffers import MergeBuffer
from ocannl.execute.memory.node import Node, changed, host_array
from ocannl.execute.memory.shared_memory import set_contents
from ocannl.init import RandomSample
from ocannl.program import graph
from ocannl.program.types.dtypes import computed_dtype, dtype_of
from ocannl.program.types.final_types import type_now
from ocannl.program.values import Value, label_of, memory_key
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.device import Device, Memory
from ocannl.runtime.interface import Interface
from ocannl.runtime.locks import shared
from ocannl.runtime.random import stream_key

# How many nodes are named where memory is at its end.
MOST_NAMED = 3
# The sizes and the dtype of an array.
ArrayType: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]


class Nodes:
    """Nodes by the values whose memory they are, and those of gradients by what they are gradients of."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._nodes = WeakKeyDictionary[Value, Node]()
        self._gradients = WeakKeyDictionary[Value, Node]()

    def find(self, value: Value) -> Node | None:
        """The node of a value, if there is one."""
        return self.present(*memory_key(value))

    def present(self, value: Value, is_gradient: bool) -> Node | None:
        """The node of a value or of its gradient, if there is one; of a merge buffer, the one whose value it
        has.
        """
        if (merged := value.merged) is not None and not is_gradient:
            return merged.context.nodes.present(merged.value, merged.is_gradient)
        return (self._gradients if is_gradient else self._nodes).get(value)

    def rows(self) -> list[tuple[str, ...]]:
        """A table of the memory that there is."""
        found = [("memory", "shape", "dtype", "bytes", "written")]
        for suffix, nodes in (("", self._nodes), (".grad", self._gradients)):
            for value, node in list(nodes.items()):
                sizes, dtype = node.memory.shape, node.memory.dtype
                size = str(math.prod(sizes) * dtype.itemsize)
                written = "yes" if node.written else "no"
                found.append(
                    (f"{label_of(value)}{suffix}", str(graph.known_shape(value)), str(dtype), size, written)
                )
        return found

    @contextmanager
    def none_kept(self) -> Generator[None]:
        """A context after which the nodes that were made in it are given up."""
        tables = (self._nodes, self._gradients)
        before = [set(table) for table in tables]
        try:
            yield
        finally:
            for table, known in zip(tables, before, strict=True):
                for value in set(table) - known:
                    del table[value]

    def of(self, value: Value) -> Node:
        """The node of memory of a final type, allocated on first use."""
        array = array_of(graph.known_shape(value), tensor_type(value).element)
        return self.allocate(*memory_key(value), array)

    def allocate(self, value: Value, is_gradient: bool, array: ArrayType) -> Node:
        """The node of a value or of its gradient, made on first use."""
        if value.merged is not None and not is_gradient:
            return self._merged(value, array)
        nodes = self._gradients if is_gradient else self._nodes
        with shared:
            node = nodes.get(value)
            if node is None:
                node = nodes[value] = self.new(value, is_gradient, array, graph.known_shape(value))
        assert (node.memory.shape, node.memory.dtype) == array, "a node keeps its shape and its type"
        return node

    def _merged(self, value: Value, array: ArrayType) -> Node:
        """The node of a merge buffer: the other context's own where code here can read its memory, else
        a copy. A buffer of this context's own memory is a copy, too, as code may write that memory before it
        reads the buffer.
        """
        others: Nodes = value.merged.context.nodes
        source = others.allocate(value.merged.value, value.merged.is_gradient, array)
        is_reached = isinstance(self.device, NativeDevice) and host_array(source.memory) is not None
        if is_reached and others is not self:
            return source
        return MergeBuffer(self.memory_for(array, f"`{label_of(value)}`"), source)

    def new(self, value: Value, is_gradient: bool, array: ArrayType, shape: Shape) -> Node:
        """A new node, with the initial value of the memory where that has one."""
        node = Node(self.memory_for(array, f"`{label_of(value)}{'.grad' if is_gradient else ''}`"))
        if not is_gradient:
            fill(node, value, shape)
        return node

    def copies(self, interface: Interface) -> dict[str, Node]:
        """New nodes for the copies that a routine keeps, by label."""
        kept = [label for label, facts in interface.nodes.items() if facts.is_kept]
        return {label: Node(self.memory_for(array_in(interface, label), f"`{label}`")) for label in kept}

    def memory_for(self, array: ArrayType, what: str) -> Memory:
        """New memory. Raises `DeviceError` that says for what, and which nodes have most, where there is not
        enough.
        """
        try:
            memory = self.device.memory(*array)
            if isinstance(memory, MeshMemory):
                memory.what = what
            return memory
        except DeviceError as error:
            most = sorted(self.sizes(), reverse=True)[:MOST_NAMED]
            named = ", ".join(f"`{label}` {size}" for size, label in most)
            others = f"; of this context's nodes these have the most bytes: {named}" if named else ""
            raise DeviceError(f"{error}; they are for {what}{others}") from None

    def sizes(self) -> list[tuple[int, str]]:
        """The bytes of all nodes, with their labels."""
        return [
            (math.prod(node.memory.shape) * node.memory.dtype.itemsize, f"{label_of(value)}{suffix}")
            for suffix, nodes in (("", self._nodes), (".grad", self._gradients))
            for value, node in list(nodes.items())
        ]

    def initial(self, value: Value) -> Node | None:
        """The node of memory that begins with a value. Its shape is not decided if it is not known yet."""
        if value.array is None and (value.sample is None or isinstance(value.op, texpr.ParamOp)):
            return None
        if is_final(value):
            return self.of(value)
        type = type_now(value)
        return self.new(value, False, array_of(type.shape.data, type.element), type.shape.data)


def array_in(interface: Interface, label: str) -> ArrayType:
    """The array of a node, on all ranks together."""
    facts = interface.nodes[label]
    return facts.whole, np.dtype(facts.dtype)


def is_final(value: Value) -> bool:
    """Whether both the shape and the element type of a value are known."""
    return tensor_type(value).element_or_none is not None and graph.known_shape(value).is_final


def array_of(shape: Shape, element: Attribute) -> ArrayType:
    """The array that holds values of a final type."""
    return shape.memory_sizes, dtype_of(element)


def fill(node: Node, value: Value, shape: Shape) -> None:
    """Writes the initial value of data and of nodes that have one."""
    if value.array is not None:
        set_contents(node.memory, value.array)
        node.written = True
    elif isinstance(value.op, texpr.NodeOp) and value.sample is not None:
        sample(node, value, shape, stream_key(0, ""))


def sample(node: Node, value: Value, shape: Shape, key: NDArray[np.uint32]) -> None:
    """Writes the initial value that a value samples."""
    draw, array, dtype = value.sample, host_array(node.memory), computed_dtype(node.memory.dtype)
    assert draw is not None
    if isinstance(draw, RandomSample) and array is not None:
        draw(key, shape, dtype, out=array)
        changed(node.memory)
    else:
        node.memory.write(draw(key, shape, dtype))
    node.written = True
