"""Notebooks of some examples, made of their programs: `python examples/notebooks.py` writes them anew."""

import ast
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

LOOK = {
    "nanogpt": ("", 'train.plot(trained.losses, title="loss")'),
    "cifar": ('"--epochs", "12"', "train.plot(trained.history)"),
    "makemore": ("", "train.plot({name: one.losses for name, one in trained.items()})"),
}
"""By program: the arguments of its run, and what is looked at then."""


def notebook(name: str) -> dict[str, Any]:
    """The notebook of a program: a cell for its imports, one for each definition, and one for its run."""
    source = (HERE / f"{name}.py").read_text()
    about, *parts = parts_of(source)
    arguments, look = LOOK[name]
    if "__file__" in source:
        parts.insert(1, f'__file__ = str(Path("{name}.py").resolve())  # where paths begin')
    cells = [("markdown", f"# {name}\n\n{about}\n\nMade of `{name}.py` by `notebooks.py`.")]
    cells += [("code", text) for text in [*parts, f"trained = main([{arguments}])", look]]
    return {
        "cells": [cell(number, *each) for number, each in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def parts_of(source: str) -> list[str]:
    """A program's docstring, its imports, and the statements after them: each definition apart."""
    tree, lines = ast.parse(source), source.splitlines()
    found, begin, before = [ast.get_docstring(tree) or ""], tree.body[0].end_lineno or 0, ""
    for statement in tree.body[1:-1]:
        end = statement.end_lineno or 0
        text, kind = "\n".join(lines[begin:end]), kind_of(statement)
        if kind == before != "definition":
            found[-1] += "\n" + text
        else:
            found.append(text.strip("\n"))
        begin, before = end, kind
    return found


def kind_of(statement: ast.stmt) -> str:
    match statement:
        case ast.Import() | ast.ImportFrom():
            return "import"
        case ast.FunctionDef() | ast.ClassDef():
            return "definition"
        case _:
            return "other"


def cell(number: int, kind: str, text: str) -> dict[str, Any]:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, **more, "source": text}


def text_of(name: str) -> str:
    return json.dumps(notebook(name), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    for name in LOOK:
        (HERE / f"{name}.ipynb").write_text(text_of(name))


if __name__ == "__main__":
    main()
