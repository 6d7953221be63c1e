"""Values of variables of shapes, told by shapes that are final."""

from __future__ import annotations

from dataclasses import field

from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, RowVar, Shape


@dataclass
class Solution:
    """The sizes and axes that variables stand for, as far as final shapes told them."""

    rows: dict[RowVar, tuple[DimTerm, ...]] = field(default_factory=dict[RowVar, tuple[DimTerm, ...]])
    dims: dict[DimVar, DimTerm] = field(default_factory=dict[DimVar, DimTerm])

    def gives(self, written: Shape, final: Shape) -> bool:
        """Whether a written shape is a final one, if its variables stand for what they did before."""
        return written == final or all(map(self._gives_row, written, final))

    def gives_dim(self, written: DimTerm, final: DimTerm) -> bool:
        """`gives` for a size."""
        return (self.dims.setdefault(written, final) if isinstance(written, DimVar) else written) == final

    def _gives_row(self, written: Row, final: Row) -> bool:
        axes, start = final.axes, len(written.leading)
        stop = len(axes) - len(written.trailing)
        if start > stop:
            return False
        between = axes[start:stop]
        known = () if written.var is None else self.rows.setdefault(written.var, between)
        return known == between and all(map(self.gives_dim, written.axes, axes[:start] + axes[stop:]))
