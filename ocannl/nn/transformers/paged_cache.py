"""Keys and values of attention in pages of one memory, which sequences take as they grow, and may share.

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention", 2023.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

import ocannl as oc
from ocannl.nn.transformers.kv_cache import Attended, KVCache, seen_mask, write
from ocannl.program.arguments.checks import integer
from ocannl.program.types.dtypes import float_element

NOBODY = 0
"""The page of places that no sequence has taken, such as those of padding."""


@dataclass(frozen=True, eq=False)
class PagedCache(KVCache):
    """A `nn.KVCache` whose memory is that of pages, whatever the number of sequences and their lengths;
    `nn.paged_cache` makes one. A table for each size of batch has the pages of each sequence in order.

    Attributes:
        pages: how many pages there are beside the one of padding.
        page_size: the number of positions of a page.
        tables: the tables that were made, by the number of sequences.
        free: the pages that nobody has.
    """

    pages: int = 0
    page_size: int = 1
    tables: dict[int, oc.Tensor] = field(default_factory=dict[int, oc.Tensor], repr=False)
    free: list[int] = field(default_factory=list[int], repr=False)

    def table(self, count: int) -> oc.Tensor:
        """The pages of so many sequences in order, a node batch, place | : position p of a sequence is at
        `p % page_size` of the page at place `p // page_size`. Pages may stand in several rows.
        """
        if count not in self.tables:
            batch = [count, -(-self.length // self.page_size)]
            with oc.scope(self.label):
                self.tables[count] = oc.node("table", batch=batch, output=[], init=NOBODY, dtype=np.int32)
        return self.tables[count]

    def take(self, count: int) -> list[int]:
        """So many pages that nobody has. Raises `ArgumentError` where there are fewer."""
        if count > len(self.free):
            raise oc.ArgumentError(f"{count} pages of a cache are needed, of which {len(self.free)} are free")
        return [self.free.pop() for _ in range(count)]

    def give_back(self, pages: Iterable[int]) -> None:
        """Lets others take the pages."""
        self.free.extend(pages)

    def set_tables(self, ctx: oc.Context, rows: Sequence[Sequence[int]]) -> None:
        """Sets the table of as many sequences as there are rows of pages."""
        table = self.table(len(rows))
        pages = np.full(table.shape.array, NOBODY, np.int32)
        for place, row in zip(pages, rows, strict=True):
            place[: len(row)] = row
        ctx[table] = pages

    def extended(
        self, owner: Hashable, keys: oc.Tensor, values: oc.Tensor, window: int | None = None
    ) -> Attended:
        oc.infer(keys)
        oc.infer(values)
        *batch, count = keys.shape.array[:-2]
        if len(batch) != 1:
            raise oc.ArgumentError(f"a paged cache is of sequences in one batch axis, found {len(batch)}")
        if count > self.length:
            raise oc.ArgumentError(f"{count} positions do not fit into a cache of {self.length}")
        kept = self.memory_of(owner, [self.pages + 1, self.page_size], keys, values)
        table, positions = self.table(batch[0]), self.positions(count)
        write(kept, (self._pages_at(table, positions), positions % self.page_size), keys, values)
        if isinstance(self.start, int) and self.start == 0:
            return Attended(keys, values, seen_mask(positions, count, window))
        seen = self.length if self.seen is None else self.seen
        pages = table[:, : -(-seen // self.page_size)]

        def joined(kept: oc.Tensor) -> oc.Tensor:
            return oc.einsum("b, n, p | h, d => b, n&p | h, d", kept[pages])[:, :seen]

        return Attended(joined(kept.keys), joined(kept.values), seen_mask(positions, seen, window))

    def _pages_at(self, table: oc.Tensor, positions: oc.Tensor) -> oc.Tensor:
        """The pages of positions, which may be others in each sequence: batch, count | ."""
        places = oc.floor_divide(positions, self.page_size)
        if positions.ndim == 1:
            return table[:, places]
        return table[np.indices(positions.shape.array, np.int32)[0], places]


def paged_cache(
    *, length: int, pages: int, page_size: int = 16, dtype: DTypeLike | None = None, label: str = "cache"
) -> PagedCache:
    """A cache of the keys and values of sequences of up to `length` positions each, whose memory is `pages`
    pages of `page_size` positions for each block, and one more: any number of sequences share them.

    It is used as `nn.kv_cache` is, in batches of one axis. Which pages a sequence has is set from outside,
    before positions are given: `cache.set_tables(ctx, [cache.take(3), cache.take(1)])`. `oc.generate(...,
    cache=cache)` does that itself. Blocks with a sliding window keep all positions.
    """
    pages = integer(pages, "the number of pages", least=1)
    if dtype is not None:
        float_element(dtype, "keys and values are")
    return PagedCache(
        integer(length, "the length of a cache", least=1),
        dtype,
        label,
        pages=pages,
        page_size=integer(page_size, "the positions of a page", least=1),
        free=[*range(pages, 0, -1)],
    )
