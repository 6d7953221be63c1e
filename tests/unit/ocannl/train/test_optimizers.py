"""Optimizers against NumPy, and where there is PyTorch, against that; what they do with all parameters."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import optimizer_references as references
from support.optimizer_model import START, Model, X, Y, close, gradients
from support.optimizer_references import new_memory

import ocannl as oc
from ocannl import nn, train
from ocannl.train.recipes import complement_of_power

OURS: Mapping[str, Callable[[], train.Optimizer]] = {
    "sgd": lambda: train.sgd(0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "nesterov": lambda: train.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: train.adam(0.01, weight_decay=0.1),
    "adamw": lambda: train.adamw(0.01, weight_decay=0.1),
    "amsgrad": lambda: train.adam(0.01, amsgrad=True, betas=(0.9, 0.9)),
    "rmsprop": lambda: train.rmsprop(momentum=0.5, centered=True),
    "adagrad": lambda: train.adagrad(0.1, lr_decay=0.01, initial_accumulator_value=0.1),
    "adadelta": lambda: train.adadelta(weight_decay=0.1),
    "nadam": lambda: train.nadam(0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda: train.radam(0.01, weight_decay=0.1, betas=(0.9, 0.99)),
    "lamb": lambda: train.lamb(0.01, weight_decay=0.1),
    "lion": lambda: train.lion(0.01, weight_decay=0.1),
    "rprop": lambda: train.rprop(),
    "muon": lambda: train.muon(0.01),
}


# Rules.


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", OURS)
def test_against_numpy(name: str):
    model = Model(bias=name != "muon")
    found = model.train(OURS[name]().step(model.loss), 12)
    wanted = {key: START[key] for key in found}
    memory = {key: new_memory() for key in found}
    rule = getattr(references, name)
    for t in range(1, 13):
        slopes = gradients(wanted)
        wanted = {key: rule(p, slopes[key], memory[key], t) for key, p in wanted.items()}
    close(found, wanted, 1e-12)
    assert np.abs(found["l.w"] - START["l.w"]).max() > 1e-2


@pytest.mark.parametrize("base", [0.9, 0.999, 0.99999])
def test_complements_of_powers_do_not_cancel(base: float):
    steps = oc.data(np.array([1, 2, 10, 1000, 10**6], np.float32))
    wanted = [-math.expm1(float(t) * math.log(base)) for t in (1, 2, 10, 1000, 10**6)]
    np.testing.assert_allclose(oc.Context.cpu()[complement_of_power(base, steps)], wanted, rtol=3e-7)


# PyTorch.

COMMON: Mapping[str, dict[str, Any]] = {
    "alone": {},
    "groups": {"groups": {"*.b": {"lr": 0.02}}},
    "clipped": {"clip_norm": 0.05},
    "accumulated": {"accumulate": 3, "clip_norm": 0.1},
    "going up": {"maximize": True, "clip_norm": 0.05},
    "by a schedule": {"lr": train.cosine(0.01, 100, minimum=0.001)},
}
TORCH = {
    "sgd": ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    "adam": ("Adam", {"weight_decay": 0.1}),
    "adamw": ("AdamW", {"weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"weight_decay": 0.1, "centered": True, "momentum": 0.5}),
    "adagrad": ("Adagrad", {"weight_decay": 0.1, "lr_decay": 0.01}),
    "adadelta": ("Adadelta", {"weight_decay": 0.1}),
    "nadam": ("NAdam", {"weight_decay": 0.1}),
    "radam": ("RAdam", {"weight_decay": 0.1}),
    "rprop": ("Rprop", {}),
}
# Rprop takes no schedule, and uphill it comes where gradients are all rounding.
CASES = [
    (name, how)
    for name in TORCH
    for how in COMMON
    if name != "rprop" or how not in ("by a schedule", "going up")
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "how"), CASES)
def test_against_pytorch(name: str, how: str, dtype: Any):
    """100 steps, each with all that is common to optimizers."""
    torch = pytest.importorskip("torch")
    common, (theirs, options) = dict(COMMON[how]), TORCH[name]
    model = Model(dtype)
    lr = common.pop("lr", 0.01)
    found = model.train(getattr(train, name)(lr, **options, **common).step(model.loss), 100)

    exact = torch.float64 if dtype == np.float64 else torch.float32
    w, b = (torch.tensor(START[key], dtype=exact, requires_grad=True) for key in ("l.w", "l.b"))
    groups = [{"params": [w]}, {"params": [b], "lr": 0.02 if how == "groups" else 0.01}]
    up = common.get("maximize", False)
    optimizer = getattr(torch.optim, theirs)(groups, lr=0.01, maximize=up, **options)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100, 0.001)
    for run in range(1, 101):
        y = torch.tanh(torch.tensor(X, dtype=exact) @ w.T + b)
        (((y - torch.tensor(Y, dtype=exact)) ** 2).mean() / common.get("accumulate", 1)).backward()
        if run % common.get("accumulate", 1) == 0:
            if "clip_norm" in common:
                torch.nn.utils.clip_grad_norm_([w, b], common["clip_norm"])
            optimizer.step()
            optimizer.zero_grad()
        if how == "by a schedule":
            cosine.step()
    wanted = {"l.w": w.detach().numpy(), "l.b": b.detach().numpy()}
    close(found, wanted, 1e-12 if dtype == np.float64 else 1e-5)


VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sgd", {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "weight_decay": 0.1}),
    ("sgd", {"dampening": 0.3}, {"momentum": 0.5}),
    ("adam", {"amsgrad": True, "weight_decay": 0.1}, {}),
    ("adamw", {"amsgrad": True}, {"betas": (0.8, 0.9), "eps": 1e-6, "lr": 0.03}),
    ("adagrad", {"initial_accumulator_value": 0.2}, {"lr_decay": 0.1}),
    ("nadam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"weight_decay": 0.0}),
    ("radam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"betas": (0.7, 0.6)}),
]


@pytest.mark.parametrize(("name", "options", "of_biases"), VARIANTS, ids=[name for name, *_ in VARIANTS])
def test_options_and_those_of_groups(name: str, options: dict[str, Any], of_biases: dict[str, Any]):
    torch = pytest.importorskip("torch")
    model = Model()
    found = model.train(
        getattr(train, name)(0.01, **options, groups={"*.b": of_biases}).step(model.loss), 100
    )
    w, b = (torch.tensor(START[key], requires_grad=True) for key in ("l.w", "l.b"))
    groups = [{"params": [w]}, {"params": [b], **of_biases}]
    optimizer = getattr(torch.optim, TORCH[name][0])(groups, lr=0.01, **options)
    for _ in range(100):
        optimizer.zero_grad()
        ((torch.tanh(torch.tensor(X) @ w.T + b) - torch.tensor(Y)) ** 2).mean().backward()
        optimizer.step()
    close(found, {"l.w": w.detach().numpy(), "l.b": b.detach().numpy()}, 1e-12)


# All parameters together.


def numpy_adamw(
    runs: int, *, clip: float = math.inf, decay: Mapping[str, float] | None = None
) -> dict[str, Any]:
    p, memory = dict(START), {key: new_memory() for key in START}
    for t in range(1, runs + 1):
        g = gradients(p)
        norm = math.sqrt(sum((a**2).sum() for a in g.values()))
        factor = min(1.0, clip / (norm + 1e-6))
        p = {
            key: references.adamw(a, g[key] * factor, memory[key], t, decay=(decay or {}).get(key, 0.01))
            for key, a in p.items()
        }
    return p


def test_groups_and_clipping():
    model = Model()
    optimizer = train.adamw(
        0.01, clip_norm=0.05, groups={"l.*": {"weight_decay": 0.3}, "*.b": {"weight_decay": 0}}
    )
    found = model.train(optimizer.step(model.loss), 10)
    close(found, numpy_adamw(10, clip=0.05, decay={"l.w": 0.3, "l.b": 0.0}), 1e-12)


def test_clipping_by_itself():
    """As a recipe, beside the optimizer's own."""
    model = Model()
    train.update_once(model.ctx, model.loss)
    before = [np.array(model.ctx[p.grad]) for p in (model.w, model.b)]
    norm = math.sqrt(sum((g**2).sum() for g in before))
    model.ctx.compile(train.clip_grad_norm(model.loss, norm / 2))()
    for p, g in zip((model.w, model.b), before, strict=True):
        np.testing.assert_allclose(model.ctx[p.grad], g / 2, rtol=1e-5)
    model.ctx.compile(train.clip_grad_norm(model.loss, 2 * norm))()
    for p, g in zip((model.w, model.b), before, strict=True):
        np.testing.assert_allclose(model.ctx[p.grad], g / 2, rtol=1e-5)
    limit = float(np.abs(before[0]).max() / 4)
    model.ctx.compile(train.clip_grad_value(model.loss, limit))()
    np.testing.assert_allclose(model.ctx[model.w.grad], np.clip(before[0] / 2, -limit, limit), rtol=1e-5)
    clipped = Model()
    code = train.sgd(1.0, clip_value=limit).step(clipped.loss)
    found = clipped.train(code, 1)
    np.testing.assert_allclose(found["l.w"], START["l.w"] - np.clip(before[0], -limit, limit), rtol=1e-6)
    for clip in (train.clip_grad_norm, train.clip_grad_value):
        with pytest.raises(oc.ArgumentError, match="of gradients is not negative, found -1"):
            clip(model.loss, -1.0)


