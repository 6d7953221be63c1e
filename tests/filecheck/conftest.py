"""Every `.mlir` file below this folder is a test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.runlines import RunLineError, run_file


class MlirFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield MlirItem.from_parent(self, name="RUN")


class MlirItem(pytest.Item):
    def runtest(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            run_file(self.path, Path(scratch).resolve())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if isinstance(excinfo.value, RunLineError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path.name)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".mlir":
        return MlirFile.from_parent(parent, path=file_path)
    return None
