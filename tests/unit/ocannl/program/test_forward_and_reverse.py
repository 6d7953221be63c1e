"""Tangents and gradients are slopes, and those of gradients too; forward mode transposes reverse mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from support.derivatives import data, letters, value, values
from support.operators import BELOW_ONE, FLOAT_OPERATORS, POSITIVE
from support.spec_cases import sized_cases
from support.tensor_programs import Program, axes_of, programs
from support.tensors import Array, total
from support.written_specs import Case

import ocannl as oc
from ocannl.program.tensor_functions.operators import PUBLIC_NAMES

RNG = np.random.default_rng(11)
RANDOM = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
STEP = 1e-5


def smooth_points(name: str) -> list[Array]:
    """Operands away from the kinks, which lie at multiples of 1/2, and from each other."""
    random = np.random.default_rng(3)
    arity = FLOAT_OPERATORS[name].arity
    magnitude = random.uniform(0.1, 0.4, (arity, 7)) + random.integers(0, 4, (arity, 7)) / 2
    if name in BELOW_ONE:
        magnitude *= 0.4
    if name == "acosh":
        magnitude += 1
    sign = 1.0 if name in POSITIVE else random.choice([-1.0, 1.0], (arity, 7))
    return list(magnitude * sign)


def differences(function: Callable[[list[Array]], Array], arrays: list[Array], steps: list[Array]) -> Array:
    """The derivative of a function in a direction."""
    ends = [function([a + sign * STEP * s for a, s in zip(arrays, steps, strict=True)]) for sign in (1, -1)]
    return (ends[0].astype(np.float64) - ends[1]) / (2 * STEP)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", FLOAT_OPERATORS)
def test_operators_twice(name: str):
    """Tangents and gradients are slopes, and so are the tangents and gradients of gradients."""
    op, arrays = FLOAT_OPERATORS[name], smooth_points(name)
    steps = [RNG.normal(size=7) for _ in arrays]
    xs, ts = [data(a) for a in arrays], [data(s, "step") for s in steps]
    weight = RNG.normal(size=7)
    y = getattr(oc, PUBLIC_NAMES.get(name, name))(*xs)
    gradients = oc.vjp(y, xs, data(weight))
    tangent = oc.jvp(y, xs, ts)
    forward = oc.jvp(gradients, xs, ts)
    along = sum((g * t for g, t in zip(gradients, ts, strict=True)), oc.constant(0.0))
    reverse = oc.grad(total(along), xs)
    first, *rest = values(tangent, *gradients, *forward, *reverse)
    count = op.arity
    wanted = differences(lambda a: op.reference(*a), arrays, steps)
    np.testing.assert_allclose(first, wanted, rtol=1e-6, atol=1e-7)
    slope = sum(g * s for g, s in zip(rest[:count], steps, strict=True))
    np.testing.assert_allclose(slope, weight * wanted, rtol=1e-6, atol=1e-7)

    def slopes(a: list[Array], wrt: int) -> Array:
        def unit(k: int) -> Array:
            return np.full(7, float(k == wrt))

        exact = [data(x) for x in a]
        moved = getattr(oc, PUBLIC_NAMES.get(name, name))(*exact)
        return weight * value(oc.jvp(moved, exact, [data(unit(k)) for k in range(count)]))

    for wrt in range(count):
        second = differences(lambda a, wrt=wrt: slopes(a, wrt), arrays, steps)
        np.testing.assert_allclose(rest[count + wrt], second, rtol=1e-5, atol=1e-6)
    sums = [float(np.sum(a * s)) for a, s in zip(rest[count : 2 * count], steps, strict=True)]
    others = [float(np.sum(a * s)) for a, s in zip(rest[2 * count :], steps, strict=True)]
    assert sum(sums) == pytest.approx(sum(others), rel=1e-9, abs=1e-9)


def check_transposed(y: oc.Tensor, xs: list[oc.Tensor], arrays: list[Array], seed: int):
    """<jvp(x, t), ct> = <t, vjp(ct)>, of the first derivative and of that of the gradient."""
    random = np.random.default_rng(seed)
    oc.infer(y)
    weight = random.normal(size=y.shape.array)
    steps = [random.normal(size=a.shape) for a in arrays]
    cotangent = oc.data(weight, axes=letters(y), label="ct")
    ts = [oc.data(s, axes=letters(x), label="step", dtype=np.float64) for s, x in zip(steps, xs, strict=True)]
    gradients = oc.vjp(y, xs, cotangent)
    again = sum((total(g * t) for g, t in zip(gradients, ts, strict=True)), oc.constant(0.0))
    found = values(oc.jvp(y, xs, ts), *gradients, *oc.jvp(gradients, xs, ts), *oc.grad(again, xs))
    tangent, rest = found[0], found[1:]
    firsts, forwards, reverses = (rest[k * len(xs) : (k + 1) * len(xs)] for k in range(3))
    right = [float(np.sum(g * s)) for g, s in zip(firsts, steps, strict=True)]
    size = 1 + sum(map(abs, right)) + float(np.sum(np.abs(tangent * weight)))
    assert abs(float(np.sum(tangent * weight)) - sum(right)) < 1e-9 * size
    for forward, reverse in zip(forwards, reverses, strict=True):
        np.testing.assert_allclose(
            forward, reverse, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(forward), initial=0))
        )


@RANDOM
@given(programs(most_steps=5), st.integers(0, 2**16))
def test_transposes_of_random_programs(program: Program, seed: int):
    """With ties and kinks."""
    note(repr(program))
    assume(program.steps)
    arrays = [np.asarray(v.array, np.float64) for v in program.leaves]
    xs = [oc.data(a, axes=axes_of(v)) for a, v in zip(arrays, program.leaves, strict=True)]
    assume(np.isfinite(program.values(program.leaves)[-1].array).all())
    check_transposed(program.tensors(xs)[-1], xs, arrays, seed)


SPECS: dict[str, Callable[..., oc.Tensor]] = {
    "einsum": oc.einsum,
    "einmax": oc.einmax,
    "tropical": oc.tropical,
    "outer_sum": oc.outer_sum,
}


@pytest.mark.exhaustive
@RANDOM
@given(sized_cases(), st.sampled_from(sorted(SPECS)), st.integers(0, 9))
def test_transposes_of_specs(sized: tuple[Case, dict[str, int]], function: str, seed: int):
    """Squares of specs of all forms; integers, so that maxima have ties."""
    case, sizes = sized
    note(case.text)
    random = np.random.default_rng(seed)
    arrays = [random.integers(-2, 3, case.shape(slot)).astype(np.float64) for slot in case.operands]
    slots = zip(arrays, case.operands, strict=True)
    xs = [oc.data(a, axes=case.letters(slot), label="x") for a, slot in slots]
    y = SPECS[function](case.text, *xs, use_padding=case.use_padding, **sizes)
    finite = oc.where(oc.abs(y) < 1e6, y, 0.0)
    check_transposed(finite * finite, xs, arrays, seed)


def test_transposes_of_other_operations():
    """Slices, fixed positions, stacks, stopped gradients."""
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
    xs = [oc.data(a, label="a"), oc.data(b, label="b")]
    n = oc.index("n", 3)
    x, y = xs
    one = x[n] * oc.einsum("... | 2 => ... |", y)[1] + oc.stop_gradient(x[0]) * y[2]
    stacked = oc.stack([one, oc.exp(y[0])], axis="output").einsum("... s o => ... o s")
    check_transposed(stacked * stacked, xs, [a, b], 5)
