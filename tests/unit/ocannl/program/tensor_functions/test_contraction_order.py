"""Products of many operands, and specs of pointwise functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ocannl as oc
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.program.tensor_functions.contraction_order import contraction_steps

RNG = np.random.default_rng(0)
SIZES = dict(zip("abcdef", (2, 3, 4, 5, 2, 3), strict=True))


def value(tensor: oc.Tensor) -> Any:
    return np.asarray(oc.Context.cpu(threads=1)[tensor])


AXES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True)
SLOTS = st.lists(AXES, min_size=4, max_size=5)


@settings(deadline=None, max_examples=8)
@given(SLOTS, st.data())
def test_as_numpy(slots: list[list[str]], data: st.DataObject):
    names = sorted({name for slot in slots for name in slot})
    result = data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    arrays = [RNG.normal(size=[SIZES[name] for name in slot]) for slot in slots]
    tensors = [oc.data(a, axes="o" * a.ndim) for a in arrays]
    spec = "; ".join(" ".join(slot) for slot in slots) + " => " + " ".join(result)
    wanted = np.einsum(",".join(map("".join, slots)) + "->" + "".join(result), *arrays)
    np.testing.assert_allclose(value(oc.einsum(spec, *tensors)), wanted, rtol=1e-11, atol=1e-12)


def steps(spec: str, *shapes: tuple[int, ...]) -> list[str]:
    tensors = [oc.data(np.zeros(shape), axes="bo"[-len(shape) :]).ir_value for shape in shapes]
    return [str(step.spec) for step in contraction_steps(parse_spec(spec, len(shapes)), tensors, {})]


def test_the_cheapest_order():
    """A chain of matrices begins where it gets small."""
    chain = "i|j; j|k; k|l; l|m => i|m"
    assert steps(chain, (100, 100), (100, 100), (100, 100), (100, 1))[0] == "k | l; l | m => k m"
    assert steps(chain, (1, 100), (100, 100), (100, 100), (100, 100))[0] == "i | j; j | k => i | k"


def test_rows_and_gradients():
    x, a, b, c = RNG.normal(size=(2, 3, 4)), *(RNG.normal(size=s) for s in ((5, 4), (6, 5), (2, 6)))
    tensors = [oc.data(x), *(oc.data(m, axes="bo") for m in (a, b, c))]
    product = oc.einsum("... | j; i|j; k|i; l|k => ... | l", *tensors)
    np.testing.assert_allclose(value(product), x @ a.T @ b.T @ c.T, rtol=1e-12)
    slope = oc.grad(oc.sum(product * product), tensors[2])
    left, right = x @ a.T, 2 * (x @ a.T @ b.T @ c.T) @ c
    np.testing.assert_allclose(value(slope), np.einsum("xyk,xyi->ki", right, left), rtol=1e-12)


def test_sizes_are_fixed_and_captured():
    n, vectors = oc.Dim("n"), [oc.data(np.arange(4.0))] * 4
    assert value(oc.einsum("a; a; a; a =>", *vectors, a=n) / n) == np.mean(np.arange(4.0) ** 4)
    with pytest.raises(oc.ShapeError):
        oc.einsum("a; a; a; a =>", *vectors, a=3)


@pytest.mark.parametrize("spec", ["a; b; c; a&b => c", "a; b; c => a", "a; b; c; ["])
def test_specs_that_cannot_be(spec: str):
    with pytest.raises(oc.SpecError):
        oc.einsum(spec, *[oc.data(np.ones(2))] * 4)


def test_a_choice_by_a_spec():
    mask, a, b = RNG.integers(0, 2, (3, 4)), RNG.normal(size=4), RNG.normal(size=3)
    tensors = oc.data(mask, axes="oo"), oc.data(a), oc.data(b)
    chosen = oc.where(*tensors, spec="s t; t; s => t s")
    np.testing.assert_array_equal(value(chosen), np.where(mask, a, b[:, None]).T)
    slope = oc.grad(oc.sum(chosen), tensors[1])
    np.testing.assert_array_equal(value(slope), mask.sum(0))


def test_outer_functions_by_a_spec():
    a, b = RNG.normal(size=4), RNG.normal(size=3)
    found = oc.maximum(oc.data(a), oc.data(b), spec="x; y => x y")
    np.testing.assert_array_equal(value(found), np.maximum(a[:, None], b))
    split = oc.exp(oc.data(a), spec="h&w => h, w", h=2)
    np.testing.assert_allclose(value(split), np.exp(a.reshape(2, 2)), rtol=1e-15)


def test_pointwise_functions_accumulate_nothing():
    with pytest.raises(oc.SpecError, match=r"add accumulates nothing, and the result of .* has no `b`"):
        oc.add(oc.data(np.ones(2)), oc.data(np.ones(3)), spec="a; b => a")
    with pytest.raises(oc.ArgumentError, match="sizes by name, such as h, belong to a `spec`"):
        oc.exp(oc.data(np.ones(2)), h=2)
    with pytest.raises(oc.SpecError):
        oc.exp(oc.data(np.ones(2)), spec="[")
