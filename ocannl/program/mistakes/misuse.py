"""Errors for arguments of wrong types, found by annotations after a call of a public function has failed."""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from reprlib import repr as short
from typing import Any

from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.program.arguments.arrays import is_array
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.flags import Flags
from ocannl.program.location import here, placed
from ocannl.program.mistakes.argument_types import fits
from ocannl.program.mistakes.no_tensor import no_tensor
from ocannl.program.mistakes.other_names import NEIGHBOURS
from ocannl.program.tensor import Tensor, TensorLike

# What another library takes in the place of an argument.
GIVEN_FIRST = {
    "lr": "Parameters are given to no optimizer: step(loss) trains those of the loss, "
    "step(loss, params=[...]) some of them",
    "spec": "the method is of its own tensor alone; oc.einsum(spec, a, b) is of several",
}
# What arrays are for, where more than is taken are given after an argument.
ARRAYS_AFTER = {"batches": "batches are one argument: fit(step, train.batches((x, y), size=64), epochs=3)"}

# Arguments of PyTorch, JAX and NumPy, and what ours may be called.
ELSEWHERE = {
    "dim": ("axis", "axes", "spec"),
    "dims": ("axes",),
    "axis": ("axes", "axis"),
    "axes": ("axis", "axes"),
    "keepdim": ("keep",),
    "keepdims": ("keep",),
    "in_features": ("in_dim",),
    "out_features": ("out_dim",),
    "num_embeddings": ("num",),
    "embedding_dim": ("dim",),
    "p": ("rate", "dropout_rate", "ord"),
    "eps": ("epsilon",),
    "min": ("low",),
    "max": ("high",),
    "correction": ("ddof",),
    "unbiased": ("ddof",),
    "kernel_size": ("window_size",),
    "negative_slope": ("slope",),
    "scale_factor": ("scale",),
    "hidden_size": ("hid_dim",),
    "normalized_shape": ("dim",),
    "nhead": ("num_heads",),
    "dim_feedforward": ("d_ff",),
    "dropout": ("dropout_rate",),
    "attn_mask": ("mask",),
    "key_padding_mask": ("mask",),
    "src_key_padding_mask": ("mask", "source_mask"),
    "tgt_mask": ("mask",),
    "T_max": ("total",),
    "eta_min": ("minimum",),
    "batch_size": ("size",),
    "hidden_dim": ("hid_dim",),
    "num_layers": ("layers",),
    "lr": ("learning_rate",),
    "betas": ("beta1",),
}

SIZES = "sizes are given by row, as output=4, input=3"

NOT_GIVEN = {
    **dict.fromkeys(("in_channels", "num_features"), "it is found where the block is applied: leave it out"),
    "embed_dim": "d_k and d_v are the sizes of a head, out_dim that of the result",
    "batch_first": "batch axes always come first: leave it out",
    "device": "memory is that of a context: with oc.Context.cuda():",
    "requires_grad": "what is trained is made by oc.param, and oc.grad(f) is of any argument",
}
"""Arguments of PyTorch that are given to nothing here, and what there is instead."""

OTHERWISE = {"diff": f"it compares runs; the differences of neighbours are {NEIGHBOURS}"}
"""Functions that do not do to a tensor or an array what others of their name do."""

NUMPYS = {"axis", "out"}
"""Arguments that NumPy's reductions give to the method of their name, always."""


def explain_all(names: Iterable[str], public: MutableMapping[str, Any]) -> None:
    """Makes public functions, and constructors and methods of public classes, raise `ArgumentError` for
    arguments of wrong types, and put the user's line before errors that have none, in place.

    Types are checked only after a call has failed, so that calls cost nothing; but that what is True or False
    is one of these, before it, as Python takes anything for one.
    """
    for name in names:
        value = public[name]
        if inspect.isfunction(value):
            public[name] = explained(value)
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            for attribute in dir(value):
                if attribute.startswith("_") and attribute not in ("__init__", "__getitem__"):
                    continue
                kept: Any = inspect.getattr_static(value, attribute)
                bound = type(kept) in (classmethod, staticmethod)
                method = kept.__func__ if bound else kept
                if inspect.isfunction(method) and method.__module__.startswith("ocannl."):
                    setattr(value, attribute, type(kept)(explained(method)) if bound else explained(method))