def test_accumulated_steps_are_one():
    """By the mean of their gradients, with everything else as in one step."""
    one, many = Model(), Model()

    def optimizer(accumulate: int) -> train.Optimizer:
        schedule = train.linear(0.05, 6)
        return train.adamw(schedule, weight_decay=0.1, clip_norm=0.05, ema=0.5, accumulate=accumulate)

    first, second = optimizer(1), optimizer(3)
    wanted = one.train(first.step(one.loss), 4)
    close(many.train(second.step(many.loss), 12), wanted, 1e-14)
    found = oc.state(second)
    counters = {name: int(many.ctx[t]) for name, t in found.items() if found.kinds[name] == "counter"}
    assert counters == {"adamw.turn": 0, "adamw.steps": 4}
    with first.averaged(one.ctx), second.averaged(many.ctx):
        np.testing.assert_allclose(many.ctx[many.w], one.ctx[one.w], rtol=1e-14)
        assert np.abs(one.ctx[one.w] - wanted["l.w"]).max() > 1e-3
    np.testing.assert_array_equal(one.ctx[one.w], wanted["l.w"])


def test_fewer_steps_may_be_one_than_have_been_added_up(tmp_path: Path):
    """A run that goes on with another `accumulate` updates as soon as it has enough gradients, and again."""
    first, second = Model(), Model()
    many, few = train.sgd(0.1, accumulate=4), train.sgd(0.1, accumulate=2)
    first.train(many.step(first.loss), 3)
    first.ctx.save(tmp_path / "state.npz", [first.loss, many])
    step = second.ctx.compile(few.step(second.loss))
    second.ctx.load(tmp_path / "state.npz", [second.loss, few])
    values = [START["l.w"]]
    for _ in range(5):
        step()
        values.append(np.array(second.ctx[second.w]))
    changes = [bool((now != then).any()) for then, now in pairwise(values)]
    assert changes == [True, False, True, False, True]


