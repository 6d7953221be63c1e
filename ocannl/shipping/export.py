"""`oc.export`: a routine or a function as a library that runs without Python, or as a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.dialects.loops.dot_instructions import TILE_FEATURES
from ocannl.execute.meshes import refuse_mesh
from ocannl.execute.routine import Routine
from ocannl.functions.function import Function
from ocannl.functions.lowered import Lowered
from ocannl.lowering.loops_to_c.names import c_name
from ocannl.passes.analysis.targets.target import WASM, TargetDescription
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here
from ocannl.program.tensor import Tensor
from ocannl.runtime.host.processor import chosen_target, host
from ocannl.runtime.systems.system import System
from ocannl.runtime.systems.table import LINUX, MACOS, WINDOWS
from ocannl.runtime.systems.table import system as own_system
from ocannl.shipping.header import header
from ocannl.shipping.library import Library, library
from ocannl.shipping.wheel import Call, wheel

OBJECTS, SHARED = (".o", ".obj"), (".so", ".dylib", ".dll")
WAYS = ("embedded", "loaded")
NAMED = {"linux": LINUX, "macos": MACOS, "windows": WINDOWS}
# Files that only one system has.
BY_SUFFIX = {".obj": WINDOWS, ".dll": WINDOWS, ".dylib": MACOS}
# Groups keep tiles of up to 128 kB each on the stack, of which linkers give 64 kB. It comes first in memory:
# one that is too deep traps, and does not write over data.
WASM_OPTIONS = ("--no-entry", "--stack-first", "-z", f"stack-size={1 << 22}")
# Versions of Python packages in their normal form.
VERSION = re.compile(r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")


def export(
    program: Routine | Function | Lowered,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    target: str | None = None,
    system: Literal["linux", "macos", "windows"] | None = None,
    parameters: Literal["embedded", "loaded"] = "embedded",
    version: str = "0.1",
) -> Path:
    """Compiles a routine or a function ahead of time, with the values that its nodes have now: no Python is
    needed to run it. By the suffix of the path it is

    - an object file (`.o`, `.obj`), and a header for C beside it,
    - a text of C11 (`.c`), and a header: for any processor, with functions of its own library of mathematics,
      and slower,
    - a shared library (`.so`, `.dylib`, `.dll`), linked by the C compiler, and a header,
    - a module of WebAssembly (`.wasm`), linked by `wasm-ld`, and a header,
    - a wheel, for a folder: `import NAME` needs NumPy alone. It has `arrays` and `run(...)`; of a function,
      also `NAME(...)`, for arguments as in the last new signature.

    In C, `NAME_run(memory, indices)` runs it; the header documents the rest. It runs on one thread, and ids
    are not checked. `name` is the path's by default, of a wheel that of the program. `target` is a processor
    as in `oc.Context.cpu(target=)`, by default that of the program's context; `system` is what it runs
    under, by default that of the suffix, else this one; for other architectures macOS for Apple's, and Linux.
    With `parameters="loaded"`, parameters are in a file of their own beside the library, `NAME.bin`.
    `version` is that of a wheel, numbers with points between, as `1.2.post3` (PEP 440, in its normal form).

    Returns the path of what was written. Raises `UninitializedError` where a run would read a node without a
    value, `DeviceError` without a linker and for unknown targets and systems, `OcannlError` where a file
    cannot be written.
    """
    if parameters not in WAYS:
        raise ArgumentError(f"parameters are {' or '.join(WAYS)}, found {parameters!r}")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise ArgumentError(f"a version is numbers with points between, as '1.2', found {version!r}")
    routine, call = _routine(program)
    refuse_mesh(routine.context.device, "libraries are made")
    to = Path(path)
    is_wheel = to.suffix not in (*OBJECTS, *SHARED, ".c", ".wasm")
    if is_wheel and to.suffix[1:2].isalpha() and not to.is_dir() and not str(path).endswith(("/", "\\")):
        kinds = ", ".join((*OBJECTS, ".c", *SHARED, ".wasm"))
        ways = f"a library ends in {kinds}, and a wheel goes to a folder, as 'dist/'"
        raise ArgumentError(f"the suffix `{to.suffix}` of {path} says no kind of file: {ways}")
    symbol = c_name(name or (routine.name if is_wheel else to.stem))
    chosen = _target(to, target, routine)
    under = _system(to, system)
    is_text = to.suffix == ".c"
    made = library(routine, symbol, chosen, under, are_loaded=parameters == "loaded", as_text=is_text)
    source = f"Routine `{routine.name}`"
    try:
        if is_wheel:
            return _wheel(made, to, under, call, source, version)
        _write(made, to, under)
        to.with_suffix(".h").write_text(header(made, source), "utf-8")
        if made.loaded:
            to.with_name(f"{symbol}.bin").write_bytes(made.file_contents())
    except OSError as error:
        raise OcannlError(here(f"cannot write {to}: {error.strerror}")) from None
    return to


def _routine(program: object) -> tuple[Routine, Call | None]:
    if isinstance(program, Routine):
        return program, None
    if isinstance(program, Function):
        return _routine(program.last_lowered())
    if isinstance(program, Lowered):
        return program.compile(), _call(program)
    way = "; oc.function of it is one, once called" if callable(program) else ""
    raise ArgumentError(f"a routine or a function is exported, found {type(program).__name__}{way}")


def _call(function: Lowered) -> Call:
    """How a function is called. Raises `OcannlError` for padded arguments."""
    routine, trace = function.compile(), function.trace
    if trace.padded.counts:
        message = "a function with padded axes is not exported: call it with the sizes themselves"
        raise OcannlError(here(message))
    named = [(path, tensor) for (path, _), tensor in zip(trace.signature.leaves, trace.inputs, strict=True)]
    arguments = {c_name(path): routine.label_of(tensor) for path, tensor in named if tensor is not None}
    results = [routine.label_of(leaf) if isinstance(leaf, Tensor) else leaf for leaf in trace.results]
    return Call(arguments, results, trace.form)


def _target(path: Path, name: str | None, routine: Routine) -> TargetDescription:
    """The processor of a library, without matrix units: a process has to ask its system for these."""
    found = _processor(path, name, routine)
    return replace(found, features=found.features - TILE_FEATURES)


def _processor(path: Path, name: str | None, routine: Routine) -> TargetDescription:
    if path.suffix == ".wasm":
        return chosen_target(name or WASM)
    own = routine.context.device.target
    return chosen_target(name) if name else own if isinstance(own, TargetDescription) else host()


def _system(path: Path, name: str | None) -> System | None:
    if name is None:
        return BY_SUFFIX.get(path.suffix)
    if name not in NAMED:
        raise DeviceError(here(f"systems are {', '.join(NAMED)}, found {name!r}"))
    return NAMED[name]


def _write(made: Library, path: Path, under: System | None) -> None:
    if path.suffix in OBJECTS or made.is_text:
        path.write_bytes(made.code)
    elif path.suffix == ".wasm":
        exports = [f"--export={made.name}_{end}" for end in ("run", "default", "memory")]
        path.write_bytes(_linked(made, ["wasm-ld"], [*WASM_OPTIONS, *exports]))
    else:
        path.write_bytes(_shared(made, under))


def _shared(made: Library, under: System | None) -> bytes:
    if made.target.arch != host().arch or under not in (None, own_system()):
        where = made.target.cpu if under is None else f"{made.target.cpu} under {under.name}"
        raise DeviceError(here(f"a library for {where} is not linked here: export a .o"))
    return _linked(made, own_system().linkers, own_system().link_options)


def _linked(made: Library, linkers: Sequence[str], options: Sequence[str]) -> bytes:
    """The object, linked. Raises `DeviceError` where there is none, or it fails."""
    linker = next(filter(None, map(shutil.which, linkers)), None)
    if linker is None:
        raise DeviceError(here(f"there is no {' or '.join(linkers)} to link with; a .o needs none"))
    with tempfile.TemporaryDirectory() as folder:
        object, linked = Path(folder, "code.o"), Path(folder, "linked")
        object.write_bytes(made.code)
        command = [linker, str(object), "-o", str(linked), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise DeviceError(here(f"{linker} does not link it: {done.stderr.strip()}"))
        return linked.read_bytes()


def _wheel(
    made: Library, folder: Path, under: System | None, call: Call | None, source: str, version: str
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return wheel(made, _shared(made, under), folder, call, source, version)
