"""The messages of PyTorch and JAX that `docs/messages.md` quotes are theirs."""

from __future__ import annotations

import ast
import linecache
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
QUOTED = re.compile(r"```py\n# (PyTorch|JAX)\n(.*?)```\n\n```console\n(.*?)\n```", re.S)
CASES = QUOTED.findall(PAGE.read_text("utf-8"))
# What a program of each begins with.
NAMES = {"PyTorch": {"torch": "torch"}, "JAX": {"jax": "jax", "jnp": "jax.numpy"}}


def said(peer: str, program: str) -> str:
    """The error of a program, or the value of its last line."""
    names: dict[str, Any] = {name: import_module(module) for name, module in NAMES[peer].items()}
    linecache.cache["model.py"] = (len(program), None, program.splitlines(keepends=True), "model.py")
    *statements, last = ast.parse(program).body
    assert isinstance(last, ast.Expr)
    try:
        exec(compile(ast.Module(statements, []), "model.py", "exec"), names)
        return f"no error: {eval(compile(ast.Expression(last.value), 'model.py', 'eval'), names)}"
    # Whatever they raise is what the page quotes.
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_each_mistake_has_both():
    assert [peer for peer, _, _ in CASES] == ["PyTorch", "JAX"] * 40


@pytest.mark.exhaustive
@pytest.mark.parametrize(("peer", "program", "message"), CASES)
def test_messages(peer: str, program: str, message: str):
    pytest.importorskip(peer.lower().removeprefix("py"))
    quoted = message.removesuffix("\n...").splitlines()
    found = said(peer, program).rstrip().splitlines()
    for line, other in zip(quoted, found, strict=False):
        assert other.rstrip().startswith(line)
    assert len(found) == len(quoted) or message.endswith("...")