def explained(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises `ArgumentError` where it fails and an argument is not of its type.

    The exception of a wrong argument depends on where it is used first, so arguments are checked after any.
    If all are right, the exception is raised again.
    """
    flags = Flags.of(function)

    @functools.wraps(function)
    def explaining(*args: Any, **named: Any) -> Any:
        try:
            if flags.found:
                flags.check(args, named)
            return function(*args, **named)
        except OcannlError as error:
            error.args = (placed(str(error)),)
            raise
        except MemoryError as error:
            raise DeviceError(here(f"{_called(function)}: {error}")) from None
        # Whatever a wrong argument makes fail first: `blame` explains it, else it is raised as it is.
        except Exception:
            blame(function, args, named)
            raise

    return explaining


def blame(
    function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], called: str | None = None
) -> None:
    """Raises `ArgumentError` for arguments that the function does not take, and for the first that is not of
    its type; none if the call has no such. Users know the function as `called`, else by its name.
    """
    called = called or _called(function)
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError as error:
        raise ArgumentError(misfit(called, signature, args, named, error)) from None
    for name, value in given.items():
        parameter, values = signature.parameters[name], [value]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values = list(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            values = list(value.values())
        for one in values:
            if not fits(one, _hint(function, parameter)):
                written = function.__annotations__.get(name, "Tensor")
                way = f": write [{one!r}]" if fits([one], _hint(function, parameter)) else ""
                found = no_tensor(one) if is_array(one) and "Tensor" in written else f"{one!r}{way}"
                raise ArgumentError(f"`{name}` of {called} is of type {written}, found {found}") from None


def misfit(
    called: str, signature: inspect.Signature, args: Sequence[Any], named: Iterable[str], error: TypeError
) -> str:
    """Why arguments do not fit a signature, and the way out. `error` is Python's."""
    taken = [name for name in signature.parameters if name not in ("self", "cls")]
    if called in OTHERWISE and any(isinstance(one, Tensor | Sequence) or is_array(one) for one in args):
        return f"{called}: {OTHERWISE[called]}"
    why = f"{error}."
    if unknown := [name for name in named if name not in taken]:
        if set(named) >= NUMPYS:
            return f"np.{called} is of arrays: write oc.{called}(t), with axes= in place of axis="
        why = f"there is no argument `{unknown[0]}`."
        if unknown[0] == "shape" and "output" in taken:
            return f"{called}: {why[:-1]}; {SIZES}"
        if unknown[0] in NOT_GIVEN:
            return f"{called}: {why[:-1]}; {NOT_GIVEN[unknown[0]]}"
        if near := _near(unknown[0], taken):
            default = signature.parameters[near].default
            form = f", by default {default!r}" if near == "spec" and isinstance(default, str) else ""
            return f"{called}: there is no argument `{unknown[0]}`; did you mean `{near}`{form}?"
    for name, value in zip(signature.parameters, args, strict=False):
        if name in named and name not in ("self", "cls"):
            why = f"`{name}` is given twice, by its name, and by its place as {short(value)}."
            if name in GIVEN_FIRST:
                return f"{called}: {why} {GIVEN_FIRST[name]}"
    if args and all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values()):
        if any(isinstance(one, Tensor) for one in args):
            return (
                f"{called}: it makes a block, which is called with tensors: {called}({', '.join(named)})(x)"
            )
        why = "all arguments are given by name."
    elif str(error) == "too many positional arguments" and (first := _in_order(signature, taken)):
        if first[0] in GIVEN_FIRST:
            return f"{called}: {GIVEN_FIRST[first[0]]}"
        if first[-1] in ARRAYS_AFTER and is_array(args[len(first)]):
            return f"{called}: {ARRAYS_AFTER[first[-1]]}"
        why = f"given without a name {'is' if len(first) == 1 else 'are'} only {', '.join(first)}."
    return f"{called}: {why} Its arguments are {', '.join(taken) or 'none'}"


def _in_order(signature: inspect.Signature, taken: Sequence[str]) -> list[str]:
    """The arguments that may be given by their place, where others may not."""
    named = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
    found = [name for name in taken if signature.parameters[name].kind not in named]
    return found if len(found) < len(taken) else []


def _near(name: str, taken: Iterable[str]) -> str | None:
    """The argument that a name stands for in another library, or that is spelt alike; none of an input for
    one of an output.
    """
    others = [other for other in taken if {name[:3], other[:3]} != {"in_", "out"}]
    found = [other for other in ELSEWHERE.get(name, ()) if other in others]
    return next(iter(found or difflib.get_close_matches(name, others, 1)), None)


def _called(function: Callable[..., Any]) -> str:
    """The name by which a user calls a function; for `__init__` the class."""
    if function.__name__ == "__init__":
        return function.__qualname__.split(".")[-2]
    return function.__name__


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of a parameter; one without annotation is a tensor, or what stands for one."""
    if parameter.name in ("self", "cls"):
        return Any
    if parameter.annotation is parameter.empty:
        return TensorLike | None if parameter.default is None else TensorLike
    return typing.get_type_hints(function).get(parameter.name, Any)
