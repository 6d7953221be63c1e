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
    circle,
    import_graph,
    imported_tests,
    imports,
    imports_across,
    imports_between_passes,
    imports_of_passes,
    is_misplaced,
    layer,
    modules,
    package_dirs,
    pass_of,
    sources,
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


def test_no_modules_import_each_other_in_a_circle():
    assert circle(import_graph(sources())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import p.a",
        "from p import a",
        "from p.a import name",
        "from . import a",
        "from .a import name",
        "def late():\n    from p.a import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import Name",
    ],
)
def test_a_circle_is_found(text: str):
    texts = {"p": "", "p.a": "from p.b import name", "p.b": "from p.c import name", "p.c": text}
    found = circle(import_graph(texts))
    assert found[0] == found[-1]
    assert set(found) == {"p.a", "p.b", "p.c"}


def test_a_circle_through_a_package_is_found():
    assert circle(import_graph({"p": "from p.a import name", "p.a": "from p import name"}))
    assert not circle(import_graph({"p": "from p.a import name", "p.a": "import p.b", "p.b": ""}))


PASS = "from xdsl.passes import ModulePass\n\n\nclass {}(ModulePass): ...\n"
PASSES = {
    "ocannl.passes": "",
    "ocannl.passes.analysis.nests": "",
    "ocannl.passes.rewrites.merge": "from ocannl.passes.analysis import nests",
    "ocannl.passes.loops.fuse": PASS.format("Fuse"),
    "ocannl.passes.loops.schedule": "",
    "ocannl.passes.loops.schedule.schedule": "from . import tiles\n" + PASS.format("Schedule"),
    "ocannl.passes.loops.schedule.tiles": "from ocannl.passes.analysis.nests import nests",
    "ocannl.passes.loops.expand": "from .exp import exp\n" + PASS.format("Expand"),
    "ocannl.passes.loops.expand.exp": "",
}


def test_the_modules_of_passes_are_known():
    schedule = "ocannl.passes.loops.schedule.schedule"
    assert pass_of(PASSES) == {
        "ocannl.passes.loops.fuse": "ocannl.passes.loops.fuse",
        "ocannl.passes.loops.schedule": schedule,
        "ocannl.passes.loops.schedule.schedule": schedule,
        "ocannl.passes.loops.schedule.tiles": schedule,
        "ocannl.passes.loops.expand": "ocannl.passes.loops.expand",
        "ocannl.passes.loops.expand.exp": "ocannl.passes.loops.expand",
    }
    found = set(pass_of(sources()).values())
    assert {"ocannl.passes.loops.fuse", "ocannl.lowering.texpr_to_assign"} < found


def test_no_pass_imports_another():
    assert imports_between_passes(sources()) == []


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("ocannl.passes.loops.fuse", "ocannl.passes.loops.schedule.schedule"),
        ("ocannl.passes.loops.fuse", "ocannl.passes.loops.schedule.tiles"),
        ("ocannl.passes.loops.schedule.tiles", "ocannl.passes.loops.fuse"),
        ("ocannl.passes.loops.expand.exp", "ocannl.passes.loops.schedule"),
    ],
)
def test_an_import_between_passes_is_found(module: str, target: str):
    assert imports_between_passes(PASSES) == []
    planted = PASSES | {module: f"{PASSES[module]}\ndef late():\n    from {target} import name\n"}
    assert imports_between_passes(planted) == [(module, target)]


@pytest.mark.parametrize("folder", ["ocannl.passes.analysis", "ocannl.passes.rewrites"])
def test_analyses_and_shared_rewrites_import_no_pass(folder: str):
    assert imports_of_passes(sources(), folder) == []


def test_analyses_import_no_rewrite():
    assert imports_across(sources(), "ocannl.passes.analysis", "ocannl.passes.rewrites") == []


def test_an_import_by_an_analysis_is_found():
    module, fuse, merge = (
        "ocannl.passes.analysis.nests",
        "ocannl.passes.loops.fuse",
        "ocannl.passes.rewrites.merge",
    )
    assert imports_of_passes(PASSES, "ocannl.passes.analysis") == []
    planted = PASSES | {module: f"import {fuse}\nfrom {merge} import name\n"}
    assert imports_of_passes(planted, "ocannl.passes.analysis") == [(module, fuse)]
    assert imports_across(planted, "ocannl.passes.analysis", "ocannl.passes.rewrites") == [(module, merge)]


def test_programs_are_built_without_what_runs_them():
    assert imports_across(sources(), "ocannl.program", "ocannl.execute") == []


def test_an_import_of_what_runs_programs_is_found():
    texts = {
        "ocannl.program.code": "def late():\n    from ocannl.execute import run",
        "ocannl.execute.run": "",
    }
    found = [("ocannl.program.code", "ocannl.execute.run")]
    assert imports_across(texts, "ocannl.program", "ocannl.execute") == found


DIALECTS = ("ir", "routine", "index", "shapes", "scalar", "assign", "texpr", "loops", "kernel")
# What emitters share may not need one of them, and C and Metal have nothing to do with LLVM.
NOT_FOR = {
    "c_family": ("llvm", "kernels", "loops_to_llvm", "loops_to_c", "kernels_to_llvm", "kernels_to_metal"),
    "loops_to_c": ("llvm", "kernels", "loops_to_llvm", "kernels_to_llvm", "kernels_to_metal"),
    "llvm": ("loops_to_llvm", "kernels", "kernels_to_llvm", "kernels_to_metal"),
    "kernels": ("llvm", "loops_to_llvm", "kernels_to_llvm", "kernels_to_metal"),
    "kernels_to_metal": ("llvm", "loops_to_llvm", "kernels_to_llvm"),
}


def room(module: str, layer: str) -> str:
    """The folder or file of a layer that a module belongs to; empty outside of the layer."""
    return module.removeprefix(f"{layer}.").partition(".")[0] if module.startswith(f"{layer}.") else ""


def test_dialects_and_emitters_import_what_is_below_them():
    after = {name: DIALECTS[place + 1 :] for place, name in enumerate(DIALECTS)}
    wrong: list[tuple[str, str]] = []
    for module, targets in import_graph(sources()).items():
        dialect, emitter = room(module, "ocannl.dialects"), room(module, "ocannl.lowering")
        wrong += [(module, t) for t in targets if room(t, "ocannl.dialects") in after.get(dialect, ())]
        wrong += [(module, t) for t in targets if room(t, "ocannl.lowering") in NOT_FOR.get(emitter, ())]
    assert wrong == []


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
