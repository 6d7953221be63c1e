"""The examples of the pages run; every pass, dialect, operator and block has its place."""

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from support.layering import ROOT
from support.pages import (
    DOCS,
    FROM_JAX,
    FROM_PYTORCH,
    PAGES,
    TARGETS,
    Fence,
    Runner,
    fences,
    matches,
    name_of,
    rows_of_code,
    table,
)

import ocannl as oc
from ocannl import nn
from ocannl.dialects.assign import ASSIGN
from ocannl.dialects.kernel import KERNEL
from ocannl.dialects.loops import LOOPS
from ocannl.dialects.scalar import SCALAR_OPS, App, Arg, Const, ScalarOp, Term
from ocannl.dialects.texpr import TEXPR
from ocannl.lowering.pipelines import PIPELINES
from ocannl.program.tensor_functions.operators import PUBLIC_NAMES
from ocannl.program.values import is_memory

OTHERS = [FROM_PYTORCH, FROM_JAX]
PASSES = list(dict.fromkeys(p.name for passes in PIPELINES.values() for p in passes))


# Examples.


def test_outputs_match():
    assert matches("builtin.module {\n  a\n  b\n}\n", "a\nb\n")
    assert matches("a\nb\nc\n", "a\n  // ...\nc\n")
    assert matches("docs/page.md:3: no\n", "model.py:12: no\n")
    assert not matches("a\nb\n", "a\n")
    assert not matches("a\nb\nc\n", "...\nb\n")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OTHERS], ids=name_of)
def test_examples_run(page: Path, tmp_path: Path):
    """Those of the other pages run in `test_what_replaces_others_runs`."""
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


# Tables.


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


@pytest.mark.parametrize("page", OTHERS, ids=name_of)
def test_what_replaces_others_runs(page: Path, tmp_path: Path):
    runner, rows, results = Runner(page, tmp_path), rows_of_code(page), list[oc.Tensor]()
    runner.run_all()
    assert len(rows) > 50
    with chdir(tmp_path):
        for _, code in rows:
            result = eval(code, runner.names)
            if isinstance(result, oc.Tensor) and not is_memory(result.ir_value):
                results.append(result)
        ctx = oc.Context.cpu()
        routine = ctx.compile(sum(map(oc.forward, results), oc.Code()))
        for result in results:
            ctx.init_params(result)
        routine()


def test_the_language_has_every_environment_variable():
    folders = ("dialects", "passes", "lowering", "runtime", "ocannl")
    source = "".join(file.read_text() for folder in folders for file in (ROOT / folder).rglob("*.py"))
    rows = table(DOCS / "language.md", "variable")
    found = {row[0].strip("`").partition("=")[0] for row in rows}
    assert found == set(re.findall(r"OCANNL_[A-Z_]+", source)) - {"OCANNL_UNIVERSE"}
