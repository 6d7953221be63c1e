"""Checks that a schedule fits a nest or a group. Each raises `VerifyException`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops.schedule import Schedule


def check_merged(schedule: Schedule, spaces: Sequence[Space], addresses: Sequence[Address]) -> None:
    """Merged variables are of one space, and every access moves by equal steps along them."""
    names = [name for group in schedule.merged for name in group]
    if len(set(names)) < len(names):
        raise VerifyException("a variable stands twice in the schedule's `merged`")
    for group in schedule.merged:
        loop = "*".join(group)
        sizes = next((sizes for sizes in map(dict, spaces) if sizes.keys() >= set(group)), None)
        if len(group) < 2 or sizes is None:
            raise VerifyException(f"merged `{loop}` is no group of variables of one space")
        if not all(address.moves_as_one(group, sizes) for address in addresses):
            raise VerifyException(f"an access does not move by equal steps along `{loop}`")


def check_order(schedule: Schedule, own: Collection[str]) -> None:
    """The order, if it is given, has every loop of the nest once."""
    if schedule.order and (set(schedule.order) != set(own) or len(schedule.order) != len(own)):
        raise VerifyException(
            f"the schedule's order {schedule.order} is no permutation of the nest's variables"
        )


def check_tile(schedule: Schedule, own: Collection[str], reduced: Collection[str]) -> None:
    """Rows are along a loop of the nest, lanes along another one or a loop of its reductions."""
    rows, lanes = schedule.rows, schedule.lanes
    if rows and rows[0] not in own:
        raise VerifyException(f"rows `{rows[0]}` is not a variable of the nest")
    if lanes and lanes[0] not in own and lanes[0] not in reduced:
        raise VerifyException(f"lanes `{lanes[0]}` is not a variable of the nest or its reductions")
    if rows and lanes and rows[0] == lanes[0]:
        raise VerifyException("rows and lanes are different variables")
    if any(size < 1 for _, size in schedule.tiles):
        raise VerifyException("a tile has at least one element")


def check_parallel(schedule: Schedule, space: Space, clashing: Collection[str], kind: str) -> None:
    """Parallel blocks are whole tiles, along loops whose points store to different elements."""
    names = [name for name, _ in schedule.parallel]
    if len(set(names)) < len(names):
        raise VerifyException("a variable stands twice in the schedule's `parallel`")
    own = schedule.loops(space)
    for name, size in schedule.parallel:
        if name not in own:
            raise VerifyException(f"parallel `{name}` is not a variable of the {kind}")
        tile = schedule.tile(name)
        if size < 1 or size % tile:
            raise VerifyException(f"a parallel block of `{name}` has whole tiles of {tile}, found {size}")
        if any(variable in clashing for variable in name.split("*")):
            raise VerifyException(in_turn([name]))


def check_strips(schedule: Schedule, own: Collection[str], clashing: Collection[str]) -> None:
    """Strips have whole tiles, of a loop whose points store to different elements, and tasks whole strips."""
    if schedule.strips is None:
        return
    loop, size = schedule.strips
    if loop not in own:
        raise VerifyException(f"strips `{loop}` is not a variable of the nest")
    if size < 1 or size % schedule.tile(loop):
        raise VerifyException(f"a strip of `{loop}` has whole tiles of {schedule.tile(loop)}, found {size}")
    block = dict(schedule.parallel).get(loop, size)
    if block % size:
        raise VerifyException(f"a parallel block of `{loop}` has whole strips of {size}, found {block}")
    if any(variable in clashing for variable in loop.split("*")):
        raise VerifyException(in_turn([loop]))


def in_turn(loops: Sequence[str]) -> str:
    """The message for points that cannot run together."""
    text = ", ".join(f"`{loop}`" for loop in loops)
    return f"points that differ in {text} store to the same cell, so run in turn"
