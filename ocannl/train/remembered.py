"""Memory that recipes make for parameters, which eager mode asks for in each step."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import ocannl as oc
from ocannl.program.eager.setting import is_eager
from ocannl.program.values import Value

_made = WeakKeyDictionary[Value, dict[str, oc.Tensor]]()


def remembered(p: oc.Tensor, name: str, make: Callable[[], oc.Tensor]) -> oc.Tensor:
    """The memory that `make` gives; in eager mode the one that it gave first for a parameter and a name."""
    if not is_eager():
        return make()
    own = _made.setdefault(p.ir_value, {})
    if name not in own:
        own[name] = make()
    return own[name]
