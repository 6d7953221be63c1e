"""The order of the loops around a tile."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

from ocannl.dialects.loops import StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.page_walks import PAGE
from ocannl.passes.analysis.costs.touched_bytes import spanned
from ocannl.passes.analysis.schedules.nest_facts import Access, ScopeFacts
from ocannl.passes.analysis.targets.target import TargetDescription

# How many pages a TLB of the second level has, with room for others.
KNOWN_PAGES = 1024
# The points of a sum that is short, and how many times as large as an operand results are then the most of
# what is moved.
SHORT, MOSTLY = 64, 4
# How many times fewer bytes from beyond the second-level cache are worth another loop order; and the part of
# that cache in which what is read again stays.
MUCH_LESS, STAYS = 1.5, 4 / 5


@dataclass(frozen=True)
class LoopOrder:
    """The orders of the loops of a nest; `dominant` is the reduction that takes most of its time, if any."""

    facts: ScopeFacts
    dominant: ScopeFacts | None
    target: TargetDescription

    def order(self, schedule: Schedule) -> tuple[str, ...]:
        """The loop order: outermost the longest strides of stores, innermost the loops on which the dominant
        reduction does not depend.
        """
        order = sorted(self.facts.space, key=self.store_stride, reverse=True)
        if self.dominant is None:
            return tuple(order if schedule.rows else self.on_few_pages(order, schedule))
        varies = self.dominant.varies
        outer, inner = [n for n in order if n in varies], [n for n in order if n not in varies]
        lanes = schedule.lanes[0] if schedule.lanes else None
        if lanes in outer and not self.fits_near(lanes):
            rows = schedule.rows[0] if schedule.rows else None
            tile = [name for name in (lanes, rows) if name in outer]
            outer = [*(name for name in outer if name not in tile), *tile]
            self.move_out(outer, lanes)
            outer = self.with_least_traffic(outer, lanes, schedule)
        return (*outer, *inner)

    def on_few_pages(self, order: Sequence[str], schedule: Schedule) -> Sequence[str]:
        """The order with the loop of the fewest pages around the lanes, where the one there touches more of
        them than the processor knows the places of.
        """
        tiles = [name for name in order if schedule.lanes is not None and name == schedule.lanes[0]]
        outer = [name for name in order if name not in tiles]
        if not outer or order != [*outer, *tiles] or self.pages(outer[-1]) <= KNOWN_PAGES:
            return order
        fewest = min(outer, key=self.pages)
        return [*(name for name in outer if name != fewest), fewest, *tiles]

    def pages(self, name: str) -> int:
        """The pages that a loop touches of one array."""
        strides = [abs(a.strides.get(name, 0)) * a.bytes for a in self.facts.accesses]
        return self.facts.space[name] * min(max(strides), PAGE) // PAGE

    def fits_near(self, lanes: str) -> bool:
        """Whether the operands of the reduction along the lanes stay in the first-level cache in any loop
        order; or in a part of the second-level one, where a sum is so short that results are most of what is
        moved, which is then stored row by row.
        """
        assert self.dominant is not None
        inside = {lanes, *self.dominant.space}
        along = [access for access in self.dominant.accesses if lanes in access.strides]
        bytes, room = sum(self.footprint(access, inside) for access in along), self.target.l1_bytes // 2
        stored = [
            self.footprint(a, self.facts.space) for a in self.facts.accesses if isinstance(a.op, StoreOp)
        ]
        if math.prod(self.dominant.space.values()) < SHORT and max(stored, default=0) > MOSTLY * bytes:
            room = max(room, self.target.l2_bytes // 4)
        return bytes <= room

    def store_stride(self, name: str) -> int:
        return max(
            [abs(a.strides.get(name, 0)) for a in self.facts.accesses if isinstance(a.op, StoreOp)], default=0
        )

    def move_out(self, order: list[str], lanes: str) -> None:
        """Moves the lanes outwards while the operands that the loops inside reuse stay in the second-level
        cache.
        """
        assert self.dominant is not None
        accesses = self.dominant.accesses
        place = order.index(lanes)
        while place > 0:
            crossed = order[place - 1]
            inside = {*order[place - 1 :], *self.dominant.space}
            kept = [a for a in accesses if lanes not in a.strides]
            if any(crossed in a.strides for a in accesses if lanes in a.strides):
                break
            if sum(self.footprint(a, inside) for a in kept) > self.target.l2_bytes // 2:
                break
            order[place - 1], order[place] = lanes, crossed
            place -= 1

    def with_least_traffic(self, order: list[str], lanes: str, schedule: Schedule) -> list[str]:
        """The order with the lanes further out, where far fewer bytes come from beyond the second-level cache
        then: panels of a large operand are each read for all rows, not all panels for each few rows.
        """
        assert self.dominant is not None
        varying = {name for a in self.dominant.accesses if lanes in a.strides for name in a.strides}
        others = [name for name in order if name != lanes]
        least, best = self.traffic(order, schedule) / MUCH_LESS, order
        for place in reversed(range(order.index(lanes))):
            if others[place] in varying:
                break
            moved = [*others[:place], lanes, *others[place:]]
            found = self.traffic(moved, schedule)
            if found < least:
                least, best = found, moved
        return best

    def traffic(self, order: Sequence[str], schedule: Schedule) -> int:
        """The bytes that the dominant reduction reads from beyond the second-level cache in a loop order."""
        assert self.dominant is not None
        sizes, total = self.dominant.around | self.dominant.space, 0
        for access in self.dominant.accesses:
            bytes = spanned(access, sizes)
            for place, name in enumerate(order):
                if name not in access.strides and self.goes_far(
                    order, self.met_again(order, place, access), schedule
                ):
                    bytes *= -(-sizes[name] // schedule.tile(name))
            total += bytes
        return total

    def met_again(self, order: Sequence[str], place: int, access: Access) -> int:
        """The place of the innermost loop, of those inside of one that an access does not move along, whose
        steps read the same.
        """
        inner = itertools.takewhile(lambda k: order[k] not in access.strides, range(place, len(order)))
        return max(inner)

    def goes_far(self, order: Sequence[str], place: int, schedule: Schedule) -> bool:
        """Whether a step of a loop touches more than the second-level cache has room for."""
        assert self.dominant is not None
        sizes = self.dominant.around | self.dominant.space
        inside = {name: sizes[name] for name in (*order[place + 1 :], *self.dominant.space)}
        extents = dict(schedule.tiles) | inside
        return sum(spanned(a, extents) for a in self.dominant.accesses) > STAYS * self.target.l2_bytes

    def footprint(self, access: Access, inside: Collection[str]) -> int:
        """The bytes that an access touches while the given variables run."""
        assert self.dominant is not None
        sizes = self.dominant.around | self.dominant.space
        total = access.bytes
        for name in access.strides:
            if name in inside:
                total *= sizes[name]
        return total
