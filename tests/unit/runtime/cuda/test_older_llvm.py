"""Kernels for versions of LLVM that know less of NVIDIA's GPUs; the one at hand takes their text, too."""

from __future__ import annotations

from collections import Counter

import pytest
from kernels import kernel
from kernels_ocannl import Runs

import ocannl as oc
from ocannl.runtime.cuda import ptx
from ocannl.runtime.cuda.older_llvm import for_older_llvm

NAMED = (".maxntid", ".minnctapersm", "cp.async", "cvta.param", "ldmatrix", "wgmma", "mma.sync", "bar.sync")


def instructions(text: str) -> Counter[str]:
    """How often limits of kernels, and instructions that are not the compiler's own choice, occur."""
    words = (line.split() for line in text.splitlines() if line.strip())
    names = (" ".join(found) if found[0].startswith(".") else found[0] for found in words)
    return Counter(name for name in names if name.startswith(NAMED))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["gemm_nt_1024x448x1024_bf16", "gemm_256x192x320_bf16", "softmax_200x300"])
@pytest.mark.parametrize("lines", [False, True], ids=["", "lines"])
def test_it_says_the_same(name: str, lines: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_DEBUG_INFO", str(int(lines)))
    step = oc.Context.emulated_gpu(arch="sm_90a").compile(Runs(kernel(name)).code, name="step")
    own = instructions(step.ptx())
    monkeypatch.setattr(ptx, "LATER", (1000,))
    assert instructions(step.ptx()) == own
    assert any(word.startswith(".maxntid") for word in own)


def test_attributes_become_metadata():
    pointers = "ptr addrspace(3) %3, ptr addrspace(1) %4"
    head = (
        'define ptx_kernel void @f(ptr %a, ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %m) nounwind '
        '"nvvm.maxntid"="256" "nvvm.minctasm"="2" !dbg !4 {'
    )
    text = f"""{head}
call void @llvm.nvvm.cp.async.cg.shared.global.16.s({pointers}, i32 %5), !dbg !5
call void @llvm.nvvm.cp.async.ca.shared.global.4({pointers})
}}
!5 = !{{}}
"""
    lines = for_older_llvm(text).splitlines()
    assert lines[0] == head
    assert lines[1:3] == [
        'call void asm sideeffect "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}"'
        f"({pointers}, i32 %5), !dbg !5",
        f'call void asm sideeffect "cp.async.ca.shared.global [$0], [$1], 4;", "r,l,~{{memory}}"({pointers})',
    ]
    assert lines[-4:] == [
        "!nvvm.annotations = !{!6, !7, !8}",
        '!6 = !{ptr @f, !"maxntidx", i32 256}',
        '!7 = !{ptr @f, !"minctasm", i32 2}',
        '!8 = !{ptr @f, !"grid_constant", !{i32 2}}',
    ]
