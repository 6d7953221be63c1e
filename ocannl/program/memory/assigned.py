"""Memory that can be assigned, and the errors for what is none."""

from __future__ import annotations

from ocannl.dialects.ir.errors import OcannlError
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program.location import here
from ocannl.program.values import Value, is_memory, kept_parameter, label_of


def checked_memory(value: Value) -> Value:
    """The value of a tensor that can be assigned. Raises `OcannlError` for an expression."""
    if not is_memory(value):
        text = tensor_name(value).removeprefix("(").removesuffix(")")
        only = "only memory is assigned (parameters, data, nodes, gradients, values)"
        way = way_to_memory(value) or f"oc.where(mask, value, {text}) has other elements"
        raise OcannlError(here(f"`{text}` is computed, and {only}; {way}"))
    if value.merged is not None:
        message = f"`{label_of(value)}` is a merge buffer, with the value of another context"
        raise OcannlError(here(f"{message}: assign the memory there"))
    return value


def way_to_memory(value: Value) -> str | None:
    """The words for an error that say what to set in place of a parameter as products see it."""
    kept = kept_parameter(value)
    if kept is None:
        return None
    label = label_of(kept)
    return f"it is a parameter as products see it, and oc.params({label})[{label!r}] is what is kept"
