"""The pages build as a site: a warning is an error, such as a link without a target."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.layering import ROOT

pytest.importorskip("mkdocs")


@pytest.mark.exhaustive
def test_the_site(tmp_path: Path):
    """It is built once, as that takes longer than all looks at it. Links are those of the pages, which
    `test_pages.py` checks.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    every_page_is_built(tmp_path)
    nothing_is_fetched_to_look_at_it(tmp_path)
    the_reference_has_docstrings(tmp_path)
    bars_in_the_code_of_tables_are_bars(tmp_path)


def every_page_is_built(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site) for page in site.rglob("*.html")}
    assert built == pages | {Path("contributing.html"), Path("changelog.html"), Path("404.html")}


def nothing_is_fetched_to_look_at_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r"""<(?:script|link|img)\b[^>]*(?:src|href)=["']?(https?:[^"' >]*)""", page.read_text()
        )
        assert fetched == [], page


def the_reference_has_docstrings(site: Path) -> None:
    text = (site / "reference" / "tensors.html").read_text()
    assert 'id="ocannl.data"' in text
    assert "A data tensor with the contents of an array." in text


def bars_in_the_code_of_tables_are_bars(site: Path) -> None:
    text = (site / "coming_from_pytorch.html").read_text()
    assert "i | j; j | k =&gt; i | k" in text
    assert "\\|" not in text
