"""The Python examples of the documentation run, page by page."""

import re
from pathlib import Path

import pytest
from layering import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def program(page: str) -> str:
    """The examples of a page as one program, each on the line where the page has it."""
    lines = [""] * (page.count("\n") + 1)
    for example in EXAMPLE.finditer(page):
        first = page.count("\n", 0, example.start(1))
        code = example[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(program(page.read_text()), str(page), "exec"), {"__name__": "__main__"})


def test_examples_share_one_namespace_and_keep_their_lines():
    page = "text\n```python\nx = 1\n```\n```sh\nfalse\n```\n```python\ny = x\n```\n"
    lines = enumerate(program(page).splitlines(), start=1)
    assert [(number, line) for number, line in lines if line] == [(3, "x = 1"), (9, "y = x")]
