"""A device that runs the C text of routines, compiled by the C compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.loops_to_c import to_c
from ocannl.lowering.loops_to_c.names import c_name, c_names
from ocannl.runtime import compile as compilation
from ocannl.runtime.cpu.native import NativeDevice, NativeProgram
from ocannl.runtime.interface import Interface

CC = shutil.which("gcc") or shutil.which("clang")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
OPTIONS = ("-std=c11", "-march=native", "-fno-strict-aliasing", "-fopenmp", "-shared", "-fPIC", "-lm")


def entry_text(layout: EntryLayout, name: str) -> str:
    """A function that calls a routine with the slots that the JIT passes."""
    nodes, indices = c_names(layout.nodes), c_names(layout.indices)
    fields = [f".{nodes[label]} = (void *)args[{slot}]" for label, slot in layout.node_slots.items()]
    fields.append(f".workspace = (void *)args[{layout.arena_slot}]")
    at = [f".{indices[n]} = args[{slot}]" for slot, n in enumerate(layout.indices, layout.index_slot)]
    return f"""
void entry(const int64_t *args) {{
  const {name}_memory memory = {{{", ".join(fields)}}};
  const {name}_indices indices = {{{", ".join(at) or "0"}}};
  {name}_run(&memory, &indices);
}}
"""


def compile_c(text: str, optimize: str = "-O1") -> ctypes.CDLL:
    """The library of a text, compiled without a warning."""
    assert CC is not None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "routine.c"), Path(folder, "routine.so")
        source.write_text(text)
        command = [CC, str(source), "-o", str(library), optimize, *OPTIONS, *WARNINGS]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.returncode, f"{done.stderr}\n{text}"
        return ctypes.CDLL(str(library))


def address(library: ctypes.CDLL, function: str) -> int:
    found = ctypes.cast(library[function], ctypes.c_void_p).value
    assert found is not None
    return found


@dataclass(frozen=True)
class CDevice(NativeDevice):
    """This CPU, for text of C."""

    language: str = "c"

    def text(self, module: ModuleOp) -> str:
        return to_c(module)

    def program(self, text: str, interface: Interface) -> NativeProgram:
        library: Any = compile_c(text + entry_text(interface.layout, c_name(interface.name)))
        return NativeProgram(library, address(library, "entry"), None, self.target)


def c_context() -> oc.Context:
    context = oc.Context("cpu", 1, CDevice())
    context.target = "c"
    return context


@contextmanager
def c_compiler() -> Generator[None]:
    """A stand-in where routines are C."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(compilation.LOWERINGS, "c", "lower-loops-to-c")
        patch.setenv("OCANNL_CACHE", "off")
        yield
