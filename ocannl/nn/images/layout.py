"""The rows of the spatial axes of images: batch axes, or the first output axes."""

from __future__ import annotations

from dataclasses import dataclass

import ocannl as oc

ROWS = ("batch", "output")


@dataclass(frozen=True)
class Layout:
    """Names for spatial axes, and whether these are output axes: batch | height, width, channels. Blocks
    compute with them as batch axes; the order of memory is the same.
    """

    axes: str
    is_output: bool

    def inward(self, x: oc.Tensor) -> oc.Tensor:
        """An image with its spatial axes as batch axes."""
        spec = f"... | {self.axes}, ..c.. => ..., {self.axes} | ..c.."
        return oc.einsum(spec, x) if self.is_output else x

    def outward(self, x: oc.Tensor) -> oc.Tensor:
        """An image in this layout, given with its spatial axes as batch axes."""
        spec = f"..., {self.axes} | ..c.. => ... | {self.axes}, ..c.."
        return oc.einsum(spec, x) if self.is_output else x


def layout_of(letters: str, spatial: str) -> Layout:
    """The layout with a spatial axis for each letter, in the row `spatial`. Raises `ArgumentError` for
    another row.
    """
    if spatial not in ROWS:
        raise oc.ArgumentError(f"spatial axes are in the row {' or '.join(ROWS)}, found {spatial!r}")
    return Layout(", ".join(f"s{letter}" for letter in letters), spatial == "output")
