"""Labels of nodes that are unique in a module."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field


@dataclass
class Labels:
    """Gives labels that are different from those `taken`, to which the caller adds each before it asks for
    the next: `w`, `w2`, `w3`, ...; they stay different as names of values and beside labels of gradients.
    """

    taken: Container[str]
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """By what a label begins with, the last number that was tried: those before it are taken."""

    def unique(self, wanted: str, kept: Container[str] = ()) -> str:
        """A label that is neither taken nor one of those `kept` for others."""
        base = f"{wanted}_" if wanted.endswith(".grad") else wanted
        apart = "x" if base[-1].isdigit() else ""
        label, count = base, self.counts.get(base, 1)
        while label in self.taken or label in kept:
            count += 1
            label = f"{base}{apart}{count}"
        self.counts[base] = count
        return label
