"""PTX without a GPU: runs a block of a kernel that has no jumps, all threads in step.

Asynchronous copies write when they are waited for, and matrices are spread over warps as NVIDIA documents it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ocannl.lowering.kernels.description import descriptions

Array = NDArray[Any]
WARP = 32
# Where arrays begin: those of the kernel, and those in shared memory.
ALIGNMENT, GLOBAL = 256, 1 << 20
STATEMENT = re.compile(r"\s*([a-z][\w.]*)\s*([^;]*);")
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
INTEGERS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "mul": np.multiply,
}
BYTES = {"b32": 4, "b64": 8}
# The rows and columns that the threads of a warp have of the operands, register by register.
G, T = np.arange(WARP) // 4, np.arange(WARP) % 4


class Block:
    """The threads of the first block of a kernel, with their registers and memory."""

    def __init__(self, text: str, arrays: Mapping[str, Array]) -> None:
        (routine,) = descriptions(text)
        (kernel,) = routine.kernels
        self.threads = kernel.threads
        self.memory = np.zeros(GLOBAL + sum(a.nbytes + 2 * ALIGNMENT for a in arrays.values()), np.uint8)
        self.names: dict[str, Array] = {"%tid.x": np.arange(self.threads), "%ctaid.x": self.number(0)}
        self.groups: list[list[tuple[Array, Array, int]]] = [[]]
        self.places: dict[str, int] = {}
        place = GLOBAL
        for k, name in enumerate(kernel.buffers):
            array = arrays[name]
            self.places[name] = place
            self.names[f"{kernel.function}_param_{k}"] = self.number(place)
            self.memory[place : place + array.nbytes] = array.reshape(-1).view(np.uint8)
            place += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        place = 0
        for name, size in re.findall(r"\.shared \.align 16 \.b8 (\w+)\[(\d*)\]", text):
            self.names[name] = self.number(place)
            place += -(-int(size) // ALIGNMENT) * ALIGNMENT
        body = text[text.index("{\n") : text.index("\n}\n")]
        assert "bra" not in body, "no jumps"
        for line in re.sub(r",\n\s+", ", ", re.sub(r"(f32)\n\s+\{", r"\1 {", body)).splitlines():
            found = STATEMENT.fullmatch(line)
            if found is not None:
                self.run(found[1], OPERAND.findall(found[2]))

    def array(self, name: str, like: Array) -> Array:
        """The present value of an array."""
        place = self.places[name]
        return self.memory[place : place + like.nbytes].view(like.dtype).reshape(like.shape)

    def number(self, value: int) -> Array:
        return np.full(self.threads, value, np.int64)

    def value(self, text: str) -> Array:
        """An operand in each thread: a register, a number, or an address."""
        text = text.strip("[]")
        if text.startswith("0f"):
            return self.number(int(text[2:], 16))
        name, _, offset = text.partition("+")
        if re.fullmatch(r"-?\d+", name):
            return self.number(int(name))
        return self.names[name] + int(offset or 0)

    def run(self, operation: str, operands: list[str]) -> None:
        name, *modes = operation.split(".")
        target, values = operands[0] if operands else "", operands[1:]
        match name:
            case "mov" | "cvta" | "cvt" if "tf32" not in modes:
                self.names[target] = self.value(values[0])
            case "cvt":
                bits = self.value(values[0])
                self.names[target] = bits + 0x1000 & ~0x1FFF
            case "ld" if "param" in modes:
                self.names[target] = self.value(values[0])
            case "ld":
                self.load(target, self.value(values[0]), BYTES[modes[-1]])
            case "st":
                self.store(self.value(target), values[0], BYTES[modes[-1]])
            case "cp" if "commit_group" in modes:
                self.groups.append([])
            case "cp" if "wait_group" in modes:
                self.wait(int(target))
            case "cp":
                size = int(values[1])
                read = self.value(values[2]) if len(values) > 2 else self.number(size)
                self.groups[-1].append((self.value(target), np.where(read, self.value(values[0]), -1), size))
            case "ldmatrix":
                self.load_matrices(target, self.value(values[0]), "trans" in modes)
            case "mma":
                self.multiply(operands, modes[-2])
            case "setp":
                x, y = map(self.value, values)
                self.names[target] = x < y if modes[0] == "lt" else x == y
            case "selp":
                x, y, which = map(self.value, values)
                self.names[target] = np.where(which, x, y)
            case "bfe":
                value, first, count = map(self.value, values)
                self.names[target] = value >> first & (1 << count) - 1
            case "add" if modes[-1] == "f32":
                x, y = (self.value(v).astype(np.uint32).view(np.float32) for v in values)
                self.names[target] = (x + y).view(np.uint32).astype(np.int64)
            case "mad":
                x, y, z = map(self.value, values)
                self.names[target] = x * y + z
            case "bar" | "ret":
                pass
            case _:
                self.names[target] = INTEGERS[name](*map(self.value, values))

    def registers(self, text: str) -> list[str]:
        return [name.strip() for name in text.strip("{}").split(",")]

    def bytes_at(self, address: Array, size: int) -> Array:
        """The places of so many bytes from an address on, in each thread."""
        assert not np.any(address % size)
        return address[:, None] + np.arange(size)

    def load(self, target: str, address: Array, size: int) -> None:
        for k, name in enumerate(self.registers(target)):
            words = np.ascontiguousarray(self.memory[self.bytes_at(address + k * size, size)])
            self.names[name] = words.view(f"<u{size}")[:, 0].astype(np.int64)

    def store(self, address: Array, values: str, size: int) -> None:
        for k, name in enumerate(self.registers(values)):
            words = self.value(name).astype(f"<u{size}")[:, None].view(np.uint8)
            self.memory[self.bytes_at(address + k * size, size)] = words

    def wait(self, pending: int) -> None:
        done = len(self.groups) - 1 - pending
        for target, source, size in (copy for group in self.groups[: max(done, 0)] for copy in group):
            found = self.memory[self.bytes_at(np.maximum(source, 0), size)]
            self.memory[self.bytes_at(target, size)] = np.where(source[:, None] < 0, 0, found)
        self.groups = self.groups[max(done, 0) :]

    def load_matrices(self, target: str, address: Array, is_transposed: bool) -> None:
        """Threads 8 k to 8 k + 7 of a warp give the addresses of the rows of matrix k."""
        names = self.registers(target)
        rows = self.memory[self.bytes_at(address, 16)].reshape(-1, WARP, 16)
        for k, name in enumerate(names):
            matrices = np.ascontiguousarray(rows[:, 8 * k : 8 * k + 8]).view("<u2")
            if is_transposed:
                matrices = np.ascontiguousarray(matrices.transpose(0, 2, 1))
            self.names[name] = matrices.view("<u4")[:, G, T].reshape(-1).astype(np.int64)

    def multiply(self, operands: list[str], type: str) -> None:
        result, left, right, sums = map(self.registers, operands)
        pack = 1 if type == "tf32" else 2
        dtype: Any = {"tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[type]
        depth = 8 * pack

        def fragments(names: list[str], dtype: Any) -> Array:
            """By warp, thread and element."""
            words = np.stack([self.value(name) for name in names], 1).astype(np.uint32)
            return (
                words.view(dtype)
                .astype(np.float64)
                .reshape(-1, WARP, words.shape[1] * 4 // np.dtype(dtype).itemsize)
            )

        a, b, c = fragments(left, dtype), fragments(right, dtype), fragments(sums, np.float32)
        x, w = np.zeros((len(a), 16, depth)), np.zeros((len(a), depth, 8))
        for k in range(a.shape[2]):
            x[:, G + 8 * (k // pack % 2), pack * T + k % pack + 4 * pack * (k // (2 * pack))] = a[:, :, k]
        for k in range(b.shape[2]):
            w[:, pack * T + k % pack + 4 * pack * (k // pack), G] = b[:, :, k]
        product = x @ w
        for k, name in enumerate(result):
            total = (product[:, G + 8 * (k // 2), 2 * T + k % 2] + c[:, :, k]).astype(np.float32)
            self.names[name] = total.reshape(-1).view(np.uint32).astype(np.int64)
