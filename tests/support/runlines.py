"""Runs the `RUN:` lines of a test file as LLVM's lit does, the Python tools among them in this process.

Understood: several RUN lines, `\\` continuations; `%s` (the file), `%S` (its folder), `%t` (a scratch path),
`%T` (the scratch folder), `%%`; pipes, of which every part must succeed; `&&`, `;`, `not`; redirections by
`<`, `>`, `>>`, `2>`, `2>&1`.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

IN_PROCESS = ("ocannl-opt", "xdsl-opt", "filecheck")

# These options change the state of the process that runs the tool.
NEEDS_OWN_PROCESS = ("--disable-verify", "--syntax-highlight")

CRASHED = -1

RUN_LINE = re.compile(r"\bRUN:\s*(.*?)\s*$")
UNSUPPORTED = ("||", "&", "$(", "`")
TOKEN = re.compile(
    r"\s*(?:(?P<op>2>&1|2>|&&|\|\||\||;|<|>>|>|&|\$\(|`)"
    r"""|(?P<word>(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s|&;<>"'`])+))"""
)


class RunLineError(Exception):
    """A RUN line that failed or that cannot be understood."""


@dataclass
class Command:
    """One program of a pipeline, with its redirections."""

    argv: list[str] = field(default_factory=list[str])
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    append: bool = False
    merge: bool = False


@dataclass
class Pipeline:
    """Commands joined by pipes; `always` where the one before it may have failed (`;`)."""

    commands: list[Command]
    always: bool = False


@dataclass
class Result:
    status: int
    stdout: bytes
    stderr: bytes


def run_lines(text: str) -> list[str]:
    """The RUN lines of a file, continuations joined."""
    lines: list[str] = []
    continued = False
    for line in text.splitlines():
        if not (match := RUN_LINE.search(line)):
            continue
        part = match[1]
        if continued:
            lines[-1] += " " + part.removesuffix("\\").rstrip()
        else:
            lines.append(part.removesuffix("\\").rstrip())
        continued = part.endswith("\\")
    if continued:
        raise RunLineError(f"the last RUN line ends in a continuation: {lines[-1]}")
    return lines


def substitute(line: str, source: Path, scratch: Path) -> str:
    values = {
        "%%": "%",
        "%s": str(source),
        "%S": str(source.parent),
        "%t": str(scratch / f"{source.name}.tmp"),
        "%T": str(scratch),
    }
    return re.sub(r"%[%sStT](?!\w)|%%", lambda match: values[match[0]], line)


def tokens(line: str) -> Iterator[tuple[bool, str]]:
    """Pairs of whether it is an operator, and the operator or the unquoted word."""
    position = 0
    while position < len(line.rstrip()):
        match = TOKEN.match(line, position)
        if match is None or match["op"] in UNSUPPORTED:
            raise RunLineError(f"cannot understand the RUN line at {line[position:]!r}: {line}")
        position = match.end()
        yield (True, match["op"]) if match["op"] else (False, shlex.split(match["word"])[0])


def parse(line: str) -> list[Pipeline]:
    """The pipelines of a RUN line, in order."""
    pipelines = [Pipeline([Command()])]
    stream = tokens(line)
    for is_operator, token in stream:
        command = pipelines[-1].commands[-1]
        if not is_operator:
            command.argv.append(token)
        elif token in ("&&", ";"):
            pipelines.append(Pipeline([Command()], always=token == ";"))
        elif token == "|":
            pipelines[-1].commands.append(Command())
        elif token == "2>&1":
            command.merge = True
        else:
            redirect(command, token, file_operand(line, token, stream))
    if any(not command.argv for pipeline in pipelines for command in pipeline.commands):
        raise RunLineError(f"a command is missing in the RUN line: {line}")
    return pipelines


def file_operand(line: str, operator: str, stream: Iterator[tuple[bool, str]]) -> str:
    is_operator, token = next(stream, (True, ""))
    if is_operator:
        raise RunLineError(f"a file name must follow '{operator}' in the RUN line: {line}")
    return token


def redirect(command: Command, operator: str, file: str) -> None:
    if operator == "<":
        command.stdin = file
    elif operator == "2>":
        command.stderr = file
    else:
        command.stdout = file
        command.append = operator == ">>"


@cache
def console_script(name: str) -> Callable[[], object]:
    (entry,) = entry_points(group="console_scripts", name=name)
    return cast(Callable[[], object], entry.load())


@contextmanager
def standard_streams(argv: list[str], stdin: bytes, stdout: io.TextIOWrapper, stderr: io.TextIOWrapper):
    """The process as a console script expects to find it."""
    saved = sys.argv, sys.stdin
    sys.argv, sys.stdin = list(argv), io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr), warnings.catch_warnings():
            yield
    finally:
        sys.argv, sys.stdin = saved


