"""Small sums that share an exchange: how many, that nothing overtakes what it depends on, results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation, SSAValue

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects import assign
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import array_type
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.lowering.buckets import Joining, SmallSum, accesses
from ocannl.lowering.collectives import CollectiveSteps

RANKS = 2
rng = np.random.default_rng(3)
POINTS, CLASSES = rng.normal(size=(10, 2)), np.sign(rng.normal(size=(10, 1)))
Step = Callable[[oc.Tensor], oc.Code]


def momentum(loss: oc.Tensor) -> oc.Code:
    return train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.05, momentum=0.9)


STEPS: Sequence[Step] = (momentum, train.adamw(lr=0.01).step, train.adamw(lr=0.01, clip_norm=0.1).step)


def moons() -> oc.Tensor:
    """The loss of the network of `examples/moons.py` on one batch."""
    shard: Any = {"batch": "data"}
    x, y = oc.data(POINTS, label="x", shard=shard), oc.data(CLASSES, label="y", shard=shard)
    model = nn.mlp(hid_dims=[16, 16], out_dim=1)
    return oc.mean(oc.relu(1 - y * model(x))).named("loss")


@pytest.mark.parametrize("make", STEPS)
def test_a_step_has_one_exchange(make: Step) -> None:
    """The gradients of five parameters and the loss, of which nothing else needs a sum."""
    plan = oc.plan(make(moons()), oc.Mesh({"data": RANKS}))
    ((kind, operand, size, times),) = [(c.kind, c.operand, c.bytes, c.times) for c in plan.collectives]
    gradients = 16 * 2 + 16 + 16 * 16 + 16 + 16
    assert (kind, size, times) == ("all_reduce", 8 * (gradients + 1), 1)
    assert operand.endswith("and 5 more")


def trained(step: Step, ctx: oc.Context) -> Mapping[str, NDArray[Any]]:
    with oc.precision("float64"):
        loss = moons()
        routine = ctx.compile(step(loss))
    ctx.init_params(loss, seed=1)
    losses: list[float] = []
    for _ in range(4):
        routine()
        losses.append(float(ctx[loss]))
    return {"losses": np.array(losses)} | {name: ctx[param] for name, param in oc.params(loss).items()}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", STEPS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_training_is_that_of_one_device(make: Step, ranks: int) -> None:
    mesh = oc.Mesh({"data": ranks}, engine="threads", timeout=30)
    alone, together = trained(make, oc.Context.cpu()), trained(make, oc.Context.cpu(mesh=mesh))
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_sum_that_needs_another_one_has_its_own_exchange() -> None:
    x = oc.data(POINTS, label="x", shard={"batch": "data"})
    centred = x - oc.mean(x, axes="batch")
    variance, total = oc.mean(centred**2), oc.sum(x)
    plan = oc.plan(oc.forward(variance) + oc.forward(total), oc.Mesh({"data": RANKS}))
    assert [(each.bytes, "and 1 more" in each.operand) for each in plan.collectives] == [
        (16, False),
        (16, True),
    ]


def node(name: str, _: Attribute = f64, sizes: tuple[int, ...] = (3,), *__: object) -> SSAValue:
    found = assign.NodeOp(name, "local", "", array_type(f64, sizes)).result
    found.name_hint = name
    return found


def copied(target: SSAValue, source: SSAValue) -> Operation:
    at = (Linear.var("i"),)
    return assign.AccumOp(target, at, Combination(Arg(0), (source,), (at,)), (("i", 3),))


def summed(target: SSAValue, source: SSAValue) -> list[Operation]:
    steps = CollectiveSteps("data", RANKS, (), lambda suffix, sizes: node(suffix, f64, sizes))
    steps.all_reduce(target, source, "add")
    return steps.steps


PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])
KINDS = st.sampled_from(["copy", "sum", "sum", "message"])


@given(st.lists(st.tuples(KINDS, PAIRS), max_size=14))
def test_steps_keep_their_order_where_one_depends_on_the_other(
    code: list[tuple[str, tuple[int, int]]],
) -> None:
    nodes, steps, sums = [node(f"n{k}") for k in range(6)], list[Operation](), list[SmallSum]()
    for number, (kind, (to, of)) in enumerate(code):
        if kind == "message":
            steps.append(assign.CollectiveOp("send", [nodes[of]], "stage", (number, 1)))
        else:
            made = [copied(nodes[to], nodes[of])] if kind == "copy" else summed(nodes[to], nodes[of])
            sums += SmallSum.of(made)
            steps += made
    # Sums with what they gather are one step here: the bucket of a sum is where it is packed.
    touched = [accesses(step) for step in steps]
    sources = {each.gather: each.source for each in sums}
    order = Joining(node, frozenset()).run(steps, sums)
    assert len({*order}) == len(order)
    packs = [op for op in order if op not in steps and isinstance(op, assign.AccumOp)]
    places = {op: place for place, op in enumerate(order)}
    for op, source in sources.items():
        if op not in places:
            pack = next(own for own in packs if own.rhs[0] is source)
            packs.remove(pack)
            places[op] = places[pack]
    for at, (read, written) in enumerate(touched):
        for later, (others, stored) in enumerate(touched[at + 1 :], at + 1):
            if not (written.isdisjoint(others | stored) and read.isdisjoint(stored)):
                assert places[steps[at]] < places[steps[later]]
