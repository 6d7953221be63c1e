"""Locations that are made when something looks at them."""

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, MemRefType, f32

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.late_locations import locate_late
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.ir.origins import place


def node() -> NodeOp:
    return NodeOp("w", "local", "intermediate value", MemRefType(f32, [2]))


def test_a_location_is_made_once_and_only_if_asked_for():
    made: list[LocationAttr] = []

    def make() -> LocationAttr:
        made.append(place("program.py", 3, 1))
        return made[-1]

    op = node()
    locate_late(op, make)
    op.verify()
    assert not made
    assert op.location is op.location is place("program.py", 3, 1)
    assert len(made) == 1


def test_a_copy_has_the_location_that_the_operation_would_get():
    op = node()
    locate_late(op, lambda: place("program.py", 3, 1))
    assert copied(op, {}).location is op.clone().location is place("program.py", 3, 1)


def test_a_location_that_is_given_stays():
    op = node()
    locate_late(op, lambda: place("program.py", 3, 1))
    op.location = UNKNOWN_LOC
    assert op.location is UNKNOWN_LOC


def test_an_operation_without_any_location_is_a_mistake():
    op = node()
    del op.location
    with pytest.raises(AttributeError, match="location"):
        _ = op.location
