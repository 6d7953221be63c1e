"""Names of memory: paths, with numbers in order of making where they repeat among what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.texpr import MemoryOp
from ocannl.program.names import memory_names


def names(*tensors: oc.Tensor) -> list[str]:
    ops = [t.op for t in tensors]
    found = memory_names(ops)
    return [found[op] for op in ops if isinstance(op, MemoryOp)]


def layer(label: str = "linear") -> tuple[oc.Tensor, oc.Tensor]:
    with oc.scope(label):
        return oc.param("w", output=2), oc.param("b", output=2)


def test_what_is_alone_has_no_number():
    (w1, b1), (w2, b2) = layer(), layer()
    assert names(w1, b1) == names(w2, b2) == ["linear.w", "linear.b"]


def test_the_parameters_of_a_layer_share_its_number():
    (w1, b1), (w2, b2), (w3, _) = layer(), layer(), layer()
    assert names(b2, w1, w2, b1) == ["linear_1.b", "linear.w", "linear_1.w", "linear.b"]
    assert names(w2, b1, w3) == ["linear_1.w", "linear.b", "linear_2.w"]


def test_the_first_one_made_is_the_first_wherever_it_is_used():
    x = oc.data(np.ones((2, 3)), label="x")
    first, second = nn.linear(out_dim=3), nn.linear(out_dim=3)
    loss = oc.einsum("...|... => 0", second(first(x)))
    other = oc.einsum("...|... => 0", first(second(x)))
    found = [oc.params(loss), oc.params(other), oc.params(loss + other), oc.params(other + loss)]
    assert all(
        {name: p.op for name, p in each.items()} == {n: p.op for n, p in found[0].items()} for each in found
    )
    assert set(found[0]) == {"linear.w", "linear.b", "linear_1.w", "linear_1.b"}


def test_scopes_without_repeats_are_one():
    with oc.scope("model"):
        w = oc.param("w", output=2)
    with oc.scope("model"):
        b = oc.param("b", output=2)
    assert names(w, b) == ["model.w", "model.b"]


def test_a_scope_that_is_kept_goes_on():
    model, other = oc.scope("model"), oc.scope("model")
    with model:
        w = oc.param("w", output=2)
    with other:
        u, v = oc.param("w", output=2), oc.param("b", output=2)
    with model, oc.scope("inner"):
        b = oc.param("b", output=2)
    assert names(w, u, v, b) == ["model.w", "model_1.w", "model_1.b", "model.inner.b"]


def test_a_scope_may_be_kept_where_it_is_entered():
    with oc.scope("model") as model:
        w = oc.param("w", output=2)
    with oc.scope("model"):
        u = oc.param("w", output=2)
    with model:
        b = oc.param("b", output=2)
    assert names(w, u, b) == ["model.w", "model_1.w", "model.b"]


def test_labels_that_look_like_numbers_are_left_alone():
    (w1, _), (w2, _), (w3, _) = layer(), layer("linear_1"), layer()
    assert names(w1, w2, w3) == ["linear.w", "linear_1.w", "linear_2.w"]
    a, b, c = (oc.param(name, output=2) for name in ("w_1", "w", "w"))
    assert names(a, b, c) == ["w_1", "w", "w_2"]


def test_parameters_are_named_before_what_else_is_kept():
    data, node, param = oc.data(np.ones(2), label="w"), oc.node("w", output=2), oc.param("w", output=2)
    assert names(data, node, param) == ["w_1", "w_2", "w"]
    assert names(param) == ["w"]


def test_inline_parameters_stand_in_the_scope_of_their_block():
    @oc.block
    def mlp(p: Any, x: oc.Tensor) -> oc.Tensor:
        return p.w2 @ oc.relu(p.w1(output=4) @ x)

    x = oc.data(np.ones((2, 3)), label="x")
    first, second = mlp(), mlp()
    used_last = second(x)
    y = first(x) + used_last
    assert set(oc.params(y)) == {"mlp.w1", "mlp.w2", "mlp_1.w1", "mlp_1.w2"}
    assert oc.params(first(x))["mlp.w1"].op is oc.params(y)["mlp.w1"].op


def test_names_decide_initial_values_not_the_tensor_that_is_asked_for():
    x = oc.data(np.ones((2, 3)), label="x")
    first, second = nn.linear(out_dim=3), nn.linear(out_dim=3)
    loss = oc.einsum("...|... => 0", second(first(x)))
    aux = oc.einsum("...|... => 0", first(second(x)))
    one, other = oc.Context.cpu(), oc.Context.cpu()
    one.init_params(loss, seed=3)
    other.init_params(aux + loss, seed=3)
    for param in oc.params(loss).values():
        np.testing.assert_array_equal(one[param], other[param])


def program(between: Callable[[], object]) -> oc.Code:
    x = oc.data(np.ones((2, 3)), label="x")
    first = nn.linear(out_dim=3)
    between()
    loss = oc.einsum("...|... => 0", nn.linear(out_dim=3)(first(x)))
    return train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.5)


def test_what_else_was_built_changes_no_name():
    alone = program(lambda: None).ir("loops")
    assert program(lambda: [nn.linear(out_dim=5) for _ in range(3)]).ir("loops") == alone
    assert 'texpr.param "linear_1.w"' in program(lambda: None).ir()


LABELS = st.sampled_from("ab")
PATHS = st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=3), LABELS), min_size=1, max_size=12)


@given(paths=PATHS, labels=st.lists(LABELS, min_size=4, max_size=4), data=st.data())
def test_names_are_distinct_and_do_not_depend_on_the_order_asked(
    paths: list[tuple[list[int], str]], labels: list[str], data: st.DataObject
):
    scopes: dict[tuple[int, ...], oc.Scope] = {}

    def made(at: tuple[int, ...], name: str) -> oc.Tensor:
        if not at:
            return oc.param(name, output=1)
        if at not in scopes:
            scopes[at] = enter(at[:-1], lambda: oc.scope(labels[at[-1]]))
        with scopes[at]:
            return oc.param(name, output=1)

    def enter(at: tuple[int, ...], make: Callable[[], oc.Scope]) -> oc.Scope:
        if not at:
            return make()
        if at not in scopes:
            scopes[at] = enter(at[:-1], lambda: oc.scope(labels[at[-1]]))
        with scopes[at]:
            return make()

    tensors = [made(tuple(at), name) for at, name in paths]
    found = names(*tensors)
    assert len(set(found)) == len(found)
    order = data.draw(st.permutations(range(len(tensors))))
    assert names(*(tensors[i] for i in order)) == [found[i] for i in order]
    for (at, name), tensor, each in zip(paths, tensors, found, strict=True):
        assert [part.split("_")[0] for part in each.split(".")] == [*(labels[i] for i in at), name]
        assert tensor.label == ".".join([*(labels[i] for i in at), name])


def test_a_scope_is_named_by_a_string():
    with pytest.raises(oc.ArgumentError, match="a scope is named by a string, found 3"):
        oc.scope(3)  # pyright: ignore[reportArgumentType]


def test_data_that_is_forwarded_keeps_its_label():
    """Its name as a value, `data`, is that of other memory, whose label this is."""
    x, y = oc.data(np.ones((2, 3), np.float32)), oc.data(np.ones(4))
    slope = oc.grad(y.sum(), x)
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(oc.forward(y) + oc.forward(slope))()
    np.testing.assert_array_equal(ctx[slope], np.zeros((2, 3)))
