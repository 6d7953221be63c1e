"""Devices that are not here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from support.cuda_on_cpu import FakeDriver, install
from support.metal_on_cpu import FakeDevice, install_metal


@contextmanager
def stand_ins() -> Generator[None]:
    """Stand-ins for a Mac, and for an NVIDIA GPU."""
    with pytest.MonkeyPatch.context() as patch:
        install_metal(patch, FakeDevice())
        install(patch, FakeDriver())
        yield
