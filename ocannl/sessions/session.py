"""`oc.Session`: TorchLean's imperative session, eager or compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocannl.dialects.ir.errors import OcannlError
from ocannl.execute.context import Context
from ocannl.functions.function import Function, function
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code
from ocannl.program.derivatives import stop_gradient, vjp
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import mode
from ocannl.program.leaves import data, node, param
from ocannl.program.statements import set as set_memory
from ocannl.program.tensor import Tensor, pointwise
from ocannl.program.tensor_functions.random_numbers import uniform
from ocannl.program.values import is_memory
from ocannl.sessions.operations import OPERATIONS, array

Array = NDArray[Any]
BACKENDS = ("eager", "compiled")
DEVICES: dict[str, Callable[[], Context]] = {"cpu": Context.cpu, "cuda": Context.cuda, "metal": Context.metal}
PRECISIONS = ("highest", "high")


class Session:
    """A session as TorchLean has it, with all of its operations by their names: `s.matmul(a, b)`.

    Arrays have plain axes, and no batch axis unless an operation has one. `eager` computes what is looked at,
    by routines that are found again; `compiled` compiles each value and gradient as a whole. Both give the
    same numbers. On a GPU, `matmul_precision="high"` allows products on tensor cores that round to 10 bits.
    """

    def __init__(
        self, backend: str = "eager", device: str = "cpu", seed: int = 0, matmul_precision: str = "highest"
    ) -> None:
        for value, known, what in (
            (backend, BACKENDS, "backend"),
            (device, tuple(DEVICES), "device"),
            (matmul_precision, PRECISIONS, "matmul precision"),
        ):
            if value not in known:
                raise ArgumentError(f"there is no {what} {value!r}; there are {', '.join(known)}")
        self.backend, self.seed = backend, seed
        is_fast = device == "cuda" and matmul_precision == "high"
        self.context = Context.cuda(tf32=True) if is_fast else DEVICES[device]()
        self._used: dict[Tensor, Tensor] = {}
        self._trained: set[Tensor] = set()
        self._gradients: dict[Tensor, Array] = {}
        self._backward: tuple[Tensor, Tensor | None] | None = None
        self._steps: dict[tuple[Any, ...], Function] = {}
        self._draws = itertools.count()

    @contextmanager
    def _mode(self) -> Generator[None]:
        with self.context, mode(self.backend == "eager"):
            yield

    def _held(self, tensor: Tensor) -> Tensor:
        """An expression that keeps its meaning, in both backends."""
        if self.backend == "compiled" and not is_memory(tensor.ir_value):
            RECORDER.note(tensor)
        return tensor

    # Leaves.

    def param(self, values: ArrayLike, requires_grad: bool = True, name: str = "param") -> Tensor:
        """A trainable parameter, in f32 unless an array of f64 is given."""
        contents = np.asarray(values)
        dtype = np.float64 if contents.dtype == np.float64 and isinstance(values, np.ndarray) else np.float32
        with mode(False):
            made = param(name, contents.astype(dtype), output=[*contents.shape], input=[], dtype=dtype)
            self.context[made] = contents
        if requires_grad:
            self._trained.add(made)
        return made

    def use(self, parameter: Tensor) -> Tensor:
        """The present value of a parameter, to which gradients go."""
        self._used[parameter] = parameter
        return parameter

    def input(self, values: ArrayLike, requires_grad: bool = False) -> Tensor:
        """Data, with or without a gradient."""
        with self._mode():
            made = array(_contents(values))
        if requires_grad:
            self._used[made] = made
        return made

    def const(self, values: ArrayLike) -> Tensor:
        """Data without a gradient."""
        with self._mode():
            return array(_contents(values))

    def nat(self, values: ArrayLike) -> Tensor:
        """Whole numbers, such as ids, which have no gradients."""
        contents = np.asarray(values, np.int32)
        with self._mode():
            return data(contents, axes="b" * contents.ndim)

    def uniform(self, shape: tuple[int, ...], seed: int | None = None) -> Tensor:
        """Random numbers in [0, 1) of a shape, functions of the session's seed and `seed`, by default the
        number of the call.
        """
        return self._random(shape, seed)

    def bernoulli_mask(self, keep: Any, shape: tuple[int, ...], seed: int | None = None) -> Tensor:
        """1 with the probability `keep`, else 0."""
        drawn = self._random(shape, seed)
        with self._mode():
            return self._held(drawn < keep)

    rand_uniform = uniform

    def _random(self, shape: tuple[int, ...], seed: int | None) -> Tensor:
        number = next(self._draws) if seed is None else seed
        kind = "call" if seed is None else "seed"
        with self._mode():
            drawn = uniform(number, key=f"session {self.seed} {kind}", output=[*shape], dtype=np.float32)
            return self._held(drawn)

    # Values and gradients.

    def value(self, tensor: Tensor) -> Array:
        """The value, in an array of its own; one number is a NumPy scalar."""
        with self._mode():
            if is_memory(tensor.ir_value):
                return np.array(self.context[tensor])[()]
            return np.array(self.context.evaluated(tensor))[()]

    def backward(self, loss: Tensor) -> None:
        """Computes the gradients of one number with respect to all leaves that were used."""
        self._differentiate(loss, None)

    def backward_with_seed(self, out: Tensor, seed: ArrayLike) -> None:
        """`backward` of the sum of `out * seed`."""
        self._differentiate(out, self.const(seed))

    def _differentiate(self, out: Tensor, seed: Tensor | None) -> None:
        with self._mode():
            leaves = list(self._used)
            found = vjp(out, leaves, seed)
            self._gradients = {leaf: self.value(g) for leaf, g in zip(leaves, found, strict=True)}
            self._backward = out, seed

    def grad(self, tensor: Tensor) -> Array:
        """The gradient of the last `backward` with respect to a leaf, or to an expression if nothing was
        written since.
        """
        if tensor in self._gradients:
            return self._gradients[tensor]
        if self._backward is None:
            raise OcannlError("there are no gradients yet: s.backward(loss) computes them")
        out, seed = self._backward
        if is_memory(tensor.ir_value) or is_memory(out.ir_value):
            raise OcannlError(
                f"`{tensor.label}` has no gradient: use(p) or input(x, requires_grad=True) before backward "
                "gives one to a leaf, and writing a parameter ends those of expressions"
            )
        with self._mode():
            return self.value(vjp(out, tensor, seed))

    # Steps.

    def sgd_step(self, lr: float) -> None:
        """`p -= lr * gradient` for each parameter that was used."""
        self._step("sgd", _sgd, lr=lr)

    def adam_step(
        self, lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8
    ) -> None:
        """A step of Adam (Kingma and Ba, 2015), with moments for each parameter."""
        self._step("adam", _adam, lr=lr, beta1=beta1, beta2=beta2, eps=eps, decay=0.0)

    def adamw_step(
        self,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        """A step of Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""
        self._step("adam", _adam, lr=lr, beta1=beta1, beta2=beta2, eps=eps, decay=weight_decay)

    def _step(self, kind: str, rule: Callable[..., Code], **options: float) -> None:
        if self._backward is None:
            raise OcannlError("there are no gradients yet: s.backward(loss) computes them")
        for leaf, gradient in self._gradients.items():
            if leaf not in self._trained:
                continue
            key = kind, leaf
            if key not in self._steps:
                state = [node(f"{kind}_{name}", like=leaf, init=0.0) for name in ("mean", "square")]
                count = node(f"{kind}_count", output=[], init=0.0, dtype=leaf.dtype)
                axes = {"gradient": "o" * leaf.ndim}
                step = _bound(rule, leaf, state, count)
                self._steps[key] = function(step, ctx=self.context, axes=axes, name=kind)
            numbers = {name: np.asarray(value, leaf.dtype) for name, value in options.items()}
            self._steps[key](np.asarray(gradient), **numbers)

    def reset(self) -> None:
        """Forgets what was used and its gradients; parameters and moments stay."""
        self._used.clear()
        self._gradients = {}
        self._backward = None

    # Operations.

    def detach(self, tensor: Tensor) -> Tensor:
        """The same value, through which no gradient goes."""
        with self._mode():
            return self._held(stop_gradient(tensor))

    def __getattr__(self, name: str) -> Any:
        """An operation by its name, or anything else by Lean's: `s.log_softmax`, `s.logSoftmax`,
        `s.backwardWithSeed`.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        own = NAMES.get(_letters(name))
        if own is None:
            raise AttributeError(
                f"a session has no operation {name!r}; it has {', '.join(sorted(OPERATIONS))}"
            )
        if own not in OPERATIONS:
            return getattr(self, own)
        operation = OPERATIONS[own]

        def apply(*args: Any, **options: Any) -> Tensor:
            with self._mode():
                return self._held(operation(*args, **options))

        return apply

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *OPERATIONS})


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


NAMES = {_letters(name): name for name in (*vars(Session), *OPERATIONS) if not name.startswith("_")}
"""Methods and operations by their letters, as Lean's names have no underscores."""


