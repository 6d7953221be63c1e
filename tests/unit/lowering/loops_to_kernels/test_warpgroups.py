"""Products of warpgroups, for Hopper: in the interpreter of PTX, emulated, and what ptxas says of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from support.cuda_on_cpu import FakeDriver, install
from support.nests import parse_module, run_compiled
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import QUARTERS, lowered, product
from support.warpgroup_products import ARCH, HALVES, LAYOUTS, NEEDS_PTXAS, arrays, check
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.utils.exceptions import VerifyException

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.gpu import MOST_SHARED_BYTES
from ocannl.dialects.kernel.mma import WaitProductsOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import tensor_cores
from ocannl.lowering.loops_to_kernels.tensor_cores import QUARTER_TILES, WARPGROUP_TILES, WarpTiles
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import find_ptxas

Array = NDArray[Any]
TYPES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


@pytest.mark.sampled(25)
@pytest.mark.parametrize("tiles", WARPGROUP_TILES, ids=str)
@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_products(x: str, w: str, element: str, tiles: WarpTiles, only: Any):
    """Two tiles an axis, and each stage of the ring twice; no bank conflicts, and whole sectors."""
    only(tiles)
    room = MOST_SHARED_BYTES // (128 * (tiles.rows + tiles.columns))
    stages = 4 if room >= 8 else min(room, 7)
    sizes = (2 * tiles.rows, 2 * tiles.columns, (2 * stages + 1) * 64)
    counts = check(lowered(product(sizes, element, x, w), warpgroups=True), sizes, element, x, w)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()


@pytest.mark.sampled(25)
@pytest.mark.parametrize("tiles", WARPGROUP_TILES[::-1], ids=str)
@pytest.mark.parametrize(("x", "w"), LAYOUTS[:3])
def test_products_of_tf32(x: str, w: str, tiles: WarpTiles, only: Any):
    """Copies round; the hardware would cut bits off. An operand that is not in rows along the sum is the left
    one of the product or of its transpose, in registers. The tiles at the edges are not whole.
    """
    only(tiles)
    sizes = (2 * tiles.rows - 4, 2 * tiles.columns - 8, 9 * 32 - 4)
    module = lowered(product(sizes, "f32", x, w), warpgroups=True)
    counts = check(module, sizes, "f32", x, w, apart=True)
    assert not counts.conflicts(looped=True)
    in_registers = re.search(r"k8\.f32\.tf32\.tf32\s+\{[^}]*\}, \{", ptx_text(module, ARCH))
    assert bool(in_registers) == ((x, w) != LAYOUTS[0])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("tiles", QUARTER_TILES[::-1], ids=str)
@pytest.mark.parametrize("element", QUARTERS)
def test_products_of_8_bits(element: str, tiles: WarpTiles, monkeypatch: pytest.MonkeyPatch):
    """Hardware makes the sums of a tile, which threads add up."""
    monkeypatch.setattr(tensor_cores, "QUARTER_TILES", [tiles])
    sizes = (2 * tiles.rows, 2 * tiles.columns, 9 * 128)
    module = lowered(product(sizes, element), warpgroups=True)
    counts = check(module, sizes, element, "b, i", "o, i", apart=True)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()
    starts = re.findall(
        rf"k32\.f32\.{TYPES[element]}\.\w+\s+\{{[^}}]*\}}, \S+ \S+ (\d), 1, 1;", ptx_text(module, ARCH)
    )
    assert starts == ["0", "1", "1", "1"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("element", QUARTERS)
def test_other_ways_to_multiply_8_bits(element: str):
    """Rows that are not aligned, an emulation, and fragments of f16."""
    sizes = (40, 72, 203)
    module = lowered(product(sizes, element), warpgroups=True)
    for arch in (ARCH, "sm_80"):
        check(module, sizes, element, "b, i", "o, i", arch=arch)
    found, expected = arrays(sizes, element, "b, i", "o, i")
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.exhaustive
def test_other_ways_to_round(only: Any):
    """Where threads read them, the products round."""
    only(WARPGROUP_TILES[-1])
    sizes = (64, 64, 96)
    module = lowered(product(sizes, "f32"), warpgroups=True)
    text, (given, expected) = ptx_text(module, ARCH), arrays(sizes, "f32", "b, i", "o, i")
    run_ptx(text.replace('"rounds": true', '"rounds": false'), given)
    assert not np.allclose(given["y"], expected, rtol=1e-5, atol=1e-4)
    check(module, sizes, "f32", "b, i", "o, i", arch="sm_90")
    found, expected = arrays(sizes, "f32", "b, i", "o, i")
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_odd_sizes(x: str, w: str, only: Any):
    """The warps of a group need not go on together, and the last tiles are not whole."""
    only(WARPGROUP_TILES[-1])
    sizes = (70, 100, 203)
    module = lowered(product(sizes, "bf16", x, w), warpgroups=True)
    check(module, sizes, "bf16", x, w, apart=True)


@pytest.mark.exhaustive
def test_products_in_flight(only: Any):
    """Those of a step go on in the next one; a stage that they read is not overwritten."""
    only(WARPGROUP_TILES[-1])
    sizes = (64, 64, 9 * 64)
    module = lowered(product(sizes, "bf16"), warpgroups=True)
    text, (waits,) = ptx_text(module, ARCH), [op for op in module.walk() if isinstance(op, WaitProductsOp)]
    assert waits.pending.data == 1
    assert text.count("wgmma.wait_group.sync.aligned 1;") == text.count("wait_group.sync.aligned 0;") == 1
    found, expected = arrays(sizes, "bf16", "b, i", "o, i")
    with pytest.raises(AssertionError, match="operands of a product are overwritten"):
        run_ptx(text.replace("wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"), dict(found))
    waits.properties["pending"] = IntAttr(2)
    with pytest.raises(DeviceError, match=r"shared memory: thread .* overwrites, for a product in flight,"):
        run_compiled(module, found, {}, emulation=Emulation(check=True))
    waits.properties["pending"] = IntAttr(1)
    run_compiled(module, found, {}, emulation=Emulation(check=True))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-3)


def test_registers_of_products_in_flight(only: Any):
    """Threads load into them again when the products of the same step of the tile before are done."""
    only(WARPGROUP_TILES[-1])
    sizes = (64, 64, 9 * 32)
    text = ptx_text(lowered(product(sizes, "f32", w="i, o"), warpgroups=True), ARCH)
    assert text.count("wgmma.wait_group.sync.aligned 3;") == 4
    found, _ = arrays(sizes, "f32", "b, i", "i, o")
    with pytest.raises(AssertionError, match="a register of a product is overwritten"):
        run_ptx(text.replace("wait_group.sync.aligned 3;", "wait_group.sync.aligned 7;"), found)


def copied_in_bulk(module: ModuleOp) -> set[bool]:
    return {op.is_bulk for op in module.walk() if isinstance(op, CopyOp)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_boxes_that_end_outside(x: str, w: str, only: Any):
    """Rows of whole pieces of 16 bytes are copied in bulk, with zeros where the node ends."""
    only(WARPGROUP_TILES[-1])
    sizes = (72, 104, 200)
    module = lowered(product(sizes, "bf16", x, w), warpgroups=True)
    assert copied_in_bulk(module) == {True}
    check(module, sizes, "bf16", x, w, apart=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_rows_that_are_longer_than_numbers(x: str, w: str, only: Any):
    """Hardware fills zeros in where the numbers end; threads copy them one by one."""
    only(WARPGROUP_TILES[-1])
    sizes, longer = (70, 101, 203), {"70": "72", "101": "104", "203": "208"}
    text = product(sizes, "bf16", x, w)
    found, expected = arrays(sizes, "bf16", x, w)
    for name in "xw":
        rows, columns = found[name].shape
        wide = int(longer[str(columns)])
        text = text.replace(f"memref<{rows}x{columns}xbf16>", f"memref<{rows}x{wide}xbf16>")
        found[name] = np.pad(found[name], ((0, 0), (0, wide - columns)), constant_values=np.nan)
    module = lowered(text, warpgroups=True)
    assert copied_in_bulk(module) == {True}
    for arch in (ARCH, "sm_80"):
        run_ptx(ptx_text(module, arch), given := dict(found), apart=True)
        np.testing.assert_allclose(given["y"], expected, rtol=1e-5, atol=1e-3)
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-3)


@pytest.mark.exhaustive
def test_one_operand_in_bulk(only: Any):
    """The rows of the other one are not aligned: groups have copies of both kinds."""
    only(WARPGROUP_TILES[-1])
    sizes = (70, 64, 200)
    module = lowered(product(sizes, "f16", "i, b", "o, i"), warpgroups=True)
    assert copied_in_bulk(module) == {True, False}
    text = ptx_text(module, ARCH)
    assert {"cp.async.wait_group", "mbarrier.try_wait"} <= set(
        re.findall(r"cp\.async\.\w+|mbarrier\.\w+", text)
    )
    check(module, sizes, "f16", "i, b", "o, i", apart=True)


def test_a_short_sum(only: Any):
    """Without a ring a tile comes when nothing is computed; what a kernel declares has the mbarriers."""
    only(WARPGROUP_TILES[-1])
    for deep in (64, 128):
        sizes = (64, 64, deep)
        module = lowered(product(sizes, "bf16"), warpgroups=True)
        assert copied_in_bulk(module) == {deep > 64}
        check(module, sizes, "bf16", "b, i", "o, i", apart=True)


@pytest.mark.exhaustive
def test_threads_read_what_was_copied_in_bulk():
    """They fence it before hardware overwrites it; numbers of 32 bits are copied as well."""
    text = """
