"""The JIT: compiles LLVM IR text and loads the machine code into this process.

No IR passes run. The emitter writes vectors, addresses and loops as they should be; on such code the passes
cost time and change nothing. Instruction selection, scheduling and register allocation are LLVM's, which
runs in several threads on the parts of a long module.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import string_at
from functools import cache, partial
from itertools import accumulate, count, pairwise
from typing import Any, Literal

import llvmlite
import llvmlite.binding

from ocannl.passes.analysis.targets.target import WASM, TargetDescription
from ocannl.runtime.cache.object_cache import ObjectCache, entry_key, environment_cache
from ocannl.runtime.code_generation import LEFT_OUT, all_passes, turn_all_passes
from ocannl.runtime.host.processor import host, triple_of
from ocannl.runtime.host.split_module import split_module
from ocannl.runtime.host.threads import default_threads
from ocannl.runtime.llvm_parser import InternalError, parse_llvm
from ocannl.runtime.locks import without_llvm_lock
from ocannl.runtime.systems.system import System
from ocannl.runtime.systems.table import system

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

# Constants and calls are then reached relative to the code, without materializing 64-bit addresses.
RELOCATION, CODE_MODEL = "pic", "small"
# The format in which the object files of a module are kept.
PARTS = "parts-v1"

MODULES_OF_A_JIT = 16
_library_numbers = count()


class CompiledModule:
    """Machine code loaded into this process; its addresses are valid while this object lives."""

    def __init__(self, objects: Sequence[bytes], symbols: Mapping[str, int]):
        self._library, self._linker = f"ocannl_{next(_library_numbers)}", _linkers.take()
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name, address in {**_symbols(), **symbols}.items():
            builder.import_symbol(name, address)
        try:
            self._owners = [builder.link(self._linker, self._library)]
        except RuntimeError as error:
            raise InternalError(f"LLVM cannot load the compiled module: {error}") from error

    def address(self, name: str) -> int:
        """The address of the function or global `name`.

        Raises:
            InternalError: the module has no such symbol, or refers to symbols that nothing defines.
        """
        try:
            found = self._linker.lookup(self._library, name)
        except RuntimeError as error:
            raise InternalError(f"LLVM cannot resolve '{name}': {error}") from error
        self._owners.append(found)
        return found[name]


def compile_llvm(
    text: str,
    *,
    target: TargetDescription | None = None,
    opt_level: int = 2,
    cache: ObjectCache | Literal["environment"] | None = "environment",
    symbols: Mapping[str, int] | None = None,
) -> CompiledModule:
    """Compiles a module for a processor, by default this one, and loads it.

    Args:
        text: LLVM IR.
        target: the processor, which is this one or has no more features.
        opt_level: LLVM's code generation level, 0 to 3.
        cache: where object code is looked up and kept; by default what `OCANNL_CACHE` says, None for nowhere.
        symbols: addresses of external symbols that `text` declares; others are looked up in this process.

    Raises:
        InternalError: LLVM rejects the text, or the result cannot be loaded.
    """
    store = environment_cache() if cache == "environment" else cache
    return CompiledModule(object_files(text, target or host(), opt_level, store), symbols or {})


def object_files(
    text: str, target: TargetDescription, opt_level: int, store: ObjectCache | None
) -> Sequence[bytes]:
    """The object files of the parts of a module, from `store` where it has them; a hit costs LLVM nothing."""
    if store is None:
        return emit_objects(split_module(text), target, opt_level)
    key = object_key(text, target, opt_level)
    stored = store.get(key)
    if stored is not None:
        return unpacked(stored)
    found = emit_objects(split_module(text), target, opt_level)
    store.put(key, packed(found))
    return found


def packed(objects: Sequence[bytes]) -> bytes:
    """Object files after a line of their sizes."""
    return json.dumps([*map(len, objects)]).encode() + b"\n" + b"".join(objects)


def unpacked(stored: bytes) -> list[bytes]:
    """The inverse of `packed`."""
    start = stored.index(b"\n") + 1
    ends = [*accumulate(json.loads(stored[:start]), initial=start)]
    return [stored[begin:end] for begin, end in pairwise(ends)]


def emit_objects(texts: Sequence[str], target: TargetDescription, opt_level: int) -> list[bytes]:
    """The object files of modules, for which LLVM runs in as many threads as routines do."""
    if len(texts) < 2 or (threads := default_threads()) == 1:
        return [emit_object(text, target, opt_level) for text in texts]
    try:
        with ThreadPoolExecutor(min(threads, len(texts))) as pool:
            return [*pool.map(partial(emit_beside_others, target=target, opt_level=opt_level), texts)]
    finally:
        turn_all_passes(True)


def object_key(text: str, target: TargetDescription, opt_level: int) -> str:
    """The cache key of a module: all that its object code depends on."""
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    left_out = () if _has_all_passes(target) else LEFT_OUT
    options = (RELOCATION, CODE_MODEL, str(opt_level), PARTS, *left_out)
    processor = (triple_of(target), target.cpu, target.llvm_features)
    return entry_key(text, *processor, llvmlite.__version__, llvm_version, *options)


def emit_object(
    text: str, target: TargetDescription, opt_level: int = 2, under: System | None = None
) -> bytes:
    """The object file of a module for a processor, of any architecture, under any system."""
    with all_passes(_has_all_passes(target)):
        return _target_machine(target, opt_level, under).emit_object(parse_llvm(text))


def emit_beside_others(text: str, target: TargetDescription, opt_level: int) -> bytes:
    """The same, while LLVM runs in other threads: the module and the code generator are of this one alone."""
    module, machine = parse_llvm(text, llvm.create_context()), new_target_machine(target, opt_level)
    turn_all_passes(_has_all_passes(target))
    with without_llvm_lock("LLVMPY_TargetMachineEmitToMemory") as emit, llvm.ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
    if not buffer:
        raise InternalError(f"LLVM emits no code: {error}")
    try:
        start, size = llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer)
        return string_at(start, size)
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def emit_assembly(text: str, target: TargetDescription, opt_level: int = 2) -> str:
    """The assembly of a module for a processor, of any architecture, to be read."""
    with all_passes(_has_all_passes(target)):
        return _target_machine(target, opt_level).emit_assembly(parse_llvm(text))


def _has_all_passes(target: TargetDescription) -> bool:
    """Whether no pass of code generation is left out. On an x86 those take a fourth of it, for code that is
    hardly faster; what they are worth elsewhere was not measured.
    """
    return target.arch != "x86_64"


def llvm_target(target: TargetDescription, under: System | None = None) -> str:
    """The lines of LLVM IR that name a processor's triple and the layout of its data, under a system."""
    layout = _target_machine(target, 2, under).target_data
    return f'target datalayout = "{layout}"\ntarget triple = "{triple_of(target, under)}"\n'


