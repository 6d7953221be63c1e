"""The memory of tensors in a context: values that are read, set and shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from numpy.typing import ArrayLike, NDArray

from ocannl.dialects.ir.errors import DeviceError, OcannlError, ShapeError
from ocannl.execute.inference import infer
from ocannl.execute.memory.no_value import no_value
from ocannl.execute.memory.node import (
    Node,
    NodeValue,
    at_key,
    host_array,
    stored,
    write_part,
    written_by_others,
)
from ocannl.execute.memory.nodes import Nodes, is_final
from ocannl.execute.memory.shapes_of_arrays import close_shapes, shape_of_sizes
from ocannl.execute.memory.shared_memory import copied_on_device, memory_table, share
from ocannl.execute.turns import Turn
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.indexing.memory_parts import Part
from ocannl.program.leaves import numbers
from ocannl.program.location import here
from ocannl.program.memory.assigned import way_to_memory
from ocannl.program.memory.state import Held
from ocannl.program.mistakes.other_shape import other_shape
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import is_memory, memory_key
from ocannl.runtime.cuda.gpu import SharedMemory
from ocannl.runtime.device import Device
from ocannl.runtime.memory import SharedHostMemory


class TensorMemory(ABC):
    """The memory of tensors on a device: the part of a context that has values."""

    device: Device
    nodes: Nodes
    turn: Turn

    @abstractmethod
    def evaluated(self, tensor: Tensor) -> NDArray[Any]:
        """The value of an expression, computed from the present memory; that of memory."""

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor that is memory, allocated on first use."""
        node = self._node(tensor)
        if node is None:
            if not is_final(tensor.ir_value):
                infer(tensor)
            node = self.nodes.of(tensor.ir_value)
        return node

    def _node(self, tensor: Tensor) -> Node | None:
        """The node of a tensor, if there is memory for it here."""
        return self.nodes.find(tensor.ir_value)

    def view(self, tensor: Tensor, *, writable: bool = False) -> NDArray[Any]:
        """The memory of a tensor as a read-only array that follows it, without a copy. A `writable` one is
        for while no routine is running.

        Raises `DeviceError` where the host does not reach the memory, `UninitializedError` for memory
        without a value that is not `writable`.
        """
        node = self.node_of(self._memory_tensor(tensor))
        if not node.written and not writable:
            raise no_value(tensor, self)
        array = host_array(node.memory)
        if array is None:
            raise DeviceError(f"the memory of {self} is not the host's: ctx[t] is a copy of it")
        view = array.view()
        view.flags.writeable = writable
        if writable:
            written_by_others(node.memory)
        node.written = True
        return view

    def share(self, tensor: Tensor) -> SharedMemory | SharedHostMemory:
        """The memory of a tensor as other libraries take it without a copy, by DLPack
        (`torch.from_dlpack(ctx.share(t))`), on an NVIDIA GPU also by its array interface
        (`cupy.asarray(ctx.share(t))`). It follows the tensor, and they may write it while no routine is
        running: `ctx.synchronize()` waits for those that are.

        Raises `DeviceError` where memory is in parts, `UninitializedError` for memory without a value.
        """
        node = self.node_of(self._memory_tensor(tensor))
        if not node.written:
            raise no_value(tensor, self)
        return share(node.memory, str(self))

    def memory(self) -> str:
        """The nodes with memory here, by the bytes that they have, and their sum; of a GPU also how much it
        has, and how much is free. Raises `DeviceError`.
        """
        return memory_table(self.device, self.nodes.sizes())

    def __getitem__(self, tensor: TensorLike | Held | Part[Tensor]) -> NDArray[Any]:
        """The value now, in a new array of shape batch, output, input axes. An expression that no routine
        keeps is computed from the present memory. `float(ctx[loss])` is one number; `ctx[m.at[2:4]]` is a
        part of memory, by positions as in NumPy.

        Raises `UninitializedError` where nothing has written it yet.
        """
        if isinstance(tensor, Held):
            return NodeValue.of(tensor.read())
        if isinstance(tensor, Part):
            return self._part(tensor)
        target = as_tensor(tensor)
        node = self._node(target)
        if node is None and is_memory(target.ir_value):
            node = self.nodes.initial(target.ir_value)
        elif node is None:
            return NodeValue.of(self.evaluated(target))
        if node is None or not node.written:
            raise no_value(target, self)
        with self.turn.held():
            return NodeValue.of(node.memory.read())

    def _part(self, part: Part[Tensor]) -> NDArray[Any]:
        tensor = self._memory_tensor(part.tensor)
        node = self._node(tensor) or self.nodes.initial(tensor.ir_value)
        if node is None or not node.written:
            raise no_value(tensor, self)
        array = host_array(node.memory)
        with self.turn.held():
            return NodeValue.of(at_key(node.memory.read() if array is None else array, part).copy())

    def _memory_tensor(self, tensor: TensorLike) -> Tensor:
        """A tensor that is memory. Raises `OcannlError` for an expression."""
        found = as_tensor(tensor)
        if not is_memory(found.ir_value):
            message = f"`{found.label}` is an expression, not memory: only memory is set or shared"
            way = way_to_memory(found.ir_value)
            raise OcannlError(here(message if way is None else f"{message}; {way}"))
        if found.ir_value.merged is not None:
            message = f"`{found.label}` is a merge buffer, with the value of another context"
            raise OcannlError(here(f"{message}: it is set, and shared, there"))
        return found

    def __setitem__(self, tensor: Tensor | Held | Part[Tensor], array: ArrayLike) -> None:
        """Sets memory, or a part of it: `ctx[m.at[0, 3]] = 5.0`. The dtype is converted; memory of an open
        shape gets the array's. Raises `ShapeError` where the array's shape is not the memory's.
        """
        if isinstance(tensor, Held):
            tensor.write(array)
            return
        part: Part[Tensor] | None = tensor if isinstance(tensor, Part) else None
        target = self._memory_tensor(tensor.tensor if isinstance(tensor, Part) else tensor)
        if RECORDER.living:
            ENGINE.only.settle([memory_key(target.ir_value)], self)
        if part is None and not graph.known_shape(target.ir_value).is_final:
            _close(target, array)
        node = self.node_of(target)
        with self.turn.held():
            self._set(node, target, part, array)
        node.written = True

    def _set(self, node: Node, target: Tensor, part: Part[Tensor] | None, array: ArrayLike) -> None:
        if part is None and copied_on_device(node.memory, array):
            return
        contents = stored(
            numbers(array, f"`{target.label}` is set to numbers"), node.memory.dtype, f"`{target.label}`"
        )
        if part is not None:
            if not node.written:
                raise no_value(target, self)
            write_part(node.memory, part, contents)
        elif contents.shape != node.memory.shape and contents.ndim:
            message = f"`{target.label}` ({target.shape}) takes an array of shape {node.memory.shape}"
            below = other_shape(f"`{target.label}`", node.memory.shape, contents.shape)
            raise ShapeError(here(f"{message}, found {contents.shape}{below}"))
        else:
            node.memory.write(contents)

    def __contains__(self, tensor: object) -> bool:
        """Whether the tensor's memory has a value here."""
        if not isinstance(tensor, Tensor):
            return isinstance(tensor, Held)
        node = self._node(tensor)
        return node is not None and node.written

    def __iter__(self) -> NoReturn:
        raise ArgumentError("a context has no order to go through: ctx[t] is the value of a tensor t")


def _close(target: Tensor, array: ArrayLike) -> None:
    """Gives memory of an open shape that of an array; a number has none. Raises `ShapeError`, and changes
    nothing, where it does not fit.
    """
    sizes = numbers(array, f"`{target.label}` is set to numbers").shape
    if not sizes:
        return
    known = graph.known_shape(target.ir_value)
    shape = shape_of_sizes(known, sizes)
    if shape is None or close_shapes({target.label: (target.ir_value, shape, None)}):
        raise ShapeError(
            here(f"`{target.label}` ({known}), and what it is used for, fit no array of shape {sizes}")
        )
