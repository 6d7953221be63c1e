"""Communicators of NCCL: one rank's end of what the ranks along a mesh axis share."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.nccl import BYTE, IN_PROGRESS, Comm, Nccl, UniqueId, not_blocking


class Communicator:
    """A rank among a group, on its GPU. The others need not be there yet: it is used once `is_settled`.

    Exchanges are put into a stream of the GPU, where they wait for the other ranks.
    """

    def __init__(self, library: Nccl, gpu: Gpu, group: Sequence[int], rank: int, unique_id: bytes) -> None:
        self.library = library
        self.gpu = gpu
        self.group = tuple(group)
        self.handle = Comm()
        gpu.enter()
        name, place, config = UniqueId.from_buffer_copy(unique_id), self.group.index(rank), not_blocking()
        arguments = len(group), name, place, ctypes.byref(config)
        library.call("ncclCommInitRankConfig", ctypes.byref(self.handle), *arguments)

    def is_settled(self) -> bool:
        """Whether what was asked of it is under way. Raises `NcclError` where it failed, also on the GPU."""
        state = ctypes.c_int()
        self.library.call("ncclCommGetAsyncError", self.handle, ctypes.byref(state))
        if state.value not in (0, IN_PROGRESS):
            raise self.library.error("a collective", state.value)
        return state.value != IN_PROGRESS

    def all_gather(self, target: int, source: int, size: int, stream: int) -> None:
        """Puts the `size` bytes that each rank has at `source` one behind the other."""
        self.library.call("ncclAllGather", source, target, size, BYTE, self.handle, stream)

    def all_to_all(self, target: int, source: int, size: int, stream: int) -> None:
        """Sends a row of the `size` bytes at `source` to each rank, and takes one of each."""
        row = size // len(self.group)
        self.library.call("ncclGroupStart")
        for peer in range(len(self.group)):
            self.library.call("ncclSend", source + peer * row, row, BYTE, peer, self.handle, stream)
            self.library.call("ncclRecv", target + peer * row, row, BYTE, peer, self.handle, stream)
        self.library.call("ncclGroupEnd")

    def abort(self) -> None:
        """Ends what waits for other ranks on the GPU. Nothing else is asked of it afterwards."""
        self.library.functions["ncclCommAbort"](self.handle)
