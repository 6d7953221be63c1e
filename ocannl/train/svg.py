"""Charts as SVG, for pages that need no scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

# A chart is as wide as so many units; of longer series, as many points are drawn.
WIDTH, HEIGHT, MOST_POINTS = 360, 120, 360
LEFT, BOTTOM, TOP = 52, 16, 6


def line_chart(title: str, places: Sequence[float], values: Sequence[float]) -> str:
    """Values over places, such as steps; what is not finite leaves a gap."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    first, last = (places[0], places[-1]) if places else (0, 0)
    every = max(1, math.ceil(len(values) / MOST_POINTS))
    shown = sorted({*range(0, len(values), every), len(values) - 1}) if values else []
    parts, gap = list[str](), True
    for at in shown:
        if not math.isfinite(values[at]):
            gap = True
            continue
        x = _between(places[at], first, last, LEFT, WIDTH - 4)
        y = _between(values[at], low, high, HEIGHT - BOTTOM, TOP)
        parts.append(f"{'M' if gap else 'L'}{x:.1f} {y:.1f}")
        gap = False
    if len(parts) == 1:
        parts.append("h1")
    now = f"{values[-1]:.4g}" if values else "none"
    body = f'<path class="line" d="{" ".join(parts)}"/>'
    return _figure(title, now, body, (f"{low:.3g}", f"{high:.3g}"), (f"{first:g}", f"{last:g}"))


def bar_chart(title: str, note: str, low: float, high: float, counts: Sequence[int]) -> str:
    """How many values are in each of equal parts between two values."""
    most, wide = max([*counts, 1]), (WIDTH - 4 - LEFT) / max(1, len(counts))
    bars = [
        f'<rect class="bar" x="{LEFT + k * wide:.1f}" y="{y:.1f}" width="{wide - 0.8:.1f}" '
        f'height="{HEIGHT - BOTTOM - y:.1f}"/>'
        for k, count in enumerate(counts)
        for y in (_between(count, 0, most, HEIGHT - BOTTOM, TOP),)
        if count
    ]
    return _figure(title, note, "".join(bars), ("0", f"{most:,}"), (f"{low:.3g}", f"{high:.3g}"))


def _figure(title: str, note: str, body: str, rows: tuple[str, str], columns: tuple[str, str]) -> str:
    name, bottom = escape(title), HEIGHT - BOTTOM
    spoken = escape(f"{title}: {note}; {columns[0]} to {columns[1]}, {rows[0]} to {rows[1]}", quote=True)
    return (
        f"<figure><figcaption>{name} <b>{escape(note)}</b></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{spoken}">'
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDTH - 4}"/>{body}'
        f'<text x="{LEFT - 4}" y="{bottom}" text-anchor="end">{escape(rows[0])}</text>'
        f'<text x="{LEFT - 4}" y="{TOP + 9}" text-anchor="end">{escape(rows[1])}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 3}">{escape(columns[0])}</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 3}" text-anchor="end">{escape(columns[1])}</text>'
        "</svg></figure>"
    )


def _between(value: float, low: float, high: float, start: float, end: float) -> float:
    # Of halves, since the difference of large numbers may be infinite.
    extent = high / 2 - low / 2
    return start + (end - start) * ((value / 2 - low / 2) / extent if extent else 0.5)
