"""Kernels whose warps have roles: in the interpreter of PTX, emulated, and what ptxas says of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nests import parse_module, run_compiled
from support.ptx.run import run_ptx
from support.tensor_core_kernels import lowered, product
from support.warpgroup_products import ARCH, LAYOUTS, NEEDS_PTXAS, arrays, check
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.kernel import AwaitOp, ReleaseOp, RolesOp
from ocannl.dialects.kernel.gpu import MOST_SHARED_BYTES
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import tensor_cores
from ocannl.lowering.loops_to_kernels.tensor_cores import QUARTER_TILES, WARPGROUP_TILES, WarpTiles
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text

Array = NDArray[Any]
TILES = [tiles for tiles in WARPGROUP_TILES if tiles.rows == 128]
SMALL = WarpTiles(128, 64, 16, 64)
# Of four tiles one of these many blocks computes two, another one none in its second turn.
BLOCKS = 3


def with_roles(text: str, processors: int = BLOCKS) -> ModuleOp:
    module = lowered(text, warpgroups=True, roles=True, processors=processors)
    assert roles_of(module)
    return module


def roles_of(module: ModuleOp) -> list[RolesOp]:
    return [op for op in module.walk() if isinstance(op, RolesOp)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("tiles", TILES[::-1], ids=str)
@pytest.mark.parametrize(("x", "w"), LAYOUTS)
def test_products(x: str, w: str, tiles: WarpTiles, only: Any):
    """Each stage of the ring is passed twice in a tile; blocks walk through tiles, and some have fewer."""
    only(tiles)
    stages = min(4, MOST_SHARED_BYTES // (128 * (tiles.rows + tiles.columns)))
    sizes = (2 * tiles.rows, 2 * tiles.columns, (2 * stages + 1) * 64)
    module = with_roles(product(sizes, "bf16", x, w))
    counts = check(module, sizes, "bf16", x, w, apart=tiles == SMALL)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("element", "sizes"), [("f32", (250, 120, 9 * 32)), ("bf16", (250, 120, 10 * 64 - 8))]
)
def test_tiles_that_are_not_whole(element: str, sizes: tuple[int, int, int], only: Any):
    """In TF32, whose copies round, and in bf16."""
    only(SMALL)
    check(with_roles(product(sizes, element)), sizes, element, "b, i", "o, i")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tiles", [t for t in QUARTER_TILES if t.rows > 64], ids=str)
def test_products_of_8_bits(tiles: WarpTiles, monkeypatch: pytest.MonkeyPatch):
    """Products that are not in flight are done a step earlier; three warpgroups share a tile, too."""
    monkeypatch.setattr(tensor_cores, "QUARTER_TILES", [tiles])
    sizes = (2 * tiles.rows, 2 * tiles.columns, 9 * 128)
    module = with_roles(product(sizes, "f8E4M3FN"))
    check(module, sizes, "f8E4M3FN", "b, i", "o, i")


def test_one_tile_a_block(only: Any):
    """Where there are as many processors as tiles, nothing walks."""
    only(SMALL)
    sizes = (256, 64, 5 * 64)
    module = with_roles(product(sizes, "f16"), processors=132)
    text = ptx_text(module, ARCH)
    found, expected = arrays(sizes, "f16", "b, i", "o, i")
    run_ptx(text, found)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-3)


@pytest.mark.exhaustive
def test_an_emulation(only: Any):
    """A copy begins as early as it may where accesses are checked, else as late as it may."""
    only(SMALL)
    sizes = (256, 128, 9 * 64)
    module = with_roles(product(sizes, "bf16"))
    for how in (Emulation(shuffle=1), Emulation(check=True)):
        found, expected = arrays(sizes, "bf16", "b, i", "o, i")
        run_compiled(module, found, {}, emulation=how)
        np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-3)


def moved(op: AwaitOp | ReleaseOp, by: int) -> None:
    op.properties["number"] = MapAttr((op.stage + Linear((), by),))


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", ["early", "in flight"])
def test_what_an_emulation_finds(wrong: str, only: Any):
    """The verifier refuses these, too."""
    only(SMALL)
    sizes = (128, 64, 9 * 64)
    module = with_roles(product(sizes, "bf16"))
    (wait,) = (op for op in module.walk() if isinstance(op, AwaitOp))
    first, *_ = (op for op in module.walk() if isinstance(op, ReleaseOp))
    if wrong == "early":
        moved(wait, -1)
        message = "does not wait for the copy of"
    else:
        moved(first, 1)
        message = "overwrites, for a product in flight,"
    found, _ = arrays(sizes, "bf16", "b, i", "o, i")
    with pytest.raises(DeviceError, match=message):
        run_compiled(module, found, {}, emulation=Emulation(check=True))


@pytest.mark.exhaustive
def test_what_the_interpreter_finds(only: Any):
    """Copies into stages that products still read."""
    only(SMALL)
    sizes = (128, 64, 9 * 64)
    text = ptx_text(with_roles(product(sizes, "bf16")), ARCH)
    found, _ = arrays(sizes, "bf16", "b, i", "o, i")
    assert text.count("wgmma.wait_group.sync.aligned 1;") == 1
    with pytest.raises(AssertionError, match="operands of a product are overwritten"):
        run_ptx(text.replace("wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;"), found, apart=True)


MOST = """
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}
"""


@pytest.mark.exhaustive
def test_threads_read_stages():
    """They fence what they have read, and combine at a barrier of the consumers."""
    x = np.random.default_rng(6).standard_normal((4, 320, 32)).astype(np.float32)
    text = ptx_text(parse_module(MOST), ARCH)
    assert text.count("bar.sync \t1, 256;") + text.count("bar.sync 1, 256;") == 2
    found = {"x": x.copy(), "y": np.zeros((4, 32), np.float32)}
    run_ptx(text, found, apart=True)
    np.testing.assert_array_equal(found["y"], x.max(1))
    found["y"][...] = 0
    run_compiled(parse_module(MOST), found, {}, emulation=Emulation(check=True))
    np.testing.assert_array_equal(found["y"], x.max(1))
    fence = "fence.proxy.async.shared::cta;"
    start, *rest = text.split(fence)
    with pytest.raises(AssertionError, match="overwrites what threads touched"):
        run_ptx(f"{start}{fence}{''.join(rest)}", found, apart=True)


def test_a_stage_that_was_released():
    """Nothing overwrites it in a ring that is long enough."""
    module = parse_module(MOST.replace("step = 5", "step = 1").replace("5*turn", "turn"))
    (release,) = (op for op in module.walk() if isinstance(op, ReleaseOp))
    (wait,) = (op for op in module.walk() if isinstance(op, AwaitOp))
    block = wait.parent
    assert block is not None
    release.detach()
    block.insert_op_after(release, wait)
    found = {"x": np.zeros((4, 320, 32), np.float32), "y": np.zeros((4, 32), np.float32)}
    with pytest.raises(DeviceError, match="reads, of a stage that it has released,"):
        run_compiled(module, found, {}, emulation=Emulation(check=True))


def test_what_has_no_roles():
    """Short sums, small results, an operand in registers, and where nobody asks for roles."""
    small, whole = (512, 64, 512), (512, 512, 2048)
    for sizes, element, w in (
        ((512, 512, 192), "bf16", "o, i"),
        (small, "bf16", "o, i"),
        (whole, "f32", "i, o"),
    ):
        text = product(sizes, element, w=w)
        assert not roles_of(lowered(text, warpgroups=True, roles=True))
    assert not roles_of(lowered(product((4096, 4096, 4096), "bf16"), warpgroups=True))
    assert not roles_of(lowered(product((4096, 4096, 4096), "bf16"), roles=True))


@NEEDS_PTXAS
@pytest.mark.sampled(2)
@pytest.mark.parametrize("element", ["bf16", "f32", "f8E4M3FN"])
def test_what_the_assembler_says(element: str):
    """Nothing is spilled; the registers are those with which a block begins."""
    (found,) = kernel_resources(with_roles(product((4096, 4096, 4096), element), 132), ARCH)
    assert found.spilled == 0
    assert found.registers == 168


def test_the_loop_of_a_large_tile():
    """Of the consumers' loop nothing is a barrier of threads, or an access to shared memory."""
    text = ptx_text(with_roles(product((4096, 4096, 4096), "bf16"), 132), ARCH)
    loops = re.findall(r"(?s)(\$L__BB0_\d+):(.*?bra(?:\.uni)?\s+\1;)", text)
    loop = min((found for _, found in loops if "wgmma.mma_async" in found), key=len)
    names = ("wgmma.mma_async", "mbarrier.arrive", "mbarrier.try_wait", "bar.sync", "ld.shared", "cp.async")
    assert {name: loop.count(name) for name in names} == dict(zip(names, (4, 1, 1, 0, 0, 0), strict=True))
