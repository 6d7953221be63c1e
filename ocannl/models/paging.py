"""Sequences whose keys and values are in pages, which those with equal beginnings share."""

from __future__ import annotations

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Array
from ocannl.models.writing import Cached, Ids, Writer


class Paged(Cached):
    """Sequences that are written on with a cache in pages: each has as many as it needs."""

    def __init__(
        self, writer: Writer, rows: list[list[int]], max_new: int, settings: dict[str, Array]
    ) -> None:
        assert writer.pages is not None, "a writer of sequences in pages has them"
        self.pages, self.taken = writer.pages, list[int]()
        most = max(map(len, rows), default=0) + max_new
        if most > self.pages.length:
            raise oc.ArgumentError(f"{most} positions do not fit into a cache of {self.pages.length}")
        super().__init__(writer, rows, max_new, settings)

    @property
    def room(self) -> int:
        return min(super().room, self.pages.length)

    def begin(self, counter: int) -> Ids:
        new = self.total - max(map(len, self.written))
        self.pages.set_tables(self.writer.ctx, self.table(self.pages, new))
        return super().begin(counter)

    def table(self, pages: nn.PagedCache, new: int) -> list[list[int]]:
        """The pages of each prompt and `new` ids. Pages that are full of equal ids, after equal ones, are
        one.
        """
        size = pages.page_size
        names: list[list[object]] = []
        for number, row in enumerate(self.written):
            whole, count = len(row) // size, -(-(len(row) + new) // size)
            shared = [tuple(row[: size * (place + 1)]) for place in range(whole)]
            names.append([*shared, *(f"{number}, {place}" for place in range(whole, count))])
        unique = dict.fromkeys(name for row in names for name in row)
        self.taken = pages.take(len(unique))
        page = dict(zip(unique, self.taken, strict=True))
        return [[page[name] for name in row] for row in names]

    def close(self) -> None:
        self.pages.give_back(self.taken)
        self.taken = []
