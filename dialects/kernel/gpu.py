"""Facts of the GPUs that kernels are made for: threads, shared memory and accesses."""

from __future__ import annotations

# Threads of a warp, which run in lockstep.
WARP = 32
MOST_THREADS = 1024
# Threads of a block, where nothing else decides: enough of them to hide the latency of memory.
THREADS = 256
# Multiprocessors of a large GPU, roughly: how many blocks run at a time, at least.
PROCESSORS = 128
# Shared memory that a block may have on all NVIDIA GPUs since sm_80.
MOST_SHARED_BYTES = 99 * 2**10
# Shared memory that a kernel for an NVIDIA GPU may declare; more is dynamic, given by the host at launch.
STATIC_SHARED_BYTES = 48 * 2**10
SHARED_ALIGNMENT = 16
# Shared memory has so many banks, which give a word each at a time.
BANKS, BANK_BYTES = 32, 4
# The widest load or store of a thread.
VECTOR_BYTES = 16
