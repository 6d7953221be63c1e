"""The roofline model of GPUs counts as many bytes as the interpreter of PTX sees, or as sizes say."""

from __future__ import annotations

import math

import pytest
from gpu_roofline import Prediction, code_of, counts, kernels_of, of_warp, share, tiles_of
from kernels import kernel
from kernels_ocannl import Runs
from support.cuda_on_cpu import FakeDriver, install
from support.ptx.machine import AT_A_TIME
from support.ptx.memory import Counts

import ocannl as oc
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel.gpu import SECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.lowering.pipelines import parse_text

F32 = 4


def launches(text: str) -> list[LaunchOp]:
    return [op for op in parse_text(text).walk() if isinstance(op, LaunchOp)]


@pytest.mark.parametrize(
    ("kind", "resource"), [("", "arithmetic"), ("_tf32", "tf32 products"), ("_bf16", "products")]
)
def test_products_are_counted_once(kind: str, resource: str):
    rows, deep, columns = 256, 128, 512
    (launch,) = launches(kernels_of(f"gemm_{rows}x{deep}x{columns}{kind}", "sm_80"))
    assert counts(launch).of[resource] == rows * deep * columns
    size = F32 // 2 if kind == "_bf16" else F32
    assert counts(launch).of["memory"] == (rows * deep + deep * columns + rows * columns) * size


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["gemm_128x64x128", "add_64x512", "softmax_64x512"])
def test_bytes_are_those_of_the_interpreter(name: str, monkeypatch: pytest.MonkeyPatch):
    """Of the second-level cache: what a block loads again is in its own, so there may be fewer."""
    driver = FakeDriver()
    driver.counts = Counts()
    install(monkeypatch, driver)
    runs = Runs(kernel(name), "cuda")
    runs.first()
    runs.values()
    (launch,) = launches(kernels_of(name, "sm_80"))
    # It counts what the first block does of those that it runs at a time.
    blocks = -(-launch.blocks // max(1, AT_A_TIME // launch.threads))
    seen = SECTOR_BYTES * sum(cost.taken for cost in driver.counts.sectors.values()) / blocks
    counted = counts(launch).of["cache"] / launch.blocks
    assert counted == pytest.approx(seen, rel=0.01) or (name.startswith("softmax") and counted < seen)


def test_warpgroups_read_no_fragments():
    size, deep = 2048, 512
    (launch,) = launches(kernels_of(f"gemm_{size}x{deep}x{size}_bf16", "sm_90a"))
    found = counts(launch).of
    assert found["products of warpgroups"] == size * deep * size
    assert found["shared memory"] == found["cache"] - size * size * F32 // 2


@pytest.mark.exhaustive
def test_tiles_that_blocks_walk_through(monkeypatch: pytest.MonkeyPatch):
    """A kernel with roles does what others do, in as many rounds; the model knows nothing of waits."""
    name = "gemm_4096x4096x4096_bf16"
    plain = kernels_of(name, "sm_90a")
    monkeypatch.setenv("OCANNL_CUDA_ROLES", "1")
    text = kernels_of(name, "sm_90a")
    (launch,), (other,) = launches(text), launches(plain)
    assert launch.has_roles
    assert (launch.blocks, tiles_of(launch), tiles_of(other)) == (132, 512, 512)
    assert counts(launch).of["products of warpgroups"] == counts(other).of["products of warpgroups"]
    assert Prediction.of(text).seconds == pytest.approx(Prediction.of(plain).seconds, rel=0.05)


def test_where_bounds_hold():
    i, k = Linear.var("i"), Linear.var("k")
    assert share(Bound(i * 2 + k, 5), {"i": 4, "k": 2}) == 5 / 8
    assert share(Bound(i, 9), {"i": 4}) == 1


def test_threads_of_a_warp_that_read_the_same():
    (launch,) = launches(kernels_of("gemm_2048x64x2048", "sm_80"))
    *_, (row, rows), (column, columns) = launch.block.data
    assert (of_warp(launch, {row}), of_warp(launch, {column})) == (1 / columns, 1 / rows)
    assert of_warp(launch, {row, column}) == 1


@pytest.mark.exhaustive
def test_a_mask_halves_the_products_of_attention():
    """But for the blocks on the diagonal; the scores are multiplied once."""
    length, heads, features = 512, 2, 64
    text = kernels_of(f"attention_{length}x{heads}x{features}_tf32", "sm_80")
    products = sum(counts(launch).of["tf32 products"] for launch in launches(text))
    whole = 2 * 8 * heads * length**2 * features
    assert 0.5 < products / whole < 0.65


@pytest.mark.exhaustive
def test_predictions():
    """A kernel of memory takes what its bytes take, and a launch."""
    rows, columns = 8192, 4096
    found = Prediction.of(kernels_of(f"add_{rows}x{columns}", "sm_80"))
    least = 3 * rows * columns * F32 / 2.97e12
    assert least < found.seconds < 1.05 * least
    assert found.limits == {"memory": 1}
    forward, backward = (
        Prediction.of(kernels_of(f"attention_512x2x64{suffix}", "sm_80")).seconds
        for suffix in ("", "_backward")
    )
    assert forward < backward < math.inf
    assert isinstance(code_of("moons"), oc.Code)
