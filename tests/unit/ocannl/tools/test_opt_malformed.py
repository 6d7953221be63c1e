"""`ocannl-opt` on text that is malformed, or that says no program: a short message with a place."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from support import kernels, tensor_core_kernels
from support.opt_tool import POSITION, ROUTINE, STAGES, Opt, check_located, check_report, moons, passes_after
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.pipelines import module_text

KERNELS: dict[str, Callable[[], ModuleOp]] = {
    "tiles": lambda: kernels.lowered(kernels.layer(37, 64, 23)),
    "tensor cores": lambda: tensor_core_kernels.lowered(tensor_core_kernels.product((40, 64, 50), "bf16")),
    "rows": lambda: kernels.lowered(kernels.sums("i = 7", "k = 1500", "k, i", "1500x7", "i", "7")),
}


@lru_cache
def kernel_text(name: str) -> str:
    return module_text(KERNELS[name]())


RANDOM = """loops.func @random indices (n) {
  %x = assign.node "x" on_device : memref<3xf32>
  kernel.launch "x" block (i = 3) {
    %place = loops.index i : i64
    %n = loops.index n : i64
    %u = loops.uniform "u" %place at %n : f32
    loops.store %u, %x[i]
  }
}
"""


class TestMalformed:
    @pytest.mark.parametrize(
        "text",
        [
            "builtin.module {",
            "}",
            "builtin.module { texpr.routine }",
            "builtin.module { texpr.routine @r { ",
            "builtin.module { texpr.routin @r { } }",
            "builtin.module { nodialect.op }",
            "%0 = arith.constant",
            "%0 = arith.addf %1, %2 : f32",
            "%0 = arith.constant 1 : i16\n%1 = arith.addf %0, %0 : i16",
            '"unregistered.op"() : () -> ()',
            "hello, world",
            "!texpr.tensor<3>",
            "\x00\x01\x02",
            "🦀",
            "// only a comment\n(",
            '"',
            "builtin.module {} builtin.module {} }",
        ],
    )
    def test_text(self, text: str, opt: Opt):
        check_located(opt(text))

    @pytest.mark.parametrize(
        "line",
        [
            '%y = texpr.data "y" : !texpr.tensor<4 | 3, f99>',
            '%y = texpr.data "y" : !texpr.tensor<4 | 3 -> 2 -> 1, f32>',
            '%y = texpr.data "y" : !texpr.tensor<4 | | 3, f32>',
            '%y = texpr.data "y" : !texpr.tensor<-4, f32>',
            '%y = texpr.data "y" : !texpr.tensor<4.5, f32>',
            '%y = texpr.data "y" : f32',
            "%y = texpr.data y : !texpr.tensor<4, f32>",
            '%y = texpr.data "y"',
            '%y = texpr.apply add= mul(%w, %z) logic "@" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply add= mull(%w, %x) logic "@" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply sub= mul(%w, %x) logic "@" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply add= mul(%w) logic "@" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply add= mul(%w, %x logic "@" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply add= mul(%w, %x) logic "b | o = b" : !texpr.tensor<4 | 2>',
            '%y = texpr.apply add= mul(%w, %x) logic "&" : !texpr.tensor<4 | 2>',
            "%y = texpr.slice %x at : !texpr.tensor<3>",
            "%x = texpr.constant 1.0 : !texpr.tensor<>",
            "texpr.forward %nothing",
            "texpr.forward",
            "texpr.assign %x %w",
            "texpr.comment no string",
            "arith.constant 1 : f32 garbage",
        ],
    )
    @pytest.mark.parametrize("passes", [[], ["-p", "cpu"]], ids=["parse", "cpu"])
    def test_operations(self, line: str, passes: list[str], opt: Opt):
        done = opt(ROUTINE.format(line), *passes)
        check_located(done)
        assert "5" in POSITION.findall(done.err)[0] or "6" in POSITION.findall(done.err)[0], done.err

    def test_shapes_that_clash(self, opt: Opt):
        line = '%y = texpr.apply = add(%w, %x) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>'
        done = opt(ROUTINE.format(line + "\n    texpr.forward %y"), "-p", "infer-shapes")
        check_located(done)
        assert ":5:5" in done.err
        assert "3->2" in done.err
        assert "4|3" in done.err

    @pytest.mark.sampled(13)
    @pytest.mark.parametrize("stage", STAGES)
    def test_truncated(self, stage: str, opt: Opt):
        text = moons(stage).rstrip()
        for part in (0.2, 0.5, 0.8, 0.99):
            cut = text[: int(len(text) * part)]
            check_located(opt(cut))

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("stage", ["texpr", "infer-shapes", "differentiate", "assign", "fuse", "loops"])
    def test_with_a_character_lost(self, stage: str, opt: Opt):
        """Any one character may be missing: it is an error with a place, or another program."""
        text = moons(stage).rstrip()
        rng = np.random.default_rng(5)
        for at in rng.integers(0, len(text), 4):
            done = opt(text[:at] + text[at + 1 :], "-p", ",".join(passes_after(stage)) or "fuse")
            if done.code:
                check_report(done)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("stage", ["texpr", "assign", "infer-projections", "loops"])
    def test_with_a_line_lost(self, stage: str, opt: Opt):
        lines = moons(stage).rstrip().splitlines()
        rng = np.random.default_rng(6)
        for at in rng.integers(0, len(lines), 4):
            text = "\n".join(lines[:at] + lines[at + 1 :])
            done = opt(text, "-p", ",".join(passes_after(stage)) or "fuse")
            if done.code:
                check_report(done)

    @pytest.mark.sampled(5)
    @pytest.mark.parametrize("stage", ["texpr", "assign", "infer-projections", "loops"])
    def test_with_a_number_changed(self, stage: str, opt: Opt):
        text = moons(stage).rstrip()
        numbers = list(re.finditer(r"(?<=[ <(,\[])\d+(?=[ >),\]])", text))
        rng = np.random.default_rng(7)
        for at in rng.integers(0, len(numbers), 4):
            number = numbers[at]
            changed = text[: number.start()] + str(int(number[0]) + 3) + text[number.end() :]
            done = opt(changed, "-p", ",".join(passes_after(stage)) or "fuse", "-t", "llvm")
            if done.code:
                check_report(done)

    @pytest.mark.parametrize("target", ["ptx", "metal", "llvm"])
    def test_what_has_to_be_expanded_first(self, target: str, opt: Opt):
        done = opt(RANDOM, "-t", target)
        check_located(done)
        assert ":6:5: " in done.err

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("target", ["ptx", "metal", "llvm"])
    def test_kernels(self, kernel: str, target: str, opt: Opt):
        """With a character or a line lost, a number or a word changed."""
        text, rng = kernel_text(kernel), np.random.default_rng(8)
        for _ in range(2):
            words = list(re.finditer(r"[\w.%]+", text))
            lines = text.splitlines()
            at, line = rng.integers(0, len(text)), rng.integers(0, len(lines))
            word, other = (words[k] for k in rng.integers(0, len(words), 2))
            number = str(rng.choice([0, 1, 3, 7, 33, 1024, 2**31]))
            numbers = [w for w in words if w[0].isdecimal()]
            old = numbers[rng.integers(0, len(numbers))]
            for broken in (
                text[:at] + text[at + 1 :],
                "\n".join([*lines[:line], *lines[line + 1 :]]),
                text[: word.start()] + other[0] + text[word.end() :],
                text[: old.start()] + number + text[old.end() :],
            ):
                done = opt(broken, "-t", target)
                if done.code:
                    check_located(done)

    @pytest.mark.parametrize(
        "data", [b"\xff\xfe\x00", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"\x00" * 100]
    )
    def test_binary(self, data: bytes, opt: Opt):
        check_report(opt(data))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '"assign.routine"() <{sym_name = "r", indices = #assign.indices()}> ({\n'
            '  %x = "assign.node"() <{mode = "local", why = ""}> : () -> memref<4xf32>\n'
            "}) : () -> ()",
            "label",
        ),
        (
            'loops.func @f {\n  %x = assign.node "x" on_device : memref<4xf32>\n  loops.nest "x" (i = 4) {\n'
            "    %a = loops.load %x[i]\n    %b = arith.mulf %a, %b : f32\n    loops.store %b, %x[i]\n  }\n}",
            "%b is used before its definition",
        ),
        (
            'loops.func @f {\n  %x = assign.node "x" on_device : memref<4xf32>\n  loops.nest "x" (i = 4) {\n'
            "    %a = loops.reduce add (j = 4) : f32 {\n      %b = loops.load %x[i]\n"
            "      %c = arith.mulf %a, %b : f32\n      loops.yield %c\n    }\n"
            "    loops.store %a, %x[i]\n  }\n}",
            "%a is used before its definition",
        ),
        (
            'loops.func @f {\n  loops.nest "x" (i = 4) {\n'
            '    %x = assign.node "x" on_device : memref<4xf32>\n  }\n}',
            "a nest computes numbers, found `assign.node`",
        ),
        (
            'loops.func @f {\n  %x = assign.node "x" on_device : memref<4xf32>\n  loops.group "x" (i = 4) {\n'
            '    loops.nest "x" (j = 4) schedule <lanes = j : 4> {\n      %a = arith.constant 1.0 : f32\n'
            "      loops.store %a, %x[i, j]\n    }\n  }\n}",
            "2 indices for 1 axes",
        ),
    ],
    ids=[
        "a property that is missing",
        "a value of itself",
        "a value inside its own reduction",
        "memory inside a nest",
        "a store of too many indices in a group",
    ],
)
@pytest.mark.parametrize("passes", [[], ["-p", "cpu"]], ids=["parse", "cpu"])
def test_ill_formed_programs(text: str, told: str, passes: list[str], opt: Opt):
    done = opt(text, *passes)
    check_located(done)
    assert told in done.err


@pytest.mark.parametrize(
    "text", ['"' + 30_000 * "a", '"' + 10_000 * "\\n", 'builtin.module { "' + 200 * "b "]
)
def test_a_string_without_an_end(text: str, opt: Opt):
    done = opt(text)
    assert done.code == 1
    assert "End of file reached before closing string literal" in done.err


class TestEncodings:
    PROGRAM = "texpr.routine @r {\n}\n"

    @pytest.mark.parametrize(
        ("before", "line", "column"), [(b"", 1, 1), (b"// \n", 2, 1), ("// é ".encode(), 1, 7)]
    )
    def test_a_byte_that_is_not_utf8_has_its_place(self, before: bytes, line: int, column: int, opt: Opt):
        done = opt(before + b"\xe9\n" + self.PROGRAM.encode())
        check_report(done)
        assert f":{line}:{column}: the text is not UTF-8: byte 0xe9" in done.err

    def test_lines_of_parts_of_a_file_go_on(self, opt: Opt):
        done = opt(self.PROGRAM.encode() + b"// -----\n\xff", "--split-input-file")
        assert ":4:1: the text is not UTF-8" in done.err

    def test_a_byte_order_mark_is_no_text(self, opt: Opt):
        done = opt("\ufeff" + self.PROGRAM)
        assert (done.code, done.out) == (0, opt(self.PROGRAM).out)

    def test_lines_may_end_as_on_windows(self, opt: Opt):
        done = opt((self.PROGRAM + "// end\n").replace("\n", "\r\n"))
        assert (done.code, done.out) == (0, opt(self.PROGRAM).out)


@pytest.mark.parametrize("module", ["{}", "builtin.module {{\n{}}}\n"])
def test_a_second_definition_has_its_place(module: str, opt: Opt):
    done = opt(module.format("texpr.routine @r {\n}\ntexpr.routine @s {\n}\nassign.routine @r {\n}\n"))
    check_located(done)
    assert f":{6 if module != '{}' else 5}:1: `assign.routine`: @r is defined twice" in done.err


def test_a_mesh_has_the_axes_that_are_named(opt: Opt):
    line = '%y = texpr.data "y" shard <"model" = batch> : !texpr.tensor<4 | 3, f32>\n    texpr.forward %y'
    text = ROUTINE.format(line).replace("@r", "@r mesh (data = 2)")
    done = opt(text, "-p", "cpu")
    assert ':5:5: the mesh (data = 2) has no axis "model"' in done.err
