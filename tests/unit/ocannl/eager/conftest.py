"""Fixtures of eager mode."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import ocannl as oc
from ocannl.execute.eager_engine import EagerEngine
from ocannl.program.eager.engine import ENGINE


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> Generator[oc.Context]:
    """Eager mode in a context of its own, with nothing done before."""
    monkeypatch.setattr(ENGINE, "made", EagerEngine())
    ENGINE.only.forget()
    with oc.Context.cpu(threads=1) as ctx, oc.eager():
        yield ctx


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is compiled."""
    found: list[str] = []
    compile_module = oc.execute.context.compile_module

    def noted(module: Any, *rest: Any, **named: Any) -> Any:
        found.append(str(module.body.block.first_op.sym_name.data))
        return compile_module(module, *rest, **named)

    for module in ("context", "evaluation"):
        monkeypatch.setattr(f"ocannl.execute.{module}.compile_module", noted)
    return found
