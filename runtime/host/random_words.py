"""Words of Threefry's stream by compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.threefry import key_schedule
from ocannl.lowering.threefry_words import NAME, blocks_at_once, threefry_words
from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.host.processor import host
from ocannl.runtime.locks import once

Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@dataclass(frozen=True)
class CompiledWords:
    """Words of Threefry's stream by a function, whose code has to live as long."""

    code: CompiledModule
    function: Callable[[int, int, int, int], None]

    def __call__(self, key: NDArray[np.uint32], first: int, blocks: int) -> NDArray[np.uint32]:
        """The words of some blocks of a key's word stream, from block `first` on, which is a multiple of
        `blocks_at_once`. Other threads run meanwhile.
        """
        at_once, schedule = blocks_at_once(host()), _schedule(*key.tolist())
        stop = first + -(-blocks // at_once) * at_once
        words = np.empty(4 * (stop - first), np.uint32)
        if blocks:
            self.function(schedule.ctypes.data, first, stop, words.ctypes.data)
        return words[: 4 * blocks]


@once
def compiled_words() -> CompiledWords:
    """The function for this processor, compiled once a process."""
    code = compile_llvm(threefry_words(host()), target=host())
    return CompiledWords(code, Function(code.address(NAME)))


@lru_cache
def _schedule(*key: int) -> NDArray[np.uint32]:
    return np.array(key_schedule(key), np.uint32)