loops.func @most {
  %x = assign.node "x" on_device : memref<4x200x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (b = 4) block (t = 32) {
    %s = kernel.shared memref<2x64x32xf32, "swizzled ring">
    kernel.copy bulk %x[b, i, c] to %s[0, i, c] over (i = 64, c = 32) by 4
    kernel.commit
    %most = loops.reduce max (step = 4) : f32 {
      kernel.wait 0
      kernel.barrier
      kernel.where step + 1 < 4 {
        kernel.copy bulk %x[b, i + 64*step + 64, c] to %s[step + 1, i, c] over (i = 64, c = 32) by 4
          where i + 64*step + 64 < 200
      }
      kernel.commit
      %part = loops.reduce max (i = 64) where i + 64*step < 200 : f32 {
        %0 = loops.load %s[step, i, t]
        loops.yield %0
      }
      loops.yield %part
    }
    loops.store %most, %y[b, t]
  }
}
"""
    x = np.random.default_rng(6).standard_normal((4, 200, 32)).astype(np.float32)
    for arch in (ARCH, "sm_80"):
        ptx = ptx_text(parse_module(text), arch)
        assert ("cp.async.bulk" in ptx) == (arch == ARCH)
        found = {"x": x.copy(), "y": np.zeros((4, 32), np.float32)}
        run_ptx(ptx, found)
        np.testing.assert_array_equal(found["y"], x.max(1))
    fence = "fence.proxy.async.shared::cta;"
    start, loop = ptx_text(parse_module(text), ARCH).split(fence, 1)
    with pytest.raises(AssertionError, match="overwrites what threads touched"):
        run_ptx(f"{start}{fence}{loop.replace(fence, '')}", found)


def test_batches(only: Any):
    """Tensors of three axes: a product for each batch."""
    only(WARPGROUP_TILES[-1])
    sizes, batch = (64, 72, 200), 3
    module = lowered(product(sizes, "bf16", outer=batch), warpgroups=True)
    text = ptx_text(module, ARCH)
    assert "cp.async.bulk.tensor.3d" in text
    rng = np.random.default_rng(5)
    x, w = (
        rng.standard_normal((batch, n, sizes[2])).astype(ml_dtypes.bfloat16) for n in (sizes[0], sizes[1])
    )
    found: dict[str, Array] = {
        "x": x,
        "w": w,
        "b": np.zeros(sizes[1], np.float32),
        "y": np.zeros((batch, 64, 72), np.float32),
    }
    run_ptx(text, found, apart=True)
    expected = np.einsum("gbi,goi->gbo", x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_other_ways_to_run_it(x: str, w: str, only: Any):
    """An emulation with checked accesses, and an architecture with fragments only."""
    only(WARPGROUP_TILES[-1])
    sizes = (50, 64, 136)
    module = lowered(product(sizes, "f16", x, w), warpgroups=True)
    check(module, sizes, "f16", x, w, arch="sm_90")
    found, expected = arrays(sizes, "f16", x, w)
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.exhaustive
@NEEDS_PTXAS
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("element", "w"), [("bf16", "o, i"), ("bf16", "i, o"), ("f8E4M3FN", "o, i")])
@pytest.mark.parametrize("size", [512, 4096])
def test_what_the_assembler_says(size: int, element: str, w: str, tmp_path: Path):
    """Nothing is spilled, and products are not made to wait for each other."""
    module = lowered(product((size, size, size), element, w=w), warpgroups=True)
    (found,) = kernel_resources(module, ARCH)
    assert found.spilled == 0
    assert found.registers <= 192
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx_text(module, ARCH))
    program = find_ptxas()
    assert program is not None
    command = [program, f"-arch={ARCH}", str(source), "-o", str(source.with_suffix(".cubin"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serialized" not in done.stdout + done.stderr


def test_instructions_of_a_large_tile():
    """Of a step of 64 for 64 x 256 results a warpgroup: four products, whose operands no thread reads."""
    text = ptx_text(lowered(product((4096, 4096, 4096), "bf16"), warpgroups=True), ARCH)
    loop = max(re.findall(r"(?s)(\$L__BB0_\d+):(.*?bra\s+\1;)", text), key=lambda found: len(found[1]))
    names = ("wgmma.mma_async", "m64n256k16", "mma.sync", "ldmatrix", "cp.async.cg", "bar.sync", "ld.shared")
    counted = {name: loop[1].count(name) for name in (*names, "cp.async.bulk", "fence.proxy")}
    assert counted == dict(zip(counted, (4, 4, 0, 0, 0, 1, 0, 2, 0), strict=True))
    assert ".extern .shared .align 1024 .b8 product_y_shared0[];" in text


@pytest.mark.exhaustive
def test_what_stays_for_warps():
    """Short sums and small results have tiles of warps; so have numbers of 32 bits, neither operand of which
    is in rows along the reduction, or aligned. Numbers of 8 bits are for threads then.
    """
    whole = (512, 512, 512)
    for sizes, element, w in (
        ((512, 512, 32), "bf16", "o, i"),
        ((32, 32, 512), "bf16", "o, i"),
        (whole, "f32", "i, o"),
        ((512, 512, 510), "f32", "o, i"),
    ):
        x = "i, b" if w == "i, o" else "b, i"
        text = ptx_text(lowered(product(sizes, element, x, w), warpgroups=True), ARCH)
        assert "mma.sync" in text
        assert "wgmma" not in text
    for sizes, x in ((whole, "i, b"), ((512, 512, 120), "b, i")):
        assert "mma" not in ptx_text(lowered(product(sizes, "f8E5M2", x), warpgroups=True), ARCH)
    assert "mma" not in ptx_text(lowered(product(whole, "f8E5M2")), "sm_90")


def test_too_much_shared_memory():
    module = lowered(product((4096, 4096, 4096), "bf16"), warpgroups=True)
    with pytest.raises(
        OcannlError, match="kernel 'y': it has 196640 bytes of shared memory; sm_80 has 166912"
    ):
        ptx_text(module, "sm_80")


@pytest.mark.parametrize("shape", ["4x64xf16", "8x32xf16", "64xf16", "2x8x64xf16"])
def test_what_is_no_swizzled_array(shape: str):
    text = f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<f32>
  kernel.launch "x" {{
    %s = kernel.shared memref<{shape}, "swizzled">
  }}
}}
"""
    with pytest.raises(VerifyException, match="a swizzled array has a multiple of 8 rows"):
        parse_module(text).verify()


