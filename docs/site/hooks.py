"""Hooks of mkdocs: pages from outside of docs/, and a reference of a package whose folders lie apart."""

import re
import tomllib
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LINK_TO_DOCS = re.compile(r"\]\(docs/")
LINK_BESIDE = re.compile(r"\]\(([A-Z]+\.md)\b")
ROW_OF_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")

# The package as it is imported; removed when the build ends.
_layout = TemporaryDirectory(prefix="ocannl-site-")


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    lay_out(Path(_layout.name))
    plugins: dict[str, Any] = dict(config.plugins)
    plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [_layout.name]
    return config


def lay_out(tree: Path) -> None:
    """Copies `dialects/` to `tree/ocannl/dialects`, and so on, as `pyproject.toml` has it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders: dict[str, str] = config["tool"]["setuptools"]["package-dir"]
    for name, folder in folders.items():
        copy = tree.joinpath(*name.split("."))
        copytree(ROOT / folder, copy, ignore=ignore_patterns("__pycache__"), dirs_exist_ok=True)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the top folder, whose links stand beside each other here."""
    for name, source in FROM_ROOT.items():
        text = LINK_TO_DOCS.sub("](", (ROOT / source).read_text())
        text = LINK_BESIDE.sub(lambda link: f"]({link[1].lower()}", text)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """In the code of a table, GitHub wants bars with a backslash, Python-Markdown without."""
    return ROW_OF_TABLE.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
