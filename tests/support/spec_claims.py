"""Claims about specs, checked on any device without a difference in f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from support.spec_cases import cases, chosen_cases, givens, is_said_by, memory_cases, sized_cases
from support.spec_meaning import ACCUMULATIONS, Array, choose, evaluate, pullback
from support.written_specs import Case, Slot

import ocannl as oc

FUNCTIONS: dict[str, tuple[Callable[..., oc.Tensor], str, str]] = {
    "einsum": (oc.einsum, "mul", "add"),
    "einmax": (oc.einmax, "mul", "max"),
    "einmin": (oc.einmin, "mul", "min"),
    "tropical": (oc.tropical, "add", "max"),
    "outer_sum": (oc.outer_sum, "add", "add"),
}
CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
SOME = settings(max_examples=24, deadline=None, suppress_health_check=CHECKS, derandomize=True)
SEEDS = st.integers(0, 99)


def numbers(shape: tuple[int, ...], seed: int, slot: int) -> Array:
    """Quarters: products of four of them, and sums of some thousands of those, are exact."""
    return np.random.default_rng([seed, slot]).integers(-8, 9, shape) / 4


def powers(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers of which products are exact, too."""
    return np.random.default_rng(seed).choice([-2.0, -1.0, 0.5, 1.0, 2.0], shape)


@dataclass
class Place:
    """Where a spec is computed, and in which type."""

    ctx: oc.Context
    dtype: type[np.floating[Any]]

    def tensor(self, array: Array, case: Case, slot: Slot, label: str) -> oc.Tensor:
        dtype = None if array.dtype.kind == "i" else self.dtype
        return oc.data(array, axes=case.letters(slot), label=label, dtype=dtype)

    def memory(self, case: Case, slot: Slot, start: float) -> oc.Tensor:
        rows = {kind: list(sizes) for kind, sizes in case.row_shapes(slot).items()}
        batch, input, output = rows["batch"], rows["input"], rows["output"]
        return oc.node("total", batch=batch, input=input, output=output, init=start, dtype=self.dtype)

    def operands(self, case: Case, seed: int) -> tuple[list[Array], list[oc.Tensor]]:
        arrays = [numbers(case.shape(slot), seed, i) for i, slot in enumerate(case.operands)]
        slots = zip(arrays, case.operands, strict=True)
        return arrays, [self.tensor(array, case, slot, f"x{i}") for i, (array, slot) in enumerate(slots)]


def check_result(place: Place, case: Case, function: str, sizes: Mapping[str, int], seed: int) -> None:
    apply, combine, accum = FUNCTIONS[function]
    arrays, tensors = place.operands(case, seed)
    expected = evaluate(case, arrays, combine, accum)
    result = apply(case.text, *tensors, use_padding=case.use_padding, **sizes)
    found = place.ctx[result]
    oc.infer(result)
    assert result.shape.output == case.row_shapes(case.result)["output"]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def check_derivatives(place: Place, case: Case, function: str, sizes: Mapping[str, int], seed: int) -> None:
    apply, combine, accum = FUNCTIONS[function]
    arrays, tensors = place.operands(case, seed)
    weights = numbers(case.shape(case.result), seed, 7)
    cotangent = place.tensor(weights, case, case.result, "weights")
    directions = [numbers(array.shape, seed, 10 + i) for i, array in enumerate(arrays)]
    pairs = zip(directions, case.operands, strict=True)
    tangents = [place.tensor(array, case, slot, "direction") for array, slot in pairs]
    result = apply(case.text, *tensors, use_padding=case.use_padding, **sizes)
    gradients, slope = oc.vjp(result, tensors, cotangent), oc.jvp(result, tensors, tangents)
    ctx = place.ctx
    ctx.compile(sum(map(oc.forward, [*gradients, slope]), oc.Code()))()
    expected = pullback(case, arrays, combine, accum, weights)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_array_equal(ctx[gradient], wanted)
    moved = sum(np.sum(d * g) for d, g in zip(directions, expected, strict=True))
    assert np.sum(ctx[slope] * weights) == moved


