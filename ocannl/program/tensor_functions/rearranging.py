"""Axes in the notation of einops, over the axes of memory (Rogozhnikov, Einops, ICLR 2022)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ocannl.dialects.ir.errors import ShapeError, SpecError
from ocannl.dialects.shapes.shape import Dim, RowKind
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import spec_apply
from ocannl.program.indexing.new_axes import guess_last_axis
from ocannl.program.location import here
from ocannl.program.memory.memory_axes import MEMORY_ORDER, ONLY, MemoryAxes, Slot
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats
from ocannl.program.values import Value

TOKEN = re.compile(r"\s*(\(|\)|\.\.\.|[^\W\d]\w*|1)")
SIZE = re.compile(r"(?<![-.])\b([2-9]|[1-9]\d+)\b(?!\.)")
LETTERS: dict[str, RowKind] = {"b": "batch", "o": "output", "i": "input"}
EACH = ["..."]
"""Stands for an axis for each of those that `...` is."""
REDUCTIONS = {
    "sum": "add",
    "mean": "add",
    "max": "max",
    "min": "min",
    "prod": "mul",
    "any": "or",
    "all": "and",
}


@remembered
def rearrange(t: TensorLike, pattern: str, *, axes: str | None = None, **sizes: int) -> Tensor:
    """Axes in another order, split and joined: `oc.rearrange(t, "b h w -> b (h w)")`, in the notation of
    einops over the axes of memory. All axes of the result but the last are batch axes, or `axes` says which
    is which, one letter an axis, as for `oc.data`.

    Raises `SpecError` for a malformed pattern, `ShapeError` where sizes do not fit or are not known.
    """
    found = _Pattern.of(t, pattern, sizes)
    if missing := found.names_left ^ found.names_right:
        raise SpecError(here(f"`{min(missing)}` is on one side of {pattern!r} only"))
    return Tensor(found.apply("add", axes))


@remembered
def reduce(t: TensorLike, pattern: str, how: str, *, axes: str | None = None, **sizes: int) -> Tensor:
    """Reduces the axes that the right side lacks, by "sum", "mean", "max", "min", "prod", "any" or "all":
    `oc.reduce(t, "b h w -> b", "max")`, or parts of them, `"(h 2) w -> h w"`; otherwise as `oc.rearrange`.
    """
    if how not in REDUCTIONS:
        raise ArgumentError(f"axes are reduced by {', '.join(REDUCTIONS)}, found {how!r}")
    found = _Pattern.of(floats(t) if how == "mean" else t, pattern, sizes)
    if missing := found.names_right - found.names_left:
        raise SpecError(
            here(f"`{min(missing)}` is on the right side of {pattern!r} only: oc.repeat adds axes")
        )
    reduced = Tensor(found.apply(REDUCTIONS[how], axes))
    count = prod(found.sizes[name] for name in found.names_left - found.names_right)
    return reduced / count if how == "mean" else reduced


@remembered
def repeat(t: TensorLike, pattern: str, *, axes: str | None = None, **sizes: int) -> Tensor:
    """Repeats the elements along axes that only the right side has: `oc.repeat(t, "h w -> h w c", c=3)`,
    or `"h w -> (h 2) w"`; otherwise as `oc.rearrange`.
    """
    found = _Pattern.of(t, pattern, sizes)
    if missing := found.names_left - found.names_right:
        raise SpecError(
            here(f"`{min(missing)}` is on the left side of {pattern!r} only: oc.reduce drops axes")
        )
    return Tensor(found.apply("add", axes))


@dataclass
class _Pattern:
    """A pattern over the axes of a value: groups of names for each axis, and the sizes of all names."""

    text: str
    value: Value
    axes: MemoryAxes
    left: list[list[str]]
    right: list[list[str]]
    sizes: dict[str, int]

    @staticmethod
    def of(t: TensorLike, pattern: str, given: Mapping[str, int]) -> _Pattern:
        value = as_tensor(t).ir_value
        axes = MemoryAxes(value)
        actual = [axes.known_size(place) for place in axes.places]
        text, numbers = _with_names(pattern) if isinstance(pattern, str) else ("", {})
        given, sides = {**given, **numbers}, text.split("->")
        if len(sides) != 2:
            raise SpecError(here(f"a pattern has two sides, as 'a b -> b a'; found {pattern!r}"))
        own, others = (_groups(side, pattern) for side in sides)
        prefix = "e"
        while any(name.startswith(prefix) for group in own + others for name in group):
            prefix += "e"
        rest = [f"{prefix}{n}" for n in range(len(actual) - len(own) + own.count(EACH))]
        left, right = _expanded(own, rest), _expanded(others, rest)
        names = [name for group in left for name in group]
        if len(left) != len(actual):
            raise ShapeError(
                here(f"{pattern!r} has {len(left)} axes for `{axes.label}` of shape {axes.shape}")
            )
        if len(set(names)) < len(names):
            raise SpecError(here(f"an axis is named twice on the left side of {pattern!r}"))
        if len(others := [name for group in right for name in group]) > len(set(others)):
            raise SpecError(here(f"an axis is named twice on the right side of {pattern!r}"))
        found = _Pattern(pattern, value, axes, left, right, {})
        found.solve(actual, {name: integer(size, f"the size of `{name}`") for name, size in given.items()})
        return found

    def solve(self, actual: list[int], given: dict[str, int]) -> None:
        """Finds the sizes of all names."""
        for group, size in zip(self.left, actual, strict=True):
            unknown = [name for name in group if name not in given]
            known = prod(given[name] for name in group if name in given)
            if len(unknown) == 1 and known and size % known == 0:
                given[unknown[0]] = size // known
            elif unknown or known != size:
                what = f"`({' '.join(group)})` in {self.text!r} does not fit an axis of size {size}"
                raise ShapeError(here(f"{what}; give the sizes of all of its names but one"))
        if lacking := [name for name in self.names_right if name not in given]:
            raise ShapeError(here(f"the size of `{min(lacking)}` in {self.text!r} is not known: give it"))
        self.sizes = given

    @property
    def names_left(self) -> set[str]:
        return {name for group in self.left for name in group}

    @property
    def names_right(self) -> set[str]:
        return {name for group in self.right for name in group}

    def apply(self, accum: str, letters: str | None) -> Value:
        """The operation, with the rows that letters say."""
        count = len(self.right)
        is_guess = letters is None and count > 0
        letters = "b" * (count - 1) + "o" * min(count, 1) if letters is None else letters
        if (
            len(letters) != count
            or "".join(sorted(letters, key="boi".find)) != letters
            or set(letters) - {*"boi"}
        ):
            raise ArgumentError(
                f"axes={letters!r}: one letter b, o or i for each of {count} axes, in this order"
            )
        dims = {name: Dim(size) for name, size in self.sizes.items()}
        source: dict[RowKind, list[str]] = {kind: [] for kind in MEMORY_ORDER}
        result: dict[RowKind, list[str]] = {kind: [] for kind in MEMORY_ORDER}
        for place, group in zip(self.axes.places, self.left, strict=True):
            source[place.row].append("&".join(group) or ONLY)
        for letter, group in zip(letters, self.right, strict=True):
            result[LETTERS[letter]].append(_axis(group, dims))
        spec = f"{Slot(source)} => {Slot(result)}"
        made = spec_apply(spec, accum, "mul", [self.value], [*dims.items()])
        return guess_last_axis(made, self.value) if is_guess else made


def _axis(group: list[str], dims: dict[str, Dim]) -> str:
    """An axis of a result for a group of names; an empty one is of size 1."""
    if group:
        return "&".join(group)
    name = f"unit{len(dims)}"
    while name in dims:
        name += "_"
    dims[name] = Dim(1)
    return name


def _with_names(pattern: str) -> tuple[str, dict[str, int]]:
    """The pattern with a name for each size that is a number, as in "h w -> (h 2) w", and these sizes."""
    sizes: dict[str, int] = {}

    def named(found: re.Match[str]) -> str:
        name = f"size_{len(sizes)}_of_{found[0]}"
        sizes[name] = int(found[0])
        return name

    return SIZE.sub(named, pattern), sizes


def _groups(side: str, pattern: str) -> list[list[str]]:
    """The names of each axis of a side."""
    found: list[list[str]] = []
    inside, at = False, 0
    text = side.rstrip()
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None or token[1] == ("(" if inside else ")"):
            raise SpecError(here(f"{pattern!r} is no pattern: see `{text[at:].strip()}`"))
        at = token.end()
        match token[1]:
            case "(":
                inside = True
                found.append([])
            case ")":
                inside = False
            case "1":
                if not inside:
                    found.append([])
            case "..." if not inside:
                found.append(EACH)
            case name if inside:
                found[-1].append(name)
            case name:
                found.append([name])
    if inside:
        raise SpecError(here(f"a bracket is open in {pattern!r}"))
    return found


def _expanded(groups: list[list[str]], rest: list[str]) -> list[list[str]]:
    """With axes of their own for `...`; in brackets they are joined."""
    found: list[list[str]] = []
    for group in groups:
        if group is EACH:
            found += [[name] for name in rest]
        else:
            found.append([name for part in group for name in (rest if part == "..." else [part])])
    return found
