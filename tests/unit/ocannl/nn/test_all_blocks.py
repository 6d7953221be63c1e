"""No block is left out of the tables that compare values and gradients with differences and with PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

import pytest
from support.nn import tables
from support.nn.tables import fresh

import ocannl as oc
from ocannl import nn

# Memory is not a function of its arguments: `test_kv_cache.py`, `test_paged_cache.py`.
MEMORY = {"KVCache", "kv_cache", "PagedCache", "paged_cache"}
# Blocks made of a block: `test_lora.py`, `test_quantized.py`.
OF_BLOCKS = {"lora", "quantized"}
BLOCKS = {name for name in nn.__all__ if not name.endswith("Layer")} - MEMORY - OF_BLOCKS
SOURCES = str(Path(nn.__file__).parent)


def called_by_tables() -> set[str]:
    """The functions of `nn` that run while the tables are made and their blocks are applied."""
    called, tracing = set[CodeType](), sys.gettrace()

    def note(frame: FrameType, event: str, argument: object) -> None:
        called.add(frame.f_code)

    for module in tables.MODULES:
        sys.settrace(note)
        try:
            for case in fresh(module).CASES.values():
                axes = case.axes or [None] * len(case.inputs)
                case.block(*(oc.data(a, axes=x) for a, x in zip(case.inputs, axes, strict=True)))
        finally:
            sys.settrace(tracing)
    return {code.co_qualname.split(".")[0] for code in called if code.co_filename.startswith(SOURCES)}


@pytest.mark.exhaustive
def test_every_block_is_checked():
    assert BLOCKS - called_by_tables() == set()
