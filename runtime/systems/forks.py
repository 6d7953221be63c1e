"""Actions before and after a process forks, on systems that can."""

from __future__ import annotations

import os
from collections.abc import Callable


def at_fork(
    in_child: Callable[[], None],
    *,
    before: Callable[[], None] = lambda: None,
    in_parent: Callable[[], None] = lambda: None,
) -> None:
    """Has functions called around each fork from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