@pytest.mark.parametrize(
    "common", [{"ema": 0.9}, {"swa": 2}, {"swa": (1, 2)}], ids=["ema", "swa", "interval"]
)
def test_averages(common: Any):
    model, values, wanted = Model(), list[NDArray[Any]](), START["l.w"]
    optimizer = train.sgd(0.1, **common)
    with pytest.raises(oc.ArgumentError, match="sgd keeps no averages"), optimizer.averaged(model.ctx):
        pass
    step = model.ctx.compile(optimizer.step(model.loss))
    for t in range(6):
        step()
        values.append(np.array(model.ctx[model.w]))
        if "ema" in common:
            wanted = values[0]
            for p in values[1:]:
                wanted = 0.9 * wanted + 0.1 * p
        else:
            counted = values[2:] if common["swa"] == 2 else values[1::2]
            wanted = np.mean(counted, axis=0) if counted else values[t]
        with optimizer.averaged(model.ctx):
            np.testing.assert_allclose(model.ctx[model.w], wanted, rtol=1e-14)
        np.testing.assert_array_equal(model.ctx[model.w], values[t])
    with model.ctx, optimizer.averaged():
        np.testing.assert_allclose(model.w.numpy(), wanted, rtol=1e-14)
    other = oc.Context.cpu()
    other.init_params(model.loss)
    with pytest.raises(oc.UninitializedError, match="no step in this context"), optimizer.averaged(other):
        pass


