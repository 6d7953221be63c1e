"""The permission to use the tile registers of AMX, which Linux gives to processes that ask for it (Linux,
"Using XSTATE features in user space applications").
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# The system call `arch_prctl` of x86-64, its request for a component of the processor's state, and that of
# the data in tiles.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18


@cache
def may_use_tiles() -> bool:
    """Whether this process may use tiles; asks for it, once."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0
