"""Origins: sets of locations that are compared by identity, printed and read again."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir import origins as origins_module
from ocannl.dialects.ir.origins import (
    across_layers,
    at,
    check_origins,
    derive,
    in_layer,
    is_known,
    merge,
    name_of,
    named,
    origins,
    place,
    union,
    without_origins,
)
from ocannl.lowering.pipelines import module_text, parse_text

A, B, C = (named(name, place("model.py", line)) for line, name in enumerate("abc", 1))
LOCATIONS = st.lists(st.sampled_from([A, B, C, place("x.mlir", 3, 5), UNKNOWN_LOC]), min_size=1).map(
    lambda some: union(*some)
)


@given(LOCATIONS, LOCATIONS, LOCATIONS)
def test_unions_are_ordered_sets(a: LocationAttr, b: LocationAttr, c: LocationAttr):
    assert origins(union(a, b)) == tuple(dict.fromkeys((*origins(a), *origins(b))))
    assert union(a, a) is a
    assert union(union(a, b), c) is union(a, union(b, c))
    assert union(a, UNKNOWN_LOC) is a


def test_an_origin_has_a_name_and_a_place():
    assert named("a", place("model.py", 1)) is A
    assert name_of(A) == "a"
    assert name_of(place("x.mlir", 3, 5)) is None
    assert at(union(B, A)) is place("model.py", 2)
    assert at(named("here", UNKNOWN_LOC)) is None
    assert not is_known(UNKNOWN_LOC)
    assert is_known(named("here", UNKNOWN_LOC))


def test_what_replaces_others_comes_from_all():
    one, other = TestOp(), TestOp()
    one.location, other.location = A, union(B, A)
    merge(one, other)
    assert origins(one.location) == (A, B)


def test_what_is_made_comes_from_where_its_maker_says():
    inner, known = TestOp(), TestOp()
    known.location = B
    outer = TestOp(regions=[Region(Block([inner, known]))])
    derive([outer], A)
    assert [op.location for op in outer.walk()] == [A, A, B]


def test_what_stands_for_layers_comes_from_one_in_each():
    layered = union(C, across_layers([A, B]))
    assert origins(in_layer(layered, 0)) == (C, A)
    assert origins(in_layer(layered, 1)) == (C, B)
    assert origins(in_layer(layered, None)) == (C, A, B)
    assert in_layer(C, 1) is C


@pytest.mark.parametrize(
    "location",
    [
        A,
        place("x.mlir", 3, 5),
        named("no place", UNKNOWN_LOC),
        union(A, B, place("x.mlir", 3, 5)),
        union(C, across_layers([A, B])),
    ],
    ids=str,
)
def test_text_holds_origins_on_request(location: LocationAttr):
    module = ModuleOp([])
    module.location = location
    assert "loc(" not in module_text(module)
    assert parse_text(module_text(module, origins=True)).location is location


def test_a_lost_origin_is_found():
    inner = TestOp()
    module = ModuleOp([inner])
    derive([module], A)
    check_origins(module)
    inner.location = UNKNOWN_LOC
    assert without_origins(module) == [inner]
    with pytest.raises(VerifyException, match=r"`test\.op` .* lost"):
        check_origins(module)


def test_locations_are_those_that_xdsl_makes():
    made = FileLineColLoc(StringAttr("model.py"), IntAttr(1), IntAttr(0))
    named_ = NameLoc(StringAttr("a"), made)
    fused = FusedLoc(ArrayAttr([named_, B]), NoneAttr())
    for own, checked in [(place("model.py", 1), made), (A, named_), (union(A, B), fused)]:
        assert own == checked
        assert hash(own) == hash(checked)
        assert str(own) == str(checked)


KNOWN = dict(origins_module._LOCATIONS)


@pytest.fixture(autouse=True, scope="module")
def locations() -> Iterator[None]:
    """The table has this module's locations again, though other tests may have made it begin anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origins_module, "_LOCATIONS", dict(KNOWN))
        yield
