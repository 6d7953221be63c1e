"""The runner of RUN lines, on files written here."""

import sys
from pathlib import Path

import pytest
from support.runlines import RunLineError, parse, run_file, run_lines, substitute

MODULE = 'builtin.module {\n  "test.op"() : () -> ()\n}\n'


def run(tmp_path: Path, text: str) -> None:
    source = tmp_path / "case.mlir"
    source.write_text(text)
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    run_file(source, scratch)


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


def test_a_matching_file_passes(tmp_path: Path):
    run(tmp_path, f"// RUN: xdsl-opt %s | filecheck %s\n// CHECK: test.op\n{MODULE}")


def test_a_missing_line_is_reported_with_its_command_and_input(tmp_path: Path):
    with pytest.raises(RunLineError) as failure:
        run(tmp_path, f"// RUN: xdsl-opt %s | filecheck %s\n// CHECK: other.op\n{MODULE}")
    message = str(failure.value)
    assert "filecheck" in message
    assert "test.op" in message
    assert "exit status 1" in message


def test_a_file_without_run_lines_fails(tmp_path: Path):
    with pytest.raises(RunLineError, match="no RUN line"):
        run(tmp_path, MODULE)


def test_every_run_line_counts(tmp_path: Path):
    with pytest.raises(RunLineError, match="--check-prefix"):
        run(
            tmp_path,
            "// RUN: xdsl-opt %s | filecheck %s\n"
            "// RUN: xdsl-opt %s | filecheck %s --check-prefix=SECOND\n"
            f"// CHECK: test.op\n// SECOND: other.op\n{MODULE}",
        )


def test_every_part_of_a_pipe_must_succeed(tmp_path: Path):
    with pytest.raises(RunLineError, match="exit status 3"):
        run(tmp_path, f"// RUN: {python('raise SystemExit(3)')} | cat\n")


def test_continuations_join():
    assert run_lines("// RUN: a \\\n// RUN:   b\n// RUN: c\n") == ["a b", "c"]
    with pytest.raises(RunLineError, match="continuation"):
        run_lines("// RUN: a \\\n")


def test_verify_diagnostics_are_output(tmp_path: Path):
    run(
        tmp_path,
        "// RUN: xdsl-opt %s --split-input-file --verify-diagnostics | filecheck %s\n"
        "// CHECK: test.op\n// CHECK: Expected 1 operand, but got 0\n"
        f'{MODULE}// -----\n%0 = "arith.negf"() : () -> f32\n',
    )


def test_not_takes_an_ordinary_failure(tmp_path: Path):
    run(tmp_path, f"// RUN: not {python('raise SystemExit(2)')}\n")
    with pytest.raises(RunLineError, match="exit status 1"):
        run(tmp_path, f"// RUN: not {python('pass')}\n")


def test_not_refuses_a_traceback(tmp_path: Path):
    invalid = '%0 = "arith.negf"() : () -> f32\n'
    with pytest.raises(RunLineError, match="Traceback"):
        run(tmp_path, f"// RUN: not xdsl-opt %s\n{invalid}")
    run(tmp_path, f"// RUN: not --crash xdsl-opt %s 2>&1 | filecheck %s\n// CHECK: Traceback\n{invalid}")


def test_errors_merge_into_the_pipe(tmp_path: Path):
    run(
        tmp_path,
        "// RUN: not xdsl-opt --no-such-option 2>&1 | filecheck %s\n// CHECK: unrecognized arguments\n",
    )


def test_redirections(tmp_path: Path):
    run(
        tmp_path,
        "// RUN: xdsl-opt < %s > %t && echo more >> %t; filecheck %s < %t\n"
        f"// CHECK: test.op\n// CHECK: more\n{MODULE}",
    )


@pytest.mark.exhaustive
def test_a_tool_that_changes_the_process_gets_its_own(tmp_path: Path):
    run(tmp_path, "// RUN: xdsl-opt --disable-verify %s | filecheck %s\n// CHECK: test.op\n" + MODULE)


def test_an_unknown_program_fails(tmp_path: Path):
    with pytest.raises(RunLineError, match="No such file"):
        run(tmp_path, "// RUN: no-such-program %s\n")


def test_substitutions(tmp_path: Path):
    source = Path("/tests/case.mlir")
    line = substitute("a %s %S %t.more %T 100%% %x", source, tmp_path)
    assert line == f"a /tests/case.mlir /tests {tmp_path}/case.mlir.tmp.more {tmp_path} 100% %x"


@pytest.mark.parametrize("line", ["a || b", "a $(b)", "a |", "| a", "a >", "a &"])
def test_what_is_not_understood_is_refused(line: str):
    with pytest.raises(RunLineError):
        parse(line)


def test_quotes_keep_words_together():
    ((command,),) = (pipeline.commands for pipeline in parse("""a 'p{x=1 y=2},q' "b|c" d=\\"e\\" """))
    assert command.argv == ["a", "p{x=1 y=2},q", "b|c", 'd="e"']
