"""Names that there are not, of other frameworks or misspelled: the way to what there is."""

from __future__ import annotations

import re
import traceback
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.program.mistakes import other_names
from ocannl.program.mistakes.other_functions import FUNCTIONS
from ocannl.program.mistakes.other_names import (
    OF_BLOCKS,
    OF_FUNCTIONS,
    OF_INIT,
    OF_NN,
    OF_OPTIMIZERS,
    OF_SCHEDULES,
    OF_TENSORS,
    OF_TRAIN,
)

ANY: Any = oc
NAMES: list[tuple[Any, str, str]] = [
    (oc, "matmul", "in its place: "),
    (oc, "einsumm", "did you mean 'einsum'?"),
    (oc, "softplus", "in its place: nn.softplus"),
    (oc, "adam", "in its place: train.adam"),
    (oc, "sigmod", "did you mean 'sigmoid'?"),
    (oc, "unique", "in its place: np.unique(t.numpy())"),
    (oc, "not", "in its place: oc.logical_not"),
    (oc, "float8", "in its place: oc.float8_e4m3fn or oc.float8_e5m2"),
    (oc, "frobnicate", "has no attribute 'frobnicate'"),
    (oc.init, "kaiming_normal_", "in its place: oc.init.kaiming"),
    (oc.init, "unifrom", "did you mean 'uniform'?"),
    (nn, "Linear", "module 'ocannl.nn' has no attribute 'Linear'; did you mean 'linear'?"),
    (nn, "Module", "in its place: a function of tensors, as oc.Block(function), or @oc.configurable"),
    (train, "DataLoader", "in its place: train.batches"),
    (train, "DataLoadr", "in its place: train.batches"),
    (train, "adamW", "did you mean 'adamw'?"),
    (nn, "Linaer", "did you mean 'linear'?"),
    (oc.data([1.0]), "detach", "in its place: oc.stop_gradient(t)"),
    (oc.data([1.0]), "square", "in its place: t * t"),
    (oc.data([1.0]), "maximum", "in its place: oc.maximum(t, ...)"),
    (nn, "BatchNorm2d", "did you mean 'batch_norm2d'?"),
    (nn, "PReLU", "in its place: oc.where(x > 0, x, a * x)"),
    (nn, "relu_", "in its place: oc.relu"),
    (nn, "Dropout3d", "in its place: x * oc.where("),
    (nn, "AdaptiveMaxPool2d", "in its place: x.max((1, 2))"),
    (oc.data([1.0]), "reshap", "did you mean 'reshape'?"),
    (oc.data([1.0]), "_reshap", "has no attribute '_reshap'"),
    (train.adam(), "zero_grad", "in its place: nothing, step(loss) sets gradients to zero"),
    (train.adam(), "param_groups", "in its place: groups="),
    (train.adam(), "stepp", "did you mean 'step'?"),
    (train.cosine(0.1, 10), "get_last_lr", "in its place: schedule(step).item()"),
    (oc.function(lambda x: x), "why", "in its place: f.lower(x, y).compile().why(...)"),
    (oc.function(lambda x: x), "vew", "did you mean 'view'?"),
    (oc.Context, "compil", "has no attribute 'compil'"),
    (oc.Context.cpu(), "compil", "did you mean 'compile'?"),
    (oc.Code(), "irr", "did you mean 'ir'?"),
    (train, "random_split", "in its place: parts of the arrays: x[:n] and x[n:]"),
    (train, "multistep", "in its place: lr=lambda step: 0.1 * oc.where(step < 30, "),
    (nn, "pack_padded_sequence", "in its place: lengths= of a call of nn.lstm"),
    (oc, "onnx", "in its place: oc.export"),
    (nn.linear(out_dim=1), "cuda", "in place of `cuda`: nothing, memory is that of a context"),
    (oc.config, "treads", "has no attribute 'treads'"),
]


def test_a_name_is_suggested_once():
    """Python adds a suggestion of its own to an error that has an object."""
    with pytest.raises(AttributeError) as caught:
        ANY.einsumm  # noqa: B018
    assert caught.value.obj is None
    told = "".join(traceback.format_exception_only(caught.value))
    assert told.lower().count("did you mean") == 1


def test_what_is_named_in_place_of_others_is_there():
    """And no name has a place that is there itself."""
    tables = {oc: FUNCTIONS, oc.init: OF_INIT, nn: OF_NN, train: OF_TRAIN}
    objects = (OF_TENSORS, OF_BLOCKS, OF_FUNCTIONS, OF_OPTIMIZERS, OF_SCHEDULES)
    places = [place for table in (*tables.values(), *objects) for place in table.values()]
    owners = {"oc": oc, "nn": nn, "train": train}
    found = {pair for place in places for pair in re.findall(r"\b(oc|nn|train)\.(\w+)", place)}
    assert sorted(pair for pair in found if not hasattr(owners[pair[0]], pair[1])) == []
    assert [name for owner, table in tables.items() for name in table if hasattr(owner, name)] == []
    assert [name for name in ("exp", "abs", "sort", "float", "mm") if hasattr(oc.data([1.0]), name)] == []
    with pytest.raises(AttributeError, match=re.escape("in its place: oc.exp(t)")):
        oc.data([1.0]).exp()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(("owner", "name", "words"), NAMES, ids=[name for _, name, _ in NAMES])
def test_names_that_there_are_not(owner: Any, name: str, words: str):
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(owner, name)
    assert not hasattr(owner, name)


def test_names_that_cannot_be_set():
    p: Any = oc.param("p", np.ones(3, np.float32))
    with pytest.raises(AttributeError, match=r"_names.py.*'requires_grad'; in its place: oc.param"):
        p.requires_grad = False
    with pytest.raises(AttributeError, match=r"no attribute 'frobnicated'$"):
        p.frobnicated = 1
    with pytest.raises(AttributeError, match="has no setter"):
        p.shape = (3, 1)


@pytest.mark.parametrize("owner", [oc, nn, train, oc.init, oc.data([1.0]), train.adam()])
def test_nothing_is_searched_for_what_tools_ask(owner: Any, monkeypatch: pytest.MonkeyPatch):
    """As pytest asks each object of a module of tests whether it is a fixture."""
    monkeypatch.setattr(other_names, "get_close_matches", None)
    for name in ("__wrapped__", "_pytestfixturefunction"):
        assert not hasattr(owner, name)


def test_another_word_is_no_advice():
    """`invert` was taken for `inner`, and `square` for `Summary`."""
    for name in ("inventory", "digit", "squad"):
        with pytest.raises(AttributeError) as caught:
            getattr(oc, name)
        assert str(caught.value).endswith(f"no attribute {name!r}")
