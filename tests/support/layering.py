"""Which folder imports which, read from the syntax trees."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"

# Each layer may import itself and what stands before it.
LAYERS = ("ocannl.dialects", "ocannl.passes", "ocannl.lowering", "ocannl.runtime", "ocannl")


def package_dirs() -> dict[str, str]:
    """The folder of each installed layer, as the build configuration has it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return config["tool"]["setuptools"]["package-dir"]


def modules() -> dict[str, Path]:
    """Every module of the package, by the name under which it installs."""
    found: dict[str, Path] = {}
    for package, folder in package_dirs().items():
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = file
    return found


def layer(module: str) -> str | None:
    """The layer a module belongs to; None outside the package."""
    return next((name for name in LAYERS if module == name or module.startswith(f"{name}.")), None)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The module that `from ... import` names, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    parent = module.split(".")
    kept = parent[: len(parent) - node.level + is_package]
    return ".".join([*kept, node.module] if node.module else kept)


def imports(source: str, module: str, is_package: bool = False) -> Iterator[str]:
    """Every module that may be imported by `source`, wherever in it the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            yield from (f"{base}.{name.name}" for name in node.names)


def upward_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    """The imports of `module` that reach into a layer above its own."""
    own = LAYERS.index(layer(module) or "ocannl")
    targets = ((name, layer(name)) for name in imports(source, module, is_package))
    return [name for name, target in targets if target and LAYERS.index(target) > own]


def sources_of_tests() -> dict[str, Path]:
    """Every Python file of the tests, by the name under which it can be imported."""
    return {".".join(f.relative_to(TESTS).with_suffix("").parts): f for f in TESTS.rglob("*.py")}


def is_misplaced(module: str) -> bool:
    """Whether a helper stands outside `support`, or a test inside."""
    folder, _, name = module.rpartition(".")
    in_support = folder.split(".")[0] == SUPPORT.name
    return in_support == (name == "conftest" or name.startswith("test_"))


def imported_tests(source: str, module: str) -> list[str]:
    """The imports of `module` that reach into the tests, `support` apart."""
    folders = {TESTS.name, *(folder.name for folder in TESTS.iterdir() if folder != SUPPORT)}
    found = ((name, name.split(".")) for name in imports(source, module))
    return [name for name, parts in found if parts[0] in folders or any(p.startswith("test_") for p in parts)]