def check_accumulation(place: Place, case: Case, accum: str, reset: bool, seed: int) -> None:
    (slot,) = case.operands
    array = powers(case.shape(slot), seed)
    start = 0.5 if accum in ("max", "min") else 1.0
    total = place.memory(case, case.result, start)
    code = oc.accumulate(total, accum, place.tensor(array, case, slot, "x"), spec=case.text, reset=reset)
    place.ctx.compile(code)()
    expected = evaluate(case, [array], "mul", accum, None if reset else start)
    np.testing.assert_array_equal(place.ctx[total], expected)


def check_choice(
    place: Place,
    case: Case,
    at: Sequence[str],
    accum: str,
    scatters: bool,
    clamps: bool,
    sizes: Mapping[str, int],
    seed: int,
) -> None:
    first, *others = case.operands
    array = numbers(case.shape(first), seed, 0)
    ids = [
        np.random.default_rng([seed, i]).integers(-1, case.sizes[name] + 1, case.shape(slot))
        for i, (slot, name) in enumerate(zip(others, at, strict=True))
    ]
    tensors = [place.tensor(array, case, first, "x")]
    tensors += [place.tensor(i, case, slot, "ids") for i, slot in zip(ids, others, strict=True)]
    how: dict[str, Any] = {"at": tuple(at), "out_of_range": "clamp" if clamps else "drop", **sizes}
    result = (
        oc.scatter(case.text, *tensors, accum=accum, **how)
        if scatters
        else oc.gather(case.text, *tensors, **how)
    )
    np.testing.assert_array_equal(place.ctx[result], choose(case, array, ids, at, accum, clamps))


def check_inference(place: Place, case: Case, hidden: int, sizes: Mapping[str, int]) -> None:
    """An operand of which nothing is said has the shape that the others and the result leave to it."""
    tensors = [place.tensor(np.ones(case.shape(slot)), case, slot, "x") for slot in case.operands]
    tensors[hidden] = oc.param("hidden", batch=None)
    total = place.memory(case, case.result, 0.0)
    result = oc.einsum(case.text, *tensors, use_padding=case.use_padding, **sizes)
    oc.infer(oc.accumulate(total, "add", result, spec="...|...->... => ...|...->..."))
    shape = tensors[hidden].shape
    found = {"batch": shape.batch, "input": shape.input, "output": shape.output}
    assert found == case.row_shapes(case.operands[hidden])


@st.composite
def applications(draw: st.DrawFn) -> tuple[Case, str, dict[str, int], int]:
    case, sizes = draw(sized_cases())
    return case, draw(st.sampled_from(sorted(FUNCTIONS))), sizes, draw(SEEDS)


@st.composite
def accumulations(draw: st.DrawFn) -> tuple[Case, str, bool, int]:
    return (
        draw(memory_cases()),
        draw(st.sampled_from(sorted(ACCUMULATIONS))),
        draw(st.booleans()),
        draw(SEEDS),
    )


@st.composite
def choices(draw: st.DrawFn) -> tuple[Case, list[str], str, bool, bool, dict[str, int], int]:
    case, at, scatters = draw(chosen_cases())
    accum = draw(st.sampled_from(["add", "max", "min"])) if scatters else "add"
    sizes = draw(givens(case, case.operands))
    return case, at, accum, scatters, draw(st.booleans()), sizes, draw(SEEDS)


@st.composite
def inferences(draw: st.DrawFn) -> tuple[Case, int, dict[str, int]]:
    case = draw(cases())
    hidden = draw(st.integers(0, len(case.operands) - 1))
    shapes = [*case.operands[:hidden], *case.operands[hidden + 1 :], case.result]
    assume(is_said_by(case, case.operands[hidden], shapes))
    return case, hidden, draw(givens(case, shapes))


CLAIMS: dict[str, tuple[Callable[..., None], st.SearchStrategy[Any]]] = {
    "results": (check_result, applications()),
    "derivatives": (check_derivatives, applications()),
    "accumulations": (check_accumulation, accumulations()),
    "choices": (check_choice, choices()),
    "shapes": (check_inference, inferences()),
}
