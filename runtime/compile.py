"""The compilation of a module with one routine: passes, the text for a device, and loading it there."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.loops import FuncOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.few_layers import FewLayers
from ocannl.lowering.pipelines import (
    PIPELINES,
    PassMaker,
    for_target,
    module_text,
    parse_text,
    passes_since_folded,
    passes_until,
    run_passes,
)
from ocannl.passes.analysis.nests import uncalled
from ocannl.runtime.cache.cached_origins import CachedOrigins
from ocannl.runtime.cache.inference_cache import Inferred, get_inferred, put_inferred, tensors_of
from ocannl.runtime.cache.object_cache import ObjectCache, entry_key, environment_cache
from ocannl.runtime.cache.routine_cache import (
    CachedRoutine,
    CompiledText,
    get_routine,
    put_routine,
    routine_key,
)
from ocannl.runtime.cache.tunings import Tunings, stored_tunings, tuned_target
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.device import Device, Program
from ocannl.runtime.interface import Interface, the_func
from ocannl.runtime.progress import Progress
from ocannl.runtime.settings import config, is_on

# The pass after which the text of a program determines the result of the rest of the pipeline.
INFERENCE = "infer-precisions"
# The number of tensors from which on the text of a program takes longer than the search for equal layers, of
# which all but a few need no text.
LARGE = 2**11
# The names of the lowerings to each language, and the suffixes of files where they are not the language.
LOWERINGS = {"llvm": "lower-loops-to-llvm", "ptx": "lower-kernels-to-ptx", "metal": "lower-kernels-to-metal"}
SUFFIXES = {"llvm": "ll"}


@dataclass(frozen=True)
class CachedLoops:
    """The text of a routine from the cache, with its origins in the program that found it there.

    Its layers are still folded, which keeps the text short: the passes that are left run when it is read.
    """

    text: str
    origins: CachedOrigins
    program: Sequence[LocationAttr]
    left: Sequence[PassMaker]

    def module(self) -> ModuleOp:
        module = parse_text(self.text)
        self.origins.give(module, self.program)
        run_passes(module, self.left)
        return module


@dataclass(frozen=True)
class Executable:
    """A routine that is loaded on its device."""

    program: Program
    interface: Interface
    seconds: Mapping[str, float]
    loops: ModuleOp | CachedLoops
    """The scheduled routine or its kernels, or the text that becomes these if it comes from the cache."""
    tunings: Tunings | None = None
    """The tuned schedules that it was compiled with."""

    @cached_property
    def module(self) -> ModuleOp:
        """The scheduled routine in a module, for reports."""
        return self.loops if isinstance(self.loops, ModuleOp) else self.loops.module()

    @property
    def func(self) -> FuncOp:
        return the_func(self.module)

    @property
    def stages(self) -> Sequence[FuncOp]:
        """The routine, or that of each stage."""
        return uncalled(self.module)


def compile_module(
    module: ModuleOp,
    target: str = "cpu",
    device: Device | None = None,
    tunings: Tunings | None = None,
    *,
    keeps: bool = False,
) -> Executable:
    """Runs the target's pipeline on a module with one routine, in place, and compiles what comes out for a
    device, by default this CPU.

    A routine that was compiled before comes from the cache: the module then has its final types, but no pass
    after inference has run on it. `OCANNL_VERIFY=1` verifies between passes and `OCANNL_DUMP=folder` writes
    every stage there; both take nothing from the cache. `OCANNL_TIMING=1` prints where the time went.
    Schedules are those of `tunings`, by default those in the cache on disk. With `keeps`, packed copies of
    parameters are kept between runs, as nodes of the routine's own.
    """
    device = device or NativeDevice()
    if tunings is None and (cache := environment_cache()) is not None:
        tunings = stored_tunings(cache, tuned_target(target, device.target))
    compilation = Compilation(module, target, device, tunings, keeps=keeps)
    try:
        executable = compilation.run()
    finally:
        compilation.progress.end()
    if is_on("timing"):
        print(timing_table(executable.interface.name, executable.seconds), file=sys.stderr)
    return executable


class Compilation:
    """The compilation of one module."""

    def __init__(
        self, module: ModuleOp, target: str, device: Device, tunings: Tunings | None, *, keeps: bool = False
    ) -> None:
        self.module = module
        self.tensors = tensors_of(module)
        self.origins = [op.location for op in module.walk()]
        self.target = target
        self.device = device
        self.tunings = tunings
        self.keeps = keeps
        self.verify = is_on("verify")
        self.dump = Dump.from_environment(module)
        self.progress = Progress(self.dump.routine)
        self.seconds: dict[str, float] = {}
        self.noted = ""
        """The name of the pass after which the text is noted for the cache: the last one on folded layers."""
        self.folded = ("", CachedOrigins(""))
        """The text and the origins that are noted."""
        self.is_searched = True
        """Whether equal layers were looked for, or are not to be."""
        self.few: FewLayers | None = None
        """The program with few of its layers, as long as that determines it."""

    def run(self) -> Executable:
        self.dump.stage("texpr", self.module)
        is_apart = self.verify or self.dump.folder is not None or is_on("debug_info")
        store = None if is_apart else environment_cache()
        self.is_searched = is_apart
        if store is None:
            self.infer()
            return self.finish(self.lower(), self.module)
        inferred = self.inferred(store)
        with self.clock("cache"):
            version = "" if self.tunings is None else self.tunings.version
            target = f"{self.target} {self.device.language} {self.device.key}{' keeps' if self.keeps else ''}"
            key = routine_key(inferred.text, target, version)
            found = get_routine(store, key)
        if found is not None:
            inferred.refine(self.tensors)
            left = for_target(passes_since_folded(self.target), self.device.target, keep=self.keeps)
            return self.finish(found.compiled, CachedLoops(found.loops, found.origins, self.origins, left))
        if INFERENCE not in self.seconds:  # what it decides was in the cache, but the routine is not
            self.infer()
        self.noted = PIPELINES[self.target][-len(passes_since_folded(self.target)) - 1].name
        routine = self.lower()
        with self.clock("cache"):
            put_routine(store, key, CachedRoutine(*self.folded, routine))
        return self.finish(routine, self.module)

    def inferred(self, store: ObjectCache) -> Inferred:
        """The inferred types of the program, from the cache or by running the passes."""
        if len(self.tensors) >= LARGE:
            self.find_layers()
        with self.clock("cache"):
            built = entry_key(self.text())
            inferred = get_inferred(store, built)
        if inferred is None:
            self.infer()
            with self.clock("cache"):
                inferred = Inferred.of(self.tensors, entry_key(self.text()))
                put_inferred(store, built, inferred)
        return inferred

    def text(self) -> str:
        """A text that determines the program."""
        return module_text(self.module) if self.few is None else self.few.text()

    def find_layers(self) -> None:
        """Looks for equal layers, as built, if it has not been done."""
        if self.is_searched:
            return
        with self.clock("few layers"):
            self.few = FewLayers.of(self.module)
        self.is_searched = True

    def infer(self) -> None:
        """Infers types, with few layers where these give those of all."""
        passes = passes_until(self.target, INFERENCE)
        self.find_layers()
        if self.few is not None:
            try:
                if self.few.infer(partial(self.run_passes, passes)):
                    return
            except OcannlError:
                pass  # its message is about all layers, below
            self.few = None
        self.run_passes(passes)

    def run_passes(self, passes: Sequence[PassMaker], module: ModuleOp | None = None) -> None:
        def observe(name: str, after: ModuleOp, elapsed: float) -> None:
            self.seconds[name] = elapsed
            self.dump.stage(name, after)
            self.progress.passed(name)
            if name == self.noted:
                with self.clock("cache"):
                    self.folded = module_text(after), CachedOrigins.of(after, self.origins)

        try:
            run_passes(module or self.module, passes, verify=self.verify, observe=observe)
        except VerifyException as error:
            raise OcannlError(
                f"OCANNL_VERIFY finds the program ill-formed between passes: {error}"
            ) from error

    def lower(self) -> CompiledText:
        """Runs the passes after inference; returns the text for the device."""
        types = Inferred.of(self.tensors, "")
        to_loops = passes_until(self.target, "loops")
        passes = to_loops[len(passes_until(self.target, INFERENCE)) :]
        find = None if self.tunings is None else self.tunings.find
        self.run_passes(for_target(passes, self.device.target, find, keep=self.keeps))
        with self.clock("interface"):
            interface = Interface.of_module(self.module)
        if interface.mesh:  # the tensors of the program as built are whole, not those of one rank
            types.refine(self.tensors)
        self.run_passes(PIPELINES[self.target][len(to_loops) :])
        language = self.device.language
        with self.clock(LOWERINGS[language]):
            text = self.device.text(self.module)
        self.dump.write(language, text, SUFFIXES.get(language, language))
        return CompiledText(text, interface)

    def finish(self, routine: CompiledText, loops: ModuleOp | CachedLoops) -> Executable:
        with self.clock(self.device.language):
            program = self.device.program(routine.code, routine.interface)
        return Executable(program, routine.interface, self.seconds, loops, self.tunings)

    @contextmanager
    def clock(self, name: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.progress.passed(name)


def timing_table(name: str, seconds: Mapping[str, float]) -> str:
    """Milliseconds by pass."""
    total = sum(seconds.values())
    rows = [f"  {1e3 * s:9.2f} ms  {p}" for p, s in seconds.items()]
    return "\n".join([f"compiled {name} in {1e3 * total:.2f} ms", *rows])


@dataclass
class Dump:
    """Writes the stages of one routine as numbered files in a folder; nothing if there is none."""

    folder: Path | None
    routine: str
    count: int = 0

    @staticmethod
    def from_environment(module: ModuleOp) -> Dump:
        folder = config["dump"]
        last = module.body.block.last_op  # the bodies of loops come before it
        name = getattr(last, "sym_name", None)
        return Dump(Path(folder) if folder else None, "routine" if name is None else name.data)

    def stage(self, name: str, module: ModuleOp) -> None:
        if self.folder is not None:
            self.write(name, module_text(module), "mlir")

    def write(self, name: str, text: str, suffix: str) -> None:
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{self.routine}.{self.count:02}-{name}.{suffix}").write_text(text)
        except OSError as error:
            raise OcannlError(
                f"OCANNL_DUMP={self.folder}: stages cannot be written ({error.strerror})"
            ) from None
        self.count += 1
