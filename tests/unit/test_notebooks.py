"""The notebooks are those of the programs, and run."""

import shlex
from pathlib import Path
from typing import Any

import notebooks
import pytest

MISSING = "nbclient is not installed (the extra `notebooks`)"
SMALL = {
    "makemore": "bigram --steps 30",
    "nanogpt": "--layers 1 --heads 2 --width 16 --context 16 --batch 4 --steps 4 --length 9",
    "cifar": "--images 20 --batch 8 --width 4 --depth 0 --epochs 2",
}


@pytest.mark.parametrize("name", notebooks.LOOK)
def test_they_are_of_the_programs(name: str):
    committed = notebooks.HERE / f"{name}.ipynb"
    assert committed.read_text() == notebooks.text_of(name), "run python examples/notebooks.py"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", notebooks.LOOK)
def test_they_run(name: str, tmp_path: Path):
    """With small arguments in place of those of the run."""
    nbformat: Any = pytest.importorskip("nbformat", reason=MISSING)
    nbclient: Any = pytest.importorskip("nbclient", reason=MISSING)
    book = nbformat.read(notebooks.HERE / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    (run,) = [cell for cell in book.cells if cell.source.startswith("trained = main(")]
    runs = [] if name == "makemore" else ["--runs", str(tmp_path)]
    run.source = f"trained = main({[*shlex.split(SMALL[name]), *runs]})"
    nbclient.NotebookClient(book, resources={"metadata": {"path": str(notebooks.HERE)}}).execute()
    (chart,) = book.cells[-1].outputs
    assert chart.name == "stdout"
    assert "loss" in chart.text or "bigram" in chart.text
