"""Specs of all forms compute, accumulate, choose, infer and differentiate as the language says, without a
difference in f64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, note, settings
from support.spec_claims import CLAIMS, SOME, Place
from support.written_specs import Axis

import ocannl as oc
from ocannl.dialects.shapes import spec

MANY = settings(SOME, max_examples=10_000, derandomize=False, database=None)


def checked(check: Callable[..., None], *args: Any) -> None:
    note(f"{args[0].text!r}: {args}")
    check(Place(oc.Context.cpu(threads=1), np.float64), *args)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("claim", CLAIMS)
def test_specs_mean_what_the_language_says(claim: str):
    check, strategy = CLAIMS[claim]
    SOME(given(strategy)(lambda args: checked(check, *args)))()


@pytest.mark.exhaustive
@pytest.mark.parametrize("claim", CLAIMS)
def test_thousands_of_specs_mean_what_the_language_says(claim: str):
    check, strategy = CLAIMS[claim]
    MANY(given(strategy)(lambda args: checked(check, *args)))()


def test_no_form_is_left_out():
    forms = {form.__name__ for form in get_args(spec.Axis)}
    assert forms == {form.__name__ for form in get_args(Axis)}
