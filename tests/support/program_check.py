"""Random programs on a device, against their direct reading in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import note
from support.tensor_programs import Program, axes_of

import ocannl as oc


def check(
    ctx: oc.Context, program: Program, dtypes: list[type[np.floating]], watched: set[int], tolerance: float
):
    note(repr(program))
    tensors = program.tensors(
        [
            oc.data(v.array.astype(dtype), axes=axes_of(v), label=f"x{k}")
            for k, (v, dtype) in enumerate(zip(program.leaves, dtypes[: len(program.leaves)], strict=True))
        ]
    )
    expected = program.values(program.leaves)
    last = len(tensors) - 1
    watched = {k for k in watched if k < last} | {last}
    code = sum((oc.forward(tensors[k]) for k in sorted(watched)), oc.Code())
    ctx.compile(code, name="random_program")()
    for k in sorted(watched):
        found, wanted = ctx[tensors[k]], expected[k]
        assert found.shape == wanted.array.shape, f"t{k}"
        assert rows(tensors[k]) == wanted.rows, f"t{k}"
        scale = 1 + max(float(np.abs(v.array).max(initial=0)) for v in expected[: k + 1])
        np.testing.assert_allclose(
            found, wanted.array, rtol=tolerance, atol=tolerance * scale, err_msg=f"t{k}"
        )


def rows(tensor: oc.Tensor) -> tuple[tuple[Any, ...], ...]:
    return tensor.shape.batch, tensor.shape.output, tensor.shape.input
