"""The dataclasses of the layers are as those of the standard library."""

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from copy import copy
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from ocannl.dialects import records

FLAGS = (False, True)
KINDS = [{"frozen": a, "slots": b, "eq": c} for a in FLAGS for b in FLAGS for c in FLAGS]


def made(decorator: Any, **options: Any) -> Any:
    @decorator(**options)
    class Point:
        """Has all kinds of fields."""

        x: int
        y: float = 2.0
        tags: list[str] = field(default_factory=list[str], repr=False)
        kept: str = field(default="kept", init=False)
        found: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)
        late: int = field(init=False)
        name: str = field(default="p", kw_only=True)
        other: int = field(kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "late", self.x + 1)

    return Point


def both(**options: Any) -> tuple[Any, Any]:
    return made(records.dataclass, **options), made(dataclasses.dataclass, **options)


def outcome(run: Callable[[], object]) -> object:
    """The result, or the error."""
    try:
        return run()
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_objects_are_those_of_the_standard_library(options: dict[str, bool]):
    def facts(kind: Any) -> list[object]:
        point, same, other = kind(1, other=3), kind(1, other=3), kind(1, 2.5, ["a"], name="q", other=3)
        return [
            repr(point),
            repr(other),
            dataclasses.asdict(other),
            point == same,
            point == other,
            point == 1,
            options["eq"] and outcome(lambda: hash(point) == hash(same)),
            point.tags is same.tags,
            kind.__match_args__,
            kind.__hash__ is None,
            [(at.name, at.type) for at in dataclasses.fields(kind)],
            [(at.name, at.kind, at.annotation) for at in inspect.signature(kind).parameters.values()],
            kind.__init__.__qualname__,
            kind.__doc__,
            hasattr(point, "__dict__"),
            dataclasses.replace(other, y=7.0).y,
            copy(other).tags == ["a"],
            outcome(lambda: setattr(point, "x", 4)),
            outcome(lambda: delattr(same, "y") or hasattr(same, "y")),
            outcome(lambda: kind(1)),
            outcome(lambda: kind(1, 2.0, [], "kept", other=3)),
        ]

    ours, standard = both(**options)
    assert facts(ours) == facts(standard)


@records.dataclass(frozen=True, slots=True)
class Slotted:
    """A frozen class with slots, by a name that pickling finds."""

    x: int
    y: tuple[int, ...] = ()


def test_frozen_objects_with_slots_are_pickled():
    assert pickle.loads(pickle.dumps(Slotted(1, (2,)))) == Slotted(1, (2,))


def test_what_is_frozen_stays():
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Slotted(1).__setattr__("x", 2)
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        Slotted(1).__delattr__("x")


def test_own_methods_stay():
    @records.dataclass(frozen=True)
    class Loose:
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose)

        def __repr__(self) -> str:
            return "loose"

    @records.dataclass(frozen=True)
    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 5

    assert Loose(1) == Loose(2)
    assert repr(Loose(1)) == "loose"
    assert hash(Loose(1)) == hash((1,))
    assert hash(Hashed(1)) == 5


@pytest.mark.parametrize("decorator", [records.dataclass, dataclasses.dataclass])
def test_classes_extend_others(decorator: Any):
    @decorator(frozen=True)
    class Longer(Slotted):
        z: int = 3

    assert Longer(1) == Longer(1, (), 3) != Longer(1, (), 4)
    with pytest.raises(FrozenInstanceError):
        Longer(1).__setattr__("z", 2)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        decorator(type("Free", (Slotted,), {}))


def test_a_text_tells_what_contains_itself():
    @records.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node) == f"{Node.__qualname__}(next=...)"
