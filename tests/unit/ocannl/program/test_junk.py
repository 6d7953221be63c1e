"""Whatever a public function is given, it says in words what is wrong: no internal exception gets out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import ocannl as oc
from ocannl import nn, train
from ocannl.program.tensor_functions.operators import OPERATORS

STEP = oc.index("step_n")
DATA = oc.data(np.ones((2, 4)), label="x")
IMAGE = oc.data(np.ones((2, 4, 4, 3)), axes="bbbo", label="image")
IDS = oc.data(np.array([0, 1]), axes="b", label="ids")
TENSORS: list[Any] = [
    DATA,
    IMAGE,
    IDS,
    oc.param("w"),
    oc.param("v", output=3),
    oc.node("n", output=2),
    oc.constant(2.0),
    oc.range(3),
    DATA.grad,
    DATA.value,
    oc.relu(DATA),
]
SPECS = [
    *("", "=>", "...", "=> =>", "a => a", "... | ... -> ... => 0", "a; b => a^b", "a; b => a b", "_ => 3"),
    *("..r.. => ..r..&a", "a&b => a, b", "2*o + k => o", "b | i => b", "v d; b | => b | d", "0*a => b"),
]
JUNK: list[Any] = [
    *(None, True, 0, 1, 3, -1, 2.5, 10**30, float("nan"), float("inf"), 1j, np.int64(3), np.float32(0.5)),
    *("", "x", "\n", "b|i->o", "batch", "ä" * 300, b"x", object(), object, len, ..., slice(1, 2)),
    *([], [1, 2], [[1], [2, 3]], ["x"], (), (2, 3), {}, {"a": 1}, {1}, [DATA], {"x": DATA}, [None]),
    *(np.ones(3), np.ones((0, 2)), np.array(["x"]), np.array([1j]), np.array([None]), np.array([object()])),
    *(oc, nn.linear(out_dim=2), STEP, oc.Dim("d"), oc.Dim("e", 3), oc.Dim("f", 3, basis="rgb")),
    *(oc.init.normal(), oc.forward(DATA), oc.Code(), oc.Context, DATA.shape, DATA.shape.batch),
]


SESSION = {"breakpoint", "eager", "seed"}
"""These change what other tests do, or wait for a user."""
LONG = {"run_loop", "profile"}
"""These run as often as they are asked to."""
FILES = {"oc.export", "oc.view", "code.view", "tensor.view", "routine.view"}
"""These write files, and open the browser."""
CLASSES = {"Code", "Context", "Dim", "Tensor"}


def functions() -> dict[str, Callable[..., Any]]:
    """All that is public: functions, operators, blocks, recipes, classes and their methods."""
    found: dict[str, Callable[..., Any]] = {}
    for prefix, module in (("oc", oc), ("oc.init", oc.init), ("nn", nn), ("train", train)):
        for name in (*module.__all__, *(OPERATORS if module is oc else ())):
            function = getattr(module, name)
            if name not in SESSION and (inspect.isfunction(function) or name in CLASSES):
                found[f"{prefix}.{name}"] = function
    owners: dict[str, object] = {
        "tensor": DATA,
        "shape": DATA.shape,
        "code": oc.forward(DATA),
        "index": STEP,
        "dim": oc.Dim("d"),
    }
    context = oc.Context.cpu(threads=1)
    owners |= {"context": context, "routine": context.compile(oc.forward(oc.relu(DATA)))}
    for prefix, owner in owners.items():
        found |= methods(prefix, owner)
    return {name: function for name, function in found.items() if name not in FILES}


def methods(prefix: str, owner: object) -> dict[str, Callable[..., Any]]:
    own = ("__getitem__", "__setitem__", "__call__", "__contains__", "__add__", "__matmul__", "__pow__")
    names = [n for n in dir(type(owner)) if (not n.startswith("_") or n in own) and n not in LONG]
    return {f"{prefix}.{n}": getattr(owner, n) for n in names if callable(getattr(type(owner), n))}


FUNCTIONS = functions()


def signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return []


def value(draw: st.DrawFn) -> Any:
    return draw(st.sampled_from(draw(st.sampled_from([TENSORS, JUNK, JUNK, SPECS]))))


def arguments(draw: st.DrawFn, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that the signature asks for, and some of the rest."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    goes_on = True
    for p in signature(function):
        goes_on = goes_on and (p.default is p.empty or draw(st.booleans()))
        match p.kind:
            case p.VAR_POSITIONAL:
                args += [value(draw) for _ in range(draw(st.integers(0, 3)))] if goes_on else []
            case p.VAR_KEYWORD:
                named |= {n: value(draw) for n in draw(st.lists(st.sampled_from("abdor"), max_size=2))}
            case p.KEYWORD_ONLY:
                if p.default is p.empty or draw(st.booleans()):
                    named[p.name] = value(draw)
            case _ if goes_on:
                args.append(draw(st.sampled_from(SPECS)) if p.name == "spec" else value(draw))
            case _:
                pass
    return args, named


def called(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    """The result, None for an error in words: of this package, or what Python itself says of a call that does
    not fit the signature.
    """
    try:
        return function(*args, **named)
    except oc.OcannlError:
        pass
    except TypeError as error:
        if not is_of_signature(error):
            raise
    return None


def is_of_signature(error: TypeError) -> bool:
    """Whether Python refused the call itself."""
    return re.search(r"argument|takes \d+ positional", str(error)) is not None and "()" in str(error)


def check(draw: st.DrawFn, names: list[str]) -> None:
    """Calls a function; then what it returned, if that is a block; then compiles the result."""
    name = draw(st.sampled_from(names))
    function = FUNCTIONS[name]
    args, named = arguments(draw, function)
    note(f"{name}(*{args}, **{named})")
    result = called(function, args, named)
    if name.startswith("nn.") and callable(result) and not isinstance(result, oc.Tensor):
        args, named = arguments(draw, result)
        note(f"applied to *{args}, **{named}")
        result = called(result, args, named)
    if isinstance(result, oc.Tensor | oc.Code):
        note("and run")
        note(f"{result} {result!r}")
        called(run, [result], {})


def run(result: oc.Tensor | oc.Code) -> None:
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(result)
    ctx.compile(result)()


@st.composite
def checks(draw: st.DrawFn, names: list[str]) -> None:
    check(draw, names)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(checks(sorted(FUNCTIONS)))
def test_functions_given_junk(checked: None):
    """The strategy itself calls the functions."""
    assert checked is None
