"""Contexts: a device, the memory of tensor nodes on it, and the compilation of routines for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import DeviceError, OcannlError, ShapeError, UninitializedError
from ocannl.execute.backends import BACKENDS, GPUS, cpu_device, cuda_device, emulator
from ocannl.execute.evaluation import Evaluation, evaluation, present_values
from ocannl.execute.files.saving import load_state, save_state
from ocannl.execute.inference import commit, decided, infer
from ocannl.execute.memory.no_value import in_other_contexts
from ocannl.execute.memory.node import Node
from ocannl.execute.memory.nodes import Nodes, array_in, is_final, sample
from ocannl.execute.memory.of_this_process import OfThisProcess
from ocannl.execute.memory.tensor_memory import TensorMemory
from ocannl.execute.meshes import gpu_mesh_device, mesh_device, put_on_mesh
from ocannl.execute.reports.timeline import Timeline
from ocannl.execute.reports.traced_routine import TracedRoutine
from ocannl.execute.routine import Routine
from ocannl.execute.turns import Turn
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.pipelines import GPU_PIPELINES, gpu_pipeline
from ocannl.program import graph
from ocannl.program.arguments.checks import flag, integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.blocks.block import Block
from ocannl.program.code import Code, computing
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.location import here
from ocannl.program.memory.initial_values import ExpressionSample
from ocannl.program.memory.state import Root
from ocannl.program.meshes.mesh import Mesh
from ocannl.program.mistakes.other_names import CONTEXTS, ClassNamesApart, NamesApart
from ocannl.program.module.extract import ExtractedRoutine, extract, origin_of
from ocannl.program.module.needed import needed
from ocannl.program.numbering import Numbering
from ocannl.program.parameters import params
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.text.html import table_html, text_html
from ocannl.program.types.final_types import what_is_open
from ocannl.program.values import Value, is_memory, memory_key, value_of
from ocannl.runtime.assignments import Assignment
from ocannl.runtime.cache.tunings import Tunings
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.collector import collector_paused
from ocannl.runtime.compile import Executable, compile_module
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.cuda.device import PtxWriter
from ocannl.runtime.cuda.ptx import DEFAULT_ARCH, check_arch
from ocannl.runtime.device import Device
from ocannl.runtime.host.threads import default_threads
from ocannl.runtime.locks import shared
from ocannl.runtime.random import stream_key
from ocannl.runtime.settings import config, is_on
from ocannl.runtime.traced import compile_traced
from ocannl.runtime.traced_loops import TRACED


class Context(OfThisProcess, TensorMemory, NamesApart, metaclass=ClassNamesApart):
    """A device with the memory of tensors on it, which compiles and runs routines.

    `Context.auto()` is of the backend `OCANNL_BACKEND`, else of the best device there is. `ctx[t]` is the
    value that a tensor's memory has now, as a new NumPy array; `ctx[t] = array` sets it. Inside of
    `with ctx:` it is the default context, which `t.numpy()`, `float(t)` and their like ask.

    Parallel loops run on `threads` threads: by default `OCANNL_THREADS`, else as many as this process has
    cores. Results have the same bits for any number of them.
    """

    in_place_of = CONTEXTS

    def __init__(
        self,
        backend: str = "cpu",
        threads: int | None = None,
        device: Device | None = None,
        *,
        tf32: bool = False,
        arch: str = DEFAULT_ARCH,
        mesh: Mesh | None = None,
    ) -> None:
        if backend not in BACKENDS:
            raise DeviceError(f"there is no backend {backend!r}; the backends are {', '.join(BACKENDS)}")
        self.backend = backend
        self.target, make_device = BACKENDS[backend]
        self.mesh: Mapping[str, int] = {} if mesh is None else mesh.program_axes
        self.device = make_device() if device is None else device
        self.arch = self.device.arch if isinstance(self.device, PtxWriter) else arch
        """The architecture of NVIDIA's GPUs that PTX is for by default."""
        if self.target in GPU_PIPELINES:
            self.target = gpu_pipeline(self.arch, tf32, is_on("cuda_roles"))
        wanted = default_threads() if threads is None else integer(threads, "the number of threads", least=1)
        self.team = Team(wanted)
        self.nodes = Nodes(self.device)
        self.memory_for = self.nodes.memory_for
        self.turn = Turn()
        self._evaluations = WeakKeyDictionary[Value, Evaluation]()
        """How to compute again what was looked at and no routine keeps."""
        self.numbering = Numbering()
        self.bound = WeakKeyDictionary[Any, Any]()
        """The routines compiled here for traces of functions."""
        self._timeline = Timeline(self.device)
        DEFAULT.living.add(self)

    @staticmethod
    def auto() -> Context:
        """The backend that `OCANNL_BACKEND` names, else the best device there is: the GPU of NVIDIA's driver,
        that of a Mac, the CPU.
        """
        if named := config["backend"]:
            return Context(named)
        for backend in GPUS:
            with suppress(DeviceError):
                return Context(backend)
        return Context("cpu")

    @staticmethod
    def cpu(
        threads: int | None = None,
        *,
        target: str | None = None,
        mesh: Mesh | None = None,
        winograd: bool | None = None,
    ) -> Context:
        """The CPU. Parallel loops run on `threads` threads, by default `OCANNL_THREADS`, else one a core.

        Code is for the processor `target`, by LLVM's name: by default `OCANNL_TARGET`, else this machine's,
        which is called `host`. Raises `DeviceError` for an unknown name. What is compiled for a processor
        with instructions that this one lacks has its text, and raises `DeviceError` when it runs.

        With `winograd=False`, convolutions are sums of products as they stand, and none of transformed tiles,
        whose errors are larger (`docs/passes/winograd.md`); by default `OCANNL_WINOGRAD`, else on.

        On a `mesh`, each rank runs its part of every routine and holds its part of memory; `ctx[t]` is the
        whole, which all ranks ask for together. With ranks as threads, these share the `threads`.
        """
        base = cpu_device(target, None if winograd is None else flag(winograd, "winograd"))
        if mesh is None:
            return Context("cpu", threads, base)
        if mesh.engine == "threads":
            threads = max(1, (threads or default_threads()) // mesh.ranks)
        return Context("cpu", threads, mesh_device(base, mesh), mesh=mesh)

    @staticmethod
    def emulated_gpu(
        *, check: bool = False, shuffle: int | None = None, tf32: bool = False, arch: str = DEFAULT_ARCH
    ) -> Context:
        """A GPU that the CPU emulates: kernels run as on a GPU, block by block and barrier by barrier.

        With `check`, an access outside of an array, or a data race, raises `DeviceError`. With a number as
        `shuffle`, blocks and threads run in an order that depends on it; results have the same bits. With
        `tf32`, products of f32 may be summed on tensor cores, which round operands to 10 bits of mantissa.
        Kernels are those for NVIDIA's GPUs of an architecture; for `sm_90a` 16-bit floats are multiplied by
        warpgroups. Raises `DeviceError` for an unknown one.
        """
        check_arch(arch)
        order = None if shuffle is None else integer(shuffle, "the order of threads", least=None)
        return Context("emulated_gpu", 1, emulator(Emulation(order, check)), tf32=tf32, arch=arch)

    @staticmethod
    def cuda(
        device: int | None = None, *, tf32: bool = False, arch: str | None = None, mesh: Mesh | None = None
    ) -> Context:
        """An NVIDIA GPU, by its number, by default 0. Raises `DeviceError` where there is none, or its driver
        or the package for it is missing.

        A call of a routine returns when its kernels are launched; reading a value waits for them. Errors on
        the GPU are raised by a later call. With `tf32`, products of f32 may be summed on tensor cores, which
        round operands to 10 bits of mantissa.

        Code is for the architecture `arch`, as `sm_90a`: by default `OCANNL_CUDA_ARCH`, else that of the GPU,
        which runs that of older ones, too. Where there is no GPU that runs it, and `device` names none, it is
        compiled, for the cache and as text, and runs raise `DeviceError`. With `OCANNL_CUDA_ROLES=1`, large
        products for `sm_90a` have warps that copy for others, which no GPU has run yet.

        On a `mesh`, each rank has a GPU, as a CPU by `Context.cpu`: the ranks of a machine have its GPUs in
        their order, from number `device` on. They talk through NCCL.
        """
        number = None if device is None else integer(device, "the number of a GPU")
        if mesh is None:
            return Context("cuda", 1, cuda_device(number, arch), tf32=tf32)
        gpus = gpu_mesh_device(number, mesh, arch)
        return Context("cuda", 1, gpus, tf32=tf32, arch=gpus.gpus[0].arch, mesh=mesh)

    @staticmethod
    def metal() -> Context:
        """The GPU of a Mac. Raises `DeviceError` where there is none, or the package for it is missing."""
        return Context("metal", 1)

    def __enter__(self) -> Self:
        """Makes this the default context inside of `with`."""
        DEFAULT.enter(self)
        return self

    def __exit__(self, *error: object) -> None:
        DEFAULT.leave()

    @property
    def threads(self) -> int:
        """The number of threads of parallel loops."""
        return self.team.threads

    def synchronize(self) -> None:
        """Waits for all runs, as a GPU runs them asynchronously. Reading a value waits, too.

        Raises `DeviceError` for errors of these runs.
        """
        self.device.synchronize()

    def _repr_html_(self) -> str:
        return text_html(repr(self)) + table_html(self.nodes.rows())

    def __repr__(self) -> str:
        return f"<context {self.backend}: {self.device.name or self.team}>"

    def compile(
        self,
        code: Code | TensorLike,
        name: str | None = None,
        tunings: Tunings | None = None,
        *,
        trace: bool = False,
        check_nans: bool = False,
    ) -> Routine:
        """Compiles code, or the computation of a tensor, into a routine.

        Schedules are those of `tunings` where it has any, by default those that `oc.tune` left in the cache
        on disk. With `trace`, the routine keeps the values of all assignments, and `routine.trace` has those
        of the last run; with `check_nans`, it raises at the first that is NaN or infinite.

        Raises `ShapeError` and `SpecError` where shape inference fails.
        """
        if isinstance(code, list | tuple):
            raise ArgumentError("a list of code is added up in order: `one + other`, or `sum(codes)`")
        if not isinstance(code, Code):
            tensor = as_tensor(code)
            code = computing(tensor.ir_value, tensor.label)
        if name is not None and not isinstance(name, str):
            raise ArgumentError(f"a routine is named by a string, found {name!r}")
        name, start = name or code.label or "routine", time.perf_counter()
        if flag(trace, "trace") or flag(check_nans, "check_nans"):
            routine: Routine = self._compile_traced(code, name, check_nans)
        else:
            routine = self._compile(code, name, tunings)
        for value, _ in routine.keys:
            self._evaluations.pop(value, None)
        self._timeline.add(routine, start)
        return routine

    def trace(self, path: str | Path) -> AbstractContextManager[None]:
        """A context in which is noted when this context compiles and runs routines. At its end the file has
        that in Chrome's format, which https://ui.perfetto.dev shows: the passes of each compilation, each
        run, and the kernels of the first 100 of each routine, in proportion to medians of some more runs,
        which change nothing. Runs in it wait for the GPU.

        Raises `ArgumentError` inside of another and without a folder for the file, OSError where it cannot
        be written.
        """
        return self._timeline.recording(Path(path))

    @collector_paused()
    def _compile(self, code: Code, name: str, tunings: Tunings | None) -> Routine:
        def compiled() -> tuple[ExtractedRoutine, Executable]:
            program = extract(code.statements, name, self.numbering)
            put_on_mesh(program, self.nodes, self.mesh)
            executable = compile_module(
                program.module, self.target, self.device, tunings, keeps=not self.mesh
            )
            commit(program)
            return program, executable

        program, executable = decided(compiled)
        copies = self.nodes.copies(executable.interface)
        own = [label for label in executable.interface.layout.nodes if label not in copies]
        nodes = self._nodes_of(program, executable, own)
        return Routine(self, code, name, program, executable, nodes, copies)

    def let_merge(self) -> None:
        """Has runs of routines here take turns with those that read its memory, `t.merge(ctx)`.

        Raises `OcannlError` while a routine runs in another thread.
        """
        if self.turn.is_shared:
            return
        self.turn.is_shared = True
        try:
            for routine in list(self._timeline.routines):
                routine.take_turns()
        except OcannlError:
            self.turn.is_shared = False
            raise

    def without_new_memory(self) -> AbstractContextManager[None]:
        """A context after which memory that was made in it for nodes is given up."""
        return self.nodes.none_kept()

    @collector_paused()
    def _compile_traced(self, code: Code, name: str, check_nans: bool) -> TracedRoutine:
        def compiled() -> tuple[ExtractedRoutine, Executable, list[Assignment]]:
            program = extract(code.statements, name, self.numbering)
            put_on_mesh(program, self.nodes, self.mesh)
            executable, assignments = compile_traced(program.module, self.target, self.device)
            commit(program)
            return program, executable, assignments

        program, executable, assignments = decided(compiled)
        interface = executable.interface
        kept = [label for label in interface.layout.nodes if interface.nodes[label].why == TRACED]
        own = [label for label in interface.layout.nodes if label not in kept]
        nodes = self._nodes_of(program, executable, own)
        traced = {label: Node(self.device.memory(*array_in(interface, label))) for label in kept}
        return TracedRoutine(self, code, name, program, executable, nodes, traced, assignments, check_nans)

    def _nodes_of(
        self, program: ExtractedRoutine, executable: Executable, labels: Iterable[str]
    ) -> dict[str, Node]:
        array = partial(array_in, executable.interface)
        return {label: self.nodes.allocate(*origin_of(program, label), array(label)) for label in labels}

    def init_params(
        self, tensor: TensorLike | Code | Block[..., Any], *, seed: int = 1, reinit: bool = False
    ) -> None:
        """Gives initial values to the parameters that a tensor, code or a block depends on: to those that
        have none, or with `reinit` to all.

        A parameter's values depend on the seed, its name and its shape only. Raises `ShapeError` for a block
        of which nothing has decided the shapes: give the loss that it is applied in.
        """
        found = params(tensor)
        seed = integer(seed, "a seed", least=None)
        unknown = {name: p for name, p in found.items() if not is_final(p.ir_value)}
        if isinstance(tensor, Block):
            for name, p in unknown.items():
                if not (shape := graph.known_shape(p.ir_value)).is_final:
                    way = "apply the block, and give the loss to init_params"
                    raise ShapeError(here(f"{what_is_open(name, shape)}; {way}"))
            for p in unknown.values():
                infer(p)
        elif unknown:
            infer(tensor)
        for label, param in found.items():
            node = self.node_of(param)
            if reinit or not node.written:
                if node.written and RECORDER.living:
                    ENGINE.only.settle([memory_key(param.ir_value)], self)
                self._init_param(node, param, stream_key(seed, label), seed)

    def _init_param(self, node: Node, param: Tensor, key: NDArray[np.uint32], seed: int) -> None:
        """Gives a parameter its initial value; if that is an expression, after what it depends on."""
        draw, shape = param.ir_value.sample, graph.known_shape(param.ir_value)
        if isinstance(draw, ExpressionSample):
            self.numbering.note(draw.tensor.ir_value)
            self.init_params(draw.of_shape(shape), seed=seed)
        with self:
            sample(node, param.ir_value, shape, key)

    def once(self, action: Callable[[], object]) -> None:
        """Does something once: where the ranks of a mesh are processes, in that of rank 0.

        The others wait for it, as long as the mesh's `timeout`.
        """
        if isinstance(self.device, MeshDevice):
            self.device.once(action)
        else:
            action()

    def save(
        self, path: str | Path, what: Root, *, step: int | None = None, notes: Mapping[str, str] | None = None
    ) -> None:
        """Writes the state of `what`, as `oc.state` finds it, to a file: `*.safetensors` or `*.npz`. Its
        metadata has the version of this package, the shapes in rows, the step, and the `notes`.

        On a mesh, `a.safetensors` is several files: each rank writes its parts, and the last one written is
        their index, `a.safetensors.index.json`. `load` takes both forms by the same path.

        Files are written aside, flushed and renamed, so that there is the old state or the new one. Raises
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
        """Sets the state of `what` from what `save` wrote, on any mesh or none, or from another file of named
        arrays; returns its metadata. A path may also be that of an index of safetensors files.

        Nothing changes unless all fits: `StateError` names all that is missing, extra, of another shape or
        dtype, and files that are not of this save. With `partial`, what the file does not have stays as it
        is; without `strict`, what the program does not have is left out, and dtypes are converted. `rename`
        gives names of the file those of the program, `{"encoder": "model"}` all that begin so, up to a dot; a
        `*` stands for any text, the same in both: `{"*.weight": "*.w"}`.
        """
        return load_state(self, path, what, strict=strict, rename=rename or {}, partial=partial)

    def evaluated(self, tensor: Tensor) -> NDArray[Any]:
        """The value of an expression, computed from the present memory; that of memory."""
        value = tensor.ir_value
        if is_memory(value):
            return self[tensor]
        found = self._evaluations.get(value)
        if found is None or not found.is_current():
            try:
                found = self._evaluations[value] = evaluation(self, self.nodes, tensor)
            except UninitializedError as error:
                read = [Tensor(memory) for memory in map(value_of, needed([value.op])) if is_memory(memory)]
                raise UninitializedError(f"{error}{in_other_contexts(read, self)}") from None
        with shared:
            return found.values()[0]

    def present_values(self, values: Iterable[Value]) -> dict[Value, NDArray[Any]]:
        """The values now, as `ctx[t]` gives them, of those that have one; expressions that no routine keeps
        by one computation, which is not kept.
        """
        given = list(values)
        if not all(isinstance(value, Value) for value in given):
            raise ArgumentError("values of tensors have present values: ctx[t] is that of a tensor")
        return present_values(self, self.nodes, given)


DEFAULT.made_by(Context.auto)


def default_context() -> Context:
    """The context that `t.numpy()`, `float(t)` and their like ask: the innermost one that `with ctx:` has
    entered, else `Context.auto()`, made when first needed.
    """
    context = DEFAULT.get()
    assert isinstance(context, Context)
    return context
