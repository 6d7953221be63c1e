"""`ocannl-opt` on texts that are FileCheck tests with changes: errors in words, no traceback, no hang."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import fuzz_opt
from support.fuzz_opt import failure, fuzz


def test_some_texts(tmp_path: Path):
    assert not fuzz(12, 0, tmp_path)


@pytest.mark.exhaustive
def test_many_texts(tmp_path: Path):
    assert not fuzz(100_000, 1, tmp_path)


def test_tracebacks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(arguments: list[str]) -> int:
        raise ZeroDivisionError("of " + arguments[1])

    monkeypatch.setattr(fuzz_opt, "main", fails)
    monkeypatch.setattr(fuzz_opt, "generic", str)
    assert failure(["file", "-p"]) is not None
    found = fuzz(3, 0, tmp_path)
    assert list(found.values()) == [3]
    assert "ZeroDivisionError at" in next(iter(found))
    assert len(list(tmp_path.glob("1.mlir"))) == 1


def test_nothing_is_changed_in_what_changes_have_left_empty():
    mutator = fuzz_opt.Mutator(["a"], random.Random(1))
    assert {mutator.mutated("") for _ in range(20)} == {""}


def test_what_the_tool_tells_is_no_failure(tmp_path: Path):
    file = tmp_path / "wrong.mlir"
    file.write_text("loops.func @f {")
    assert failure([str(file)]) is None


RANGE = (
    'texpr.routine @f {\n  %a = texpr.data "a" : !texpr.tensor<8>\n'
    "  %b = texpr.slice %a at [... | ... -> 0 to SIZE, ...] : !texpr.tensor<8>\n}"
)
HUGE = "9" * 40
PRODUCT = (
    'loops.func @f {\n  %x = assign.node "x" constant : memref<64x8xf32>\n'
    '  %k = assign.node "k" constant : memref<64x8xf32>\n'
    '  %y = assign.node "y" on_device : memref<64x64xf32>\n'
    '  loops.group "y" (b = SIZE) {\n    loops.nest "y" (s = 32, t = 64) {\n'
    "      %0 = loops.reduce add (d = 8) : f32 {\n        %1 = loops.load %x[s + 32*b, d]\n"
    "        %2 = loops.load %k[t, d]\n        %3 = arith.mulf %1, %2 : f32\n        loops.yield %3\n"
    "      }\n"
    "      loops.store %0, %y[s + 32*b, t]\n    }\n  }\n}"
)
SCAN = (
    "texpr.routine @f {\n  %zero = texpr.constant 0.0 : !texpr.tensor<...b1 | ...i2 -> ...o3>\n"
    "  %h = texpr.scan t = ?d0 carry (%c = %zero : !texpr.tensor<...b4 | ...i5 -> ...o6>) {\n"
    '    %next = texpr.apply = tanh(%c) logic "." : !texpr.tensor<...b4 | ...i5 -> ...o6>\n'
    "    texpr.yield carry (%next)\n  } : !texpr.tensor<...b4 | ...i5 -> ...o6>\n  texpr.forward %h\n}"
)
BORDERS = (
    'loops.func @f {\n  %x = assign.node "x" on_device : memref<4x8x4xf32>\n'
    '  %w = assign.node "w" on_device : memref<4x3x4xf32>\n'
    '  %p = assign.node "p" local : memref<4x9x4xf32>\n  %y = assign.node "y" on_device : memref<4x4x4xf32>\n'
    '  loops.nest "p reset" (b = 4, h = 9, c = 4) {\n    %0 = arith.constant 0.0 : f32\n'
    "    loops.store %0, %p[b, h, c]\n  }\n"
    '  loops.nest "p" (b = 4, h = 8, c = 4) {\n    %1 = loops.load %x[b, h, c]\n'
    "    loops.store %1, %p[b, h + 1, c]\n  }\n"
    '  loops.nest "y" (b = 4, h = HEIGHT, o = 4) schedule <order = (h, b, o), lanes = o : 4> {\n'
    "    %2 = loops.reduce add (i = WINDOW, c = 4) : f32 {\n      %3 = loops.load %p[b, 2*h + i, c]\n"
    "      %4 = loops.load %w[o, i, c]\n      %5 = arith.mulf %3, %4 : f32\n      loops.yield %5\n    }\n"
    "    loops.store %2, %y[b, h, o]\n  }\n}"
)
ASKED = (
    'texpr.routine @f mesh (data = 2) {\n  %x = texpr.data "x" : !texpr.tensor<8, f32>\n'
    '  %w = texpr.param "w" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>\n'
    '  %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<8, f32>\n  texpr.forward %y\n}'
)
COPY = (
    'loops.func @f {\n  %x = assign.node "x" on_device : memref<8x16xf32>\n'
    '  kernel.launch "y" grid (b = 2) block (t = 16) {\n    %s = kernel.shared memref<8x16xf32>\n'
    "    kernel.copy %x[i, k] to %s[i, k] over (i = 8, k = 0)\n  }\n}"
)
FOUND = {
    "positions of windows without points": (
        BORDERS.replace("HEIGHT", "0").replace("WINDOW", "3"),
        ["-p", "peel-borders"],
    ),
    "windows without points": (BORDERS.replace("HEIGHT", "4").replace("WINDOW", "0"), ["-p", "peel-borders"]),
    "an asked axis without index maps": (ASKED, ["-p", "partition"]),
    "a copy of nothing in a kernel": (COPY, ["-t", "metal"]),
    "a group without points": (PRODUCT.replace("SIZE", "0"), ["-p", "schedule"]),
    "a width": ("loops.func @f {\n  %c = arith.constant 1 : i9223372036854775808\n}", []),
    "a range": (RANGE.replace("SIZE", HUGE), []),
    "memory in a kernel": (
        'loops.func @f {\n  kernel.launch "y" grid (b = 3) block (t = 64) {\n'
        '    %z = assign.node "z" on_device : memref<4x4xf32>\n  }\n}',
        ["-t", "metal"],
    ),
    "a scan of unknown length": (SCAN, ["-p", "distribute-scans"]),
    "a mesh of many stages": (
        f"texpr.routine @f indices (microbatch.rank = 2) mesh (stage = {HUGE}, microbatch = 2) {{\n}}",
        ["-p", "split-stages"],
    ),
    "a group without axes": ('loops.func @f {\n  loops.group "nothing" () {\n  }\n}', ["-t", "llvm"]),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, tmp_path: Path):
    text, arguments = FOUND[name]
    file = tmp_path / "text.mlir"
    file.write_text(text)
    assert failure([str(file), *arguments]) is None
