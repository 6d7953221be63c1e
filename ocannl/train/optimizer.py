"""Optimizers as objects: a rule with its options, and the memory of all parameters that it trains."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.ir import Operation

import ocannl as oc
from ocannl.program.code import at_once, is_recording
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import is_result_dropped, user_location, warn_at
from ocannl.program.memory.as_kept import as_kept
from ocannl.program.mistakes.one_number import check_loss
from ocannl.program.mistakes.other_names import OF_OPTIMIZERS, NamesApart, missing
from ocannl.program.values import Kind
from ocannl.train import averages
from ocannl.train.changing_rates import ChangingRates, Rates
from ocannl.train.clipping import norm_factor
from ocannl.train.gradients import scaled_gradients
from ocannl.train.only_if import only_if
from ocannl.train.options import Common, LearningRate, check_option
from ocannl.train.plateau import Plateau
from ocannl.train.recipes import trained_params
from ocannl.train.rules import OF_NUMBERS
from ocannl.train.schedules import Schedule, as_rate
from ocannl.train.step_counts import StepCounts, as_number, check_together
from ocannl.train.update_step import Rule, UpdateStep

MOST_CODES = 16
SETTINGS = ("clip_norm", "clip_value", "accumulate", "ema", "swa", "maximize", "count_each")
Part: TypeAlias = oc.Tensor | oc.Block[..., Any]
Params: TypeAlias = Part | Mapping[str, Part] | Sequence[Part]


def _meant(name: str, options: Sequence[str]) -> str:
    """The end of a message about an option that does not exist: the one that is spelt alike, or that recipes
    call so.
    """
    near = ["lr"] if name == "learning_rate" else get_close_matches(name, options, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


class Optimizer(NamesApart):
    """Trains parameters: `step(loss)` is code that computes a loss, its gradients and the update.

    Its memory is made once for each parameter, so that several routines, and functions for batches of several
    sizes, go on with the same moments. It is state.
    """

    __slots__ = (
        *("name", "lr", "options", "groups", "clip_norm", "clip_value", "accumulate", "ema", "swa"),
        *("maximize", "count_each", "_rule", "_common", "_scope", "_nodes", "_counters", "_together"),
        *("_averages", "_again", "_changing", "__weakref__"),
    )
    in_place_of = OF_OPTIMIZERS

    def __init__(
        self, name: str, rule: Rule, lr: LearningRate, options: Mapping[str, Any], common: Common
    ) -> None:
        self.name, self.lr, self.options = name, as_rate(_plain(lr)), _plain_values(options)
        self.groups = {pattern: _plain_values(given) for pattern, given in common.get("groups", {}).items()}
        self.clip_norm, self.clip_value = common.get("clip_norm"), common.get("clip_value")
        self.accumulate, self.ema = _plain(common.get("accumulate", 1)), common.get("ema")
        self.swa = averages.start_and_interval(_plain(common.get("swa")))
        self.maximize = bool(common.get("maximize", False))
        self.count_each = bool(common.get("count_each", False))
        self._rule, self._common = rule, dict(common)
        self._scope = oc.scope(common.get("label", name))
        self._nodes: dict[tuple[oc.Tensor, str], oc.Tensor] = {}
        self._counters: dict[tuple[frozenset[oc.Tensor], str], oc.Tensor] = {}
        """Those of the steps of some parameters, and of all steps for the empty set."""
        self._together = WeakKeyDictionary[Operation, frozenset[oc.Tensor]]()
        """The parameters that code trains, while that lives, by its last statement."""
        self._averages: dict[oc.Tensor, tuple[oc.Tensor, oc.Tensor]] = {}
        """The average of each parameter, and the count of the steps that are in it."""
        self._again: dict[Hashable, tuple[Any, oc.Code]] = {}
        """The code of steps that eager mode has run, with the settings that it was made with."""
        self._changing = ChangingRates(self._scope)
        self._check(common)

    def _check(self, common: Common) -> None:
        """Raises `ArgumentError` for an option that is not what it should be."""
        unknown = set(common) - set(Common.__annotations__)
        if unknown:
            options = ["lr", *self.options, *Common.__annotations__]
            raise oc.ArgumentError(
                f"{self.name} has no option `{min(unknown)}`; its options are {', '.join(options)}"
                f"{_meant(min(unknown), options)}"
            )
        for pattern, given in self.groups.items():
            if wrong := [key for key in given if key != "lr" and key not in self.options]:
                options = ["lr", *self.options]
                raise oc.ArgumentError(
                    f"group {pattern!r} of {self.name} has no option `{wrong[0]}`; options of groups are "
                    f"{', '.join(options)}{_meant(wrong[0], options)}"
                )
            for key, value in given.items():
                check_option(self.name, key, value, lr=key == "lr")
        for key, value in self.options.items():
            check_option(self.name, key, value)
        check_option(self.name, "lr", self.lr, lr=True)
        if isinstance(self.accumulate, bool) or not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise oc.ArgumentError(f"accumulate is a number of steps, found {self.accumulate!r}")

    def __setattr__(self, name: str, value: object) -> None:
        """Raises `ArgumentError` for an option of steps that are code already, which would not change, and
        `AttributeError` for what does not exist.
        """
        if name not in self.__slots__:
            others = {**self.in_place_of, **{key: f"options[{key!r}]" for key in self.options}}
            known = [own for own in (*self.__slots__, *self.options) if own[0] != "_"]
            raise missing("'Optimizer' object", name, known, {name: others[name]} if name in others else {})
        if not name.startswith("_") and getattr(self, "_counters", None) and not is_eager():
            raise oc.ArgumentError(
                f"{self.name} has steps that are code, with their options: `{name}` cannot change them; "
                "a learning rate that changes is an argument of the function, a schedule, or a node that "
                "code reads"
            )
        object.__setattr__(self, name, value)

    def step(self, loss: oc.Tensor, params: Params | None = None) -> oc.Code:
        """Code of one step: a loss with its updates, gradients, and the update of `params`, by default of all
        parameters that the loss has derivatives for; of a block among them, those of its parameters. In an
        open `oc.code` block, or a function, it belongs to that; eager mode runs it at once.

        Raises `ArgumentError` where there is nothing to train, and for a group that no parameter is in, and
        `ShapeError` for a loss that is known to be more than one number.
        """

        def make(rates: Rates) -> oc.Code:
            trained = self._trained(loss, params)
            check_loss(loss.ir_value)
            with oc.code(f"{loss.label} {self.name} step") as code:
                scaled_gradients(loss, 1 / self.accumulate)
                self._update_by(trained, {name: p.grad for name, p in trained.items()}, rates)
            self._together[code.statements[-1]] = frozenset(trained.values())
            return code

        return self._made("step", loss, params, make)

    def update(self, loss: oc.Tensor, params: Params | None = None) -> oc.Code:
        """Code of the update alone, by the gradients of the loss that memory has: those that
        `train.grad_update` or `y.backward(weights)` left, and whatever has changed them since. The loss says
        which parameters, and may be many numbers. Else as `step`.
        """

        def make(rates: Rates) -> oc.Code:
            trained = self._trained(loss, params)
            with oc.code(f"{loss.label} {self.name} update") as code:
                gradients = {name: p.grad for name, p in trained.items()}
                if self.accumulate != 1:
                    gradients = {name: g / self.accumulate for name, g in gradients.items()}
                self._update_by(trained, gradients, rates)
            self._together[code.statements[-1]] = frozenset(trained.values())
            return code

        return self._made("update", loss, params, make)

    def _unless_dropped(self, what: str, code: oc.Code) -> oc.Code:
        """The code, with a warning where nothing takes it: what it says would never run."""
        if is_result_dropped():
            ways = "in a function that is @oc.function, or in `with oc.eager():`, or ctx.compile(code)()"
            warn_at(user_location(), f"{self.name}.{what}(loss) is code that nothing takes: it runs {ways}")
        return code

    def _made(
        self, what: str, loss: oc.Tensor, params: Params | None, make: Callable[[Rates], oc.Code]
    ) -> oc.Code:
        """The code, which eager mode runs at once and makes once for a loss that is computed again."""
        if is_recording():
            return make(self._rates())
        if not is_eager():
            return self._unless_dropped(what, make(self._rates()))
        key = what, loss.ir_value, None if params is None else tuple(_parts(params))
        rates = self._rates() if self._rule in OF_NUMBERS else self._changing.as_memory(self._rates(), loss)
        settings = self._settings(rates)
        known, code = self._again.pop(key, (None, None))
        if code is None or known != settings:
            # What the code with other settings has as data is free for this one.
            code = None
            if len(self._again) >= MOST_CODES:
                self._again.pop(next(iter(self._again)))
            code = make(rates)
            # The loss has other data each time.
            RECORDER.let_go(code.statements, loss.ir_value)
        self._again[key] = settings, code
        return at_once(code)

    def _rates(self) -> Rates:
        """The learning rates as they are now. Raises `ArgumentError` for what can be none."""
        given = {pattern: options["lr"] for pattern, options in self.groups.items() if "lr" in options}
        rates = {of: as_rate(_plain(rate)) for of, rate in {None: self.lr, **given}.items()}
        for rate in rates.values():
            check_option(self.name, "lr", rate, lr=True)
        return rates

    def _settings(self, rates: Rates) -> tuple[Any, ...]:
        """All that may be set and that code depends on, as it is now."""
        groups = {pattern: {**given, "lr": rates.get(pattern)} for pattern, given in self.groups.items()}
        own = [getattr(self, name) for name in SETTINGS]
        return rates[None], dict(self.options), groups, *own

    def _update_by(
        self, trained: Mapping[str, oc.Tensor], gradients: Mapping[str, oc.Tensor], rates: Rates
    ) -> None:
        options = self._options_of(trained, rates)
        if self.accumulate == 1:
            self._update(trained, options, gradients)
        else:
            self._accumulate(trained, options, gradients)

    def _accumulate(
        self,
        trained: Mapping[str, oc.Tensor],
        options: Mapping[str, dict[str, Any]],
        gradients: Mapping[str, oc.Tensor],
    ) -> None:
        """Adds gradients up, and updates by the sums in every so many steps."""
        check_together(
            trained,
            self._trained_before(),
            f"{self.name}, with accumulate={self.accumulate}, adds up gradients of parameters that it trains "
            "together",
            "two optimizers train two sets, and one that is made anew begins anew",
        )
        turn = self._counter("turn", trained)
        sums = {name: self._memory(p, "accumulated") for name, p in trained.items()}
        is_first = oc.eq(turn, 0)
        for name, gradient in gradients.items():
            sums[name][...] = oc.where(is_first, 0.0, sums[name]) + gradient
        # It may be later than the last one, where there were more of them before.
        is_last = turn >= self.accumulate - 1
        only_if(is_last, lambda: self._update(trained, options, sums))
        turn[...] = oc.where(is_last, 0, turn + 1)

    def _update(
        self,
        trained: Mapping[str, oc.Tensor],
        options: Mapping[str, dict[str, Any]],
        gradients: Mapping[str, oc.Tensor],
    ) -> None:
        counts = self._counts(trained)
        scaled = self._clipped(gradients)

        @cache
        def once(make: Callable[..., Any], *of: Any) -> Any:
            return make(*of)

        for name, p in trained.items():
            rate = once(_rate, counts, options[name].pop("lr"))
            self._rule(self._update_step(p, scaled[name], rate, counts.of, once), **options[name])
        if self.ema is not None:
            self._average(trained, partial(averages.moving, counts=counts, kept=self.ema))
        elif self.swa is not None:
            self._average(trained, partial(averages.even, counts=counts, when=self.swa))

    def _average(self, trained: Mapping[str, oc.Tensor], emit: Callable[[averages.Averages], Any]) -> None:
        own = {p: self._memory(p, "average") for p in trained.values()}
        begun = emit(own)
        self._averages |= {p: (average, begun[p]) for p, average in own.items()}

    def _counts(self, trained: Mapping[str, oc.Tensor]) -> StepCounts:
        def number(p: oc.Tensor, name: str) -> oc.Tensor:
            return self._memory(p, name, output=[], init=0, kind="counter", dtype=np.int64)

        counter = partial(self._counter, trained=trained)
        return StepCounts(self.name, trained, self._trained_before(), counter, self.count_each, number)

    def _trained_before(self) -> set[frozenset[oc.Tensor]]:
        """The parameters that code which lives trains together, or that a context has trained."""
        counted = (of for (of, _), counter in self._counters.items() if _has_value(counter))
        return {*self._together.values(), *counted}

    def _clipped(self, gradients: Mapping[str, oc.Tensor]) -> dict[str, oc.Tensor]:
        found = {name: -g if self.maximize else g for name, g in gradients.items()}
        if self.clip_norm is not None:
            with self._scope:
                factor = norm_factor(gradients.values(), self.clip_norm)
            found = {name: g * factor for name, g in found.items()}
        if self.clip_value is not None:
            found = {name: oc.clip(g, -self.clip_value, self.clip_value) for name, g in found.items()}
        return found

    def _update_step(
        self,
        p: oc.Tensor,
        gradient: oc.Tensor,
        lr: oc.TensorLike,
        count: Callable[[oc.Tensor], oc.Tensor],
        once: Callable[..., Any],
    ) -> UpdateStep:
        def temporary(name: str) -> oc.Tensor:
            with self._scope:
                return oc.node(name, of=p)

        return UpdateStep(
            p,
            gradient,
            lr,
            lambda name, init: self._memory(p, name, init=init),
            lambda name, init, dtype: self._memory(p, name, init=init, output=[], dtype=dtype),
            temporary,
            count,
            once,
        )

    def _memory(self, p: oc.Tensor, name: str, kind: Kind = "moment", **how: Any) -> oc.Tensor:
        """Memory of a parameter by name, which is made once."""
        if (p, name) not in self._nodes:
            with self._scope:
                self._nodes[p, name] = oc.node(name, of=p, kind=kind, **how)
        return self._nodes[p, name]

    def _counter(self, name: str, trained: Mapping[str, oc.Tensor]) -> oc.Tensor:
        """The counter of the steps of some parameters, or of all steps."""
        of = frozenset[oc.Tensor]() if self.count_each and name == "steps" else frozenset(trained.values())
        if (of, name) not in self._counters:
            with self._scope:
                self._counters[of, name] = oc.node(name, output=[], init=0, kind="counter", dtype=np.int64)
        return self._counters[of, name]

    def _trained(self, loss: oc.Tensor, params: Params | None) -> dict[str, oc.Tensor]:
        reached = trained_params(loss, self.name)
        for pattern in self.groups:
            if not any(fnmatchcase(name, pattern) for name in reached):
                raise oc.ArgumentError(f"no parameter is called {pattern!r}; there are {', '.join(reached)}")
        if params is not None:
            parts = _parts(params)
            wanted = {as_kept(part) for part in parts if not isinstance(part, oc.Block)}
            if strange := wanted - {*reached.values()}:
                raise oc.ArgumentError(
                    f"the loss has no derivatives for {', '.join(sorted(map(repr, strange)))}; "
                    f"it has them for {', '.join(reached) or 'no parameter'}"
                )
            blocks = [part for part in parts if isinstance(part, oc.Block)]
            wanted.update(p for block in blocks for p in block.params.values())
            reached = {name: p for name, p in reached.items() if p in wanted}
            if not reached:
                found = "no gradient of the loss reaches them" if wanted else "params is empty"
                raise oc.ArgumentError(f"{self.name} has nothing to train: {found}")
        return reached

    def _options_of(self, trained: Mapping[str, oc.Tensor], rates: Rates) -> dict[str, dict[str, Any]]:
        found = {name: {"lr": rates[None], **self.options} for name in trained}
        for pattern, given in self.groups.items():
            own = {**given, "lr": rates[pattern]} if pattern in rates else given
            for name in trained:
                if fnmatchcase(name, pattern):
                    found[name] |= own
        return found

    def state_roots(self) -> Sequence[Any]:
        """Its moments, counters and averages, and what its learning rates keep."""
        return [
            *self._counters.values(),
            *self._nodes.values(),
            *(rate for rate in self._rates().values() if isinstance(rate, Plateau)),
        ]

    @contextmanager
    def averaged(self, ctx: oc.Context | None = None) -> Generator[None]:
        """A context in which the parameters have their averages as values, as `ema` or `swa` says; those of
        the default context without `ctx`. Raises `UninitializedError` where that has none.
        """
        ctx = oc.default_context() if ctx is None else ctx
        if not self._averages:
            raise oc.ArgumentError(f"{self.name} keeps no averages: give it an ema= or swa=, and a step")
        known = {p: own for p, own in self._averages.items() if own[0] in ctx}
        if not known:
            raise oc.UninitializedError(
                f"{self.name} has taken no step in this context, so that it has no averages"
            )
        # A parameter of which no step is in the average is its own.
        begun = [(p, average) for p, (average, count) in known.items() if count not in ctx or ctx[count]]
        values = {p: np.array(ctx[average]) for p, average in begun}
        before = {p: np.array(ctx[p]) for p in values}
        try:
            for p, value in values.items():
                ctx[p] = value
            yield
        finally:
            for p, value in before.items():
                ctx[p] = value

    def __repr__(self) -> str:
        given = {"lr": self.lr, **self.options, **self._common}
        options = ", ".join(f"{key}={value!r}" for key, value in given.items())
        return f"train.{self.name}({options})"


def _parts(params: Params) -> list[Part]:
    if isinstance(params, oc.Tensor | oc.Block):
        return [params]
    return [*(params.values() if isinstance(params, Mapping) else params)]


def _plain(value: Any) -> Any:
    """A setting, in place of a number of NumPy that of Python, and of a list a tuple: settings are told apart
    by their values.
    """
    if isinstance(value, list | tuple):
        return tuple(map(_plain, cast("Sequence[Any]", value)))
    is_number = isinstance(value, np.number | np.ndarray) and np.shape(cast("Any", value)) == ()
    return cast("Any", value).item() if is_number else cast("Any", value)


def _plain_values(options: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _plain(value) for name, value in options.items()}
    return {name: as_rate(value) if name == "lr" else value for name, value in plain.items()}


def _has_value(memory: oc.Tensor) -> bool:
    """Whether a context has a value of some memory."""
    return any(memory in ctx for ctx in DEFAULT.living)


def _rate(counts: StepCounts, lr: LearningRate) -> oc.TensorLike:
    rate = as_rate(lr)
    if isinstance(rate, Schedule):
        return rate(as_number(counts.together() - 1))
    return rate.rate if isinstance(rate, Plateau) else rate
