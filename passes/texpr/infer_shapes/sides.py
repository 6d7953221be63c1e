"""The tensors of a clash of shapes, as messages show them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import Dim, Row, RowKind
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name


@dataclass(frozen=True, slots=True)
class Side:
    """A row of a tensor in a clash, marked, or one of its axes; a tensor without a row only is shown. It is
    shown under its name, unless another one is given.
    """

    value: SSAValue
    kind: RowKind | None = None
    row: object = None
    axis: int | None = None
    shown_as: str | None = None

    @property
    def name(self) -> str:
        return self.shown_as or f"`{tensor_name(self.value)}`"

    @property
    def size(self) -> int | None:
        """The size of the axis."""
        axes = self.row.axes if isinstance(self.row, Row) else ()
        dim = axes[self.axis] if self.axis is not None and self.axis < len(axes) else None
        return dim.size if isinstance(dim, Dim) else None
