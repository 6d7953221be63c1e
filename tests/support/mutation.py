"""The mutation score of `passes/` on fast tests: how many small changes of the code some test notices.

    python -m tests.support.mutation --times times.json --results results.json

The changes are those of the operators of cosmic-ray (`pip install cosmic-ray`). They are sampled by file:
each has its part of the sites, and a site one change, by chance. A mutant meets the tests that run its
function, shortest first, in a process of its own. A second run with the same results takes on what is
missing, and tries what survived again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings

from .layering import ROOT, TESTS, modules

FAST_TESTS = ("tests/filecheck/passes", "tests/unit/passes", "tests/unit/dialects/index")
MUTATED = "ocannl.passes."
# Seconds of the processor for the tests of a mutant: those that take so long unchanged, and so much more.
TEST_SECONDS, SLOWER, STARTING = 30.0, 4.0, 10.0
OPTIONS = ("-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
KILLED, SURVIVES = "killed", "survives"
# Changes that nothing can notice as a rule: identity of what is equal; and what needs arguments.
APART = ("_Is", "_IsNot", "VariableReplacer", "VariableInserter")


@dataclass(frozen=True)
class Mutant:
    """One change: the operator's name, and which of the sites of that operator in the file."""

    file: str
    operator: str
    occurrence: int
    line: int

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line} {self.operator}#{self.occurrence}"

    def source(self) -> str:
        """The text of the changed file."""
        operator = _plugins().get_operator(self.operator)()
        return _mutating().mutate_code((ROOT / self.file).read_text(), operator, self.occurrence)

    def difference(self) -> list[str]:
        pair = (ROOT / self.file).read_text().splitlines(), self.source().splitlines()
        return [x for x in difflib.unified_diff(*pair, n=0, lineterm="") if x[:3] not in ("---", "+++")][1:]


def _plugins() -> Any:
    return importlib.import_module("cosmic_ray.plugins")


def _mutating() -> Any:
    return importlib.import_module("cosmic_ray.mutating")


# Mutants.


def sites_of(file: str) -> dict[tuple[int, int], list[Mutant]]:
    """The mutants of a file by the place that they change; what is only an annotation is none."""
    source = (ROOT / file).read_text()
    tree: Any = importlib.import_module("cosmic_ray.ast").get_ast(source)
    annotated = annotated_lines(source)
    found: dict[tuple[int, int], list[Mutant]] = {}
    for name in _plugins().operator_names():
        if name.endswith(APART) and name != "core/ReplaceComparisonOperator_Is_IsNot":
            continue
        operator, count = _plugins().get_operator(name)(), 0
        for node in nodes_of(tree):
            for (line, column), _ in operator.mutation_positions(node):
                if (line, column) not in annotated:
                    found.setdefault((line, column), []).append(Mutant(file, name, count, line))
                count += 1
    return found


def nodes_of(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", ()):
        yield from nodes_of(child)


def annotated_lines(source: str) -> set[tuple[int, int]]:
    """The places of annotations, which nothing evaluates."""
    tree, lines = ast.parse(source), source.splitlines()
    found: set[tuple[int, int]] = set()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                for line in range(part.lineno, (part.end_lineno or 0) + 1):
                    first = part.col_offset if line == part.lineno else 0
                    last = part.end_col_offset or 0 if line == part.end_lineno else len(lines[line - 1])
                    found |= {(line, column) for column in range(first, last)}
    return found


def is_change(mutant: Mutant) -> bool:
    """The program is another one, not only its text."""
    try:
        return ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse((ROOT / mutant.file).read_text()))
    except SyntaxError:
        return False


def sample(count: int, seed: int) -> list[Mutant]:
    """Mutants of all files, by their parts of the sites."""
    files = sorted(str(f.relative_to(ROOT)) for m, f in modules().items() if m.startswith(MUTATED))
    sites = {file: found for file in files if (found := sites_of(file))}
    total = sum(map(len, sites.values()))
    rng = random.Random(seed)
    chosen: list[Mutant] = []
    for places in sites.values():
        part = count * len(places) / total
        number = int(part) + (rng.random() < part % 1)
        for place in sorted(rng.sample(sorted(places), number)):
            some = rng.sample(places[place], len(places[place]))
            chosen += [mutant for mutant in some if is_change(mutant)][:1]
    rng.shuffle(chosen)
    return chosen


