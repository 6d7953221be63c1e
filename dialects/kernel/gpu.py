"""Facts of the GPUs that kernels are made for: threads, shared memory and accesses."""

from __future__ import annotations

# Threads of a warp, which run in lockstep.
WARP = 32
# Threads of a warpgroup, of four warps: those that multiply together, and take registers together.
GROUP = 4 * WARP
MOST_THREADS = 1024
# Threads of a block, where nothing else decides: enough of them to hide the latency of memory.
THREADS = 256
# A large GPU, roughly: its multiprocessors; multiplications of each a cycle, and blocks that it runs at a
# time; bytes that memory moves a cycle; and cycles to launch a kernel.
PROCESSORS = 128
MULTIPLICATIONS_A_CYCLE, CONCURRENT_BLOCKS = 128, 4
BYTES_A_CYCLE = 1200
LAUNCH_CYCLES = 5000
# Numbers of 16 bits: warpgroups multiply them in any layout, and two of them are in a register.
HALF_BYTES = 2
# Registers of a multiprocessor, of 32 bits each.
REGISTERS = 2**16
# Those of a thread at most; how many a warpgroup takes or gives back at a time, and how many it may have.
MOST_REGISTERS = 255
REGISTERS_AT_A_TIME, LEAST_ROLE_REGISTERS, MOST_ROLE_REGISTERS = 8, 24, 240
# The architecture with products of warpgroups; no other one runs its code.
WARPGROUP_ARCH = "sm_90a"
# The multiprocessors of a GPU of that architecture, an H100 or H200.
WARPGROUP_PROCESSORS = 132
# Shared memory that a block may have on all NVIDIA GPUs since sm_80, on some of them, and at most.
PORTABLE_SHARED_BYTES = 99 * 2**10
MOST_SHARED_BYTES = 227 * 2**10
SHARED_BYTES = {"sm_80": 163 * 2**10, **dict.fromkeys(("sm_90", WARPGROUP_ARCH, "sm_100"), MOST_SHARED_BYTES)}
# Shared memory that a kernel for an NVIDIA GPU may declare; more is dynamic, given by the host at launch.
STATIC_SHARED_BYTES = 48 * 2**10
SHARED_ALIGNMENT = 16
# Swizzled arrays have rows of so many bytes, of which 8 make a pattern; they begin at such.
SWIZZLED_BYTES, SWIZZLED_ROWS = 128, 8
SWIZZLED_ALIGNMENT = SWIZZLED_BYTES * SWIZZLED_ROWS
# A barrier in shared memory, at which threads wait for bulk copies; the description of a tensor for these.
MBARRIER_BYTES, TENSOR_MAP_BYTES = 8, 128
# Shared memory has so many banks, which give a word each at a time.
BANKS, BANK_BYTES = 32, 4
# Global memory moves in parts of so many bytes.
SECTOR_BYTES = 32
# The widest load or store of a thread, and the bytes that it can copy asynchronously to shared memory.
VECTOR_BYTES = 16
ASYNC_BYTES = (4, 8, VECTOR_BYTES)
# Shared memory that a threadgroup may have on every GPU of Apple's.
METAL_SHARED_BYTES = 32 * 2**10


def registers_at_start(threads: int) -> int:
    """Those of each thread of a block with so many that has a multiprocessor for itself."""
    return min(MOST_REGISTERS, REGISTERS // threads) // REGISTERS_AT_A_TIME * REGISTERS_AT_A_TIME
