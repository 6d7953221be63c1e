"""A device of AArch64: machine code of routines, linked by a cross compiler, in a process under QEMU."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.lowering.arena import PADDING, VERSION
from ocannl.lowering.entry import entry_symbol
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.host.jit import emit_object
from ocannl.runtime.host.run import HostRun
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock, Entry

LINKER, EMULATOR = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
LACKS = None if LINKER and EMULATOR else "there is no gcc for AArch64 and qemu-aarch64"
NEEDS_ARM = pytest.mark.skipif(LACKS is not None, reason=str(LACKS))

# Reads what each slot has: its value, or the bytes that it points to, with the margins of a node; runs the
# routine, and writes the bytes back.
SERVER = f"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void entry(int64_t *slots);

int main(void) {{
    int64_t count;
    if (!fread(&count, 8, 1, stdin)) return 1;
    int64_t *slots = calloc(count, 8), *sizes = calloc(count, 8);
    if (!fread(sizes, 8, count, stdin)) return 1;
    for (int64_t k = 0; k < count; k++)
        if (sizes[k] >= 0) slots[k] = (int64_t)aligned_alloc(64, (sizes[k] + 63) / 64 * 64) + {-VERSION};
    putchar('!');
    fflush(stdout);
    for (;;) {{
        for (int64_t k = 0; k < count; k++) {{
            void *to = sizes[k] < 0 ? (void *)&slots[k] : (char *)slots[k] - {-VERSION};
            if (sizes[k] && !fread(to, sizes[k] < 0 ? 8 : sizes[k], 1, stdin)) return 0;
        }}
        entry(slots);
        for (int64_t k = 0; k < count; k++)
            if (sizes[k] > 0) fwrite((char *)slots[k] - {-VERSION}, sizes[k], 1, stdout);
        fflush(stdout);
    }}
}}
"""
VALUE = -1


@cache
def server() -> bytes:
    """The object file of the emulated process' main function."""
    assert LINKER is not None
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder, "main.c"), Path(folder, "main.o")
        source.write_text(SERVER)
        subprocess.run([LINKER, "-O1", "-Wall", "-Werror", "-c", source, "-o", compiled], check=True)
        return compiled.read_bytes()


class ArmProgram:
    """A routine in an emulated process, which ends with this object."""

    def __init__(self, object_code: bytes, interface: Interface) -> None:
        assert LINKER is not None
        assert EMULATOR is not None
        with tempfile.TemporaryDirectory() as folder:
            parts = [Path(folder, "main.o"), Path(folder, "routine.o")]
            for part, code in zip(parts, (server(), object_code), strict=True):
                part.write_bytes(code)
            program = Path(folder, "program")
            subprocess.run([LINKER, "-static", *parts, "-o", program, "-lm"], check=True)
            self.process = subprocess.Popen(
                [EMULATOR, "-cpu", "max", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            weakref.finalize(self, end, self.process)
            self.sizes = slot_sizes(interface)
            self.send(np.array([len(self.sizes), *self.sizes]).tobytes())
            self.receive(1)  # then its file is no longer needed
        self.failure: BaseException | None = None
        self.callback = Entry(self.enter)

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def receive(self, size: int) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.flush()
        found = self.process.stdout.read(size)
        assert len(found) == size, "the emulated process has ended"
        return found

    def bind(self, args: ArgBlock) -> HostRun:
        return HostRun(ctypes.cast(self.callback, ctypes.c_void_p).value or 0, args, self)

    def enter(self, args: int) -> None:
        """Runs on the slots at an address. No exception may leave: native code calls this."""
        try:
            self.run(list((ctypes.c_int64 * len(self.sizes)).from_address(args)))
        except BaseException as failure:
            self.failure = failure

    def run(self, slots: list[int]) -> None:
        arrays = [
            np.array(value) if size == VALUE else bytes_at(value + VERSION, size)
            for value, size in zip(slots, self.sizes, strict=True)
        ]
        for array in arrays:
            self.send(array.tobytes())
        for array, size in zip(arrays, self.sizes, strict=True):
            if size > 0:
                array[:-PADDING] = np.frombuffer(self.receive(size), np.uint8)[:-PADDING]

    def raise_first(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def bytes_at(address: int, size: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def slot_sizes(interface: Interface) -> list[int]:
    """The bytes that each slot points to with its margins, or `VALUE`."""
    layout = interface.layout
    sizes = [VALUE] * layout.slots
    sizes[layout.arena_slot] = layout.arena_bytes + PADDING - VERSION
    for label, slot in layout.node_slots.items():
        node = interface.nodes[label]
        sizes[slot] = math.prod(node.shape) * np.dtype(node.dtype).itemsize + PADDING - VERSION
    if layout.is_parallel:
        sizes[layout.team_slot] = 4 * 8 + PADDING - VERSION
    return sizes


@dataclass(frozen=True)
class ArmDevice(NativeDevice):
    """A processor of AArch64."""

    def program(self, text: str, interface: Interface) -> Any:
        call = f'call void @"{entry_symbol(interface.name)}"(ptr %args)'
        entry = f"define void @entry(ptr %args) {{\n  {call}\n  ret void\n}}\n"
        return ArmProgram(emit_object(f"{text}\n{entry}", self.target), interface)


def arm_context(name: str) -> oc.Context:
    """A context of one thread, for a processor."""
    return oc.Context("cpu", 1, ArmDevice(target=processor(name)))