# Tests.


def changed_functions(mutant: Mutant) -> dict[tuple[str, int], CodeType] | None:
    """The new code of functions by name and line; None if what runs on import is another, too."""
    path = str(ROOT / mutant.file)
    old, new = (
        codes(compile(text, path, "exec")) for text in ((ROOT / mutant.file).read_text(), mutant.source())
    )
    if old.keys() != new.keys():
        return None
    found: dict[tuple[str, int], CodeType] = {}
    for key, code in new.items():
        if own_part(code) != own_part(old[key]) or code.co_freevars != old[key].co_freevars:
            found[key] = code
    # A function has the code of those inside it among its constants.
    found = {k: c for k, c in new.items() if any(c is f or is_inside(f, c) for f in found.values())}
    functions = {key: code for key, code in found.items() if code.co_flags & CO_NEWLOCALS}
    on_import = [c for k, c in new.items() if k not in functions and own_part(c) != own_part(old[k])]
    same_cells = all(code.co_freevars == old[key].co_freevars for key, code in functions.items())
    return functions if same_cells and not on_import else None


def codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """A code object and those inside it."""
    found = {(code.co_qualname, code.co_firstlineno): code}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= codes(const)
    return found


def is_inside(code: CodeType, outer: CodeType) -> bool:
    """Whether a function is in another one, at any depth."""
    return any(
        const is code or is_inside(code, const) for const in outer.co_consts if isinstance(const, CodeType)
    )


def own_part(code: CodeType) -> tuple[object, ...]:
    """The behaviour of a code object, without those inside it."""
    consts = tuple((type(c), c) for c in code.co_consts if not isinstance(c, CodeType))
    return code.co_code, repr(consts), code.co_names, code.co_varnames, code.co_cellvars


class MutatedLoader(SourceFileLoader):
    """Loads other text than the file has."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.text.encode(), self.path)


class MutatedFinder:
    """Finds the changed module."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = ROOT / mutant.file
        self.text = mutant.source()
        (self.name,) = (name for name, file in modules().items() if file == self.path)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        loader = MutatedLoader(name, str(self.path), self.text)
        return spec_from_file_location(name, self.path, loader=loader)


Times = dict[str, tuple[float, list[str]]]
"""By test: the seconds that it takes, and the functions of passes that it runs, by file and line."""


class Failures:
    """A plugin that notes the tests that fail."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found.append(report.nodeid)


class Campaign:
    """A plugin that runs the tests for each mutant, in processes that begin when all tests are collected."""

    def __init__(self, mutants: Sequence[Mutant], times: Path, results: Path) -> None:
        self.mutants = mutants
        self.times_file, self.results_file = times, results
        self.results: dict[str, str] = json.loads(results.read_text()) if results.exists() else {}
        self.times: Times = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in modules():
            importlib.import_module(name)
        self.items = {item.nodeid: item for item in session.items}
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        for function in gc.get_objects():
            if isinstance(function, FunctionType):
                code = function.__code__
                key = code.co_filename, code.co_qualname, code.co_firstlineno
                self.functions.setdefault(key, []).append(function)
        if not self.times_file.exists():
            assert in_child(self.record, 3600)
        self.times = json.loads(self.times_file.read_text())
        for mutant in self.mutants:
            if self.results.get(mutant.key, SURVIVES) == SURVIVES:
                self.meet(mutant)
        return True

    def meet(self, mutant: Mutant) -> None:
        tests = [test for test in concerning(mutant, self.times) if test in self.items]
        seconds = STARTING + SLOWER * sum(self.times[test][0] for test in tests)
        survives = not tests or in_child(lambda: self.passes(mutant, tests), seconds)
        self.results[mutant.key] = SURVIVES if survives else KILLED
        self.results_file.write_text(json.dumps(self.results, indent=1))
        if survives:
            print(f"survives {len(tests)} tests: {mutant.key}", *mutant.difference(), sep="\n", flush=True)

    def passes(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        functions = changed_functions(mutant)
        if functions is None:
            return self.passes_afresh(mutant, tests)
        for (name, line), code in functions.items():
            for function in self.functions.get((str(ROOT / mutant.file), name, line), ()):
                function.__code__ = code
        return self.passes_here(tests)

    def passes_here(self, tests: Sequence[str]) -> bool:
        failures = Failures()
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if not item.config.pluginmanager.is_registered(failures):
                item.config.pluginmanager.register(failures)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failures.found:
                return False
        return True

    def passes_afresh(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """With all modules imported once more."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if name.split(".")[0] in ("ocannl", "support") or file.startswith(str(TESTS)):
                del sys.modules[name]
        finder: Any = MutatedFinder(mutant)
        sys.meta_path.insert(0, finder)
        return pytest.main([*OPTIONS, "-x", *(str(ROOT / test) for test in tests)]) == 0

    def record(self) -> bool:
        """Notes how long each test takes, and which functions it runs."""
        for test in self.items:
            found: set[CodeType] = set()

            def note(frame: FrameType, event: str, argument: object, found: set[CodeType] = found) -> None:
                if event == "call":
                    found.add(frame.f_code)

            start = time.process_time()
            sys.setprofile(note)
            try:
                assert self.passes_here([test]), f"{test} fails without any change"
            finally:
                sys.setprofile(None)
            inside = [
                f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno}"
                for code in found
                if code.co_filename.startswith(str(ROOT / "passes"))
            ]
            self.times[test] = time.process_time() - start, sorted(inside)
        self.times_file.write_text(json.dumps(self.times))
        return True


