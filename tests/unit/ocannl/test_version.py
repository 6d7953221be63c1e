"""The version, and what else a module is asked for."""

import importlib.metadata

import pytest

import ocannl as oc
from ocannl import version


def test_the_version_is_that_of_the_distribution():
    assert oc.__version__ == importlib.metadata.version("ocannl")
    assert "__version__" in dir(oc)


def test_the_version_of_sources_that_are_not_installed(monkeypatch: pytest.MonkeyPatch):
    def no_distribution(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(version, "version", no_distribution)
    assert oc.__version__ == "0+unknown"


def test_what_every_module_has():
    assert {"__doc__", "__file__", "__name__", "__all__", "relu", "nn", "train"} <= {*dir(oc)}
