"""Runs pyright over the sources laid out as they install.

Pyright resolves `ocannl.dialects` by folder, and the top-level `dialects/` is not one it would find.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .layering import ROOT, package_dirs

CHECKED_AS_THEY_ARE = ("tests", "examples", "bench")
SOURCES = shutil.ignore_patterns("__pycache__", "*.mlir")


def lay_out(tree: Path) -> dict[str, str]:
    """Copies the sources into `tree` as they install; returns where each copied folder came from."""
    origins = {package.replace(".", os.sep): folder for package, folder in package_dirs().items()}
    origins |= {folder: folder for folder in CHECKED_AS_THEY_ARE if (ROOT / folder).is_dir()}
    for copy, origin in origins.items():
        shutil.copytree(ROOT / origin, tree / copy, ignore=SOURCES, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", tree)
    return origins


def typecheck(*folders: str) -> tuple[int, str]:
    """Pyright's exit status and its report on folders, all if none is named, with paths as they are in the
    repository.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        origins = lay_out(tree)
        if folders:
            config = {"extends": "pyproject.toml", "include": folders}
            (tree / "pyrightconfig.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tree)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        report = done.stdout + done.stderr
        for copy in sorted(origins, key=len, reverse=True):
            report = report.replace(f"{tree / copy}{os.sep}", f"{origins[copy]}{os.sep}")
    return done.returncode, report


if __name__ == "__main__":
    status, text = typecheck()
    print(text)
    sys.exit(status)
