"""`ocannl-opt` on the text of every stage, and on text that is none."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from support import kernels, tensor_core_kernels
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import train
from ocannl.lowering.pipelines import LEVELS, PIPELINES, module_text, stage_names
from ocannl.tools.opt import main

PASSES = [p.name for p in PIPELINES["cpu"]]
STAGES = list(stage_names("cpu"))
POSITION = re.compile(r":\d+:\d+|line \d+", re.IGNORECASE)


@lru_cache
def moons_step() -> oc.Routine:
    """The step of half-moons, compiled."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (8, 10, 2)).astype(np.float32)
    batch_n, step_n = oc.index("batch_n", 8), oc.index("step_n")
    x, y = oc.data(points, label="moons_flat"), oc.data(np.sign(points[..., :1]), label="moons_classes")
    w1, w2, w3 = (oc.param(f"w{k}") for k in (1, 2, 3))
    b1, b2 = (oc.param(f"b{k}", 0.0, output=16) for k in (1, 2))
    scores = w3 @ oc.relu(b2 + w2 @ oc.relu(b1 + w1 @ x[batch_n]))
    loss = oc.relu(1 - y[batch_n] * scores).einsum("...|... => 0") / 10
    update = train.sgd_update(loss, learning_rate=0.1 * (32 - step_n) / 16, momentum=0.9, weight_decay=1e-4)
    return oc.Context.cpu().compile(train.grad_update(loss) + update, name="moons_step")


@lru_cache
def moons(stage: str) -> str:
    """The text of the step at a stage."""
    return moons_step().ir(stage)


@dataclass
class Done:
    code: int
    out: str
    err: str


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
Opt = Callable[..., Done]


@pytest.fixture
def opt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Opt:
    def run(text: str | bytes, *args: str) -> Done:
        file = tmp_path / "input.mlir"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main([str(file), *args])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def passes_after(stage: str) -> list[str]:
    if stage == "texpr":
        return PASSES
    last = LEVELS[stage].name if stage in LEVELS else stage
    return PASSES[PASSES.index(last) + 1 :]


class TestStages:
    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("stage", STAGES)
    def test_a_stage_prints_to_itself(self, stage: str, opt: Opt):
        text = moons(stage)
        done = opt(text)
        assert (done.code, done.err) == (0, "")
        assert done.out.strip() == text.strip()

    @pytest.mark.sampled(8)
    @pytest.mark.parametrize("stage", STAGES)
    def test_the_remaining_passes_give_the_same_end(self, stage: str, opt: Opt):
        rest = passes_after(stage)
        done = opt(moons(stage), *(["-p", ",".join(rest)] if rest else []))
        assert (done.code, done.err) == (0, "")
        assert done.out == moons("loops")

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("stage", ["texpr", "assign", "infer-shapes", "fuse", "loops"])
    def test_the_same_llvm(self, stage: str, opt: Opt):
        wanted = opt(moons("texpr"), "-p", "cpu", "-t", "llvm")
        assert wanted.code == 0
        assert "define" in wanted.out
        rest = passes_after(stage)
        done = opt(moons(stage), *(["-p", ",".join(rest)] if rest else []), "-t", "llvm")
        assert (done.code, done.out) == (0, wanted.out)

    def test_what_python_compiles(self, opt: Opt):
        assert opt(moons("texpr"), "-p", "cpu").out == moons("loops")
        llvm = opt(moons("texpr"), "-p", "cpu", "-t", "llvm").out
        assert llvm == moons("llvm")

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", PASSES)
    def test_one_pass_at_a_time(self, name: str, opt: Opt):
        place = PASSES.index(name)
        before = moons(PASSES[place - 1] if place else "texpr")
        done = opt(before, "-p", name)
        assert (done.code, done.err) == (0, "")
        assert done.out.strip() == moons(name).strip()

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", PASSES)
    def test_a_pass_twice_is_no_crash(self, name: str, opt: Opt):
        """Passes may run again on what they gave: they change nothing, or say why not."""
        done = opt(moons(name), "-p", name)
        assert done.code in (0, 1)
        if done.code:
            check_report(done)

    @pytest.mark.sampled(8)
    @pytest.mark.parametrize("name", PASSES)
    @pytest.mark.parametrize("stage", ["texpr", "assign", "loops"])
    def test_a_pass_on_another_level_is_no_crash(self, name: str, stage: str, opt: Opt):
        done = opt(moons(stage), "-p", name)
        if done.code:
            check_report(done)

    def test_the_text_of_an_expression(self, opt: Opt):
        x = oc.data(np.ones((4, 3)), label="x")
        y = oc.tanh(oc.param("w", output=2) @ x)
        for stage in STAGES:
            done = opt(y.ir(stage))
            assert (done.code, done.out.strip()) == (0, y.ir(stage).strip())


