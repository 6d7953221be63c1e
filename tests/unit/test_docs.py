"""The examples of the documentation run, page by page; every pass, dialect and operator has its place.

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
from ocannl import nn, train
from ocannl.dialects.assign import ASSIGN
from ocannl.dialects.kernel import KERNEL
from ocannl.dialects.loops import LOOPS
from ocannl.dialects.scalar import SCALAR_OPS, App, Arg, Const, ScalarOp, Term
from ocannl.dialects.texpr import TEXPR
from ocannl.lowering.pipelines import PIPELINES
from ocannl.program.functions import PUBLIC_NAMES
from ocannl.program.tensor import is_memory
from ocannl.tools.opt import main as ocannl_opt

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PASSES = list(dict.fromkeys(p.name for passes in PIPELINES.values() for p in passes))
TARGETS = {
    "lower-loops-to-llvm": "-t llvm",
    "lower-kernels-to-ptx": "-t ptx",
    "lower-kernels-to-metal": "-t metal",
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OMITTED = re.compile(r"^\s*(?://|;)?\s*\.\.\.\s*$", re.MULTILINE)
PLACE = re.compile(r"(?:\S*\.md|model\.py):\d+")
RAISES = re.compile(r"# raises (\w+)\n")
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Examples.


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


def test_outputs_match():
    assert matches("builtin.module {\n  a\n  b\n}\n", "a\nb\n")
    assert matches("a\nb\nc\n", "a\n  // ...\nc\n")
    assert matches("docs/page.md:3: no\n", "model.py:12: no\n")
    assert not matches("a\nb\n", "a\n")
    assert not matches("a\nb\nc\n", "...\nb\n")


@dataclass
class Runner:
    """Runs the examples of one page in order."""

    page: Path
    folder: Path
    """Where they run, and write their files."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    output: str | None = None
    """What the example before this one gave, until it is compared."""
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
        """What a Python example prints may go unshown, what the tool gives may not."""
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
    """What `ocannl-opt` prints: its output, and its errors."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        ocannl_opt(arguments)
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path, tmp_path: Path):
    Runner(page, tmp_path).run_all()


def test_examples_write_to_their_own_folder(tmp_path: Path):
    folder = tmp_path / "examples"
    folder.mkdir()
    page = ROOT / "page.md"
    here = Path.cwd()
    program = "from pathlib import Path\nPath('written').touch()\nprint(Path.cwd())\n"
    runner = Runner(page, folder)
    runner.run(Fence("python", program, 1, False))
    runner.run(Fence("mlir", "// round trip\nbuiltin.module {\n}\n", 4, False))
    assert runner.output is None
    assert {file.name for file in folder.iterdir()} == {"written", "example.mlir"}
    assert Path.cwd() == here


# Pages.


@pytest.mark.parametrize("name", [*PASSES, *TARGETS])
def test_every_pass_has_a_page_with_an_example(name: str):
    page = (DOCS / "passes" / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    headings = [fence.heading for fence in fences(page)]
    assert f"ocannl-opt {TARGETS.get(name, f'-p {name}')}" in headings
    assert "gives" in headings


@pytest.mark.parametrize("dialect", [TEXPR, ASSIGN, LOOPS, KERNEL], ids=lambda dialect: dialect.name)
def test_every_dialect_has_a_page_with_its_operations(dialect: Any):
    page = (DOCS / "dialects" / f"{dialect.name}.md").read_text()
    assert page.startswith(f"# {dialect.name}\n")
    for op in dialect.operations:
        assert f"`{op.name}`" in page, f"{op.name} is not in its dialect's page"
    text = "".join(fence.text for fence in fences(page) if fence.heading == "round trip")
    missing = [op.name for op in dialect.operations if op.name not in text.split()]
    assert not missing, f"no example has {missing}"


def test_pages_of_passes_and_dialects_are_about_something():
    names = {page.stem for page in (DOCS / "passes").glob("*.md")}
    assert names == {*PASSES, *TARGETS}
    assert {page.stem for page in (DOCS / "dialects").glob("*.md")} == {"texpr", "assign", "loops", "kernel"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    for link in LINK.findall(page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_index_links_every_page():
    links = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "index.md").read_text())}
    assert set(DOCS.rglob("*.md")) - links == {DOCS / "index.md"}


# Tables.


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


def operator_cells(op: ScalarOp) -> list[str]:
    """The cells of an operator's row; its meaning, between the second and these, is the page's."""
    operands = "abc"[: op.arity]
    names = dict(enumerate([*operands, "r"]))
    neutral = "" if op.neutral is None else f"{op.neutral:g}"
    return [
        f"`oc.{PUBLIC_NAMES.get(op.name, op.name)}({', '.join(operands)})`",
        f"`{op.name}`",
        neutral,
        ", ".join(f"`{term_text(term, names)}`" for term in op.derivative),
    ]


def term_text(term: Term, names: dict[int, str]) -> str:
    match term:
        case Arg(index):
            return names[index]
        case Const(value):
            return f"{value:.6g}"
        case App(op, args):
            return f"{op}({', '.join(term_text(arg, names) for arg in args)})"


def test_the_language_has_every_operator():
    rows = table(DOCS / "language.md", "function | in terms")
    expected = [operator_cells(op) for op in SCALAR_OPS.values()]
    found = [[function, name, neutral, slopes] for function, name, _, neutral, slopes in rows]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in expected)
    assert found == expected, f"the table of operators is to be\n{text}"
    assert all(meaning for _, _, meaning, _, _ in rows)
    assert all(hasattr(oc, PUBLIC_NAMES.get(name, name)) for name in SCALAR_OPS)


def test_every_block_has_its_place():
    page = (DOCS / "blocks.md").read_text()
    blocks = [name for name in nn.__all__ if name.islower()]
    assert [name for name in blocks if f"`nn.{name}" not in page] == []


MIGRATION = DOCS / "coming_from_pytorch.md"


def migrated() -> list[str]:
    """What stands in the second column of the tables that begin with PyTorch's."""
    rows = [re.split(r"(?<!\\)\|", line) for line in MIGRATION.read_text().splitlines() if line[:3] == "| `"]
    return [code.replace("\\|", "|") for row in rows for code in re.findall(r"`([^`]+)`", row[2])]


def test_what_replaces_pytorch_runs(tmp_path: Path):
    runner = Runner(MIGRATION, tmp_path)
    runner.run_all()
    assert len(migrated()) > 50
    for code in migrated():
        result = eval(code, runner.names)
        if isinstance(result, oc.Tensor) and not is_memory(result):
            train.forward_once(oc.Context.cpu(), result)


def test_the_architecture_has_the_pipeline():
    rows = table(DOCS / "architecture.md", "pass")
    expected = [f"[{p.name}](passes/{p.name}.md)" for p in PIPELINES["cpu"]]
    assert [row[0] for row in rows] == [*expected, *(f"[{name}](passes/{name}.md)" for name in TARGETS)]


def test_the_language_has_every_environment_variable():
    folders = ("dialects", "passes", "lowering", "runtime", "ocannl")
    source = "".join(file.read_text() for folder in folders for file in (ROOT / folder).rglob("*.py"))
    rows = table(DOCS / "language.md", "variable")
    found = {row[0].strip("`").partition("=")[0] for row in rows}
    assert found == set(re.findall(r"\bOCANNL_[A-Z_]+\b", source)) - {"OCANNL_UNIVERSE"}
