"""The tokenizer of a model's folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import ocannl as oc
from ocannl.models.model import settings_of


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of `tokenizer.json`, by the package `tokenizers`. Raises `OcannlError` where either is
    missing.
    """
    try:
        library: Any = import_module("tokenizers")
    except ModuleNotFoundError:
        raise oc.OcannlError("text needs the package tokenizers: pip install 'ocannl[models]'") from None
    if not folder.is_dir():
        raise oc.OcannlError(f"there is no folder {folder}")
    file = folder / "tokenizer.json"
    if not file.exists():
        raise oc.OcannlError(f"{folder} has no tokenizer.json")
    try:
        return library.Tokenizer.from_file(str(file))
    # The package raises `Exception` itself.
    except Exception as error:
        raise oc.OcannlError(f"{file} is no tokenizer: {error}") from None


def ends_of(folder: Path) -> list[int]:
    """The ids that end a text, as the folder says."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).exists():
            found: Any = settings_of(folder / name).get("eos_token_id")
            if found is not None:
                return np.atleast_1d(found).tolist()
    return []