@cache
def _initialize(*, every: bool) -> None:
    """Makes LLVM's code generator for this architecture ready, or those for all."""
    if every:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()


def new_target_machine(target: TargetDescription, opt_level: int = 2, under: System | None = None) -> Any:
    """LLVM's code generator for a processor, under a system."""
    _initialize(every=target.arch != host().arch)
    return llvm.Target.from_triple(triple_of(target, under)).create_target_machine(
        cpu=target.cpu if target.arch != WASM else "generic",
        features=target.llvm_features,
        opt=opt_level,
        reloc=RELOCATION if target.arch != WASM else "static",
        codemodel=CODE_MODEL if target.arch != WASM else "default",
        jit=target.arch == host().arch and under is None,
    )


_target_machine = cache(new_target_machine)


@cache
def _symbols() -> Mapping[str, int]:
    return system().symbols()


class Linkers:
    """ORC JITs, each for some modules. JITLink also keeps small-code-model references in range.

    LLVM keeps about 9 KB of a library whose code is unloaded, until its JIT is. A JIT takes 1 ms to make.
    """

    def __init__(self) -> None:
        self._current: Any = None
        self._taken = count()

    def take(self) -> Any:
        """The JIT for one more module; it is disposed of after the last of its modules.

        No lock is taken: threads that come at once may make a JIT more.
        """
        if next(self._taken) % MODULES_OF_A_JIT == 0 or self._current is None:
            _initialize(every=False)
            self._current = llvm.create_lljit_compiler(use_jit_link=True)
        return self._current


_linkers = Linkers()
