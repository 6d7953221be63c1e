"""Each test of the runtime has a compile cache of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_of_one_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "own_cache"))
