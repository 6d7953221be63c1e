"""Nothing that is dropped is kept: arrays and memory are freed at once, the rest by Python's collector."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
import pytest
from support.native_memory import in_use
from xdsl.ir import Operation

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.memory.node import Node
from ocannl.execute.routine import Routine
from ocannl.passes.texpr.infer_shapes.sites import Site, Trace
from ocannl.passes.texpr.infer_shapes.tables import VarId
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.values import Value

pytestmark = pytest.mark.usefixtures("only_what_is_new")

OURS = (Operation, Value, oc.Tensor, oc.Code, VarId, Site, Trace, Node, Routine)


@pytest.fixture
def only_what_is_new() -> Generator[None]:
    """The collector and its lists leave out what there was before, by far the most in a run of all tests.

    The package then leaves the collector to itself.
    """
    gc.freeze()
    yield
    gc.unfreeze()


def living() -> dict[str, int]:
    """How many objects there are of each of our classes, after a collection."""
    gc.collect()
    found: dict[str, int] = {}
    for thing in gc.get_objects():
        if isinstance(thing, OURS):
            found[type(thing).__name__] = found.get(type(thing).__name__, 0) + 1
    return found


def memories() -> list[object]:
    """The memory of all nodes of contexts."""
    return [thing.memory for thing in gc.get_objects() if isinstance(thing, Node)]


@contextmanager
def no_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def perceptron() -> tuple[oc.Tensor, oc.Code]:
    x = oc.data(np.ones((4, 2), np.float32), label="x")
    loss = (nn.linear(out_dim=1)(oc.relu(nn.linear(out_dim=8)(x))) ** 2).einsum("...|...=>0").named("loss")
    return loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)


def classifier() -> tuple[oc.Tensor, oc.Code]:
    """With running statistics, checked ids, random numbers and derivatives as expressions."""
    ids = oc.data(np.array([1, 0, 2], np.int32).reshape(3, 1))
    table = oc.param("table", batch=3, output=4, input=[])
    rows = oc.gather("v|d; b|t => b|d", table, ids, at="v")
    h = nn.batch_norm1d()(rows, oc.index("train_step"))
    h = nn.dropout(0.5)(h, oc.index("train_step"))
    loss = (h * h).einsum("...|...=>0").named("loss")
    slope = oc.grad(loss, table)
    return loss, train.grad_update(loss) + oc.forward((slope * slope).einsum("...|...=>0"))


def watched() -> tuple[oc.Tensor, oc.Code]:
    """A program that shows values after each run."""
    loss, code = perceptron()
    return loss, code + oc.print_values("loss", loss)


def unfinished() -> tuple[oc.Tensor, oc.Code]:
    """Of shapes that nothing determines."""
    a, b = oc.param("a"), oc.param("b")
    n = oc.Dim("n")
    c = oc.einsum("..i..|a...->n...=>..i..|n...->a...", a @ b + a, n=n) * n
    return c, oc.forward(c)


def run(make: Callable[[], tuple[oc.Tensor, oc.Code]], ctx: oc.Context) -> float:
    loss, code = make()
    step = ctx.compile(code)
    ctx.init_params(loss)
    step()
    parameter = next(iter(oc.params(loss).values()))
    return float(ctx[loss]) + float(ctx[parameter * 2.0].sum())


class TestNothingIsLeft:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("make", [perceptron, classifier, unfinished])
    def test_of_programs_that_were_built(self, make: Callable[[], tuple[oc.Tensor, oc.Code]]):
        make()[1].ir()
        before = living()
        for _ in range(5):
            make()[1].ir()
        assert living() == before

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("make", [perceptron, classifier])
    def test_of_programs_that_were_run(self, make: Callable[[], tuple[oc.Tensor, oc.Code]]):
        ctx = oc.Context.cpu(1)
        run(make, ctx)
        before = living()
        for _ in range(3):
            run(make, ctx)
        assert living() == before

    def test_of_errors(self):
        x = oc.data(np.ones((4, 2), np.float32))
        before = living()
        for _ in range(3):
            with pytest.raises(oc.ShapeError):
                _ = x * oc.data(np.ones((4, 3), np.float32))
        assert living() == before

    def test_of_a_long_chain(self):
        before = living()
        x = oc.param("x", output=[2])
        for _ in range(500):
            x = x + 1.0
        del x
        assert living() == before


class TestAtOnce:
    """With the collector off: references alone free it."""

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("make", [perceptron, classifier])
    def test_values_of_expressions(self, make: Callable[[], tuple[oc.Tensor, oc.Code]]):
        with no_collector():
            loss, code = make()
            values = [weakref.ref(loss.ir_value)]
            values += [weakref.ref(p.ir_value) for p in oc.params(loss).values()]
            del loss, code
            assert [value() for value in values] == [None] * len(values)

    def test_arrays(self):
        array = np.ones((1000, 2), np.float32)
        array.flags.writeable = False  # Else data have a copy.
        before = sys.getrefcount(array)
        with no_collector():
            y = (oc.data(array) * 2.0).einsum("...|...=>0")
            assert sys.getrefcount(array) == before + 1
            del y
            assert sys.getrefcount(array) == before

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("make", [perceptron, classifier, watched])
    def test_the_memory_of_a_context(
        self, make: Callable[[], tuple[oc.Tensor, oc.Code]], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("OCANNL_CHECK", "1")  # Such runs hold more than others.
        ctx = oc.Context.cpu(1)
        gc.collect()
        others = set(map(id, memories()))
        with no_collector():
            loss, code = make()
            step = ctx.compile(code)
            ctx.init_params(loss)
            step()
            parameter = next(iter(oc.params(loss).values()))
            assert np.isfinite(ctx[parameter * 2.0]).all()
            held = [weakref.ref(memory) for memory in memories() if id(memory) not in others]
            del loss, code, step, parameter
            assert any(held)
            assert [memory() for memory in held] == [None] * len(held)

    def test_the_routines_of_values_looked_at(self):
        ctx = oc.Context.cpu(1)
        p = oc.param("p", 1.0, output=[3])
        ctx.init_params(p)
        with no_collector():
            count = len(memories())
            for k in range(5):
                assert ctx[p * (k + 1.0)].tolist() == [k + 1.0] * 3
            assert len(memories()) == count


class TestALivingParameter:
    def test_keeps_nothing_of_what_was_built_on_it(self):
        p = oc.param("p", output=[2])

        def step() -> None:
            train.sgd_update((p * p).einsum("...|...=>0"), learning_rate=0.1)

        step()
        counts = living()
        grown: list[int] = []
        for _ in range(2):  # Something else may grow, but not twice.
            before = sys.getallocatedblocks()
            for _ in range(100):
                step()
            assert p.ir_value.first_use is None
            assert living() == counts
            grown.append(sys.getallocatedblocks() - before)
        assert min(grown) < 100

    def test_keeps_its_gradient(self):
        p = oc.param("p", 2.0, output=[1])
        loss = (p * p).named("loss")
        code = train.grad_update(loss)
        ctx = oc.Context.cpu(1)
        step = ctx.compile(code)
        ctx.init_params(loss)
        step()
        kept = weakref.ref(p.grad.ir_value)
        text = code.ir()
        assert ctx[p.grad].tolist() == [4.0]
        del step
        gc.collect()
        assert kept() is None
        assert ctx[p.grad].tolist() == [4.0]
        assert code.ir() == text

    def test_lives_as_long_as_its_gradient(self):
        gradient = oc.param("p", 2.0, output=[1]).grad
        assert gradient.label == "p.grad"
        assert "texpr.param" in (gradient * 2.0).ir()


def many(order: random.Random) -> str:
    """The text of a program some of whose expressions are dropped early, in some order."""
    x, w = oc.param("x"), oc.param("w", output=[3])
    dropped: list[oc.Tensor] = [x + w, w * 2.0, x @ oc.param("v"), oc.einsum("...|i=>...|i", x)]
    y = (x * w).named("y")
    while dropped:
        dropped.pop(order.randrange(len(dropped)))
        if order.random() < 0.3:
            gc.collect()
    return f"{y.shape} {oc.forward(y + x).ir('infer-shapes')}"


class TestDroppingChangesNothing:
    def test_in_any_order(self):
        orders = [random.Random(seed) for seed in range(10)]
        shapes = {many(order).partition(" ")[2] for order in orders}
        assert len(shapes) == 1

    def test_what_is_known_of_living_variables(self):
        """An expression told that two parameters have one shape; it is gone, its constraint is not."""
        a, b = oc.param("a", input=[], output=None), oc.param("b", input=[], output=None)
        oc.einsum("...|i; ...|i => ...|i", a, b)
        gc.collect()
        oc.einsum("...|i=>...|i", a, i=3)
        assert str(b.shape) == "3"

    def test_errors_name_the_lines_of_what_was_dropped(self):
        a, b = oc.param("a", output=None, input=[]), oc.param("b", output=None, input=[])
        kept: list[oc.Tensor] = []

        def relate() -> None:
            kept.append(oc.relu(a).named("rectified") * b)  # here
            kept.append(oc.einsum("...|i; ...|i => ...|i", oc.relu(a) + 1.0, b))  # here, too
            oc.einsum("...|i=>...|i", a, i=3)

        def message() -> str:
            with pytest.raises(oc.ShapeError) as error:
                oc.einsum("...|i=>...|i", b, i=4)
            return str(error.value)

        relate()
        living_message = message()
        kept.clear()
        gc.collect()
        assert message() == living_message
        assert living_message.count("test_lifetime.py") >= 2


class TestHandles:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("twin", [copy.deepcopy, pickle.dumps, lambda p: copy.deepcopy([p]), copy.copy])
    def test_have_no_twins(self, twin: Callable[[object], object]):
        with pytest.raises(ArgumentError, match=r"test_lifetime\.py:\d+: `p` is a handle on memory"):
            twin(oc.param("p", output=[2]))

    def test_have_no_attributes_but_their_own(self):
        p = oc.param("p", output=[2])
        with pytest.raises(AttributeError, match="requires_grad"):
            object.__setattr__(p, "requires_grad", False)

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("twin", [copy.deepcopy, pickle.dumps, copy.copy])
    def test_contexts_and_routines_have_no_twins(self, twin: Callable[[object], object]):
        ctx = oc.Context.cpu(1)
        step = ctx.compile(oc.forward(oc.data([1.0]) * 2))
        for thing in (ctx, step):
            with pytest.raises(ArgumentError, match=r"test_lifetime\.py:\d+: a \w+ is neither copied nor"):
                twin(thing)

    def test_contexts_are_not_gone_through(self):
        ctx = oc.Context.cpu(1)
        with pytest.raises(ArgumentError, match=r"ctx\[t\]"):
            list(ctx)


@pytest.mark.exhaustive
def test_10000_models_in_one_process():
    ctx = oc.Context.cpu(1)

    def models(count: int) -> tuple[int, int]:
        for _ in range(count):
            run(perceptron, ctx)
        native = in_use()
        return sys.getallocatedblocks(), native

    blocks, native = models(100)
    blocks_later, native_later = models(9900)
    assert blocks_later < 1.01 * blocks
    assert native_later < native + 9900 * 500
