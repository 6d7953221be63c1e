"""Statements that are made in an open `oc.code` block belong to it, once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tensors import param, run, total
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

import ocannl as oc
from ocannl import nn, train
from ocannl.program.mistakes.recomputation import warn_of_recomputation
from ocannl.program.module.needed import needed
from ocannl.program.module.reads import reads_of, written_by
from ocannl.program.values import Value, is_memory, value_of


def value_after(code: oc.Code, node: oc.Tensor) -> float:
    ctx = oc.Context.cpu()
    run(ctx, code)
    return ctx[node].item()


def test_code_that_is_made_and_run_in_a_block_is_there_once():
    n = oc.node("n", output=1, init=0.0)
    with oc.code("once") as once:
        oc.run(oc.accumulate(n, "add", 1.0))
    assert value_after(once, n) == 1


def test_code_that_is_run_moves():
    n = oc.node("n", output=1, init=1.0)
    with oc.code("moved") as moved:
        double = oc.set(n, 2 * n)
        n += 10
        oc.run(double)
    assert value_after(moved, n) == 22


def test_code_that_was_made_outside_runs_as_often_as_it_is_run():
    n = oc.node("n", output=1, init=1.0)
    double = oc.set(n, 2 * n)
    with oc.code("thrice") as thrice:
        for _ in range(3):
            oc.run(double)
    assert value_after(thrice, n) == 8


def test_an_inner_block_belongs_to_the_outer_one():
    n = oc.node("n", output=1, init=1.0)
    with oc.code("outer") as outer:
        with oc.code("inner"):
            n += 1
        n *= 3
    assert value_after(outer, n) == 6


def test_an_inner_block_that_fails_is_left_out():
    n = oc.node("n", output=1, init=1.0)
    with oc.code("outer") as outer:
        n *= 3
        with pytest.raises(ZeroDivisionError), oc.code("inner"):
            n += 1 / 0
    assert value_after(outer, n) == 3


@pytest.mark.parametrize("recipe", ["called", "run", "added up and run"])
def test_recipes_in_a_block(recipe: str):
    values = []
    for inside in (True, False):
        w = param("w", np.array([1.0, 2.0, 4.0]))
        x = oc.data(np.array([[1.0, 3.0], [2.0, 5.0], [3.0, 5.0]]).T)
        norm = nn.batch_norm1d()
        loss = total(norm(w * x, train_step=1) ** 3)
        if not inside:
            code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
        elif recipe == "added up and run":
            with oc.code("step") as code:
                oc.run(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9))
        else:
            run_it = oc.run if recipe == "run" else lambda code: code
            with oc.code("step") as code:
                run_it(train.grad_update(loss))
                run_it(train.sgd_update(loss, learning_rate=0.1, momentum=0.9))
        ctx = oc.Context.cpu()
        routine = ctx.compile(code)
        ctx.init_params(code)
        routine()
        routine()
        statistics = norm(x)
        values.append([ctx[w], ctx[statistics], *(ctx[p] for p in oc.params(loss).values())])
    for found, wanted in zip(*values, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_updates_of_a_block_run_with_its_gradients():
    """Applying batch normalization in a block does not run its update there."""
    norm = nn.batch_norm1d()
    x = oc.data(np.array([[1.0], [3.0]]))
    with oc.code("only forward") as only:
        oc.forward(norm(x, train_step=1))
    assert [op.name for op in only.statements] == ["texpr.comment", "texpr.forward"]


def test_gradients_and_values_are_updated_in_place():
    w = oc.param("w", 3.0, output=2)
    double = (w * 2.0).named("double")
    with oc.code("update") as scale:
        w.grad *= 0.5
        double.value += 1.0
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(train.grad_update((double * double).einsum("...|...=>0")) + scale)
    ctx.init_params(w)
    step()
    np.testing.assert_array_equal(ctx[w.grad], [12.0, 12.0])
    np.testing.assert_array_equal(ctx[double.value], [7.0, 7.0])


def gradients_of_a_product() -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    w, v = param("w", np.ones(3)), param("v", np.full(3, 2.0))
    train.grad_update(total(w * v))
    return w, v, oc.sqrt(total(w.grad * w.grad) + total(v.grad * v.grad))


def clip_naively() -> None:
    with oc.code("clip"):
        w, v, norm = gradients_of_a_product()
        w.grad *= 1 / norm
        v.grad *= 1 / norm


def test_what_a_block_changes_and_computes_again_is_told():
    """The second gradient would be divided by another norm."""
    with pytest.warns(UserWarning, match=r"`sqrt.*computed again here.*Keep it in an oc.node") as found:
        clip_naively()
    assert found[0].filename == __file__
    assert len(found) == 1


@pytest.mark.filterwarnings("error")
def test_what_memory_keeps_is_not_told():
    kept = oc.node("norm", output=1, dtype=np.float64)
    with oc.code() as clip:
        w, v, norm = gradients_of_a_product()
        kept[...] = norm
        w.grad *= 1 / kept
        v.grad *= 1 / kept
    ctx = oc.Context.cpu()
    ctx.init_params(w * v)
    run(ctx, clip)
    np.testing.assert_allclose(ctx[v.grad], np.ones(3) / np.sqrt(15), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_statements_that_run_again_are_not_told():
    n = oc.node("n", output=1, init=1.0)
    double = oc.set(n, 2 * n)
    with oc.code():
        oc.run(double)
        oc.run(double)


def told_by_definition(statements: Sequence[Operation]) -> Operation | None:
    """The first statement that uses an expression which an earlier one used to write memory that it reads."""
    changed: set[Value] = set()
    for statement in statements:
        used = [value_of(op) for op in needed([statement]) if not is_memory(value_of(op))]
        if not changed.isdisjoint(used):
            return statement
        keys = set(written_by(statement))
        changed |= {value for value in used if keys & reads_of(value, {})}
    return None


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_told_is_what_is_computed_again(data: st.DataObject):
    memory = [oc.node(f"m{k}", output=1, init=1.0) for k in range(3)]
    values = [*memory]
    for _ in range(data.draw(st.integers(1, 6))):
        values.append(data.draw(st.sampled_from(values)) + data.draw(st.sampled_from(values)))
    pair = st.tuples(st.sampled_from(memory), st.sampled_from(values))
    code = [oc.set(*each) for each in data.draw(st.lists(pair, max_size=6))]
    statements = [statement for one in code for statement in one.statements]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_recomputation(statements)
    again = told_by_definition(statements)
    assert len(found) == (again is not None)
    if again is not None:
        assert isinstance(again.location, FileLineColLoc)
        assert found[0].lineno == again.location.line.data
