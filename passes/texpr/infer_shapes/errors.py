"""The errors of shape inference."""

from __future__ import annotations

from ocannl.passes.texpr.infer_shapes.terms import DimTerm, Leaf, Row, RowKind

OTHER_COUNTS = "the numbers of axes differ"
MORE_AXES = "the operand has more axes than the result"


class ShapeInferenceError(Exception):
    """The constraints have no solution, or do not determine a parameter."""


class ShapeConflict(ShapeInferenceError):
    """Constraints that contradict each other.

    Attributes:
        left, right: the two sides of the contradictory constraint (for `RowLe` and `DimLe`,
            result and operand), as far as they were known then.
        left_axis, right_axis: the index of the clashing axis in `left.axes` and `right.axes`.
        left_because, right_because: the origins of the constraints that forced each side, the nearest first,
            without `origin` itself.
    """

    def __init__(
        self,
        reason: str,
        *,
        origin: object,
        left: Row | DimTerm,
        right: Row | DimTerm | None = None,
        left_axis: int | None = None,
        right_axis: int | None = None,
        left_because: tuple[object, ...] = (),
        right_because: tuple[object, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.origin = origin
        self.left = left
        self.right = right
        self.left_axis = left_axis
        self.right_axis = right_axis
        self.left_because = left_because
        self.right_because = right_because

    @property
    def because(self) -> tuple[object, ...]:
        """The origins that forced either side, each once."""
        seen: list[object] = list(self.left_because)
        seen += [origin for origin in self.right_because if not any(origin is other for other in seen)]
        return tuple(seen)

    def __str__(self) -> str:
        sides = f"{self.left}" if self.right is None else f"{self.left} and {self.right}"
        return f"{self.reason}: {sides}"


class RankCycle(ShapeConflict):
    """A row that would have to contain itself with more axes."""


class MissingDimension(ShapeInferenceError):
    """A parameter's row (`axis` is None) or one of its dimensions that no constraint determines."""

    def __init__(self, leaf: Leaf, row_kind: RowKind, axis: int | None = None) -> None:
        super().__init__(leaf.name, row_kind, axis)
        self.leaf = leaf
        self.row_kind: RowKind = row_kind
        self.axis = axis

    def __str__(self) -> str:
        what = "row" if self.axis is None else f"row, axis {self.axis}"
        return f"you forgot to give the hidden dimension of `{self.leaf.name}` (its {self.row_kind} {what})"
