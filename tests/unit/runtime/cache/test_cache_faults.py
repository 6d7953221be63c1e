"""Processes and threads on one cache that others kill, and whose files they change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cache_faults import FAULTS, Faults

PROGRAMS = 200
"""So many are right at least, however slow the machine is."""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name != "posix", reason="owners, modes and FIFOs are POSIX's")
def test_no_result_is_wrong(tmp_path: Path):
    faults = Faults(tmp_path, processes=8)
    faults.run(seconds=240, programs=PROGRAMS)
    assert "WRONG" not in faults.output, faults.output[-3000:]
    assert {fault.__name__ for fault in FAULTS} < faults.counts.keys()
    assert faults.output.count(".") >= PROGRAMS
