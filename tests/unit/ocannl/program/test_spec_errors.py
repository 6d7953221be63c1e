"""Specs that are malformed or do not fit: the message has the spec, and a caret at what is wrong."""

from __future__ import annotations

import pytest
from support.messages import data, message_of, names_line

import ocannl as oc


class TestSpecs:
    def check(self, spec: str, at: str | None = None, count: int = 1):
        """`at` has a caret under the offending character."""

        def program():
            return oc.einsum(spec, *[data(4, 3)] * count)  # here

        message = message_of(oc.SpecError, program)
        names_line(message, program)
        assert issubclass(oc.SpecError, ValueError)
        assert spec in message
        if at is not None:
            lines = message.splitlines()
            (number,) = [k for k, line in enumerate(lines) if line.strip() == "^"]
            shown = lines[number - 1]
            assert spec in shown
            assert lines[number].index("^") - shown.index(spec) == at.index("^")

    def test_a_lone_equals_sign(self):
        self.check("b | o = b", at="      ^")

    def test_a_character_that_means_nothing(self):
        self.check("b | o => b % o", at="           ^")

    def test_no_result(self):
        self.check("b | o")

    def test_two_results(self):
        self.check("b | o => b => o")

    def test_an_open_row_variable(self):
        self.check("b | ..r => b")

    def test_two_row_variables_in_a_row(self):
        self.check("..a.. ..b.. | o => o")

    def test_two_bars(self):
        self.check("a | b | o => a")

    def test_two_arrows(self):
        self.check("a -> b -> o => a")

    def test_more_slots_than_operands(self):
        self.check("b | o; b | o => b")

    def test_more_operands_than_slots(self):
        self.check("b | o => b", count=2)

    def test_empty(self):
        self.check("")

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("b | s*o, => b | o,", "the coefficient `s` of `s*o`"),
            ("b | a^c => b | a, c", "no part of the concatenations"),
            ("b | o => ..r..&o", "nowhere a row of its own"),
        ],
    )
    def test_what_a_spec_leaves_unsaid(self, spec: str, told: str):
        def program():
            return oc.einsum(spec, data(4, 3))

        assert told in message_of(oc.SpecError, program)

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("b | 2*o => b | o", "does not divide by 2"),
            ("b | 2*o+k => b | o", "leaves 3, which does not divide by 2"),
            ("b | o+5*k => b | o", "a window of size 6 does not fit in an axis of size 5: `o + 5*k`"),
            ("b | o&k => b | o,k", "not divisible by 2"),
            ("b | o^7 => b | o", "`o^7` takes 7 positions or more, the axis has size 5"),
        ],
    )
    def test_sizes_that_do_not_fit(self, spec: str, told: str):
        def program():
            return oc.einsum(spec, data(4, 5), k=2) if "k" in spec else oc.einsum(spec, data(4, 5))

        assert told in message_of(oc.ShapeError, program)

    def test_an_unknown_name_is_fixed(self):
        def program():
            return oc.einsum("b | o => b", data(4, 3), heads=2)  # here

        names_line(message_of(oc.SpecError, program, "heads", "b | o => b"), program)

    @pytest.mark.parametrize("count", [0, 4])
    def test_number_of_operands(self, count: int):
        message_of(oc.SpecError, lambda: oc.einsum("b | o => b", *[data(4, 3)] * count))

    def test_in_an_accumulation(self):
        def program():
            n = oc.node("n", output=1)
            return oc.accumulate(n, "max", data(4, 3), spec="...|... = 0")  # here

        names_line(message_of(oc.SpecError, program, "...|... = 0"), program)


@pytest.mark.parametrize(
    ("spec", "form"),
    [
        ("bi,ij->bj", "here `b i; i j => b j`"),
        ("bij, bjk -> bik", "here `b i j; b j k => b i k`"),
        ("ij ->", "here `i j => 0`"),
        ("b | i", "a spec is `operand; operand => result`"),
    ],
)
def test_the_right_form_of_a_spec_of_numpy(spec: str, form: str):
    operands = [data(2, 2, axes="oo")] * (1 + spec.count(","))
    message_of(oc.SpecError, lambda: oc.einsum(spec, *operands), "the result is missing", form)
