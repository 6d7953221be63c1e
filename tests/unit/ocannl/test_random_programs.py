"""Random programs against a direct reading of what they mean, in NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.ocannl.programs import Program, Val, axes_of, programs

import ocannl as oc

RANDOM = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def check(program: Program, dtypes: list[type[np.floating]], watched: set[int], tolerance: float):
    tensors = program.tensors(
        [
            oc.data(v.array.astype(dtype), axes=axes_of(v), label=f"x{k}")
            for k, (v, dtype) in enumerate(zip(program.leaves, dtypes, strict=False))
        ]
    )
    expected = program.values(program.leaves)
    last = len(tensors) - 1
    watched = {k for k in watched if k < last} | {last}
    code = sum((oc.forward(tensors[k]) for k in sorted(watched)), oc.Code())
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(code, name="random_program")()
    for k in sorted(watched):
        found, wanted = ctx[tensors[k]], expected[k]
        assert found.shape == wanted.array.shape, f"t{k}"
        assert rows(tensors[k]) == wanted.rows, f"t{k}"
        scale = 1 + max(float(np.abs(v.array).max(initial=0)) for v in expected[: k + 1])
        np.testing.assert_allclose(found, wanted.array, rtol=tolerance, atol=tolerance * scale, err_msg=f"t{k}")


def rows(tensor: oc.Tensor) -> tuple[tuple[int | oc.Dim, ...], ...]:
    return tensor.shape.batch, tensor.shape.output, tensor.shape.input


@RANDOM
@given(programs(), st.sets(st.integers(0, 9), max_size=3))
def test_f64(program: Program, watched: set[int]):
    check(program, [np.float64] * len(program.leaves), watched, 1e-10)


@RANDOM
@given(programs(), st.sets(st.integers(0, 9), max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_mixed_precisions(program: Program, watched: set[int], wide: list[bool]):
    check(program, [np.float64 if w else np.float32 for w in wide], watched, 2e-4)
