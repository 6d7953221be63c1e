"""The einsum notation reads, prints and explains its errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocannl.dialects.shapes.spec import (
    Affine,
    Anything,
    Axis,
    Concat,
    Fixed,
    Name,
    Padding,
    Product,
    RowPart,
    RowSpec,
    Slot,
    Spec,
    Term,
)
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec


def names(text: str) -> tuple[Axis, ...]:
    return tuple(map(Name, text))


def slot(batch: RowSpec | None = None, input: RowSpec | None = None, output: RowSpec | None = None) -> Slot:
    return Slot(batch or RowSpec(), input or RowSpec(), output or RowSpec())


def only_axis(text: str) -> Axis:
    """The one axis of the first operand's output row."""
    (axis,) = parse_spec(text).operands[0].output.axes
    return axis


def test_attention_spec():
    spec = parse_spec("... s|hd; ... t|hd => ... s|t->h")
    query = slot(RowSpec((), "batch", names("s")), None, RowSpec(names("hd")))
    keys = slot(RowSpec((), "batch", names("t")), None, RowSpec(names("hd")))
    result = slot(RowSpec((), "batch", names("s")), RowSpec(names("t")), RowSpec(names("h")))
    assert spec == Spec((query, keys), result)


def test_ellipsis_is_named_by_its_place():
    assert parse_spec("...|...->... => 0") == parse_spec("..batch..|..input..->..output.. => 0")


def test_row_variables_have_long_names_without_commas():
    assert parse_spec("ab..rest..c=>").operands[0].output == RowSpec(names("ab"), "rest", names("c"))


def test_comma_mode():
    spec = parse_spec("..b.., height, 12 | width => ..b.. height, height_2, _,")
    assert spec.operands[0].batch == RowSpec((), "b", (Name("height"), Fixed(12)))
    assert spec.result.output == RowSpec((), "b", (Name("height"), Name("height_2"), Anything()))


def test_letters_and_digits_are_axes_without_commas():
    assert parse_spec("i 0_j => i").operands[0].output.axes == (Name("i"), Fixed(0), Anything(), Name("j"))


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("2*o => o", Affine((Term(2, "o"),))),
        ("2*o+k => o", Affine((Term(2, "o"), Term(1, "k")))),
        ("o+1 => o", Affine((Term(1, "o"),), 1)),
        ("s*o =+ d*k => o", Affine((Term("s", "o"), Term("d", "k")), 0, Padding.PADDED)),
        ("2*o<+3*k+1 => o", Affine((Term(2, "o"), Term(3, "k")), 1, Padding.VALID)),
        ("o =+ -k + 2*j => o", Affine((Term(1, "o"), Term(1, "k", True), Term(2, "j")), 0, Padding.PADDED)),
        ("-o => o", Affine((Term(1, "o", True),))),
        ("stride*oh =+ kh, => oh", Affine((Term("stride", "oh"), Term(1, "kh")), 0, Padding.PADDED)),
        ("1*o => o", Name("o")),
        ("a^b => a", Concat((Name("a"), Name("b")))),
        ("3^a^5 => a", Concat((Fixed(3), Name("a"), Fixed(5)))),
        ("h&w&c => h", Product((Name("h"), Name("w"), Name("c")))),
        ("...&c => c", Product((RowPart("output"), Name("c")))),
        ("h & ..rest.. => h", Product((Name("h"), RowPart("rest")))),
    ],
)
def test_compound_axes(text: str, axis: Axis):
    assert only_axis(text) == axis


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "result is missing"),
        ("ij;jk", 5, "result is missing"),
        ("i => j => k", 7, "nothing may follow"),
        ("i => j; k", 6, "nothing may follow"),
        ("a -> b -> c => a", 7, "second `->`"),
        ("a | b | c => a", 6, "second `|`"),
        ("a -> b | c => a", 2, "before `->`"),
        ("... ... => a", 4, "one row variable"),
        ("..x => a", 0, "write `..x..`"),
        (".a => a", 0, "`...` or `..name..`"),
        ("a = b", 2, "did you mean `=>`"),
        ("a - b => a", 2, "did you mean `->`"),
        ("a $ => a", 2, "means nothing"),
        ("a 16 => a", 2, "several digits"),
        ("a, b c => a", 5, "comma is missing"),
        ("a,,b => a", 2, "missing before this comma"),
        (f"a, {'9' * 5000} => a", 3, "too large"),
        ("^a => a", 0, "needs an axis before"),
        ("a^ => a", 3, "joins names and sizes"),
        ("a^b&c => a", 3, "cannot follow"),
        ("2*3 => a", 2, "coefficient comes first"),
        ("o*2 => o", 2, "coefficient comes first"),
        ("0*o => o", 0, "1 or more"),
        ("1+2 => a", 0, "needs a dimension"),
        ("a <+ b =+ c => a", 7, "stands once, after the first dimension"),
        ("a - b => a", 2, "`-` stands before a reversed dimension, as in `o + -k`; did you mean `->`?"),
        ("b|i - o => b", 4, "did you mean `->`?"),
        ("a + -2 => a", 5, "an offset is added: `1^a => a` leaves the first cell out"),
        (
            "o-1 => o",
            1,
            "an offset is added: `1^a => a` leaves the first cell out, `a => 1^a` puts one before",
        ),
        ("2*o - 1 => o", 4, "an offset is added"),
        ("o - 2*k => o", 2, "as in `o + -k`; did you mean `->`?"),
        ("a =+ 1 => a", 2, "joins two dimensions"),
    ],
)
def test_errors_point_at_the_character(text: str, offset: int, message: str):
    with pytest.raises(SpecSyntaxError) as caught:
        parse_spec(text)
    error = caught.value
    assert (error.offset, error.text) == (offset, text)
    assert message in error.message
    assert str(error).splitlines()[-1] == " " * (offset + 2) + "^"


