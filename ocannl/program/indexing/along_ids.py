"""Elements along an axis at ids of their own for each place in the other axes, read and written."""

from __future__ import annotations

from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import flag, integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number, number
from ocannl.program.expressions import number_in, pointwise, positions, spec_apply
from ocannl.program.indexing.ids_together import broadcast_slot
from ocannl.program.indexing.indexed_axes import Indexing, one_of
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.location import here
from ocannl.program.memory.memory_axes import MemoryAxes, Slot
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.floats import float_value
from ocannl.program.values import Value

ACCUMULATIONS = ("set", "add", "mean", "mul", "max", "min")


class AlongIds:
    """An axis of a tensor, and ids along it.

    Attributes:
        slot: the axes of the tensor.
        chosen: those of the elements at ids, and their sizes.
    """

    def __init__(self, t: TensorLike, ids: TensorLike, axis: int, out_of_range: str) -> None:
        self.value, self.ids, self.out_of_range = as_tensor(t).ir_value, as_tensor(ids).ir_value, out_of_range
        axes, given = MemoryAxes(self.value), MemoryAxes(self.ids)
        self.sizes, number = axes.sizes, integer(axis, "the number of an axis", least=None)
        place = axes.places.index(axes.place(number))
        self.slot = axes.slot("x")
        self.axis = self.slot.axes[place]
        if len(given.sizes) != len(self.sizes):
            raise ArgumentError(
                f"ids along an axis have the axes of `{axes.label}: {axes.shape}`, found {given.shape}"
            )
        self.chosen = self.slot.with_axes({self.axis: ("chosen",)})
        self.chosen_sizes = [*self.sizes]
        self.chosen_sizes[place] = given.sizes[place]
        self.ids_slot = self._slot(self.ids)

    def _slot(self, value: Value) -> Slot:
        """That of a value which is broadcast to the chosen elements."""
        return broadcast_slot(MemoryAxes(value), self.chosen.axes, self.chosen_sizes)

    def taken(self) -> Tensor:
        """The elements at the ids."""
        spec = f"{self.slot}; {self.ids_slot} => {self.chosen}"
        indexing = Indexing(spec, [self.ids], self.axis, self.out_of_range, {}, scatters=False)
        return Tensor(keep_all_axes(indexing.apply(self.value, "add", "gather"), self.value))

    def put(self, values: Value, accum: str, include_self: bool) -> Tensor:
        """The tensor with values at the ids."""
        if accum == "set":
            return self._set(values)
        is_mean = accum == "mean"
        own, values = Tensor(self.value), float_value(values) if is_mean else values
        found = self._scattered(values, "add" if is_mean else accum)
        if not is_mean and include_self:
            return Tensor(pointwise(accum, [self.value, found.ir_value]))
        count = self._scattered(as_tensor(1.0).ir_value, "add")
        if is_mean and include_self:
            return (own + found) / (count + 1.0)
        at_ids = found / Tensor(pointwise("max", [count.ir_value, 1.0])) if is_mean else found
        return Tensor(pointwise("where", [(count > 0.0).ir_value, at_ids.ir_value, self.value]))

    def _scattered(self, values: Value, accum: str, slot: str | None = None) -> Tensor:
        spec = f"{slot or self._slot(values)}; {self.ids_slot} => {self.slot}"
        dims = {name: Dim(size) for name, size in zip(self.slot.axes, self.sizes, strict=True)}
        indexing = Indexing(spec, [self.ids], self.axis, self.out_of_range, dims, scatters=True)
        return Tensor(indexing.apply(values, accum, "scatter"))

    def _set(self, values: Value) -> Tensor:
        """Where several values go to one place, the last one is there: first its number is found."""
        size = self.chosen_sizes[self.chosen.axes.index("chosen")]
        last = self._scattered(pointwise("add", [positions(Dim(size)), 1.0]), "max", "chosen,")
        dims = [(name, Dim(n)) for name, n in zip(self.chosen.axes, self.chosen_sizes, strict=True)]
        whole = spec_apply(f"{self._slot(values)} => {self.chosen}", "add", "mul", [values], dims)
        place = pointwise("sub", [pointwise("max", [last.ir_value, 0.0]), 1.0])
        spec = f"{self.chosen}; {self.slot} => {self.slot}"
        found = Indexing(spec, [place], "chosen", "drop", {}, scatters=False).apply(whole, "add", "gather")
        return Tensor(pointwise("where", [(Tensor(place) >= 0.0).ir_value, found, self.value]))


@remembered
def take_along_axis(t: TensorLike, ids: TensorLike, axis: int = -1, *, out_of_range: str = "error") -> Tensor:
    """The elements of `t` at the positions `ids` along an axis, as by NumPy's `take_along_axis` and PyTorch's
    `gather`. In the order of memory, the ids have the axes of `t`, or size 1 in place of others than this.

    Ids out of range are treated as by `oc.gather`, also by `drop` or `clamp`. Gradients go to `t`. Raises
    `ShapeError` where sizes are not known or do not fit, `ArgumentError` for ids of another number of axes.
    """
    return AlongIds(t, ids, axis, out_of_range).taken()


@remembered
def put_along_axis(
    t: TensorLike,
    ids: TensorLike,
    values: TensorLike,
    axis: int = -1,
    *,
    accum: str = "set",
    include_self: bool = True,
    out_of_range: str = "error",
) -> Tensor:
    """`t` with `values` at the positions `ids` along an axis, as NumPy's `put_along_axis` makes it, and
    PyTorch's `scatter`, `scatter_add` and `scatter_reduce`. The ids are those of `oc.take_along_axis`; the
    values are broadcast to them.

    By `accum`, the values of one position are added to its element, or it is their mean ("mean"), product
    ("mul"), greatest ("max") or least ("min"); unless `include_self`, the element does not count. By "set",
    it is the last of them. Gradients go to `t` and the values, those of extremes to each that attains them.
    Raises as `oc.take_along_axis`.
    """
    if accum not in ACCUMULATIONS:
        raise SpecError(here(f"values along an axis are put by {one_of(ACCUMULATIONS)}, found {accum!r}"))
    along = AlongIds(t, ids, axis, out_of_range)
    put = number_in("=", number(values), along.value) if is_number(values) else as_tensor(values).ir_value
    made = along.put(put, accum, flag(include_self, "include_self"))
    return Tensor(keep_all_axes(made.ir_value, along.value))
