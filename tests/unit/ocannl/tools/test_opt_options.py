"""The options of `ocannl-opt`, its files, and its output."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from support.opt_tool import ROUTINE, Done, Opt, check_located, check_report, moons

from ocannl.tools.opt import main


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

    def test_a_pipeline_stands_beside_a_pass_with_options(self, opt: Opt):
        text = moons("texpr")
        done = opt(text, "-p", "cpu,schedule{vector_bytes=32}")
        assert (done.code, done.out) == (0, moons("loops"))

    def test_a_pipeline_has_no_options(self, opt: Opt):
        done = opt("", "-p", "cpu{vector_bytes=32}")
        assert "the pipeline `cpu` has no options" in done.err

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("-p schedule{vector_byte=32}", "has no option `vector_byte`; did you mean vector_bytes"),
            ("-p infer-shapes{x=1}", "`infer-shapes` has no option `x`: it has none"),
            ("-p schedule{described=1}", "`schedule` has no option `described`; its options are cpu, "),
            ("-p schedule{vector-bytes=x}", "`vector-bytes` of `schedule` is a whole number, found `x`"),
            ("-p lower-loops-to-kernels{roles=maybe}", "is true or false, found `maybe`"),
            ("-p lower-loops-to-kernels{roles=true,false}", "is true or false, found `true,false`"),
            ("-p lower-loops-to-kernels{roles}", "is true or false, found no value"),
            ("-t ptx{lines=3}", "the option `lines` of `ptx` is true or false, found `3`"),
            ("-t ptx{checks=true}", "`ptx` has no option `checks`; its options are arch, lines"),
        ],
    )
    def test_options_that_there_are_not(self, given: str, said: str, opt: Opt):
        done = opt("", *given.split())
        check_report(done)
        assert said in done.err

    @pytest.mark.parametrize("text", ["", "\n", "// nothing\n"])
    def test_a_text_without_operations(self, text: str, opt: Opt):
        assert opt(text) == Done(0, "builtin.module {\n}\n", "")
        done = opt(text, "--no-implicit-module")
        check_located(done)
        assert "the text is empty: it has no operation" in done.err

    def test_times_of_passes(self, opt: Opt):
        done = opt(moons("texpr"), "-p", "infer-shapes,infer-precisions", "--time-passes")
        assert [line.partition(":")[0] for line in done.err.splitlines()] == [
            "infer-shapes",
            "infer-precisions",
        ]

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ("riscv-asm", "does not print"),
            ("mps", "does not print"),
            ("wgsl", "prints nothing of"),
            ("wat", "prints nothing of"),
        ],
    )
    def test_a_target_of_xdsl_that_does_not_print_it(self, target: str, said: str, opt: Opt):
        done = opt("assign.routine @f {\n}\n", "-t", target)
        check_report(done)
        assert f"xDSL's target `{target}` {said} this module" in done.err

    def test_a_pass_of_xdsl_whose_program_is_not_there(self, opt: Opt):
        done = opt(moons("texpr"), "-p", 'mlir-opt{executable="no-program"}')
        check_report(done)
        assert "xDSL's pass `mlir-opt` fails: no-program is not available" in done.err

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

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("text", ["", "no mlir"])
    @pytest.mark.parametrize("named", [[], ["-"]])
    def test_standard_input(
        self, text: str, named: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        text = text or moons("texpr")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        code = main([*named, "-p", "cpu"])
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

    @pytest.mark.exhaustive
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
        done = opt(moons("texpr"), "-p", "infer-shapes", "-o", str(target))
        assert (done.code, done.out) == (0, "")
        assert target.read_text().strip() == moons("infer-shapes").strip()


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
            ("-t ptx{foo=1}", "`ptx` has no option `foo`; its options are arch, lines"),
            ("-t llvm{foo=1}", "`llvm` has no option `foo`; its options are "),
            ("-o /nowhere/x.mlir", "cannot write /nowhere/x.mlir: No such file or directory"),
            ("-o /", "cannot write /: Is a directory"),
        ],
    )
    def test_wrong_ones(self, arguments: str, told: str, file: str, capsys: pytest.CaptureFixture[str]):
        assert main([file, *arguments.split()]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert told in line

    @pytest.mark.exhaustive
    @pytest.mark.sampled(3)
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    @pytest.mark.parametrize(
        ("redirected", "told"),
        [("> /dev/full", "No space left on device"), (">&-", "it is closed"), ("| true", "Broken pipe")],
    )
    def test_an_output_that_cannot_be_written(self, redirected: str, told: str, file: str):
        Path(file).write_text("".join(NEST.replace("@f", f"@f{k}") for k in range(100)))
        command = f"{sys.executable} -m ocannl.tools.opt {file} {redirected}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.stderr == f"error: cannot write standard output: {told}\n"
