"""The pages of the documentation, and how their examples run.

The Python examples of a page are one program. A fence right after one is what it prints: `text`, or `mlir`
that begins with the line `// prints`. Other MLIR examples say in their first line what they are:

    // round trip              text that `ocannl-opt` prints back
    # raises ShapeError        Python that raises it; the next fence is its message, in `text`, to the letter
    // ocannl-opt -p fuse      its input; the next fence begins with `// gives` (`; gives` in LLVM IR) and is
                               its output, or is a `text` fence with its error

Examples run in a temporary folder, where a `sh` example of `ocannl-opt` lines finds what Python wrote. In an
output, a line `...` (or `// ...`) stands for anything; space is not compared, nor are the line numbers of
`model.py`.
"""

import builtins
import linecache
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support.layering import ROOT

import ocannl as oc
from ocannl.tools.opt import main as ocannl_opt

DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FROM_PYTORCH, FROM_JAX = DOCS / "coming_from_pytorch.md", DOCS / "coming_from_jax.md"

# The options of `ocannl-opt` that are described among the passes.
TARGETS = {
    "lower-loops-to-llvm": "-t llvm",
    "lower-loops-to-c": "-t c",
    "lower-kernels-to-ptx": "-t ptx",
    "lower-kernels-to-metal": "-t metal",
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OMITTED = re.compile(r"^\s*(?://|;)?\s*\.\.\.\s*$", re.MULTILINE)
PLACE = re.compile(r"(?:[^\s\"(]*\.md|model\.py)\"?:\d+")
RAISES = re.compile(r"# raises (\w+)\n")
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Fence:
    """An example: its language, its text, the number of the text's first line, and whether only space stands
    between it and the example before.
    """

    language: str
    text: str
    line: int
    follows: bool

    @property
    def heading(self) -> str:
        """The comment in the first line."""
        first = self.text.partition("\n")[0]
        return first[2:].strip() if first.startswith("//") else first[1:].strip() if first[:1] == ";" else ""

    @property
    def body(self) -> str:
        return self.text.partition("\n")[2] if self.heading else self.text

    @property
    def is_output(self) -> bool:
        return self.follows and (self.language == "text" or self.heading in ("gives", "prints"))


def fences(page: str) -> Iterator[Fence]:
    end = 0
    for match in FENCE.finditer(page):
        line = page.count("\n", 0, match.start(2)) + 1
        yield Fence(match[1], match[2], line, end > 0 and not page[end : match.start()].strip())
        end = match.end()


def normalized(text: str) -> str:
    """The text with single spaces, without the module around it and without line numbers."""
    words = " ".join(PLACE.sub("model.py", text).split())
    match = re.fullmatch(r"builtin\.module \{(.*)\}", words)
    return match[1].strip() if match else words


def matches(output: str, expected: str) -> bool:
    parts = [re.escape(normalized(part)) for part in OMITTED.split(expected)]
    return re.fullmatch(".*?".join(parts), normalized(output)) is not None


def table(page: Path, heading: str) -> list[list[str]]:
    """The rows of the table whose heading begins with `heading`."""
    lines = page.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def rows_of_code(page: Path) -> list[tuple[str, str]]:
    """The codes in turn of the first two columns of the tables that begin with code."""
    found: list[tuple[str, str]] = []
    for line in page.read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
            theirs, ours = (re.findall(r"`([^`]+)`", cell) for cell in cells[1:3])
            found += zip(theirs, ours, strict=True)
    return found


@dataclass
class Runner:
    """Runs the examples of one page in order."""

    page: Path
    folder: Path
    """Where they run, and write their files."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    output: str | None = None
    """The output of the example before this one, until it is compared."""
    unshown: str | None = None
    """Where an example stands that has no output yet, and must have one."""
    is_exact: bool = False
    """Whether the output is compared with its space and line numbers."""

    def run_all(self) -> None:
        for fence in fences(self.page.read_text()):
            self.run(fence)
        self.check_compared()

    def run(self, fence: Fence) -> None:
        with chdir(self.folder):
            self.run_here(fence)

    def run_here(self, fence: Fence) -> None:
        if fence.is_output:
            self.compare(fence)
        else:
            self.check_compared()
            runners: dict[str, Callable[[Fence], None]] = {
                "python": self.run_python,
                "mlir": self.run_mlir,
                "sh": self.run_shell,
            }
            if fence.language in runners:
                runners[fence.language](fence)

    def where(self, fence: Fence) -> str:
        return f"{name_of(self.page)}:{fence.line}"

    def compare(self, fence: Fence) -> None:
        assert self.output is not None, f"{self.where(fence)}: nothing gives this output"
        agrees = self.output == fence.text.rstrip() if self.is_exact else matches(self.output, fence.body)
        self.is_exact = False
        if not agrees:
            pytest.fail(f"{self.where(fence)}: the output is\n{self.output}", pytrace=False)
        self.output = self.unshown = None

    def check_compared(self) -> None:
        """The output of a Python example may go unshown, that of the tool may not."""
        assert self.unshown is None, f"{self.unshown}: the output is missing"

    def run_python(self, fence: Fence) -> None:
        raised = RAISES.match(fence.text)
        if raised:
            self.run_failing(fence, raised[1])
            return
        program = "\n" * (fence.line - 1) + fence.text
        with redirect_stdout(StringIO()) as printed:
            exec(compile(program, str(self.page), "exec"), self.names)
        self.output = printed.getvalue()

    def run_failing(self, fence: Fence, error: str) -> None:
        """Lines are counted from the start of the example, in a file of its own."""
        expected: type[Exception] = getattr(oc, error, None) or getattr(builtins, error)
        linecache.cache["model.py"] = len(fence.text), None, fence.text.splitlines(keepends=True), "model.py"
        with pytest.raises(expected) as caught:
            exec(compile(fence.text, "model.py", "exec"), self.names)
        assert caught.type is expected, f"{self.where(fence)}: {caught.value!r}"
        self.output, self.unshown, self.is_exact = str(caught.value), self.where(fence), True

    def run_mlir(self, fence: Fence) -> None:
        tool, _, arguments = fence.heading.partition(" ")
        Path("example.mlir").write_text(fence.body)
        if fence.heading == "round trip":
            self.output = opt(["example.mlir"])
            self.compare(fence)
            return
        assert tool == "ocannl-opt", f"{self.where(fence)}: the first line does not say what to run"
        self.output, self.unshown = opt(["example.mlir", *shlex.split(arguments)]), self.where(fence)

    def run_shell(self, fence: Fence) -> None:
        """Lines of `ocannl-opt`; other examples are for the reader."""
        commands = [shlex.split(line) for line in fence.text.splitlines()]
        if all(command[0] == "ocannl-opt" for command in commands):
            self.output, self.unshown = "".join(opt(command[1:]) for command in commands), self.where(fence)


def opt(arguments: Sequence[str]) -> str:
    """The output of `ocannl-opt`, and its errors."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        ocannl_opt(arguments)
    return out.getvalue()
