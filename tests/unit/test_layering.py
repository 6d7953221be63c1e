"""Imports point one way, those of tests to their support; nothing but the package is installed."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.layering import (
    LAYERS,
    ROOT,
    imported_tests,
    imports,
    is_misplaced,
    layer,
    modules,
    package_dirs,
    sources_of_tests,
    upward_imports,
)


def test_every_folder_is_seen():
    assert {layer(module) for module in modules()} == set(LAYERS)


def test_imports_point_one_way():
    upward = {
        str(file.relative_to(ROOT)): names
        for module, file in modules().items()
        if (names := upward_imports(file.read_text(), module, file.name == "__init__.py"))
    }
    assert upward == {}


@pytest.mark.parametrize(
    "source",
    [
        "import ocannl.lowering.to_llvm",
        "import ocannl",
        "from ocannl import lowering",
        "from ocannl.runtime import jit",
        "from ocannl.tensor import Tensor",
        "from ...runtime import jit",
        "from ... import Tensor",
        "def late():\n    from ocannl.lowering import to_llvm",
    ],
)
def test_an_upward_import_is_found(source: str):
    assert upward_imports(source, "ocannl.passes.loops.fuse")


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "from ocannl.dialects import texpr",
        "from ...dialects.texpr import X",
        "from . import fuse",
    ],
)
def test_a_downward_import_is_allowed(source: str):
    assert upward_imports(source, "ocannl.passes.inline") == []


def test_relative_imports_of_a_package_start_at_itself():
    source = "from .rows import Row\nfrom .. import fuse"
    found = list(imports(source, "ocannl.passes.texpr.infer_shapes", is_package=True))
    assert found == ["ocannl.passes.texpr.infer_shapes.rows.Row", "ocannl.passes.texpr.fuse"]


def test_helpers_of_tests_stand_in_support():
    assert [module for module in sources_of_tests() if is_misplaced(module)] == []


@pytest.mark.parametrize("module", ["unit.passes.helpers", "helpers", "support.test_fuse", "filecheck.tool"])
def test_a_misplaced_file_is_found(module: str):
    assert is_misplaced(module)


def test_no_test_imports_another():
    found = {m: names for m, f in sources_of_tests().items() if (names := imported_tests(f.read_text(), m))}
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from unit.passes.test_fuse import check",
        "from tests.unit.passes.test_fuse import check",
        "import unit.passes.test_fuse",
        "from . import test_fuse",
        "from .test_fuse import check",
        "from ..lowering.nests import compare",
        "def late():\n    from unit.passes import test_fuse",
    ],
)
def test_an_import_of_a_test_is_found(source: str):
    assert imported_tests(source, "unit.passes.test_simplify")


def test_tests_import_support():
    source = "from support.nests import compare\nfrom support import kernels\nimport numpy.testing"
    assert imported_tests(source, "unit.passes.test_simplify") == []
    assert imported_tests("from .layering import ROOT", "support.typecheck") == []


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel, built from a copy so that the build leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for folder in package_dirs().values():
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    target = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(copy)], check=True)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_only_the_package_is_installed(wheel_files: set[str]):
    tops = {name.split("/")[0] for name in wheel_files}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ocannl"}


def test_every_module_is_installed(wheel_files: set[str]):
    def installed(module: str, file: Path) -> str:
        folder = module.replace(".", "/")
        return f"{folder}/__init__.py" if file.name == "__init__.py" else f"{folder}.py"

    missing = {str(file) for module, file in modules().items() if installed(module, file) not in wheel_files}
    assert missing == set()
    assert "ocannl/py.typed" in wheel_files
