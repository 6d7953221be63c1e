"""The program that computes a tensor, as text and as a page."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import SupportsIndex

from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import computing
from ocannl.program.module.stages import stage_text, view_statements
from ocannl.program.values import Value, label_of
from ocannl.program.why.placements import PlacementView
from ocannl.viewer.show import Viewable


class ShownProgram(Viewable, ABC):
    """A tensor, of the value that `_value` gives."""

    __slots__ = ()

    @abstractmethod
    def _value(self) -> Value: ...

    @property
    def placement(self) -> PlacementView:
        """How the tensor is split over the mesh that was made last, in the program that computes it."""
        value = self._value()
        return PlacementView(value, computing(value).statements)

    def ir(self, stage: str = "texpr", *, origins: bool = False, target: str | None = None) -> str:
        """The text of the program that computes this tensor, at a stage of the pipeline; with `origins`, each
        operation is followed by the expressions and lines that it comes from. Schedules are for the processor
        `target`, by LLVM's name: by default `OCANNL_TARGET`, else `x86-64-v4`.
        """
        value = self._value()
        return stage_text(computing(value).statements, label_of(value), stage, origins=origins, target=target)

    def view(self, path: str | os.PathLike[str] | None = None, *sizes: object) -> Path:
        """Shows the program that computes this tensor at all levels of its compilation, as `oc.view`."""
        if sizes or isinstance(path, SupportsIndex):
            raise ArgumentError("a view is a page that shows the program; for other axes, t.reshape")
        value = self._value()
        return view_statements(computing(value).statements, label_of(value), path)
