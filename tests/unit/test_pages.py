"""The pages agree with the tree, with the pipelines and with the public API."""

import fnmatch
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from support.layering import ROOT, package_dirs
from support.pages import DOCS, FENCE, LINK, PAGES, TARGETS, name_of, table

import ocannl as oc
from ocannl import init, interop, models, nn, train
from ocannl.lowering.pipelines import PIPELINES

CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SECTION = re.compile(r"^### (.*)\n((?:(?!^#).*\n)*)", re.MULTILINE)

# Links.


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_index_links_every_page():
    links = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "index.md").read_text())}
    assert set(DOCS.rglob("*.md")) - links == {DOCS / "index.md"}


# Paths.

TOP = ("dialects", "passes", "lowering", "runtime", "ocannl", "tests", "docs", "examples", "bench")
SEARCHED = [*TOP, ".ci"]
# Files of a user: the program, in messages, and settings.
NO_FILE = {"model.py", "ocannl.toml"}


def paths(text: str) -> Iterator[str]:
    """Code that looks like a path from the top folder or like the name of a file, and paths in commands."""
    for word in (word for code in CODE.findall(FENCE.sub("", text)) for word in code.split()):
        if is_path(word) or (re.fullmatch(r"[\w*]+\.(py|mlir|toml|yml)", word) and word not in NO_FILE):
            yield word
    commands = (match[2].split() for match in FENCE.finditer(text) if match[1] == "sh")
    yield from (word for command in commands for word in command if is_path(word))


def is_path(word: str) -> bool:
    return "/" in word and word.partition("/")[0] in SEARCHED


@cache
def names_of_files() -> set[str]:
    folders = [ROOT.glob("*"), *((ROOT / top).rglob("*") for top in TOP)]
    return {file.name for files in folders for file in files}


def exists(path: str) -> bool:
    """A name of a file alone may stand in any folder; `<name>` is for any name."""
    pattern = path.replace("<name>", "*")
    if "/" in path:
        return any(ROOT.glob(pattern.rstrip("/")))
    return any(fnmatch.filter(names_of_files(), pattern))


def test_paths_are_found():
    command = "```sh\npython bench/run.py some.mlir\n```\n"
    text = f"`passes/loops/<name>.py` in `passes/loops/`, not `a/b`, `model.py`\n{command}"
    assert list(paths(text)) == ["passes/loops/<name>.py", "passes/loops/", "bench/run.py"]
    assert all(map(exists, [*paths(text), "fuse.py", "steps_*.py", "pyproject.toml"]))
    assert not any(map(exists, ["passes/fuse.py", "passes/nowhere/", "nowhere.py", "nowhere/<name>.py"]))


def current(page: Path) -> str:
    """The text of a page; of the changelog, only what was not released yet."""
    text = page.read_text()
    return text.partition("\n## 0.")[0] if page.name == "CHANGELOG.md" else text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_exists(page: Path):
    assert [path for path in paths(current(page)) if not exists(path)] == []


def folders() -> set[str]:
    """The folders of the layers, those in them, and those of the package with the API."""
    files = [file for top in package_dirs().values() for file in (ROOT / top).glob("*/*.py")]
    files += (ROOT / "ocannl").glob("*/*/*.py")
    return {*package_dirs().values(), *(str(file.parent.relative_to(ROOT)) for file in files)}


def test_the_architecture_has_every_folder():
    named = re.findall(r"`([\w/]+)/`", " ".join(row[0] for row in table(DOCS / "architecture.md", "folder")))
    assert set(named) == folders() | {"tests/support"}


# The order of the passes.


def names(pipeline: str) -> list[str]:
    return [p.name for p in PIPELINES[pipeline]]


def in_order() -> list[str]:
    """The passes and targets of the CPU, then those that only GPUs have."""
    cpu, targets = names("cpu"), list(TARGETS)
    gpu = names("gpu-sm_90a-tf32")
    return [*cpu, *targets[:2], *(name for name in gpu if name not in cpu), *targets[2:]]


def test_pipelines_are_as_the_pages_say():
    shared = names("cpu")
    at = shared.index("order-nests") + 1
    first, second = "online-softmax", "approximate-rounded"
    gpu = [name for name in names("gpu") if name != second]
    assert gpu[:at] == shared[:at]
    assert names("gpu").index(second) == names("gpu").index(first) + 1
    assert names("metal") == [name for name in gpu if name != first]
    assert gpu[at:] == [
        "unfold-layers",
        "hoist-from-loops",
        "gather-windows",
        "trim-resets",
        "unfold-windows",
        "split-k",
        "fuse-sums",
        "fuse-rows",
        "narrow-nodes",
        "pad-rows",
        "overlap-collectives",
        "plan-memory",
        "lower-loops-to-kernels",
    ]
    assert names("c") == [name for name in names("cpu") if name != "expand-math"]
    assert names("gpu") == names("gpu-tf32")
    at = names("gpu").index("split-k")
    assert (
        names("gpu-sm_90a")
        == names("gpu-sm_90a-tf32")
        == [*names("gpu")[:at], "turn-factors", *names("gpu")[at:]]
    )


def test_the_index_has_the_passes_in_order():
    assert (
        re.findall(r"^- \[([\w-]+)\]\(passes/\1\.md\)", (DOCS / "index.md").read_text(), re.M) == in_order()
    )


def test_the_architecture_has_the_passes_in_order():
    rows = table(DOCS / "architecture.md", "pass")
    assert [row[0] for row in rows] == [f"[{name}](passes/{name}.md)" for name in in_order()]


def test_the_site_has_the_passes_in_order():
    assert re.findall(r"- passes/([\w-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.M) == in_order()


# The glossary.


def test_the_glossary_is_in_order():
    terms = [term for term, _ in SECTION.findall((DOCS / "glossary.md").read_text())]
    assert len(terms) > 60
    assert terms == sorted(terms, key=str.casefold)
    assert len(terms) == len(set(terms))


def test_every_term_says_something_and_links_a_page():
    for term, text in SECTION.findall((DOCS / "glossary.md").read_text()):
        assert re.search(r"[\w`)]\.\s", text), term
        assert re.search(r"\]\([\w/.-]*(\.md|#)", text), term


@pytest.mark.parametrize("name", in_order())
def test_a_pass_names_its_technique_with_a_source(name: str):
    """In its first paragraph: a year of a publication, or a link to a document; or the page that has it."""
    first = (DOCS / "passes" / f"{name}.md").read_text().split("\n\n")[1]
    assert re.search(r"(19|20)\d\d|\]\(https://|\]\([\w-]+\.md\)", first), first


# Contributing.


def test_the_tasks_of_newcomers_touch_few_files():
    ways = (ROOT / "CONTRIBUTING.md").read_text().partition("## Three ways in")[2].partition("\n## ")[0]
    files = {title: {path for path in paths(text) if "." in path} for title, text in SECTION.findall(ways)}
    assert list(files) == ["Add a pass", "Follow a training step to machine code", "Mend a shape error"]
    assert all(3 <= len(found) <= 12 for found in files.values()), files


# The reference.


def public(module: ModuleType) -> set[str]:
    found: list[str] = module.__all__
    return {f"{module.__name__}.{name}" for name in found}


def test_the_reference_has_the_public_api():
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    described = re.findall(r"^::: (\S+)$", text, re.M)
    assert len(described) == len(set(described))
    parts = set[str]().union(*map(public, (nn, train, init, interop, models)))
    lazy = {f"{module}.{name}" for name, module in oc.WRITTEN_WITH_IT.items()}
    expected = public(oc) - {"ocannl.init"} | parts | lazy
    assert set(described) == expected
