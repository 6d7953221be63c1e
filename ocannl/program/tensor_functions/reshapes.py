"""Arrays of other shapes with the elements in the same order of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ocannl.dialects.ir.errors import ShapeError, SpecError
from ocannl.dialects.shapes.shape import Dim, RowKind
from ocannl.dialects.shapes.spec import Fixed, Name
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.program.arguments.checks import integer
from ocannl.program.eager.made_once import made_once
from ocannl.program.expressions import spec_apply
from ocannl.program.indexing.new_axes import guess_last_axis
from ocannl.program.location import here
from ocannl.program.memory.memory_axes import MEMORY_ORDER, ONLY, SPEC_ORDER, MemoryAxes, Slot
from ocannl.program.values import Value

Rows = dict[RowKind, list[int]]

MOST_COUNTED, MOST_FACTORS = 1 << 16, 12
"""Up to so many elements, and so many factors of their number, a message names the factors."""


def reshaped(value: Value, slot: str, sizes: Mapping[str, int]) -> Value:
    """By the slot of a spec, `b | h, w -> ...`: integers are sizes, `...` are the axes of the row, and sizes
    that are not given follow from the row, or from all elements. Raises `SpecError` and `ShapeError`.
    """

    def make() -> Value:
        axes = MemoryAxes(value)
        axes.close_rows(MEMORY_ORDER)
        old: Rows = {
            kind: [axes.known_size(p) for p in axes.places if p.row == kind] for kind in MEMORY_ORDER
        }
        return _reshaped(value, axes, old, _Wanted(slot, sizes, old).rows())

    return made_once([value], ("reshaped axes", slot, *sizes.items()), make)


def reshaped_to(value: Value, sizes: Sequence[int]) -> Value:
    """By sizes, of which one may be -1; all but the last are batch axes, and the last is the output axis, but
    for batch axes that become one: of ids, for example.
    """

    def make() -> Value:
        axes = MemoryAxes(value)
        old = [axes.known_size(place) for place in axes.places]
        new = [integer(size, "a size", least=None) for size in sizes]
        if new.count(-1) == 1 and prod(new) and prod(old) % prod(new) == 0:
            new[new.index(-1)] = prod(old) // -prod(new)
        is_batch = len(new) == 1 and {place.row for place in axes.places} == {"batch"}
        split = len(new) if is_batch else len(new) - 1
        rows: Rows = {"batch": new[:split], "output": new[split:], "input": []}
        made = _reshaped(value, axes, {"batch": old, "output": [], "input": []}, rows)
        return guess_last_axis(made, value) if rows["output"] else made

    return made_once([value], ("reshaped", *sizes), make)


@dataclass
class _Wanted:
    """The rows that a slot asks for, with sizes by name."""

    slot: str
    sizes: Mapping[str, int]
    old: Rows
    names: dict[RowKind, list[str | int]] = field(default_factory=dict[RowKind, list[str | int]])

    def rows(self) -> Rows:
        """Their sizes; those of one name a row, or of one name in all, may follow from the others."""
        try:
            (parsed,) = parse_spec(f"{self.slot} => 0", 1).operands
        except SpecSyntaxError as error:
            shown = SpecSyntaxError(error.message, self.slot, min(error.offset, len(self.slot)))
            advice = "\n  einops' notation is that of oc.rearrange" if "(" in self.slot else ""
            raise SpecError(here(f"{shown}{advice}")) from None
        known = {name: integer(size, f"the size of `{name}`") for name, size in self.sizes.items()}
        for kind, row in zip(SPEC_ORDER, parsed.rows, strict=True):
            if row.var not in (None, kind):
                raise SpecError(here(f"in {self.slot!r}, `...` stands for the axes of its own row"))
            middle = [] if row.var is None else self.old[kind]
            self.names[kind] = [*map(self._name, row.leading), *middle, *map(self._name, row.trailing)]
        by_row = dict(known)
        if all(_solve(self.names[kind], prod(self.old[kind]), by_row) for kind in MEMORY_ORDER):
            known = by_row
        every = [name for kind in MEMORY_ORDER for name in self.names[kind]]
        _solve(every, prod(prod(self.old[kind]) for kind in MEMORY_ORDER), known)
        if unknown := [name for name in every if isinstance(name, str) and name not in known]:
            raise ShapeError(here(self._does_not_follow(unknown)))
        return {kind: [_size(name, known) for name in self.names[kind]] for kind in MEMORY_ORDER}

    def _does_not_follow(self, unknown: Sequence[str]) -> str:
        """An unknown size, of the row that given sizes do not divide if there is one; and why."""
        missing, reason = unknown[0], "give it"
        for kind in MEMORY_ORDER:
            given = [name for name in self.names[kind] if isinstance(name, str) and name in self.sizes]
            total, wanted = prod(self.old[kind]), prod(self.sizes[name] for name in given)
            if wanted and total % wanted:
                missing = next((name for name in unknown if name in self.names[kind]), missing)
                count = "1 element" if total == 1 else f"{total} elements"
                reason = f"the {kind} row has {count}, which `{'&'.join(given)}`, {wanted}, does not divide"
                break
        return f"the size of `{missing}` in {self.slot!r} does not follow: {reason}"

    def _name(self, axis: object) -> str | int:
        if isinstance(axis, Name):
            return axis.name
        if isinstance(axis, Fixed):
            return axis.value
        raise SpecError(here(f"in {self.slot!r}, `{axis}` is neither a name nor a size"))


def _size(name: str | int, known: Mapping[str, int]) -> int:
    return name if isinstance(name, int) else known[name]


def _solve(names: Sequence[str | int], total: int, known: dict[str, int]) -> bool:
    """Finds the size of the one name that is not known, if the others divide the total; whether all are known
    and have as many elements.
    """
    unknown = [name for name in names if isinstance(name, str) and name not in known]
    others = prod(_size(name, known) for name in names if name not in unknown)
    if len(unknown) == 1 and others and total % others == 0:
        known[unknown[0]] = total // others
        return True
    return not unknown and others == total


def _way_out(before: Sequence[int], after: Sequence[int]) -> str:
    """The sizes with another one in the place of the last that can make them fit."""
    total = prod(before)
    for at in reversed(range(len(after))):
        others = prod(after[:at]) * prod(after[at + 1 :])
        if others > 0 and total % others == 0:
            return f"\n  hint: {[*after[:at], total // others, *after[at + 1 :]]} would fit"
    factors = [n for n in range(1, total + 1) if total % n == 0] if total <= MOST_COUNTED else []
    if 0 < len(factors) <= MOST_FACTORS:
        return f"\n  hint: the sizes multiply to {total}, so each is one of {', '.join(map(str, factors))}"
    return f"\n  hint: the product of the sizes has to be {total}"


def _reshaped(value: Value, axes: MemoryAxes, old: Rows, new: Rows) -> Value:
    before, after = ([n for kind in MEMORY_ORDER for n in rows[kind]] for rows in (old, new))
    if prod(before) != prod(after) or -1 in after:
        found = "not one size" if -1 in after else f"{prod(after)} elements"
        message = f"`{axes.label}` ({axes.shape}, {prod(before)} elements) cannot be reshaped to {after}"
        raise ShapeError(here(f"{message}, {found}{_way_out(before, after)}"))
    source = [f"s{n}" for n in range(len(before))]
    result = [f"r{n}" for n in range(len(after))]
    dims = {**dict(zip(source, before, strict=True)), **dict(zip(result, after, strict=True))}
    blocks = _blocks(source, result, dims) if prod(before) else [([*source], [*result])]
    merged = [f"m{n}" for n in range(len(blocks))]
    dims |= {name: prod(dims[axis] for axis in block[0]) for name, block in zip(merged, blocks, strict=True)}
    last = Slot(_in_rows(result, new))
    named = [axis for own, _ in blocks for axis in own]
    read = [axis if axis in named else ONLY for axis in source]
    first = Slot(_in_rows(read, {place: [1] * count for place, count in _counts(axes).items()}))
    joined, split = dict[str, str](), dict[str, str]()
    for name, (own, parts) in zip(merged, blocks, strict=True):
        joined[own[0]] = "&".join(own)
        split[name] = "&".join(parts)
    middle = Slot({"batch": [], "input": [], "output": [joined[own[0]] for own, _ in blocks]})
    value = spec_apply(f"{first} => {middle}", "add", "mul", [value], _used(dims, named))
    middle = Slot({"batch": [], "input": [], "output": [split[name] for name in merged]})
    return spec_apply(f"{middle} => {last}", "add", "mul", [value], _used(dims, result))


def _counts(axes: MemoryAxes) -> dict[RowKind, int]:
    return {kind: sum(place.row == kind for place in axes.places) for kind in MEMORY_ORDER}


def _in_rows(names: Sequence[str], rows: Rows) -> dict[RowKind, list[str]]:
    """Names in the order of memory, by rows of as many axes."""
    left = list(names)
    return {kind: [left.pop(0) for _ in rows[kind]] for kind in MEMORY_ORDER}


def _used(dims: Mapping[str, int], names: Sequence[str]) -> list[tuple[str, Dim]]:
    return [(name, Dim(dims[name])) for name in names]


def _blocks(
    source: Sequence[str], result: Sequence[str], dims: Mapping[str, int]
) -> list[tuple[list[str], list[str]]]:
    """The least groups of neighboring axes that have as many elements before and after; axes of size 1 are
    in none.
    """
    before = [name for name in source if dims[name] != 1]
    after = [name for name in result if dims[name] != 1]
    found: list[tuple[list[str], list[str]]] = []
    while before:
        own, parts = [before.pop(0)], [after.pop(0)]
        while (left := prod(dims[n] for n in own)) != (right := prod(dims[n] for n in parts)):
            if left < right:
                own.append(before.pop(0))
            else:
                parts.append(after.pop(0))
        found.append((own, parts))
    return found