def in_child(work: Callable[[], bool], seconds: float) -> bool:
    """The result of work in a process of its own, with so many processor seconds; False if it fails."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        limit = math.ceil(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        status = 1
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    end = time.monotonic() + 15 * seconds  # what only waits takes no time of the processor
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def concerning(mutant: Mutant, times: Times) -> list[str]:
    """The tests that run the function of a mutant, or any of the file where it is in none, shortest first."""
    start, end = 0, math.inf
    for node in outer_functions(ast.parse((ROOT / mutant.file).read_text())):
        if node.lineno <= mutant.line <= (node.end_lineno or 0):
            start, end = min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0

    def runs(function: str) -> bool:
        file, _, line = function.partition(":")
        return file == mutant.file and start <= int(line) <= end

    kept: list[str] = []
    total = 0.0
    for seconds, test in sorted(
        (s, test) for test, (s, functions) in times.items() if any(map(runs, functions))
    ):
        total += seconds
        if total < TEST_SECONDS or not kept:
            kept.append(test)
    return kept


def outer_functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        else:
            yield from outer_functions(node)


# The score.


def wilson(killed: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a proportion (E. B. Wilson, Probable inference, 1927)."""
    p, w = killed / of, z * z / of
    centre, half = p + w / 2, z * math.sqrt(p * (1 - p) / of + w / (4 * of))
    return (centre - half) / (1 + w), (centre + half) / (1 + w)


def summary(results: dict[str, str]) -> str:
    """The score with its interval, by folder and in all."""
    groups: dict[str, list[str]] = {}
    for key, outcome in results.items():
        folder = "/".join(key.split(":")[0].split("/")[:2])
        groups.setdefault(folder, []).append(outcome)
    groups["all"] = list(results.values())
    lines: list[str] = []
    for name, found in groups.items():
        killed = found.count(KILLED)
        low, high = wilson(killed, len(found))
        lines.append(
            f"{name:20} {killed:4} of {len(found):4}  {killed / len(found):6.1%}  [{low:.1%}, {high:.1%}]"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", default="0/1", help="the part of the mutants that this process takes")
    parser.add_argument("--times", type=Path, required=True, help="times of the tests; recorded if not there")
    parser.add_argument("--results", type=Path, required=True)
    args = parser.parse_args()
    own, of = map(int, args.shard.split("/"))
    settings.register_profile(
        "unchanging", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True
    )
    settings.load_profile("unchanging")
    campaign = Campaign(sample(args.count, args.seed)[own::of], args.times, args.results)
    pytest.main([*OPTIONS, "-s", *(str(ROOT / test) for test in FAST_TESTS)], [campaign])
    if campaign.results:
        print(summary(campaign.results))


if __name__ == "__main__":
    main()
