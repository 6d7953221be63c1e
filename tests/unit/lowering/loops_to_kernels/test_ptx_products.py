"""Products as PTX, in an interpreter: some tiles an axis, and every stage of a ring passed twice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import DTYPES, TILES_OF, Sizes, lowered, product, rounded

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import LoadOp
from ocannl.lowering.kernels.registers import points as points_of
from ocannl.lowering.loops_to_kernels import contraction, tensor_cores
from ocannl.lowering.loops_to_kernels.tensor_cores import WarpTiles
from ocannl.runtime.cuda.ptx import ptx_text

Array = NDArray[Any]
LAYOUTS = list(itertools.product(["b, i", "i, b"], ["o, i", "i, o"]))
# Steps of the software pipeline, whose rings have at most four stages.
STEPS = 9


def multiply(
    sizes: Sizes, element: str, x: str, w: str, tf32: bool = True, apart: bool = False
) -> tuple[Array, Counts]:
    """The product, which is close to that of NumPy, and what its accesses cost."""
    text = ptx_text(lowered(product(sizes, element, x, w), tf32), "sm_90")
    extents, rng = dict(zip("boi", sizes, strict=True)), np.random.default_rng(4)
    left, right = (
        rng.standard_normal([extents[axis] for axis in axes.split(", ")]).astype(DTYPES[element])
        for axes in (x, w)
    )
    result, close = (np.float64, 1e-13) if element == "f64" else (np.float32, 1e-5)
    found = {"x": left, "w": right, "y": np.zeros(sizes[:2], result)}
    found["b"] = rng.standard_normal(extents["o"]).astype(result)
    counts = run_ptx(text, found, apart=apart)
    spec = f"{x},{w}->bo".replace(", ", "")
    operands = (rounded(array) if tf32 else array.astype(np.float64) for array in (left, right))
    expected = np.einsum(spec, *operands) + found["b"]
    np.testing.assert_allclose(found["y"], expected, rtol=close, atol=close * np.sqrt(sizes[2]))
    return found["y"], counts


@pytest.mark.sampled(51)
@pytest.mark.parametrize(("tiles", "element"), TILES_OF, ids=str)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_tensor_cores(x: str, w: str, element: str, tiles: WarpTiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tensor_cores, "TILES", (tiles,))
    sizes = (2 * tiles.rows, 2 * tiles.columns, 7 * 128 // np.dtype(DTYPES[element]).itemsize)
    check_costs(multiply(sizes, element, x, w)[1])


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize("tile", [16, 32, 64, 128])
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_registers(x: str, w: str, tile: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contraction, "TILE_SIDES", (tile,))
    check_costs(multiply((2 * tile, 2 * tile, 16 * STEPS), "f32", x, w, tf32=False)[1])


def check_costs(counts: Counts) -> None:
    """A main loop has no bank conflicts, and what is read and written fills sectors."""
    assert any(op.is_looped for op in counts.shared)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()


@pytest.mark.parametrize(("tile", "words"), [(16, 12), (32, 24), (64, 48), (128, 96)])
def test_a_warp_reads_few_words(tile: int, words: int, monkeypatch: pytest.MonkeyPatch):
    """Of each step along the reduction: a warp has 4 x 8 threads, and 32 x 64 values of the largest tiles."""
    monkeypatch.setattr(contraction, "TILE_SIDES", (tile,))
    module = lowered(product((2 * tile, 2 * tile, 64), "f32"), tf32=False)
    (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
    loads = [op for op in module.walk() if isinstance(op, LoadOp) and isinstance(op.node.owner, SharedOp)]
    warp = [dict(zip(launch.block.names, (0, 0, *lane), strict=True)) for lane in np.ndindex(4, 8)]
    points = [
        {**at, **register}
        for at in warp
        for register in points_of(launch.registers.names, dict(launch.registers.data))
    ]
    addresses = [flatten(op.node, op.indices.data) for op in loads]
    read = {(a, sum(a.stride(name) * k for name, k in at.items())) for a in addresses for at in points}
    assert len(read) == words


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("tf32", [False, True])
def test_odd_sizes(element: str, tf32: bool):
    multiply((37, 53, 70), element, "b, i", "o, i", tf32)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("element", "tf32"), [("f32", False), ("f32", True), ("bf16", True), ("f64", True)])
def test_warps_do_not_need_each_other_between_barriers(element: str, tf32: bool):
    """Each runs as far as it can before the next one does."""
    together, apart = (
        multiply((16, 32, 100), element, "b, i", "i, o", tf32, apart=apart)[0] for apart in (False, True)
    )
    np.testing.assert_array_equal(together, apart)