def _contents(values: ArrayLike) -> Array:
    """Lists of numbers are f32."""
    contents = np.asarray(values)
    return contents if isinstance(values, np.ndarray | np.generic) else contents.astype(np.float32)


def _bound(rule: Callable[..., Code], p: Tensor, state: list[Tensor], count: Tensor) -> Callable[..., None]:
    def step(gradient: Tensor, **options: Tensor) -> None:
        rule(p, gradient, state, count, **options)

    return step


def _sgd(p: Tensor, gradient: Tensor, state: list[Tensor], count: Tensor, *, lr: Tensor) -> Code:
    return set_memory(p, p - lr * gradient)


def _adam(p: Tensor, gradient: Tensor, state: list[Tensor], count: Tensor, **of: Tensor) -> Code:
    mean, square = state
    code = set_memory(count, count + 1)
    code += set_memory(mean, of["beta1"] * mean + (1 - of["beta1"]) * gradient)
    code += set_memory(square, of["beta2"] * square + (1 - of["beta2"]) * gradient * gradient)
    unbiased = mean / (1 - of["beta1"] ** count), square / (1 - of["beta2"] ** count)
    delta = unbiased[0] / (pointwise("sqrt", unbiased[1]) + of["eps"])
    return code + set_memory(p, p * (1 - of["lr"] * of["decay"]) - of["lr"] * delta)