@pytest.mark.parametrize(("operands", "offset"), [(1, 2), (3, 3)])
def test_number_of_operands(operands: int, offset: int):
    with pytest.raises(SpecSyntaxError, match=f"is for 2 operands, and is used with {operands}") as caught:
        parse_spec("i;j=>ij", operands)
    assert caught.value.offset == offset


def test_number_of_operands_that_fits():
    assert len(parse_spec("i;j=>ij", 2).operands) == 2


def test_error_shows_the_spec_on_one_line():
    with pytest.raises(SpecSyntaxError) as caught:
        parse_spec("i\n\tj?")
    assert str(caught.value) == "'?' means nothing in a spec\n  i  j?\n      ^"


def test_names_used_once():
    spec = parse_spec("b, height | in => b, heigth, 2*out + in")
    assert spec.names_used_once() == ("height", "heigth", "out")


def test_printing():
    assert str(parse_spec("...s|hd;...t|hd=>...s|t->h")) == "... s | h d; ... t | h d => ... s | t -> h"
    assert str(parse_spec("height,=>0")) == "height, => 0,"
    assert str(parse_spec("..b..,height->w=>..b..")) == "..b.., height -> w => ..b.."


words = st.from_regex(r"\A[a-zA-Z][a-zA-Z0-9_]{0,4}\Z")


def axes_over(name: st.SearchStrategy[str], most: int) -> st.SearchStrategy[Axis]:
    named = st.builds(Name, name)
    fixed = st.builds(Fixed, st.integers(0, most))
    coefficient = st.integers(1, most) | name
    term = st.builds(Term, coefficient, name, st.booleans())
    terms = st.lists(term, min_size=2, max_size=3).map(tuple)
    several = st.builds(Affine, terms, st.integers(0, most), st.sampled_from(Padding))
    strided = st.builds(Affine, st.tuples(st.builds(Term, st.integers(2, most) | name, name, st.booleans())))
    concat = st.builds(Concat, st.lists(named | fixed, min_size=2, max_size=3).map(tuple))
    factor = named | st.builds(RowPart, words)
    product = st.builds(Product, st.lists(factor, min_size=2, max_size=3).map(tuple))
    return named | fixed | st.just(Anything()) | several | strided | concat | product


def specs(name: st.SearchStrategy[str], most: int) -> st.SearchStrategy[Spec]:
    some = st.lists(axes_over(name, most), max_size=2).map(tuple)
    closed = st.builds(RowSpec, some)
    row = closed | st.builds(RowSpec, some, st.sampled_from(["batch", "input", "output"]) | words, some)
    slots = st.builds(Slot, row, row, row)
    return st.builds(Spec, st.lists(slots, min_size=1, max_size=3).map(tuple), slots)


@given(specs(st.from_regex(r"\A[a-zA-Z]\Z"), 9) | specs(words, 1000))
def test_printed_specs_parse_back(spec: Spec):
    assert parse_spec(str(spec)) == spec


@given(st.text(max_size=20) | st.text("abz01_.,;|->=+<*^& ", max_size=20))
def test_nothing_but_spec_errors(text: str):
    error = None
    try:
        spec = parse_spec(text)
    except SpecSyntaxError as caught:
        error = caught
    else:
        assert parse_spec(str(spec)) == spec
    assert error is None or (0 <= error.offset <= len(text) and str(error))