def losses(ctx: oc.Context) -> list[float]:
    """Of some steps in bf16, on a GPU of Hopper's kind with products of warpgroups."""
    rng = np.random.default_rng(0)
    x = oc.data(rng.standard_normal((128, 64)).astype(ml_dtypes.bfloat16), axes="bo", label="x")
    with oc.precision(oc.float32, compute=oc.bfloat16):
        scores = nn.linear(out_dim=64)(x)
    loss = nn.cross_entropy(scores, oc.data(np.arange(128) % 64, axes="b"))
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=1)
    if ctx.backend != "cpu":
        assert '"swizzled ring">' in step.ir("kernels")
        assert "wgmma.mma_async" in step.ptx()
        assert "wgmma" not in step.ptx("sm_80")
    return [step() or float(ctx[loss]) for _ in range(3)]


@pytest.mark.exhaustive
def test_steps(monkeypatch: pytest.MonkeyPatch, only: Any):
    only(WARPGROUP_TILES[-1])
    expected = losses(oc.Context.cpu())
    np.testing.assert_allclose(losses(oc.Context.emulated_gpu(arch=ARCH)), expected, rtol=2e-2)
    driver = FakeDriver()
    driver.capability, driver.counts = (9, 0), Counts()
    install(monkeypatch, driver)
    np.testing.assert_allclose(losses(oc.Context.cuda()), expected, rtol=2e-2)
    assert not driver.counts.conflicts(looped=True)


def test_an_unknown_architecture():
    with pytest.raises(DeviceError, match="there is no GPU architecture 'sm_9'"):
        oc.Context.emulated_gpu(arch="sm_9")
