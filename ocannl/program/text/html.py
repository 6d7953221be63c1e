"""Text and tables as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def text_html(text: str) -> str:
    """Text as it is spaced."""
    return f"<pre>{escape(text)}</pre>"


def table_html(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is the heading."""
    heading, *others = rows
    return f"<table>{_row(heading, 'th')}{''.join(_row(row, 'td') for row in others)}</table>"


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
