"""The innermost loops of machine code, as text of an assembler."""

from __future__ import annotations

import re
from collections.abc import Iterable

BRANCH = re.compile(r"\s+(?:b\.\w+|cbn?z\s.*|tbn?z\s.*|j\w+)\s+(\.?L\w+)$")
LABEL = re.compile(r"\.?L\w+:")
CALL = re.compile(r"\s+(?:bl|blr|callq)\s")
# Arithmetic on one number, numbers put into lanes one by one, and gathers.
SCALAR = {
    "x86_64": re.compile(
        r"\s+v?(?:(?:add|sub|mul|div|max|min|sqrt)s[sd]|f\w*(?:add|sub)\d+s[sd]|\w*gather\w*|pinsr\w|insertps)\s"
    ),
    "aarch64": re.compile(r"\s+(?:f\w+\s+[sdh]\d+,|(?:ld1|ins)\s.*\.[bhsd]\}?\[|mov\s+v\d+\.[bhs]\[)"),
}
VECTOR = {
    "x86_64": re.compile(r"\s+v?(?:add|sub|mul|div|max|min|cmp\w*)p[sd]\s|\s+vf\w+p[sd]\s"),
    "aarch64": re.compile(r"\s+f\w+\s+v\d+\.\d[sd],"),
}


def innermost_loops(assembly: str) -> list[list[str]]:
    """The instructions of each loop that has no other one, and calls nothing."""
    lines = assembly.splitlines()
    labels = {
        line.partition(":")[0]: number for number, line in enumerate(lines) if line.startswith((".L", "L"))
    }
    ends = ((number, BRANCH.match(line)) for number, line in enumerate(lines))
    loops = [(labels[m[1]], end) for end, m in ends if m is not None and labels[m[1]] < end]
    innermost = [
        (start, end)
        for start, end in loops
        if not any(start <= s and e <= end and (s, e) != (start, end) for s, e in loops)
    ]
    found = [[line for line in lines[start:end] if line.startswith("\t")] for start, end in innermost]
    return [loop for loop in found if not any(map(CALL.match, loop))]


def count(pattern: re.Pattern[str], lines: Iterable[str]) -> int:
    return sum(1 for line in lines if pattern.match(line))
