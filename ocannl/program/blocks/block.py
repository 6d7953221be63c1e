"""Blocks as objects: what is configured is called, looked at, frozen, and put together anew."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, ParamSpec, SupportsIndex, TypeVar, cast

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.flags import Flags
from ocannl.program.blocks.block_parts import WithFunction, changed, parts_of
from ocannl.program.blocks.block_summary import Summary, note_call, summarize
from ocannl.program.derivatives import stop_gradient
from ocannl.program.memory.state import State, state
from ocannl.program.mistakes.misuse import blame
from ocannl.program.mistakes.other_names import OF_BLOCKS
from ocannl.program.tensor import Tensor
from ocannl.program.text.html import text_html

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


@dataclass(frozen=True)
class Configuration:
    """How a block was configured."""

    configure: Callable[..., Any]
    args: tuple[Any, ...]
    named: Mapping[str, Any]

    def __str__(self) -> str:
        signature = inspect.signature(self.configure)
        given = signature.bind(*self.args, **self.named).arguments
        given |= given.pop("configuration", {})
        defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
        settings = [f"{n}={_setting(v)}" for n, v in given.items() if repr(v) != repr(defaults.get(n))]
        return f"{self.configure.__name__.lstrip('_')}({', '.join(settings)})"


def _setting(value: Any) -> str:
    if isinstance(value, Block):
        return value.title
    return getattr(value, "__name__", None) or repr(value)


class Block(WithFunction, Generic[Q, R]):
    """A configured block: a function of tensors, with parts by name.

    `block(x)` applies it, with the same parameters each time. `block.name` is a part: a parameter, a node, a
    block, or a list or dictionary of blocks; it has the name of the variable by which the block's function
    uses it. `oc.Block(function)` makes a block of any function that uses parameters or blocks from outside.
    """

    def __init__(
        self, function: Callable[Q, R], configuration: Configuration | None = None, *, frozen: bool = False
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"a block is made of a function, found {function!r}")
        self.function = function.function if isinstance(function, Block) else function
        self.__wrapped__ = self.function
        """Whose arguments are those of the block, for `inspect.signature`."""
        self.frozen = frozen
        """Whether its own parameters have no gradients."""
        self.configuration = configuration
        self._applied: Callable[..., Any] = changed(self.function, _stopped) if frozen else self.function
        is_ours = inspect.isfunction(self.function) and self.function.__module__.startswith("ocannl.")
        self._flags = Flags.of(self.function) if is_ours else None

    def __copy__(self) -> Block[Q, R]:
        """The same block, with the same parts."""
        return self

    def __deepcopy__(self, memo: object) -> NoReturn:
        """A copy would share the parameters, which nobody expects."""
        raise ArgumentError(
            f"{self.title} is not copied: configure a second block, and set its parameters to those of this "
            "one, by `t[...] = p` in a function or `ctx[t] = ctx[p]`, with both blocks' .params"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Not pickled: its parameters are in the memory of contexts."""
        raise ArgumentError(
            f"{self.title} is not pickled: `ctx.save(path, block)` saves its values, and "
            "`ctx.load(path, block)` gives them to one that the same program has configured"
        )

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> R:
        if self._flags is not None:
            self._flags.check(args, kwargs)
        try:
            result = self._applied(*args, **kwargs)
        except OcannlError:
            raise
        # As in `explained`: whatever a wrong argument makes fail first.
        except Exception:
            if self.function.__module__.startswith("ocannl."):
                blame(self.function, args, kwargs, self.title)
                if self.configuration is not None:
                    how = self.configuration
                    blame(how.configure, how.args, how.named)
            raise
        note_call(self, args, result)
        return result

    @property
    def parts(self) -> dict[str, Any]:
        """The parts by name, in the order in which they were made.

        Those of an `@oc.block` exist from its first application on; before, this raises `ArgumentError`.
        """
        return parts_of(self.function)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "function":
            raise AttributeError(name)
        parts = self.parts
        if name not in parts:
            known = ", ".join(parts) or "none"
            hint = f"; in place of `{name}`: {OF_BLOCKS[name]}" if name in OF_BLOCKS else ""
            raise AttributeError(f"{self.title} has no part `{name}`; its parts are {known}{hint}")
        return parts[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.parts})

    @property
    def params(self) -> dict[str, Tensor]:
        """All parameters in it by name, those of its parts too, in the order in which they were made."""
        found = self.state
        return {n: t for n, t in found.items() if isinstance(t, Tensor) and found.kinds[n] == "parameter"}

    @property
    def state(self) -> State:
        """All that it keeps by name: parameters, and nodes such as running statistics."""
        return state(self)

    def freeze(self) -> Block[Q, R]:
        """The same block without gradients for its parameters, which it shares; blocks that replace parts of
        it later have gradients.
        """
        function = changed(self.function, lambda part: part if isinstance(part, Tensor) else _frozen(part))
        return Block(function, self.configuration, frozen=True)

    def replace(self, name: str, new: Any) -> Block[Q, R]:
        """The same block with another part, which shares the rest: `model.replace("head", block)`,
        `model.replace("layers[3].attend.w_q", tensor)`.

        Raises `ArgumentError` for a part that does not exist.
        """
        if not isinstance(name, str) or not (steps := _STEP.findall(name)) or "".join(steps) != name:
            raise ArgumentError(f"a part is named as `head` or `layers[3].attend`, found {name!r}")
        return _replaced(self, [step.strip(".[]") for step in steps], new)

    def summary(self, *args: Any, **kwargs: Any) -> Summary:
        """A table of all parts as they are applied to these arguments, tensors or arrays, which are ids where
        they hold integers: output shapes, parameters, and the multiplications whose products are added up.
        `print(block)` shows parts and parameters without arguments.

        Nothing is decided by it: shapes that are open stay open. Raises what applying the block raises.
        """
        return summarize(self, args, kwargs, lambda: _blocks(self, self.title, ""))

    @property
    def title(self) -> str:
        """How it was configured, on one line."""
        own = getattr(self.function, "__name__", type(self.function).__name__)
        name = str(self.configuration or own.strip("<>"))
        return f"{name} frozen" if self.frozen else name

    def __repr__(self) -> str:
        return "\n".join([self.title, *(f"{'  ' * depth}{text}" for depth, text in _tree(self, 1))])

    def _repr_html_(self) -> str:
        return text_html(repr(self))


