"""The reasons on the page: why each node is kept as it is, and why each nest has its tile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.lowering.pipelines import new_context
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.unfold_layers import IrregularLayers, UnfoldLayersPass
from ocannl.program.text.unnamed import with_expressions
from ocannl.program.why.reasons import Line
from ocannl.reasons.node_reasons import NodeReasons
from ocannl.reasons.tile_reasons import Tile, candidates, key_of, ranked, tile_name
from ocannl.runtime.cache.tunings import Tunings
from ocannl.viewer.levels import Levels

_PLACE = re.compile(r"(.*):(\d+)")


@dataclass
class Tiles:
    """The tiles that the nests of a program could have; equal nests are asked once."""

    target: TargetDescription
    tunings: Tunings | None
    _nests: dict[tuple[str, str], NestOp] = field(default_factory=dict[tuple[str, str], NestOp])
    _known: dict[str, list[Tile]] = field(default_factory=dict[str, list[Tile]])

    def note(self, module: ModuleOp) -> None:
        """Keeps the nests of a module before they have schedules. Where layers cannot be unfolded, it is
        compiled again without folding, and noted again.
        """
        copy = module.clone()
        try:
            UnfoldLayersPass().apply(new_context(), copy)
        except IrregularLayers:
            return
        self._nests = {key_of(nest): nest for func in functions(copy) for nest in nests(func)}

    def of(self, nest: NestOp) -> list[tuple[str, float, float | None, bool]]:
        """The tiles of a nest, that which it has first: the name, the cycles that the cost model expects, the
        measured time if any, relative to the fastest, and whether it is its own.
        """
        before = self._nests.get(key_of(nest))
        if before is None:
            return []
        text = canonical_text(before)
        if text not in self._known:
            self._known[text] = candidates(before, self.target, self.tunings)
        own = tile_name(None if nest.schedule is None else nest.schedule.data)
        return [(t.name, round(t.cycles), t.times, t.name == own) for t in ranked(self._known[text], own)]


def pictures_of_reasons(
    module: ModuleOp, levels: Levels, expressions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """For each node of each function: why it is kept as it is, as lines of a text and its place. Nodes
    without names have their expressions.
    """
    return [picture for func in functions(module) for picture in _of_function(func, levels, expressions)]


def _of_function(func: FuncOp, levels: Levels, expressions: Mapping[str, str]) -> list[dict[str, Any]]:
    reasons = NodeReasons(func)
    found: list[dict[str, Any]] = []
    for op in func.walk():
        if isinstance(op, NodeOp):
            told = reasons.of(op.label.data)
            answer = with_expressions(told.answer, expressions)
            own = {"answer": levels.text(answer), "origins": levels.set_of(op.location)}
            found.append({"label": op.label.data, **own, "lines": numbers_of(told.lines, levels)})
    return found


def numbers_of(lines: Sequence[Line], levels: Levels) -> list[int]:
    """For each line the number of its file, that of the line in it, and that of its text; -1 for no file."""
    numbers: list[int] = []
    for line in lines:
        match = None if line.place is None else _PLACE.fullmatch(line.place)
        place = (-1, 0) if match is None else (levels.files.get(match[1], -1), int(match[2]))
        numbers += [*place, levels.text(line.text)]
    return numbers
