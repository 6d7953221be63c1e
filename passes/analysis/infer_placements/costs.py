"""The costs of dividing and moving, in whole picoseconds, so that comparisons do not depend on rounding."""

from __future__ import annotations

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Split


@dataclass(frozen=True, slots=True)
class Machine:
    """The picoseconds that a point takes, a byte between two ranks, and a collective to begin."""

    point: int = 1
    byte: int = 10
    latency: int = 5_000_000

    def moving(self, size: int, source: Split, target: Split, ranks: int) -> int | None:
        """The time to move a value of `size` bytes from a split to another; None where there is no way.

        A ring moves (n - 1) / n of the bytes in each of its two halves: a sum has both, to a split only the
        first, a gather only the second. Between two splits each rank sends its part to all but itself.
        """
        if source in (target, WHOLE):
            return None if target == PARTIAL != source else 0
        if target == PARTIAL:
            return None
        halves = 2 if source == PARTIAL and target == WHOLE else 1
        among = ranks if PARTIAL in (source, target) or WHOLE in (source, target) else ranks * ranks
        return halves * self.latency + halves * self.byte * size * (ranks - 1) // among