_STEP = re.compile(r"\.?[^\W\d]\w*|\[\w+\]")


def _stopped(part: Any) -> Any:
    """A parameter without gradients; code writes to nodes, which have none."""
    is_trained = isinstance(part, Tensor) and not isinstance(part.op, texpr.NodeOp)
    return stop_gradient(part) if is_trained else part


def _frozen(part: Any) -> Any:
    if isinstance(part, Tensor) or not callable(part):
        return part
    return _as_block(part).freeze()


def _as_block(part: Any) -> Block[..., Any]:
    return cast(Block[..., Any], part) if isinstance(part, Block) else Block(part)


def _replaced(block: Block[..., Any], steps: Sequence[str], new: Any) -> Block[..., Any]:
    """A block in which the part at a path of names and numbers is another."""
    part, left = block.parts, list(steps)
    while left and isinstance(part, list | tuple | dict):
        known = dict(_elements(part))
        if left[0] not in known:
            raise ArgumentError(f"there is no part `{left[0]}`; there are {', '.join(known) or 'none'}")
        part = known[left.pop(0)]
    if left and (isinstance(part, Tensor) or not callable(part)):
        raise ArgumentError(f"there is no part `{left[0]}` of a parameter")
    inner = _replaced(_as_block(part), left, new) if left else new
    function = changed(block.function, lambda one: inner if one is part else one)
    return Block(function, block.configuration, frozen=block.frozen)


def _elements(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, dict):
        return [(str(name), one) for name, one in cast(dict[Any, Any], part).items()]
    return [(str(at), one) for at, one in enumerate(cast(Sequence[Any], part))]


def named_parts(block: Block[..., Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a block by name; those in lists and dictionaries apart, as `layers[0]`."""

    def leaves(name: str, part: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(part, list | tuple | dict):
            for key, one in _elements(part):
                yield from leaves(f"{name}[{key}]", one)
        else:
            yield name, part

    for name, part in block.parts.items():
        yield from leaves(name, part)


def _tree(block: Block[..., Any], depth: int) -> Iterator[tuple[int, str]]:
    for name, part in named_parts(block):
        if isinstance(part, Tensor):
            yield depth, f"{name}: {part.shape}"
        elif callable(part):
            inner = _as_block(part)
            yield depth, f"{name}: {inner.title}"
            yield from _tree(inner, depth + 1)


def _blocks(block: Block[..., Any], title: str, path: str) -> Iterator[tuple[str, str, Any]]:
    """A block and those in it, with their paths and how they were configured."""
    yield path or "(whole)", title, block
    for name, part in named_parts(block):
        if callable(part) and not isinstance(part, Tensor):
            inner = _as_block(part)
            yield from _blocks(inner, inner.title, f"{path}.{name}" if path else name)
