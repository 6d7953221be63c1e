"""The version, and what else a module is asked for."""

import importlib.metadata
from pathlib import Path

import pytest

import ocannl as oc


def test_the_version_is_that_of_the_distribution():
    assert oc.__version__ == importlib.metadata.version("ocannl")
    assert "__version__" in dir(oc)


def test_the_version_of_sources_that_are_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Programs are saved with it, too."""

    def no_distribution(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", no_distribution)
    assert oc.__version__ == "0+unknown"
    oc.Context.cpu().save(tmp_path / "a.npz", oc.data([1.0], label="x"))


def test_what_every_module_has():
    assert {"__doc__", "__file__", "__name__", "__all__", "relu", "nn", "train"} <= {*dir(oc)}
