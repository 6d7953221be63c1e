"""Convolutions as kernels: the pipeline of copies goes on over all positions of a window."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.convolution_kernels import Images
from support.nests import run_compiled
from support.ptx.memory import Counts
from support.ptx.run import run_ptx
from support.tensor_core_kernels import lowered
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.kernel import CopyOp, WaitOp
from ocannl.dialects.kernel.point import PointOp
from ocannl.dialects.loops import ReduceOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import find_ptxas

NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
# Elements, whether these are rounded to TF32, and architectures.
KINDS = [("f32", False, "sm_80"), ("f32", True, "sm_80"), ("bf16", True, "sm_90"), ("bf16", True, "sm_90a")]


def check(images: Images, tf32: bool, arch: str, apart: bool = False) -> tuple[ModuleOp, Counts]:
    """Runs the PTX of a convolution, which is close to that of NumPy."""
    module = lowered(images.text(), tf32, warpgroups=arch == "sm_90a")
    found = images.arrays()
    counts = run_ptx(ptx_text(module, arch), found, apart=apart)
    bound = 1e-5 * np.sqrt(np.prod(images.window) * images.channels)
    np.testing.assert_allclose(found["y"], images.expected(found, tf32), rtol=1e-5, atol=bound)
    return module, counts


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.parametrize(("element", "tf32", "arch"), KINDS)
@pytest.mark.parametrize("stride", [1, 2])
def test_a_ring_goes_on_over_windows(element: str, tf32: bool, arch: str, stride: int):
    """Each stage is used twice and more; a step waits for its own tiles alone."""
    module, counts = check(Images(64, (3, 2), 64, 64, (3, 3), stride, element), tf32, arch)
    assert not counts.conflicts(looped=True)
    assert not counts.partial()
    (loop,) = {op.parent_op() for op in module.walk() if isinstance(op, WaitOp)}
    assert isinstance(loop, ReduceOp)
    assert loop.space.names[:2] == ("i", "j")
    assert all(op.pending.data > 0 for op in module.walk() if isinstance(op, WaitOp))
    assert all(op.is_async for op in module.walk() if isinstance(op, CopyOp))


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("element", "tf32", "arch"), KINDS)
def test_odd_sizes(element: str, tf32: bool, arch: str):
    """The last tiles along channels, images and results are not whole; warps need not go on together."""
    images = Images(19, (2, 3), 40, 36, (2, 3), 1, element)
    module, _ = check(images, tf32, arch, apart=True)
    found = images.arrays()
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], images.expected(found, tf32), rtol=1e-5, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.sampled(13)
@pytest.mark.parametrize(("element", "tf32", "arch"), KINDS)
@pytest.mark.parametrize("images", [Images(3, (7, 5), 64, 64), Images(5, (6, 6), 72, 40, (2, 3), 2)], ids=str)
def test_rows_of_several_variables(images: Images, element: str, tf32: bool, arch: str):
    """There are few images, and few positions along each axis of these: a tile has rows of all."""
    images = replace(images, element=element)
    module, counts = check(images, tf32, arch, apart=True)
    assert not counts.conflicts(looped=True)
    assert {op.at.count for op in module.walk() if isinstance(op, PointOp)} >= {images.positions}
    copies = [op for op in module.walk() if isinstance(op, CopyOp) and op.source.name_hint == "x"]
    assert all(op.at is not None and op.at.count == images.positions for op in copies)
    found = images.arrays()
    run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
    np.testing.assert_allclose(found["y"], images.expected(found, tf32), rtol=1e-5, atol=1e-4)


def test_divisions_are_outside_of_the_loop():
    """Where a row is in the images is found once."""
    text = ptx_text(lowered(Images(2, (14, 14), 256, 64).text(), warpgroups=True), "sm_90a")
    loop = text.split("cp.async.wait_group", 1)[1].rsplit("cp.async.commit_group", 1)[0]
    by_three = {"-1431655765", "-6148914691236517205"}
    assert set(re.findall(r"mul\.hi\.\S+\s.*, (-?\d+);", loop)) <= by_three
    assert set(re.findall(r"mul\.hi\.\S+\s.*, (-?\d+);", text)) > by_three


@NEEDS_PTXAS
@pytest.mark.sampled(3)
@pytest.mark.parametrize("images", [Images(64, (28, 28), 128, 128), Images(4, (30, 29), 256, 256)], ids=str)
@pytest.mark.parametrize(("element", "tf32", "arch"), KINDS)
def test_what_the_assembler_says(images: Images, element: str, tf32: bool, arch: str):
    module = lowered(replace(images, element=element).text(), tf32, warpgroups=arch == "sm_90a")
    (found,) = kernel_resources(module, arch)
    assert found.spilled == 0
