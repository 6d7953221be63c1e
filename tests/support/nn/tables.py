"""All tables of blocks as one."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec
from types import ModuleType

from support.nn import (
    attention,
    batch_norm,
    conv,
    experts,
    images,
    layers,
    losses,
    lstm,
    metrics,
    pool,
    recurrent,
    vision,
)
from support.nn.check import Case

MODULES = (
    layers,
    attention,
    batch_norm,
    conv,
    experts,
    images,
    losses,
    metrics,
    lstm,
    recurrent,
    pool,
    vision,
)


def case_name(module: ModuleType, name: str) -> str:
    return f"{module.__name__.rpartition('.')[2]}: {name}"


NAMES = [case_name(module, name) for module in MODULES for name in module.CASES]


def fresh_cases() -> dict[str, Case]:
    """New blocks: their parameters have no type yet, which they get when they are used."""
    return {case_name(module, name): case for module in MODULES for name, case in fresh(module).CASES.items()}


def fresh(module: ModuleType) -> ModuleType:
    """The module of a table, run once more."""
    spec = find_spec(module.__name__)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy
