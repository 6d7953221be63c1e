"""Items that a thread makes before they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Full, Queue
from typing import Any

END = object()
"""Stands in the queue behind the last item."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """Stands in the queue where making an item raised an error."""

    error: BaseException


def prefetched(items: Iterator[Any], ahead: int) -> Generator[Any]:
    """The same items, made by a thread before they are asked for. Its errors come where the item would."""
    if not ahead:
        yield from items
        return
    queue, stopped = Queue[Any](ahead), threading.Event()

    def put(item: Any) -> None:
        while not stopped.is_set():
            try:
                queue.put(item, timeout=0.1)
                return
            except Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(item)
                if stopped.is_set():
                    return
            put(END)
        except BaseException as error:  # Of any kind: else the loop below would wait forever.
            put(_Raised(error))

    thread = threading.Thread(target=make, name="ocannl batches", daemon=True)
    thread.start()
    try:
        while True:
            item = queue.get()
            if item is END:
                return
            if isinstance(item, _Raised):
                raise item.error
            yield item
    finally:
        stopped.set()
        thread.join()