def test_routines_of_one_optimizer_share_its_memory():
    """As functions for batches of other sizes do."""
    apart, whole = Model(), Model()
    optimizer = train.adamw(0.01)
    first, second = (apart.ctx.compile(optimizer.step(apart.loss)) for _ in range(2))
    for step in (first, second, first):
        step()
    wanted = whole.train(train.adamw(0.01).step(whole.loss), 3)
    close({name: apart.ctx[p] for name, p in oc.params(apart.loss).items()}, wanted, 0)
    assert {*oc.state([first, second])} == {*oc.state(first)}


def test_two_losses_and_two_optimizers():
    """Each changes its own parameters only, and counts its own steps."""
    model = Model()
    down, up = train.sgd(0.1, label="down"), train.adamw(0.01, label="up")
    code = down.step(model.loss, params=model.w) + up.step(-model.loss, params={"b": model.b})
    found = model.train(code, 1)
    g = gradients(START)
    np.testing.assert_allclose(found["l.w"], START["l.w"] - 0.1 * g["l.w"], rtol=1e-12)
    assert (np.sign(found["l.b"] - START["l.b"] * (1 - 1e-4)) == np.sign(g["l.b"])).all()
    assert {*oc.state(up)} == {"up.steps", "up.l.b.adam_mean", "up.l.b.adam_square"}


def test_a_step_in_an_open_block_belongs_to_it():
    model, other = Model(), Model()
    with oc.code("two") as two:
        train.sgd(0.1).step(model.loss)
        train.sgd(0.2).step(model.loss)
    once = train.sgd(0.1).step(other.loss) + train.sgd(0.2).step(other.loss)
    close(model.train(two, 3), other.train(once, 3), 0)


def test_equal_layers_have_moments_of_their_names():
    first, second = nn.linear(out_dim=3), nn.linear(out_dim=3)
    loss = nn.mse(second(oc.tanh(first(oc.data(X)))), oc.data(X))
    optimizer = train.sgd(momentum=0.9)
    _ = optimizer.step(loss)
    assert {*oc.state(optimizer)} == {
        "sgd.steps",
        *(f"sgd.linear{n}.{p}.sgd_momentum" for n in ("", "_1") for p in "wb"),
    }


# Arguments.