def check_report(done: Done):
    """An error is reported in a few lines of the tool's own."""
    assert done.code == 1
    assert "error" in done.err.lower()
    assert "Traceback" not in done.err + done.out
    assert "AssertionError" not in done.err
    assert len(done.err.splitlines()) <= 25, done.err


def check_located(done: Done):
    check_report(done)
    assert POSITION.search(done.err), done.err


ROUTINE = """builtin.module {{
  texpr.routine @r {{
    %x = texpr.data "x" : !texpr.tensor<4 | 3, f32>
    %w = texpr.param "w" : !texpr.tensor<3 -> 2, f32>
    {}
  }}
}}
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

    @pytest.mark.sampled(6)
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

    @pytest.mark.sampled(2)
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

    def test_nothing(self, opt: Opt):
        check_report(opt(""))
        assert opt("builtin.module {\n}\n").code == 0


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
            "    %a = loops.reduce add (j = 4) : f32 {\n      %b = loops.load %x[j]\n"
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


class TestCommandLine:
    @pytest.mark.parametrize(
        "passes",
        [
            "no-such-pass",
            "infer-shape",
            "cpu,no-such-pass",
            "infer-shapes{",
            "infer-shapes}",
            "infer-shapes{x=1}",
            ",",
            "{}",
        ],
    )
    def test_wrong_passes(self, passes: str, opt: Opt):
        check_report(opt(moons("texpr"), "-p", passes))

    def test_a_near_name_is_suggested(self, opt: Opt):
        done = opt("", "-p", "infer-shape")
        check_report(done)
        assert "infer-shapes" in done.err

    def test_a_file_that_is_not_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        for path in (tmp_path / "missing.mlir", tmp_path):
            code = main([str(path)])
            captured = capsys.readouterr()
            check_report(Done(code, captured.out, captured.err))
            assert path.name in captured.err

    @pytest.mark.parametrize("name", ["moons", "moons.txt", "moons.mlir.bak"])
    def test_a_file_of_another_name(self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        """It is read as text of a program, whatever it is called."""
        text = "builtin.module {\n}\n"
        (tmp_path / name).write_text(text)
        code = main([str(tmp_path / name)])
        captured = capsys.readouterr()
        assert (code, captured.out, captured.err) == (0, text, "")

    @pytest.mark.parametrize("args", [["--no-such-option"], ["-t", "no-such-target"]], ids=" ".join)
    def test_wrong_options(self, args: list[str], opt: Opt, capsys: pytest.CaptureFixture[str]):
        """argparse's way: a usage message, and its exit code."""
        with pytest.raises(SystemExit) as stop:
            opt("", *args)
        assert stop.value.code == 2
        assert "usage" in capsys.readouterr().err

    def test_llvm_of_another_level(self, opt: Opt):
        done = opt(moons("texpr"), "-t", "llvm")
        check_located(done)
        assert "loops.func" in done.err

    @pytest.mark.parametrize("text", ["", "no mlir"])
    def test_standard_input(
        self, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        text = text or moons("texpr")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        code = main(["-p", "cpu"])
        captured = capsys.readouterr()
        if text == "no mlir":
            check_located(Done(code, captured.out, captured.err))
        else:
            assert (code, captured.err) == (0, "")
            assert captured.out.strip() == moons("loops").strip()

    def test_print_between_passes(self, opt: Opt):
        done = opt(
            moons("texpr"), "-p", "infer-shapes,infer-precisions,infer-projections", "--print-between-passes"
        )
        assert done.code == 0
        for stage in ("infer-shapes", "infer-precisions", "infer-projections"):
            assert moons(stage).strip() in done.out
        assert "IR after infer-shapes" in done.out

    def test_split_input(self, opt: Opt):
        one, two = moons("texpr"), "builtin.module {\n}\n"
        done = opt(f"{one}// -----\n{two}", "--split-input-file", "-p", "cpu")
        assert (done.code, done.err) == (0, "")
        first, second = done.out.split("// -----")
        assert first.strip() == moons("loops").strip()
        assert second.strip() == two.strip()

    def test_lines_count_from_the_start_of_a_split_file(self, opt: Opt):
        text = "builtin.module {\n}\n// -----\nbuiltin.module {\n  %0 = arith.addf %1, %1 : f99\n}\n"
        done = opt(text, "--split-input-file")
        check_located(done)
        assert ":5:" in done.err

    def test_verify_diagnostics(self, opt: Opt):
        """An error in the input is what is looked for: it is printed, and the exit code is 0."""
        line = '%y = texpr.apply sub= mul(%w, %x) logic "@" : !texpr.tensor<4 | 2>'
        plain = opt(ROUTINE.format(line))
        check_report(plain)
        expected = opt(ROUTINE.format(line), "--verify-diagnostics")
        assert (expected.code, expected.err) == (0, "")
        assert f"error: {expected.out}".strip() == plain.err.strip()

    def test_parsing_diagnostics(self, opt: Opt):
        done = opt("builtin.module { texpr.no }", "--parsing-diagnostics")
        assert done.code == 0
        assert "texpr.no" in done.out

    def test_output_file(self, tmp_path: Path, opt: Opt):
        target = tmp_path / "out.mlir"
        done = opt(moons("texpr"), "-p", "cpu", "-o", str(target))
        assert (done.code, done.out) == (0, "")
        assert target.read_text().strip() == moons("loops").strip()


@pytest.mark.parametrize(
    "text", ['"' + 30_000 * "a", '"' + 10_000 * "\\n", 'builtin.module { "' + 200 * "b "]
)
def test_a_string_without_an_end(text: str, opt: Opt):
    done = opt(text)
    assert done.code == 1
    assert "End of file reached before closing string literal" in done.err


NEST = """
loops.func @f {
  %x = assign.node "x" on_device because "node" : memref<4xf32>
  loops.nest "n" (i = 4) {
    %0 = loops.load %x[i]
    loops.store %0, %x[i]
  }
}
"""


class TestOptionsAndOutput:
    """Errors outside of the input are told in one line, too."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        (tmp_path / "nest.mlir").write_text(NEST)
        return str(tmp_path / "nest.mlir")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ("-p schedule{vector_bytes=0}", "a target has vector_bytes from 8 to 256, found 0"),
            ("-p schedule{vector_bytes=24}", "vector_bytes is a power of two, found 24"),
            ("-p schedule{vector_registers=-1}", "vector_registers from 4 to 256, found -1"),
            ("-p tile-and-fuse{cores=0}", "cores from 1 to 65536, found 0"),
            ("-p rematerialize{l2_bytes=-1}", "l2_bytes from 0 to"),
            ("-p lower-loops-to-kernels{stages=0}", "stages is from 1 to 64, found 0"),
            ("-p lower-loops-to-kernels{tile_bytes=-1}", "tile_bytes is from 1 to 1048576, found -1"),
            ("-t ptx{foo=1}", '-t ptx{foo=1}: Provided arguments ["foo"] not found'),
            ("-t llvm{foo=1}", '-t llvm{foo=1}: Provided arguments ["foo"] not found'),
            ("-o /nowhere/x.mlir", "cannot write /nowhere/x.mlir: No such file or directory"),
            ("-o /", "cannot write /: Is a directory"),
        ],
    )
    def test_wrong_ones(self, arguments: str, told: str, file: str, capsys: pytest.CaptureFixture[str]):
        assert main([file, *arguments.split()]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert told in line

    @pytest.mark.sampled(3)
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    @pytest.mark.parametrize(
        ("redirected", "told"),
        [("> /dev/full", "No space left on device"), (">&-", "it is closed"), ("| true", "Broken pipe")],
    )
    def test_an_output_that_cannot_be_written(self, redirected: str, told: str, file: str):
        Path(file).write_text("".join(NEST.replace("@f", f"@f{k}") for k in range(500)))
        command = f"{sys.executable} -m ocannl.tools.opt {file} {redirected}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.stderr == f"error: cannot write standard output: {told}\n"


@pytest.mark.parametrize("type", ["...b2147483647", "?d2147483647"])
def test_numbers_of_variables_are_no_counts(type: str, opt: Opt):
    text = (
        f'texpr.routine @f {{\n  %a = texpr.data "a" : !texpr.tensor<{type}, f32>\n  texpr.forward %a\n}}\n'
    )
    done = opt(text, "-p", "infer-shapes")
    assert done.code == 0, done.err
    assert "2147483647" not in done.out
