"""What is made once where eager mode asks for it in each step: memory that recipes make for parameters."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import ocannl as oc
from ocannl.program.eager import is_eager
from ocannl.program.values import Value

_made = WeakKeyDictionary[Value, dict[str, oc.Tensor]]()


def remembered(p: oc.Tensor, name: str, make: Callable[[], oc.Tensor]) -> oc.Tensor:
    """What `make` gives; in eager mode what it gave first for a parameter and a name."""
    if not is_eager():
        return make()
    own = _made.setdefault(p.ir_value, {})
    if name not in own:
        own[name] = make()
    return own[name]
