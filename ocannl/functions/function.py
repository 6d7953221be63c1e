"""`oc.function`: a Python function, traced once for each signature, compiled, and called with arrays."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import OcannlError
from ocannl.execute.context import Context, default_context
from ocannl.execute.exclusive import Exclusive
from ocannl.execute.memory.of_this_process import OfThisProcess
from ocannl.execute.reports import trace as execute_trace
from ocannl.functions.arguments import (
    LeafType,
    Signature,
    Static,
    array_of,
    array_types,
    is_number_or_array,
    shared_letters,
    static_of,
)
from ocannl.functions.bound import Bound
from ocannl.functions.call_keys import CallKey, call_key, takes_in_order
from ocannl.functions.debugging import debugged
from ocannl.functions.differentiable import Differentiable
from ocannl.functions.lowered import Lowered
from ocannl.functions.methods import instance_of, method_of
from ocannl.functions.padding import Counts, marked_axes, zero_padded
from ocannl.functions.trace import Trace, trace
from ocannl.program.arguments.checks import flag
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import built, form_of, leaves_of, mapped, paths_of
from ocannl.program.code import Code, Recording, is_recording, recording
from ocannl.program.eager.setting import is_eager
from ocannl.program.leaves import data
from ocannl.program.location import here, user_location, warn_at
from ocannl.program.memory.state import Root
from ocannl.program.mistakes.misuse import misfit
from ocannl.program.mistakes.other_names import OF_FUNCTIONS, NamesApart
from ocannl.program.seeds import default_seed
from ocannl.program.tensor import Expression
from ocannl.program.tracing.retracing import TracedMemory, retracing
from ocannl.viewer.show import Viewable

MASKED = np.ma.MaskedArray

MANY_SIGNATURES = 8
"""With more, a warning names the argument that has the most."""

STATIC = object()
"""A leaf in place of a static argument, whatever that is."""

Array = NDArray[Any]


class Function(OfThisProcess, Differentiable, Exclusive, Viewable, NamesApart):
    """A function of arrays, made by `oc.function`."""

    in_place_of = OF_FUNCTIONS

    _owner: type | None = None
    """The class whose attribute it is."""

    def __init__(
        self,
        function: Callable[..., Any],
        context: Context | None,
        axes: Mapping[str, str],
        static: Sequence[str],
        name: str,
        memory: TracedMemory | None = None,
        *,
        check_nans: bool = False,
    ) -> None:
        _check_options(name, context, axes)
        self.check_nans = flag(check_nans, "check_nans")
        functools.update_wrapper(self, function)
        self.function = function
        self._given_context = context
        self._context: Callable[[], Context] = default_context if context is None else lambda: context
        Exclusive.__init__(self, name)
        self.axes = dict(axes)
        self.is_padded = any(marks for marks in map(marked_axes, self.axes.values()))
        self.static = frozenset(static)
        self.parameters = inspect.signature(function)
        self.flags = frozenset(
            name
            for name, each in self.parameters.parameters.items()
            if any(isinstance(leaf, bool) for leaf in leaves_of(each.default))
        )
        """The arguments whose default is True or False."""
        self.memory = memory or TracedMemory(_with_class(function, name))
        """The parameters and nodes that it makes, which its derivatives share."""
        self._traces: dict[Signature, Trace] = {}
        self._last: Bound | None = None
        self._known: dict[CallKey, Trace] = {}
        """The traces of calls that were looked at closely before."""
        _check_names(name, self.parameters, [*(path.split(".")[0] for path in self.axes), *self.static])

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the function with arrays and numbers. With tensors among the arguments it is applied to
        these, as any function that makes expressions.
        """
        if self._running:
            return self._elsewhere(args, named)
        self._running = True
        try:
            last = self._last
            if last is None or named or len(args) != last.count:
                return self._call(args, named)
            if self._given_context is None and last.context is not default_context():
                return self._call(args, named)
            # Written for speed: what fits so far is copied in, and copied again if something else does not.
            try:
                # The lengths are equal, as compared above; `strict=True` would take 0.3 us.
                for array, (memory, shape, dtype) in zip(args, last.host):  # noqa: B905
                    if array.dtype is not dtype or array.shape != shape or type(array) is MASKED:
                        return self._call(args, named)
                    memory[...] = array
            except AttributeError:
                return self._call(args, named)
            last.routine()
            return last.result()
        finally:
            self._running = False

    def _call(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        method = self._method(args)
        if method is not None:
            return method(*args[1:], **named)
        found = call_key(args, named)
        trace = None if found is None else self._known.get(found[0])
        if found is not None and trace is not None:
            arrays = found[1]
        elif _has_tensors(args, named):
            return self._inlined(args, named)
        else:
            signature, arrays = self.signature_of(args, named)
            trace = self._trace(signature)
            is_plain = not (self.static or self.flags or self.is_padded)
            if found is not None and is_plain and takes_in_order(self.parameters, args, named):
                self._known[found[0]] = trace
        bound = self._last = self._bound(trace)
        return bound.run(arrays)

    def _elsewhere(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """A call while another one runs: one by tensors is part of a trace."""
        if _has_tensors(args, named):
            return self._inlined(args, named)
        raise self._busy()

    def _busy(self) -> OcannlError:
        return OcannlError(
            f"function `{self.name}` is running already, in another thread or in itself: its arguments and "
            "results have one place in memory; make a function for each thread"
        )

    @property
    def context(self) -> Context:
        """The context that it runs in."""
        return self._context()

    def state_roots(self) -> list[Root]:
        """Its code, whose state is its own; before the first call, what its function uses from outside."""
        return [trace.code for trace in self._traces.values()] or [self.function]

    def _inlined(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        def part(leaf: Any) -> Any:
            is_array = isinstance(leaf, np.ndarray)
            return data(cast("Array", leaf)) if is_array else leaf

        unused = Recording(label=self.name)
        runs = is_recording() or is_eager()
        with retracing(self.memory), nullcontext() if runs else recording(unused):
            result = self.function(*mapped(part, args), **mapped(part, dict(named)))
        self._check_returned(unused, result)
        return result

    def _check_returned(self, made: Code, result: Any) -> None:
        """Raises `OcannlError` for code that is not among the results: it would never run."""
        returned = [leaf for leaf in leaves_of(result) if isinstance(leaf, Code)]
        if not {*made.statements} <= {statement for code in returned for statement in code.statements}:
            raise OcannlError(
                here(
                    f"function `{self.name}` makes code, such as an update, and was called with tensors "
                    "outside of all code: nothing would run it. Call it with arrays, such as x.numpy(), or "
                    "in another function or an `oc.code` block"
                )
            )

    def with_body(self, function: Callable[..., Any], axes: Mapping[str, str]) -> Function:
        """A function of arrays with another body, which shares context, memory and static arguments."""
        static, name = [*self.static], function.__name__
        return Function(
            function, self._given_context, axes, static, name, self.memory, check_nans=self.check_nans
        )

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method, each object has a function of its own, without the argument that is the object. Of an
        object without `__dict__` that is an argument, which has to be static.
        """
        if instance is None:
            return self
        return method_of(instance, self, lambda: self._of(instance)) or types.MethodType(self, instance)

    def _method(self, args: Sequence[Any]) -> Function | None:
        """The method of the instance with which the arguments begin, of a method that is asked for by its
        class. Raises `ArgumentError` where there is no instance.
        """
        if (
            self._owner is None
            or "self" in self.static
            or next(iter(self.parameters.parameters), "") != "self"
        ):
            return None
        instance = instance_of(self._owner, self.name, args)
        return method_of(instance, self, lambda: self._of(instance))

    def _of(self, instance: object) -> Function:
        own = next(iter(self.parameters.parameters), "")
        method, static = types.MethodType(self.function, instance), [*(self.static - {own})]
        context, axes = self._given_context, {path: a for path, a in self.axes.items() if path != own}
        return Function(method, context, axes, static, self.name, check_nans=self.check_nans)

    def signature_of(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Signature, list[Array]]:
        """The signature of a call, and its arguments as arrays. Raises `ArgumentError` for arguments that the
        function does not take.
        """
        self._method(args)
        try:
            given = self.parameters.bind(*args, **named)
        except TypeError as error:
            raise ArgumentError(misfit(self.name, self.parameters, args, named, error)) from None
        passed = set(given.arguments)
        given.apply_defaults()
        leaves: list[tuple[str, LeafType]] = []
        arrays, counts = list[Array](), Counts()
        for name, value in given.arguments.items():
            if name in self.static:
                leaves.append((name, static_of(value, name)))
                given.arguments[name] = STATIC
                continue
            for path, part in zip(paths_of(form_of(value), name), leaves_of(value), strict=True):
                is_flag = name in self.flags and isinstance(part, bool)
                if is_flag or (name not in passed and not is_number_or_array(part)):
                    leaves.append((path, static_of(part, path)))
                    continue
                array = None if isinstance(part, str | None) else array_of(part, path)
                if array is None:
                    leaves.append((path, self._static_leaf(part, path)))
                else:
                    letters = shared_letters(self.axes, path) if self.is_padded else None
                    leaves.append((path, counts.padded(path, array, letters)))
                    arrays.append(array)
        return Signature(form_of((given.args, given.kwargs)), tuple(leaves)), arrays

    def _static_leaf(self, part: object, path: str) -> Static:
        if part is None or isinstance(part, str):
            return Static(part)
        root = path.split(".")[0]
        raise ArgumentError(
            f"argument `{path}` of {self.name} is no array and no number, found {type(part).__name__}; "
            f'a value that the function is traced for is static: oc.function(static=("{root}",))'
        )

    def _trace(self, signature: Signature) -> Trace:
        found = self._traces.get(signature)
        if found is None:
            found = trace(self.function, signature, self.axes, self.name, self.memory)
            self._traces[signature] = found
            if len(self._traces) == MANY_SIGNATURES + 1:
                self._warn()
        return found

    def _bound(self, trace: Trace) -> Bound:
        context = self._context()
        bound = context.bound.get(trace)
        if bound is None:
            bound = Bound(trace, context, default_seed(), check_nans=self.check_nans)
            context.bound[trace] = bound
        return bound

    def _warn(self) -> None:
        """Warns, at the user's line, of the arguments that come in ever new shapes."""
        kinds = dict.fromkeys(leaf for signature in self._traces for leaf in signature.leaves)
        counts = Counter(path for path, _ in kinds)
        names = [f"`{name}`" for name, count in counts.items() if count == max(counts.values())]
        plural, them = ("s", "them") if len(names) > 1 else ("", "it")
        message = (
            f"function `{self.name}` was compiled for {len(self._traces)} signatures: argument{plural} "
            f"{', '.join(names)} came in {max(counts.values())} shapes, dtypes or values; "
            f"pad {them} to a few sizes"
        )
        warn_at(user_location(), message)

    def signatures(self) -> list[Signature]:
        """The signatures that it was traced for, in order: `x: float32[10, 2], rate: float32`."""
        return list(self._traces)

    def lower(self, *args: Any, **named: Any) -> Lowered:
        """The function traced for such arguments, which are not used otherwise."""
        with self._alone():
            signature, arrays = self.signature_of(args, named)
            return Lowered(self._trace(signature), self._context(), arrays)

    def debug(self, *args: Any, check_nans: bool = True, **named: Any) -> execute_trace.Trace:
        """The values of all assignments of a call, as `oc.debug` gives those of code; memory is as before
        afterwards.

        Raises what a call raises, and with `check_nans` `OcannlError` at the first value that is NaN or
        infinite.
        """
        with self._alone():
            signature, arrays = self.signature_of(args, named)
            return debugged(self._trace(signature), self._context(), arrays, flag(check_nans, "check_nans"))

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Shows the routine of the last new signature at all levels of its compilation, as `oc.view`.

        Raises `OcannlError` before the first call: `f.lower(...)` has a view without one.
        """
        return self.last_lowered().view(path)

    def last_lowered(self) -> Lowered:
        """The function traced for its last new signature. Raises `OcannlError` before the first call."""
        if not self._traces:
            message = f"{self.name} has not been called: `{self.name}.lower(...)` traces it without a call"
            raise OcannlError(here(message))
        signature, trace = list(self._traces.items())[-1]
        arrays = [np.broadcast_to(0, kind.shape) for kind in array_types(signature)]
        return Lowered(trace, self._context(), arrays)

    def pulled_back(self, args: Sequence[Any], cotangent: Any) -> Any:
        """The gradients with respect to the arguments of the sum of results times cotangents, which are
        padded as the results are.
        """
        if self.is_padded and cotangent is not None:
            leaves, shapes = [*leaves_of(cotangent)], self.lower(*args).shapes
            if len(leaves) == len(shapes):
                padded = [zero_padded(leaf, *pair) for leaf, pair in zip(leaves, shapes, strict=True)]
                cotangent = built(form_of(cotangent), iter(padded))
        return self.reverse_mode(*args, cotangent=cotangent)

    def __repr__(self) -> str:
        return f"<function {self.name}: {len(self._traces)} signatures>"


def _has_tensors(args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    return any(isinstance(leaf, Expression) for leaf in leaves_of((args, dict(named))))


def _with_class(function: Callable[..., Any], name: str) -> str:
    """The name of a function, after that of its class, as `Model.step`, unless another one was given."""
    qualified: str = getattr(function, "__qualname__", name).rpartition("<locals>.")[2]
    return qualified if qualified.rpartition(".")[2] == name else name


def _check_options(name: str, context: object, axes: object) -> None:
    """Raises `ArgumentError` for a context that is none, and axes that are not letters by names."""
    if not isinstance(context, Context | None):
        raise ArgumentError(f"function `{name}`: ctx is a context, found {context!r}")
    if not isinstance(axes, Mapping):
        raise ArgumentError(f"function `{name}`: axes are letters by argument, found {axes!r}")
    for path, letters in cast(Mapping[object, object], axes).items():
        if not isinstance(path, str) or not isinstance(letters, str):
            raise ArgumentError(
                f"function `{name}`: axes are letters by argument, found {{{path!r}: {letters!r}}}"
            )


def _check_names(name: str, signature: inspect.Signature, names: Sequence[str]) -> None:
    unknown = [each for each in names if each not in signature.parameters]
    if unknown:
        known = ", ".join(signature.parameters) or "none"
        raise ArgumentError(f"function `{name}` has no argument `{unknown[0]}`; its arguments are: {known}")


@overload
def function(fn: Callable[..., Any]) -> Function: ...
@overload
def function(
    fn: None = None,
    ctx: Context | None = None,
    axes: Mapping[str, str] | None = None,
    static: str | Sequence[str] = (),
    name: str | None = None,
    *,
    check_nans: bool = False,
) -> Callable[[Callable[..., Any]], Function]: ...
@overload
def function(
    fn: Callable[..., Any],
    ctx: Context | None = None,
    axes: Mapping[str, str] | None = None,
    static: str | Sequence[str] = (),
    name: str | None = None,
    *,
    check_nans: bool = False,
) -> Function: ...
def function(
    fn: Callable[..., Any] | None = None,
    ctx: Context | None = None,
    axes: Mapping[str, str] | None = None,
    static: str | Sequence[str] = (),
    name: str | None = None,
    *,
    check_nans: bool = False,
) -> Any:
    """Makes a function of tensors one of arrays: `@oc.function`, or `@oc.function(axes={"ids": "bb"})`.

    It is traced once for each signature: the shapes and dtypes of arrays, and the values of `static`
    arguments. What it returns, and the code that it makes, as in an `oc.code` block, is compiled for a
    context, by default `oc.default_context()`, and cached. Parameters that have no value get theirs by the
    seed of `oc.seed`.

    Arguments are arrays of NumPy or of a library with DLPack, and Python's numbers (f32 or i32), also nested
    in dicts, lists, tuples and dataclasses; `axes` says which rows their axes belong to, as `oc.data` does.
    They are copied in. Strings, None, defaults of other kinds, and True and False where the default is one of
    these, are static. Results come back in the form in which they are returned: new arrays, NumPy scalars
    for the shape ().

    An expression keeps the meaning that it had when it was made: a loss that is returned after an update is
    the one before. A derivative of one that was made before a write to what it reads is an error.

    With `check_nans`, a call raises `OcannlError` at the first value that is NaN or infinite, and leaves
    memory as it was. It is slower, since all values are kept.
    """
    if fn is None:
        return functools.partial(
            function, ctx=ctx, axes=axes, static=static, name=name, check_nans=check_nans
        )
    if not callable(fn):
        raise ArgumentError(f"oc.function makes a function of a function, found {fn!r}")
    names = (static,) if isinstance(static, str) else tuple(static)
    called = name or getattr(fn, "__name__", "function")
    return Function(fn, ctx, axes or {}, names, called, check_nans=check_nans)