WRONG: Any = train


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WRONG.sgd(momentum=oc.param("m")), "momentum of sgd is a number, found <m"),
        (lambda: WRONG.adamw(clip_norm=0.0), "clip_norm of adamw is more than 0; None is for no clipping"),
        (lambda: WRONG.sgd(lr=0.1, clip_value=0), "clip_value of sgd is more than 0"),
        (lambda: WRONG.adamw(betas=(0.9, 1.0)), r"betas of adamw is less than 1, found 1.0"),
        (lambda: WRONG.adam(eps=-1.0), "eps of adam is not negative, found -1.0"),
        (lambda: WRONG.sgd("fast"), "lr of sgd is a number, an expression or a schedule, found 'fast'$"),
        (lambda: WRONG.sgd([1.0]), r"schedule, found .*; parameters are given to no optimizer: step"),
        (lambda: WRONG.sgd(groups={"*": {"beta": 1}}), r"group '\*' of sgd has no option `beta`"),
        (lambda: WRONG.sgd(groups={"*": {"momentum": "x"}}), "momentum of sgd is a number, found 'x'"),
        (lambda: WRONG.adamw(lr=0.1, maximise=True), r"`maximise`; its .* did you mean `maximize`\?"),
        (lambda: WRONG.sgd(groups={"*": {"momentun": 1}}), r"`momentun`; .* did you mean `momentum`\?"),
        (lambda: WRONG.sgd(clip=1.0), "sgd has no option `clip`; its options are lr, momentum, dampening"),
        (lambda: WRONG.adam(betas=0.9), "betas of adam are 2 numbers, found 0.9"),
        (lambda: WRONG.adam(betas=(0.9,)), r"betas of adam are 2 numbers, found \(0.9,\)"),
        (lambda: WRONG.adam(eps=(1, 2)), r"eps of adam is a number, found \(1, 2\)"),
        (lambda: WRONG.adam(amsgrad="no"), "`amsgrad` is True or False, found 'no'"),
        (lambda: WRONG.adam(maximize=1), "`maximize` is True or False, found 1"),
        (lambda: WRONG.adam(True), "lr of adam is a number, found True"),
        (lambda: WRONG.muon(ns_steps=2.5), "ns_steps of muon is an integer, found 2.5"),
        (lambda: WRONG.muon(ns_coefficients=(1, 2)), "ns_coefficients of muon are 3 numbers"),
        (lambda: WRONG.muon(adjust_lr_fn="x"), "adjust_lr_fn of muon is 'original' or 'match_rms_adamw'"),
        (lambda: WRONG.rprop(etas=(1.5, 0.5)), "etas of rprop are below and above 1"),
        (lambda: WRONG.sgd(nesterov=True), "nesterov of sgd asks for momentum, and for no dampening"),
        (lambda: WRONG.sgd(momentum=0.9, dampening=0.1, nesterov=True), "and for no dampening"),
        (lambda: WRONG.sgd(groups={"*.b": {"nesterov": True}}), "nesterov of sgd asks for momentum"),
        (lambda: WRONG.sgd(clip_norm=-1.0), "clip_norm of sgd is not negative, found -1.0"),
        (lambda: WRONG.sgd(clip_value=float("nan")), "clip_value of sgd is not negative, found nan"),
        (lambda: WRONG.sgd(ema=1.5), "ema of sgd is less than 1, found 1.5"),
        (lambda: WRONG.sgd(ema=0.5, swa=3), "sgd keeps one average of each parameter: ema= or swa="),
        (lambda: WRONG.sgd(swa=(3, 0)), "swa's interval is at least 1, found 0"),
        (lambda: WRONG.sgd(swa=(1, 2, 3)), r"swa is the first step that counts, or that and an interval"),
        (lambda: WRONG.sgd(count_each=2), "`count_each` is True or False, found 2"),
        (lambda: WRONG.sgd(groups=[1]), r"groups of sgd are options by patterns of names, found \[1\]"),
        (lambda: WRONG.sgd(groups={"*": 3}), r"a group of sgd is options by name, found '\*': 3"),
        (lambda: WRONG.sgd(accumulate=0), "accumulate is a number of steps, found 0"),
        (lambda: WRONG.rprop(train.constant(0.1)).step(Model().loss), "rprop has steps of its own"),
        (lambda: WRONG.muon().step(Model().loss), "muon is for matrices, found <l.b: 4"),
        (lambda: WRONG.sgd().step(oc.data(X).einsum("...|... => 0")), "sgd has nothing to train"),
        (lambda: WRONG.sgd().step(Model().loss, params=[oc.param("other")]), "no derivatives for <other"),
        (lambda: WRONG.sgd().step(Model().loss, params=[]), "sgd has nothing to train: params is empty"),
        (lambda: WRONG.sgd(groups={"w": {}}).step(Model().loss), "no parameter is called 'w'; there are l.w"),
    ],
)
def test_errors(make: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        make()


def test_the_parameters_of_a_block():
    """Of two blocks, one is trained; of its parts, those that the loss uses."""
    body, head = nn.linear(out_dim=3, label="body"), nn.linear(out_dim=1, label="head")
    parts = oc.Block(lambda x: (head(x), nn.linear(out_dim=1, label="unused")(x)))
    x = oc.data(X)
    loss = nn.mse(parts(body(x))[0], 1.0)
    for chosen in (parts, [head], {"head": parts}):
        assert [*oc.params(train.sgd(0.1).step(loss, params=chosen), trained=False)]
        trained = oc.state(train.sgd(0.1, momentum=0.9, label="o").step(loss, params=chosen))
        moments = [name for name, kind in trained.kinds.items() if kind == "moment"]
        assert [name.split(".")[1] for name in moments] == ["head", "head"]
    with pytest.raises(oc.ArgumentError, match="nothing to train: no gradient of the loss reaches them"):
        train.sgd(0.1).step(loss, params=nn.linear(out_dim=2))


def test_a_group_may_have_nothing_of_some_parameters():
    """That of biases, where a step trains the matrix alone."""
    model = Model()
    optimizer = train.sgd(0.1, groups={"*.b": {"weight_decay": 0.5}})
    found = model.train(optimizer.step(model.loss, params=[oc.params(model.loss)["l.w"]]), 1)
    np.testing.assert_array_equal(found["l.b"], START["l.b"])
    assert np.abs(found["l.w"] - START["l.w"]).max() > 1e-3


def test_a_description_has_all_that_was_asked_for():
    text = repr(train.adamw(lr=0.1, clip_norm=1.0, groups={"*.b": {"weight_decay": 0.0}}))
    assert text.startswith("train.adamw(lr=0.1, betas=(0.9, 0.999), ")
    assert text.endswith("clip_norm=1.0, groups={'*.b': {'weight_decay': 0.0}})")


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": np.array(1e-2), "betas": (np.array(0.9), np.float64(0.99)), "eps": np.array(1e-8)},
        {"lr": 1e-2, "betas": [0.9, 0.99], "accumulate": np.int64(1)},
        {"groups": {"*": {"lr": np.array(1e-2)}}, "betas": np.array([0.9, 0.99])},
    ],
)
def test_settings_may_be_numbers_of_numpy(settings: dict[str, Any]):
    updated: list[Any] = []
    for optimizer in (train.adamw(**settings), train.adamw(lr=1e-2, betas=(0.9, 0.99))):
        ctx, w = oc.Context.cpu(threads=1), oc.param("w", np.array([1.0, -2.0]))
        step = ctx.compile(optimizer.step((w * w).sum()))
        ctx.init_params(w)
        step.run_loop(epochs=3)
        updated.append(ctx[w])
    np.testing.assert_array_equal(*updated)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("learning_rate", "has no attribute 'learning_rate'"),
        ("clip_nrom", "did you mean 'clip_norm'?"),
        ("momentum", "in its place: options['momentum']"),
        ("momentun", "did you mean 'momentum'?"),
        ("param_groups", "in its place: groups="),
    ],
)
def test_what_an_optimizer_has_not_cannot_be_set(name: str, words: str):
    optimizer: Any = train.sgd(0.1, momentum=0.9)
    with pytest.raises(AttributeError, match=re.escape(words)):
        setattr(optimizer, name, 0.5)


def test_options_of_steps_that_are_code_do_not_change():
    w = oc.param("w", np.ones(2, np.float32))
    optimizer = train.sgd(0.1)
    optimizer.lr = 0.5
    _ = optimizer.step((w * w).sum())
    with pytest.raises(oc.ArgumentError, match="`lr` cannot change them; a learning rate that changes is"):
        optimizer.lr = 0.1
    with oc.eager():
        optimizer.lr = 0.1


def test_a_step_that_nothing_takes_is_told():
    """As in a loop of PyTorch, outside of a function: it would train nothing."""
    loss, optimizer = (oc.param("w", 2.0, output=1) ** 2).sum(), train.sgd(lr=0.1)
    with pytest.warns(UserWarning, match=r"sgd\.step\(loss\) is code that nothing takes"):
        optimizer.step(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = optimizer.step(loss)
        with oc.code("step") as code:
            optimizer.step(loss)
        with oc.eager():
            optimizer.step((oc.param("v", 2.0, output=1) ** 2).sum())
    assert len(kept.statements) <= len(code.statements)
