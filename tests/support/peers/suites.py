"""Suites of other projects, run over OCANNL: where they are found, and what of them is left out."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest


def checkout(variable: str, file: str) -> Path:
    """A file of the checkout that an environment variable names; the test module is skipped without it."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"needs {variable}=<checkout> with {file}", allow_module_level=True)
    return Path(folder) / file


def load(file: Path, **instead: ModuleType) -> ModuleType:
    """A test module from its file, which imports other modules in place of those named."""
    if not file.is_file():
        pytest.skip(f"{file.name} is not installed", allow_module_level=True)
    spec = importlib.util.spec_from_file_location(f"peer_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {name.replace("__", "."): value for name, value in instead.items()}):
        spec.loader.exec_module(module)
    return module


def skip(tests: object, reasons: Mapping[str, str]) -> None:
    """Marks tests of a class or module as skipped, with the reason that a table gives. Raises for a name that
    there is not, so that the table stays true.
    """
    # The tests are other packages': their classes and modules are marked from outside.
    for names, reason in reasons.items():
        for name in names.split():
            pytest.mark.skip(reason=reason)(getattr(tests, name))
