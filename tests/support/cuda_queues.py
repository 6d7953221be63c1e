"""The streams and events of the stand-in for CUDA: work waits until somebody synchronizes."""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

from support.cuda_handles import Context, CUevent_flags, CUresult, CUstream_flags, Event, Stream, Work

Answer: TypeAlias = tuple[Any, ...]
OK = (CUresult.CUDA_SUCCESS,)


class Queues:
    """The functions of a driver for streams and events, and the handles that are there."""

    def __init__(self) -> None:
        self.broken = CUresult.CUDA_SUCCESS
        self.alive: dict[object, Context] = {}
        self.time = 0.0
        self.here = threading.local()
        self.lock = threading.RLock()

    def check(self, *handles: object) -> None:
        """A context is current, and handles are those of what is there."""
        current = getattr(self.here, "context", None)
        assert current is not None, "no context is current in this thread"
        assert current.retained > 0
        for handle in handles:
            assert handle in self.alive, f"{handle} is not there"
            assert self.alive[handle] is current, f"{handle} is that of another GPU"

    def made(self, handle: object) -> Answer:
        self.alive[handle] = self.here.context
        return CUresult.CUDA_SUCCESS, handle

    def cuStreamCreate(self, Flags: int) -> Answer:
        assert Flags == CUstream_flags.CU_STREAM_NON_BLOCKING
        self.check()
        return (self.broken, None) if self.broken else self.made(Stream())

    def cuStreamDestroy(self, hStream: Stream) -> Answer:
        self.check(hStream)
        self.finish(hStream)
        del self.alive[hStream]
        return OK

    def cuStreamSynchronize(self, hStream: Stream) -> Answer:
        self.check(hStream)
        self.finish(hStream)
        return (self.broken,)

    def finish(self, stream: Stream) -> None:
        """Does what waits. It may wait for what those of other GPUs have to do, but not for ever."""
        with self.lock:
            while stream.waiting and (self.advance(stream) or any(map(self.advance, self.streams()))):
                pass
            assert not stream.waiting, "the host would wait for ever: ranks on other GPUs have not come"

    def advance(self, stream: Stream) -> bool:
        """Does the next work of a stream, if there is any that need not wait; returns whether there was.
        When something goes wrong, nothing works from then on.
        """
        with self.lock:
            if self.broken:
                stream.waiting.clear()
            if not stream.waiting or (result := stream.waiting[0]()) is None:
                return False
            stream.waiting.popleft()
            self.broken = result
            return True

    def streams(self) -> list[Stream]:
        return [handle for handle in list(self.alive) if isinstance(handle, Stream)]

    def enqueue(self, stream: Stream, work: Work) -> Answer:
        self.check(stream)
        if not self.broken:
            stream.waiting.append(work)
        return (self.broken,)

    def cuEventCreate(self, Flags: int) -> Answer:
        self.check()
        return self.made(Event(CUevent_flags(Flags) == CUevent_flags.CU_EVENT_DEFAULT))

    def cuEventRecord(self, hEvent: Event, hStream: Stream) -> Answer:
        self.check(hEvent)
        hEvent.has_come = False
        hEvent.recorded += 1
        number = hEvent.recorded

        def come() -> CUresult:
            hEvent.has_come, hEvent.time, hEvent.come = True, self.time, number
            return CUresult.CUDA_SUCCESS

        return self.enqueue(hStream, come)

    def cuStreamWaitEvent(self, hStream: Stream, hEvent: Event, Flags: int) -> Answer:
        """Waits for the last record so far, which may be that of what waits for other GPUs."""
        self.check(hStream, hEvent)
        assert Flags == 0
        assert hEvent.recorded, "the event was never recorded"
        number = hEvent.recorded

        def wait() -> CUresult | None:
            if hEvent.come < number:
                return None
            hStream.exchanges -= 1
            return CUresult.CUDA_SUCCESS

        hStream.exchanges += 1
        return self.enqueue(hStream, wait)

    def cuEventQuery(self, hEvent: Event) -> Answer:
        """Streams work while somebody looks."""
        self.check(hEvent)
        while sum(map(self.advance, self.streams())):
            pass
        return (self.broken or (CUresult.CUDA_SUCCESS if hEvent.has_come else CUresult.CUDA_ERROR_NOT_READY),)

    def cuEventDestroy(self, hEvent: Event) -> Answer:
        self.check(hEvent)
        del self.alive[hEvent]
        return OK

    def cuEventElapsedTime(self, hStart: Event, hEnd: Event) -> Answer:
        self.check(hStart, hEnd)
        assert hStart.has_time
        assert hEnd.has_time
        assert hStart.time is not None
        assert hEnd.time is not None
        return CUresult.CUDA_SUCCESS, hEnd.time - hStart.time

    def cuCtxSynchronize(self) -> Answer:
        self.check()
        for stream in self.streams():
            if self.alive[stream] is self.here.context:
                self.finish(stream)
        return (self.broken,)