def exit_status(value: object, stderr: io.TextIOWrapper) -> int:
    """The exit status of a console script, by its result or its `SystemExit`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    stderr.write(f"{value}\n")
    return 1


def run_in_process(argv: list[str], stdin: bytes, merge: bool) -> Result:
    """Calls the entry point of a console script as its wrapper would."""
    main = console_script(argv[0])
    out, err = io.BytesIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    stderr = stdout if merge else io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    with standard_streams(argv, stdin, stdout, stderr):
        try:
            status = exit_status(main(), stderr)
        except SystemExit as stop:
            status = exit_status(stop.code, stderr)
        # As the interpreter does at the top of a process.
        except Exception:
            stderr.write(traceback.format_exc())
            status = CRASHED
    stdout.flush()
    stderr.flush()
    return Result(status, out.getvalue(), err.getvalue())


def run_subprocess(argv: list[str], stdin: bytes, merge: bool) -> Result:
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ.get("PATH", "")
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            env=os.environ | {"PATH": path},
            check=False,
        )
    except OSError as error:
        return Result(127, b"", f"{argv[0]}: {error.strerror}\n".encode())
    return Result(done.returncode, done.stdout, done.stderr or b"")


def negate(status: int, crash_expected: bool) -> int:
    """As LLVM's `not`: a crash is no ordinary failure."""
    return 0 if (status < 0) == crash_expected and status != 0 else 1


def run_argv(argv: list[str], stdin: bytes, merge: bool) -> Result:
    if argv[0] == "not":
        crash = argv[1:2] == ["--crash"]
        result = run_argv(argv[1 + crash :], stdin, merge)
        return Result(negate(result.status, crash), result.stdout, result.stderr)
    if argv[0] in IN_PROCESS and not any(option in argv for option in NEEDS_OWN_PROCESS):
        return run_in_process(argv, stdin, merge)
    return run_subprocess(argv, stdin, merge)


def run_command(command: Command, piped: bytes) -> Result:
    """Runs one command; what it redirects into files does not come back."""
    stdin = Path(command.stdin).read_bytes() if command.stdin else piped
    result = run_argv(command.argv, stdin, command.merge)
    if command.stdout:
        with open(command.stdout, "ab" if command.append else "wb") as file:
            file.write(result.stdout)
        result.stdout = b""
    if command.stderr:
        Path(command.stderr).write_bytes(result.stderr)
        result.stderr = b""
    return result


def report(line: str, command: Command, result: Result, piped: bytes) -> str:
    """The part of a failed command that a reader needs."""
    how = "crashed" if result.status < 0 else f"exit status {result.status}"
    parts = [f"RUN: {line}", f"{shlex.join(command.argv)}: {how}"]
    named = {"standard input": piped, "standard output": result.stdout, "standard error": result.stderr}
    parts += [
        f"---- {name}\n{content.decode(errors='replace').rstrip()}"
        for name, content in named.items()
        if content
    ]
    return "\n".join(parts)


def run_pipeline(pipeline: Pipeline, line: str) -> list[str]:
    """The reports of the commands that failed."""
    piped, failures = b"", list[str]()
    for command in pipeline.commands:
        result = run_command(command, piped)
        if result.status != 0:
            failures.append(report(line, command, result, piped))
        piped = result.stdout
    return failures


def run_line(line: str) -> None:
    failures: list[str] = []
    for pipeline in parse(line):
        if not failures or pipeline.always:
            failures = run_pipeline(pipeline, line)
    if failures:
        raise RunLineError("\n\n".join(failures))


def run_file(source: Path, scratch: Path) -> None:
    """Runs every RUN line of `source`; raises `RunLineError` at the first that fails."""
    lines: Iterable[str] = run_lines(source.read_text())
    if not lines:
        raise RunLineError(f"{source} has no RUN line")
    for line in lines:
        run_line(substitute(line, source.resolve(), scratch))
