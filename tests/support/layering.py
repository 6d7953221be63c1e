"""Which module imports which, read from the syntax trees: late imports and those of checkers included."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
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


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements inside of `node`; expressions, most of a file, are not gone through."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


@cache
def imports(source: str, module: str, is_package: bool = False) -> tuple[str, ...]:
    """Every module that may be imported by `source`, wherever in it the import stands."""
    found: list[str] = []
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module, is_package)
            found += [f"{base}.{name.name}" for name in node.names]
    return tuple(found)


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


IMPORT = re.compile(r"^\s*(?:from|import)\b(?:[^\n(]*\([^)]*\)|.*)", re.MULTILINE)


def imported_tests(source: str, module: str) -> list[str]:
    """The imports of `module` that reach into the tests, `support` apart. Only a file is parsed that seems to
    have one.
    """
    folders = {TESTS.name, *(folder.name for folder in TESTS.iterdir() if folder != SUPPORT)}
    named = re.findall(r"\w+", " ".join(IMPORT.findall(source)))
    if not any(name in folders or name.startswith("test_") for name in named) and "from ." not in source:
        return []
    found = ((name, name.split(".")) for name in imports(source, module))
    return [name for name, parts in found if parts[0] in folders or any(p.startswith("test_") for p in parts)]


@cache
def sources() -> Mapping[str, str]:
    """The text of every module of the package, by its name."""
    return {module: file.read_text() for module, file in modules().items()}


def import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules among `texts` that each of them imports itself.

    `from package import name` imports the module of that name if there is one, else the package. That Python
    runs the `__init__` of all packages on the path of a module is not counted.
    """
    packages = {parent for module in texts for parent in parents(module)}
    return {
        module: {
            found
            for name in imports(text, module, module in packages)
            if (found := known_module(name, texts)) is not None and found != module
        }
        for module, text in texts.items()
    }


def parents(module: str) -> Iterator[str]:
    """The packages on the path of a module, the innermost first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def known_module(name: str, texts: Mapping[str, str]) -> str | None:
    """The module that a dotted name is, or is defined in; None outside the package."""
    return next((module for module in (name, *parents(name)) if module in texts), None)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, from one back to itself; none if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


@cache
def defines_pass(text: str) -> bool:
    """Whether a module has a class that is a `ModulePass`."""
    if "ModulePass" not in text:
        return False
    classes = (node for node in statements(ast.parse(text)) if isinstance(node, ast.ClassDef))
    return any(ast.unparse(base).split(".")[-1] == "ModulePass" for cls in classes for base in cls.bases)


def pass_of(texts: Mapping[str, str]) -> dict[str, str]:
    """For each module of a pass, the one that defines the pass.

    A pass alone in its folder, with those inside of it, has all modules there as its parts.
    """
    packages = {parent for module in texts for parent in parents(module)}
    passes = [module for module, text in texts.items() if defines_pass(text)]
    found = {module: module for module in passes}
    for own in passes:
        folder = own if own in packages else next(parents(own))
        if [module for module in passes if module == folder or folder in parents(module)] == [own]:
            found |= {module: own for module in texts if module == folder or folder in parents(module)}
    return found


def imports_between_passes(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Imports by modules of one pass of those of another."""
    owner = pass_of(texts)
    return sorted(
        (module, found)
        for module, targets in import_graph(texts).items()
        for found in targets
        if module in owner and found in owner and owner[module] != owner[found]
    )


def imports_of_passes(texts: Mapping[str, str], folder: str) -> list[tuple[str, str]]:
    """Imports by modules in a folder of modules of passes."""
    owner = pass_of(texts)
    return [(module, found) for module, found in imports_from(texts, folder) if found in owner]


def imports_across(texts: Mapping[str, str], folder: str, other: str) -> list[tuple[str, str]]:
    """Imports by modules in one folder of those in another."""
    return [pair for pair in imports_from(texts, folder) if other in (pair[1], *parents(pair[1]))]


def imports_from(texts: Mapping[str, str], folder: str) -> list[tuple[str, str]]:
    """All imports by modules in a folder."""
    return sorted(
        (module, found)
        for module, targets in import_graph(texts).items()
        if folder in (module, *parents(module))
        for found in targets
    )
