"""Contexts: a device, the memory of tensor nodes on it, and the compilation of routines for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import DeviceError, OcannlError, ShapeError, UninitializedError, location_text
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.execute.inference import commit, decided, infer
from ocannl.execute.node import Node, NodeValue
from ocannl.execute.routine import Rerun, Routine
from ocannl.execute.saving import load_state, save_state
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.program import graph
from ocannl.program.checks import integer
from ocannl.program.code import Code
from ocannl.program.dtypes import computed_dtype, dtype_of
from ocannl.program.errors import ArgumentError
from ocannl.program.extract import ExtractedRoutine, Numbering, extract, needed, origin_of
from ocannl.program.leaves import numbers
from ocannl.program.parameters import params
from ocannl.program.state import Held, Root
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import Value, is_memory, memory_key
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.collector import collector_paused
from ocannl.runtime.compile import Executable, compile_module
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.cuda import CudaDevice
from ocannl.runtime.cuda.ptx import DEFAULT_ARCH
from ocannl.runtime.device import Device
from ocannl.runtime.host.processor import chosen_target, usable_cores
from ocannl.runtime.interface import NodeFacts
from ocannl.runtime.locks import shared
from ocannl.runtime.metal import MetalDevice
from ocannl.runtime.random import stream_key

# The pipeline and the device of each backend.
BACKENDS: dict[str, tuple[str, Callable[[], Device]]] = {
    "cuda": ("gpu", CudaDevice),
    "metal": ("metal", MetalDevice),
    "cpu": ("cpu", lambda: _cpu_device(None)),
    "emulated_gpu": ("gpu", NativeDevice),
}
GPUS = ("cuda", "metal")


class Context:
    """A device with the memory of tensors on it, which compiles and runs routines.

    `Context.auto()` is of the backend `OCANNL_BACKEND`, else of the best device there is. `ctx[t]` is the
    value that a tensor's memory has now, as a new NumPy array; `ctx[t] = array` sets it.

    Parallel loops run on `threads` threads: by default `OCANNL_THREADS`, else as many as this process has
    cores. Results have the same bits for any number of them.
    """

    def __init__(
        self,
        backend: str = "cpu",
        threads: int | None = None,
        device: Device | None = None,
        *,
        tf32: bool = False,
    ) -> None:
        if backend not in BACKENDS:
            raise DeviceError(f"there is no backend {backend!r}; the backends are {', '.join(BACKENDS)}")
        self.backend = backend
        self.target, make_device = BACKENDS[backend]
        self.target += "-tf32" if tf32 else ""
        self.device = make_device() if device is None else device
        wanted = _threads() if threads is None else integer(threads, "the number of threads", least=1)
        self.team = Team(wanted)
        self._nodes = WeakKeyDictionary[Value, Node]()
        self._gradients = WeakKeyDictionary[Value, Node]()
        self._evaluations = WeakKeyDictionary[Value, Rerun]()
        """How to compute again what was looked at and no routine keeps."""
        self.numbering = Numbering()
        self.bound = WeakKeyDictionary[Any, Any]()
        """What was compiled here for traces of functions."""

    @staticmethod
    def auto() -> Context:
        """The backend that `OCANNL_BACKEND` names, else the best device there is: the GPU of NVIDIA's driver,
        that of a Mac, the CPU.
        """
        if named := os.environ.get("OCANNL_BACKEND"):
            return Context(named)
        for backend in GPUS:
            with suppress(DeviceError):
                return Context(backend)
        return Context("cpu")

    @staticmethod
    def cpu(threads: int | None = None, *, target: str | None = None) -> Context:
        """The CPU. Parallel loops run on `threads` threads, by default `OCANNL_THREADS`, else one a core.

        Code is for the processor `target`, by LLVM's name: by default `OCANNL_TARGET`, else this machine's,
        which is called `host`. Raises `DeviceError` for an unknown name. What is compiled for a processor
        with instructions that this one lacks has its text, and raises `DeviceError` when it runs.
        """
        return Context("cpu", threads, _cpu_device(target))

    @staticmethod
    def emulated_gpu(*, check: bool = False, shuffle: int | None = None, tf32: bool = False) -> Context:
        """A GPU that the CPU emulates: kernels run as on a GPU, block by block and barrier by barrier.

        With `check`, an access outside of an array, or a data race, raises `DeviceError`. With a number as
        `shuffle`, blocks and threads run in an order that depends on it; results have the same bits. With
        `tf32`, products of f32 may be summed on tensor cores, which round operands to 10 bits of mantissa.
        """
        order = None if shuffle is None else integer(shuffle, "the order of threads", least=None)
        return Context("emulated_gpu", 1, NativeDevice(Emulation(order, check)), tf32=tf32)

    @staticmethod
    def cuda(device: int = 0, *, tf32: bool = False) -> Context:
        """An NVIDIA GPU, by its number. Raises `DeviceError` where there is none, or its driver or the
        package for it is missing.

        A call of a routine returns when its kernels are launched; reading a value waits for them. Errors on
        the GPU are raised by a later call. With `tf32`, products of f32 may be summed on tensor cores, which
        round operands to 10 bits of mantissa.
        """
        number = integer(device, "the number of a GPU")
        return Context("cuda", 1, CudaDevice(number), tf32=tf32)

    @staticmethod
    def metal() -> Context:
        """The GPU of a Mac. Raises `DeviceError` where there is none, or the package for it is missing."""
        return Context("metal", 1)

    @property
    def threads(self) -> int:
        """The number of threads of parallel loops."""
        return self.team.threads

    def synchronize(self) -> None:
        """Waits for all runs, as a GPU runs them asynchronously. Reading a value waits, too.

        Raises `DeviceError` for errors of these runs.
        """
        self.device.synchronize()

    @property
    def arch(self) -> str:
        """The architecture that PTX is for by default: that of the NVIDIA GPU, else `sm_80`."""
        return self.device.arch if isinstance(self.device, CudaDevice) else DEFAULT_ARCH

    def __repr__(self) -> str:
        return f"<context {self.backend}: {self.device.name or self.team}>"

    def compile(
        self, code: Code | TensorLike, name: str | None = None, tunings: Tunings | None = None
    ) -> Routine:
        """Compiles code, or the computation of a tensor, into a routine.

        Schedules are those of `tunings` where it has any, by default those that `oc.tune` left in the cache
        on disk. Raises `ShapeError` and `SpecError` where shape inference fails.
        """
        if not isinstance(code, Code):
            code = as_tensor(code).forward
        if name is not None and not isinstance(name, str):
            raise ArgumentError(f"a routine is named by a string, found {name!r}")
        routine = self._compile(code, name or code.label or "routine", self.numbering, tunings)
        for value, _ in routine.keys:
            self._evaluations.pop(value, None)
        return routine

    @collector_paused()
    def _compile(
        self, code: Code, name: str, numbering: Numbering, tunings: Tunings | None = None
    ) -> Routine:
        def compiled() -> tuple[ExtractedRoutine, Executable]:
            program = extract(code.statements, name, numbering)
            executable = compile_module(program.module, self.target, self.device, tunings)
            commit(program)
            return program, executable

        program, executable = decided(compiled)
        interface = executable.interface
        nodes = {
            label: self._node_for(program, label, interface.nodes[label]) for label in interface.layout.nodes
        }
        return Routine(self, code, name, program, executable, nodes)

    def _node_for(self, program: ExtractedRoutine, label: str, facts: NodeFacts) -> Node:
        return self._allocate(*origin_of(program, label), facts.shape, np.dtype(facts.dtype))

    def _allocate(
        self, value: Value, is_gradient: bool, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Node:
        nodes = self._gradients if is_gradient else self._nodes
        with shared:
            node = nodes.get(value)
            if node is None:
                node = Node(self.device.memory(shape, dtype))
                if not is_gradient:
                    _fill(node, value)
                nodes[value] = node
        assert node.memory.shape == shape, "a node keeps its shape"
        assert node.memory.dtype == dtype, "a node keeps its type"
        return node

    def init_params(self, tensor: TensorLike | Code, *, seed: int = 1, reinit: bool = False) -> None:
        """Gives initial values to the parameters that a tensor or code depends on: to those that have none,
        or with `reinit` to all.

        A parameter's values depend on the seed and its name only.
        """
        found = params(tensor)
        seed = integer(seed, "a seed", least=None)
        if not all(graph.known_shape(p.ir_value).is_final and _element(p.ir_value) for p in found.values()):
            infer(tensor)
        for label, param in found.items():
            node = self.node_of(param)
            if node.written and not reinit:
                continue
            sample = param.ir_value.sample
            assert sample is not None
            shape = graph.known_shape(param.ir_value)
            dtype = computed_dtype(node.memory.dtype)
            node.memory.write(sample(stream_key(seed, label), shape, dtype))
            node.written = True

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor that is memory, allocated on first use."""
        value = tensor.ir_value
        node = self._node(tensor)
        if node is None:
            if not graph.known_shape(value).is_final or _element(value) is None:
                infer(tensor)
            element = _element(value)
            assert element is not None
            node = self._allocate(
                *memory_key(value), graph.known_shape(value).memory_sizes, dtype_of(element)
            )
        return node

    def _node(self, tensor: Tensor) -> Node | None:
        """The node of a tensor, if there is memory for it here."""
        value, is_gradient = memory_key(tensor.ir_value)
        return (self._gradients if is_gradient else self._nodes).get(value)

    def save(
        self, path: str | Path, what: Root, *, step: int | None = None, notes: Mapping[str, str] | None = None
    ) -> None:
        """Writes the state of `what`, as `oc.state` finds it, to a file: `*.safetensors` or `*.npz`. Its
        metadata has the version of this package, the shapes in rows, the step, and the `notes`.

        The file is written aside, flushed and renamed, so that there is the old file or the new one. Raises
        `UninitializedError` where there is no value yet.
        """
        save_state(self, path, what, step, notes or {})

    def load(
        self,
        path: str | Path,
        what: Root,
        strict: bool = True,
        rename: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> dict[str, str]:
        """Sets the state of `what` from a file that `save` wrote, or another one of named arrays; returns its
        metadata.

        Nothing changes unless all fits: `StateError` names all that is missing, extra, of another shape or
        dtype. With `partial`, what the file does not have stays as it is; without `strict`, what the program
        does not have is left out, and dtypes are converted. `rename` gives names of the file those of the
        program; a `*` stands for any text: `{"encoder.*": "model.*"}`.
        """
        return load_state(self, path, what, strict=strict, rename=rename or {}, partial=partial)

    def __getitem__(self, tensor: TensorLike | Held) -> NDArray[Any]:
        """The value now, in a new array of shape batch, output, input axes. An expression that no routine
        keeps is computed from the present memory. `float(ctx[loss])` is one number.

        Raises `UninitializedError` where nothing has written it yet.
        """
        if isinstance(tensor, Held):
            return NodeValue.of(tensor.read())
        target = as_tensor(tensor)
        node = self._node(target)
        if not is_memory(target.ir_value) and (node is None or target.ir_value in self._evaluations):
            return NodeValue.of(self._evaluate(target))
        if node is None and not isinstance(target.op, texpr.OfOp):
            node = self.node_of(target)
        if node is None or not node.written:
            where = location_text(target.op)
            made = "" if where is None else f" (made at {where})"
            raise UninitializedError(f"`{target.label}`{made} has no value yet: nothing has written it")
        return NodeValue.of(node.memory.read())

    def _evaluate(self, tensor: Tensor) -> NDArray[Any]:
        """The value of an expression that no routine keeps, computed each time that it is read."""
        value = tensor.ir_value
        evaluation = self._evaluations.get(value)
        if evaluation is None:
            code = tensor.forward
            if any("indices" in op.attributes for op in needed(code.statements)):
                raise UninitializedError(
                    f"`{tensor.label}` depends on static indices, and no routine keeps its value: "
                    "ask for `.value` before compiling the routine that computes it, "
                    "or compile oc.forward of it"
                )
            # Looking changes nothing, not even the keys of random numbers.
            routine = self._compile(code, tensor.label, self.numbering.copy())
            with shared:
                routine()
                self._evaluations[value] = routine.rerun
                return self._nodes[value].memory.read()
        with shared:
            evaluation.call()
            return self._nodes[value].memory.read()

    def __setitem__(self, tensor: Tensor | Held, array: ArrayLike) -> None:
        """Sets memory. The dtype is converted; raises `ShapeError` where the array's shape is not the
        memory's.
        """
        if isinstance(tensor, Held):
            tensor.write(array)
            return
        if not isinstance(tensor, Tensor):
            tensor = as_tensor(tensor)
        if not is_memory(tensor.ir_value):
            raise OcannlError(f"`{tensor.label}` is an expression, not memory: only memory can be set")
        node = self.node_of(tensor)
        contents = numbers(array, f"`{tensor.label}` is set to numbers")
        if contents.shape != node.memory.shape and contents.ndim:
            raise ShapeError(
                f"`{tensor.label}` has shape {tensor.shape}, an array of {node.memory.shape}; "
                f"found {contents.shape}"
            )
        node.memory.write(contents)
        node.written = True

    def __contains__(self, tensor: object) -> bool:
        """Whether the tensor's memory has a value here."""
        if not isinstance(tensor, Tensor):
            return isinstance(tensor, Held)
        node = self._node(tensor)
        return node is not None and node.written

    def __iter__(self) -> NoReturn:
        raise ArgumentError("a context has no order to go through: ctx[t] is the value of a tensor t")


def _cpu_device(target: str | None) -> NativeDevice:
    checks = os.environ.get("OCANNL_CHECK") == "1"
    return NativeDevice(Emulation(check=checks), target=chosen_target(target))


def _threads() -> int:
    text = os.environ.get("OCANNL_THREADS")
    if not text:
        return usable_cores()
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(f"OCANNL_THREADS is a number of threads, at least 1; found {text!r}")
    return int(text)


def _element(value: Value) -> Attribute | None:
    return tensor_type(value).element_or_none


def _fill(node: Node, value: Value) -> None:
    """Writes the initial value of data and of nodes that have one."""
    if value.array is not None:
        node.memory.write(value.array.reshape(node.memory.shape))
        node.written = True
    elif isinstance(value.op, texpr.NodeOp) and (sample := value.sample) is not None:
        shape = graph.known_shape(value)
        dtype = computed_dtype(node.memory.dtype)
        node.memory.write(sample(stream_key(0, ""), shape, dtype))
        node.written = True


_default: list[Context] = []


def default_context() -> Context:
    if not _default:
        _default.append(Context.auto())
    return _default[0]
