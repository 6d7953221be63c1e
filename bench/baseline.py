"""Saved measurements, and what OCANNL needs more time for since, beyond the noise.

The file has, by processor, a line for each benchmark of each peer: the least seconds and their noise. Between
two runs the machine may have become slower as a whole: as much as the peers did, if they are of the same
version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Measured

# What is compared, all in seconds.
KINDS = ("call", "loop", "cold", "warm")
# A smaller part is never told.
LEAST = 0.05

# By benchmark, peer, version and threads: the least seconds and their noise, of each kind that was measured.
Key = tuple[str, str, str, int]
Summary = dict[str, tuple[float, float]]
Saved = dict[Key, Summary]


@dataclass(frozen=True)
class Change:
    """A benchmark that took `before` seconds, and takes `now`; its peers take `drift` times as long."""

    name: str
    kind: str
    before: float
    now: float
    drift: float
    noise: float

    @property
    def ratio(self) -> float:
        return self.now / self.before / self.drift

    @property
    def is_slower(self) -> bool:
        return self.ratio > 1 + max(LEAST, self.noise)

    def __str__(self) -> str:
        change = f"{self.before:.3g} s -> {self.now:.3g} s, peers x{self.drift:.2f}"
        return f"{self.name} {self.kind}: x{self.ratio:.2f} (noise {self.noise:.0%}; {change})"


def summary(samples: Sequence[float]) -> tuple[float, float]:
    """The fastest, as what interrupts only adds to seconds; and by what part the third fastest was slower."""
    fastest, *others = sorted(samples)[:3]
    return fastest, max(others, default=fastest) / fastest - 1


def summaries(results: Iterable[Measured]) -> Saved:
    return {
        (r.name, r.peer, r.version, r.threads): {
            kind: summary(getattr(r, kind)) for kind in KINDS if getattr(r, kind)
        }
        for r in results
    }


def drift(before: Saved, now: Saved, name: str, kind: str) -> float:
    """How many times as long the peers take as they took: the least of them, and 1 if one is faster."""
    ratios = [
        kinds[kind][0] / before[key][kind][0]
        for key, kinds in now.items()
        if key[0] == name and key[1] != "ocannl" and kind in kinds and kind in before.get(key, {})
    ]
    return max(1.0, min(ratios, default=1.0))


def changes(before: Saved, now: Saved) -> list[Change]:
    """Of all that OCANNL was measured with before; the noise is that of both measurements."""
    known = {(name, threads): kinds for (name, peer, _, threads), kinds in before.items() if peer == "ocannl"}
    found: list[Change] = []
    for (name, peer, _, threads), kinds in now.items():
        old = known.get((name, threads), {}) if peer == "ocannl" else {}
        for kind in [kind for kind in kinds if kind in old]:
            (seconds, noise), (old_seconds, old_noise) = kinds[kind], old[kind]
            peers = drift(before, now, name, kind)
            found.append(Change(name, kind, old_seconds, seconds, peers, noise + old_noise))
    return found


def save(path: Path, processor: str, now: Saved) -> None:
    """Adds to what the file has of the same processor: what is measured again is replaced."""
    every = content(path)
    known = decoded(every.get(processor, []))
    again = {(name, peer, threads) for name, peer, _, threads in now}
    kept = {key: kinds for key, kinds in known.items() if (key[0], key[1], key[3]) not in again}
    every[processor] = [[*key, rounded(kinds)] for key, kinds in (kept | now).items()]
    parts = [
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, lines)) + "\n]"
        for name, lines in every.items()
    ]
    path.write_text("{" + ",\n".join(parts) + "}\n")


def content(path: Path) -> dict[str, list[Any]]:
    """The lines of a file by processor, of which there are none without a file."""
    return json.loads(path.read_text()) if path.exists() else {}


def rounded(kinds: Summary) -> dict[str, Any]:
    return {kind: [float(f"{seconds:.4g}"), round(noise, 3)] for kind, (seconds, noise) in kinds.items()}


def load(path: Path, processor: str) -> Saved:
    """The measurements on a processor. Raises SystemExit for a file that has other processors only."""
    every = content(path)
    if processor not in every:
        raise SystemExit(f"{path} was measured on {', '.join(every)}; this is {processor}")
    return decoded(every[processor])


def decoded(lines: Iterable[Any]) -> Saved:
    return {
        (name, peer, version, threads): {kind: (seconds, noise) for kind, (seconds, noise) in kinds.items()}
        for name, peer, version, threads, kinds in lines
    }
