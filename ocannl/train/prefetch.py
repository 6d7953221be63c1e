"""Items that a thread makes before they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Full, Queue
from typing import Any


def prefetched(items: Iterator[Any], ahead: int) -> Generator[Any]:
    """The same items, made by a thread before they are asked for. Its errors come where the item would."""
    if not ahead:
        yield from items
        return
    queue, stopped = Queue[tuple[Any, BaseException | None]](ahead), threading.Event()

    def put(item: Any, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                queue.put((item, error), timeout=0.1)
                return
            except Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(item, None)
                if stopped.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=make, name="ocannl batches", daemon=True)
    thread.start()
    try:
        while True:
            item, error = queue.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        stopped.set()
        thread.join()
