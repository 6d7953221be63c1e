"""`oc.function`: signatures, arguments, results, contexts and nesting."""

from __future__ import annotations

import re
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.tensors import arrays_of, total

import ocannl as oc
from ocannl import nn


@pytest.fixture
def ctx() -> oc.Context:
    return oc.Context.cpu(threads=1)


class TestCalls:
    def test_a_call_computes(self, ctx: oc.Context):
        @oc.function(ctx=ctx)
        def scaled(x: oc.Tensor, by: float = 2.0) -> oc.Tensor:
            return x * by

        x = np.array([[1.0, 2.0], [3.0, 4.0]])
        for array in (x, x.T, x[::-1], x.astype(np.float32), np.ones((0, 2))):
            found = scaled(array)
            np.testing.assert_array_equal(found, array * 2)
            assert (found.dtype, found.flags.writeable) == (array.dtype, True)
        np.testing.assert_array_equal(scaled(x, by=3), x * 3)
        np.testing.assert_array_equal(scaled(x, 0.5), x * 0.5)

    def test_results_are_arrays_of_their_own(self, ctx: oc.Context):
        double = oc.function(lambda x: 2 * x, ctx=ctx)
        first = double(np.array([1.0, 2.0]))
        second = double(np.array([3.0, 4.0]))
        np.testing.assert_array_equal((first, second), [[2, 4], [6, 8]])

    def test_one_number_is_a_numpy_scalar(self, ctx: oc.Context):
        add = oc.function(
            lambda x: {"sum": total(x).einsum("0 => "), "same": x, "three": 3, "none": None}, ctx=ctx
        )
        found = add(np.array([1.0, 2.5]))
        assert type(found["sum"]) is np.float64
        assert (found["sum"], found["three"], found["none"]) == (3.5, 3, None)
        np.testing.assert_array_equal(found["same"], [1, 2.5])

    @pytest.mark.parametrize(
        ("number", "dtype"),
        [(3, np.int32), (2**40, np.int64), (2.5, np.float32), (np.float64(1.5), np.float64)],
    )
    def test_numbers_are_traced(self, number: float, dtype: type, ctx: oc.Context):
        same = oc.function(lambda n: n, ctx=ctx)
        found = same(number)
        assert (found, type(found)) == (number, dtype)
        same(number + 1)
        assert len(same.signatures()) == 1

    def test_calls_from_python_and_by_numpy_agree(self, ctx: oc.Context):
        """The quick way takes what the general way was compiled for."""
        (x,) = arrays_of((3, 2))
        sums = oc.function(lambda x, y: (x + y, x - y), ctx=ctx)
        for y in (x[::-1], x.astype(np.float32), x[:1], x.astype(">f8"), x):
            found = sums(x, y)
            np.testing.assert_array_equal(found[0], x + y)
            np.testing.assert_array_equal(found[1], x - y)

    def test_an_argument_that_the_code_does_not_use(self, ctx: oc.Context):
        first = oc.function(lambda x, y: x + 1, ctx=ctx)
        for _ in range(2):
            np.testing.assert_array_equal(first(np.ones(2), np.ones((5, 5))), [2, 2])

    def test_integers_and_booleans(self, ctx: oc.Context):
        add = oc.function(lambda x, y: x + y, ctx=ctx)
        np.testing.assert_array_equal(add(np.array([1, 2], np.uint8), np.array([True, False])), [2, 2])


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Batch:
    ids: Any
    extra: Any


class TestTrees:
    def test_arguments_and_results_are_nested(self, ctx: oc.Context):
        @oc.function(ctx=ctx, axes={"batch.ids": "b"})
        def all_twice(batch: Any, *rest: Any, **named: Any) -> Any:
            shape = (batch.ids.shape.batch, batch.ids.shape.output)
            return Batch(batch.ids * 2, [2 * part for part in batch.extra]), Pair(*rest), named, shape

        batch = Batch(np.array([1, 2]), [np.array([3.0]), 4])
        for _ in range(2):
            found, pair, named, shape = all_twice(batch, np.ones(2), 5.0, k=np.zeros(1))
            assert isinstance(found, Batch)
            np.testing.assert_array_equal(found.ids, [2, 4])
            np.testing.assert_array_equal(found.extra[0], [6])
            assert found.extra[1] == 8
            assert pair.right == 5
            np.testing.assert_array_equal(named["k"], [0])
            assert shape == ((2,), ())
        assert str(all_twice.signatures()[0]).startswith("batch.ids: int64[2], batch.extra.0: float64[1]")

    def test_a_structure_is_part_of_the_signature(self, ctx: oc.Context):
        count = oc.function(lambda parts: sum(parts[1:], parts[0]), ctx=ctx)
        assert count([1, 2]) == 3
        assert count([1, 2, 3]) == 6
        assert count((1, 2)) == 3
        assert len(count.signatures()) == 3


class TestStatic:
    def test_a_static_argument_is_a_value(self, ctx: oc.Context):
        @oc.function(ctx=ctx, static=("flip", "how"))
        def change(x: oc.Tensor, flip: bool, how: Callable[[oc.Tensor], oc.Tensor] = oc.exp) -> oc.Tensor:
            return how(-x) if flip else x

        x = np.array([0.0, 1.0])
        np.testing.assert_array_equal(change(x, False), x)
        np.testing.assert_allclose(change(x, True), np.exp(-x))
        np.testing.assert_array_equal(change(x, flip=True, how=oc.relu), [0, 0])
        assert len(change.signatures()) == 3

    @pytest.mark.parametrize(
        ("first", "second"), [(0.0, -0.0), ((2,), (2.0,)), ((0.0, "a"), (-0.0, "a")), ((True,), (1,))]
    )
    def test_static_values_that_are_equal_may_be_others(self, first: Any, second: Any, ctx: oc.Context):
        @oc.function(ctx=ctx, static="by")
        def scaled(x: oc.Tensor, by: Any) -> oc.Tensor:
            return x * (by[0] if isinstance(by, tuple) else by)

        x = np.arange(3, dtype=np.int32)
        found = [scaled(x, by) for by in (first, second)]
        fresh = [oc.function(scaled.function, ctx=ctx, static="by")(x, by) for by in (first, second)]
        for one, other in zip(found, fresh, strict=True):
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
        assert len(scaled.signatures()) == 2
        scaled(x, first)
        assert len(scaled.signatures()) == 2

    def test_strings_and_none_are_static(self, ctx: oc.Context):
        pick = oc.function(lambda x, mode="one", mask=None: x if mask is None else x * mask, ctx=ctx)
        assert pick(2.0, "two") == 2
        assert pick(2.0, mask=0.5) == 1

    def test_flags_and_defaults_that_are_no_arrays_are_static(self, ctx: oc.Context):
        w = oc.param("w", 3.0, output=[])
        pick = oc.function(
            lambda x, twice=False, signs=(True, 1.0), act=oc.relu, by=w: (
                act(x) * (2 if twice else 1) * (signs[1] if signs[0] else -1.0) * by
            ),
            ctx=ctx,
        )
        assert [pick(2.0), pick(2.0, True), pick(2.0, twice=False)] == [6, 12, 6]
        assert [pick(2.0, signs=(False, 2.0)), pick(2.0, signs=(True, 2.0))] == [-6, 12]
        assert len(pick.signatures()) == 3
        ctx[w] = 1.0
        assert pick(2.0) == 2
        with pytest.raises(oc.ArgumentError, match=r"`flag` has no truth(.|\n)*oc.function\(static="):
            oc.function(lambda x, flag: x if flag else -x)(2.0, True)

    def test_layers_with_flags_are_functions(self, ctx: oc.Context):
        layer, x = oc.function(nn.lstm(3), ctx=ctx), np.ones((2, 4, 3), np.float32)
        ys, [(h, _)] = layer(x, states=True)
        np.testing.assert_array_equal(layer(x), ys)
        np.testing.assert_array_equal(ys[:, -1], h)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda f: f(object()),
                "argument `x` of f is no array and no number, found object; a value that",
            ),
            (lambda f: f({"a": len}), r"argument `x.a` of f is no array .* oc.function\(static=\(\"x\",\)\)"),
            (lambda f: f(1.0, []), "argument `flag` is static, so that it has to be hashable, found list"),
            (lambda f: f(1.0, 1, 2), r"f: too many positional arguments. Its arguments are x, flag"),
            (lambda f: f(), r"f: missing a required argument: 'x'. Its arguments are x, flag"),
            (lambda f: f(y=1), r"f: there is no argument `y`. Its arguments are x, flag"),
            (lambda f: f(1.0, flags=1), r"f: there is no argument `flags`; did you mean `flag`\?"),
            (lambda f: f(2**70), "argument `x` is an integer of more than 64 bits"),
        ],
    )
    def test_arguments_that_a_function_does_not_take(self, call: Callable[[Any], Any], message: str):
        f = oc.function(lambda x, flag=None: x, static="flag", name="f")
        with pytest.raises(oc.ArgumentError, match=message) as caught:
            call(f)
        assert __file__ in str(caught.value)

    def test_names_of_arguments_are_checked(self):
        with pytest.raises(oc.ArgumentError, match="has no argument `z`; its arguments are: x, y"):
            oc.function(lambda x, y: x, axes={"z": "b"})
        with pytest.raises(oc.ArgumentError, match="makes a function of a function, found 3"):
            oc.function(3)  # pyright: ignore


class TestContexts:
    def test_memory_is_that_of_the_context(self):
        w = oc.param("w", 1.0, output=1, input=[])
        contexts = [oc.Context.cpu(), oc.Context.cpu()]
        functions = [oc.function(lambda: w * 2, ctx=context) for context in contexts]
        contexts[0][w] = 5.0
        assert [float(f()[0]) for f in functions] == [10, 2]

    def test_a_function_is_compiled_for_each_context(self):
        double = oc.function(lambda x: 2 * x)
        assert double(3.0) == 6

    def test_a_static_index_is_no_argument(self, ctx: oc.Context):
        step_n = oc.index("step_n")
        with pytest.raises(
            oc.OcannlError,
            match=r"uses the static indices `step_n`, which a call does not set: .*memory that counts",
        ):
            oc.function(lambda x: x + step_n, ctx=ctx)(1.0)


class TestSignatures:
    def test_many_signatures_warn(self, ctx: oc.Context):
        same = oc.function(lambda x, y: x + total(y), ctx=ctx, name="same")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for size in range(1, 9):
                same(1.0, np.ones(size))
        with pytest.warns(
            UserWarning, match="`same` was compiled for 9 signatures: argument `y` came in 9"
        ) as found:
            same(1.0, np.ones(9))
        assert found[0].filename == __file__
        same(1.0, np.ones(10))

    def test_all_that_come_in_as_many_shapes_are_named(self, ctx: oc.Context):
        f = oc.function(lambda x, y: (total(x), total(y)), ctx=ctx, name="f")
        for size in range(1, 9):
            f(np.ones(size), np.ones(size))
        with pytest.warns(UserWarning, match="arguments `x`, `y` came in 9 .*; pad them to a few sizes"):
            f(np.ones(9), np.ones(9))

    def test_an_error_in_a_function_is_at_its_line(self, ctx: oc.Context):
        @oc.function(ctx=ctx)
        def clash(x: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
            return x + ids

        with pytest.raises(oc.ShapeError) as caught:
            clash(np.ones(3), np.ones(2, int))
        assert f"{__file__}:" in str(caught.value)

    @pytest.mark.parametrize("look", [float, np.asarray, lambda t: t.item(), lambda t: t.tolist()])
    def test_what_depends_on_an_argument_has_no_value_yet(self, look: Callable[[Any], Any]):
        @oc.function
        def scaled(x: oc.Tensor):
            return x * look(x.sum())

        with pytest.raises(oc.UninitializedError, match=r"\.py:\d+: `.*` has no value while the function is"):
            scaled(np.ones(3, np.float32))

    @pytest.mark.parametrize("init", [oc.param, lambda label, value: oc.node(label, init=value)])
    def test_what_routines_write_has_no_value_yet(self, init: Callable[[str, float], oc.Tensor]):
        """That of now would stay in the function. Data stay what they are."""
        state, scale = init("state", 3.0), oc.data(np.float32(2))
        with pytest.raises(oc.UninitializedError, match="has no value while the function is traced"):
            oc.function(lambda x: x * float(state))(np.ones(3, np.float32))
        assert oc.function(lambda x: x * float(scale))(np.ones(1, np.float32)) == 2

    def test_an_error_with_ids_is_told_first(self, ctx: oc.Context):
        """That without as well, if it is another one."""
        rows, numbers = np.ones((4, 2)), np.arange(4)
        weighted = oc.function(lambda n, x: oc.einsum("b | o; b | o => b", n, x), ctx=ctx)
        with pytest.raises(oc.ShapeError) as caught:
            weighted(numbers, rows)
        ids, _, plain = str(caught.value).partition(
            "\n(with axes={'n': 'b'}, as guessed)\nnor do shapes fit as data:\n"
        )
        assert "n: 4    (it has no batch axes)" in plain
        assert "n: 4|    (it has no output axes)" in ids
        with pytest.raises(oc.ShapeError) as caught:
            oc.function(lambda x, y: nn.cross_entropy(oc.param("w", input=3) @ x, y), ctx=ctx)(rows, numbers)
        assert "3 in `w`, 2 in `x`\n" in str(caught.value)
        assert "  hint: give `w` the size 2" in str(caught.value)

    def test_integers_are_ids_where_numbers_do_not_fit(self, ctx: oc.Context):
        embed, head = nn.embedding(num=4, dim=3), nn.linear(out_dim=4)

        @oc.function(ctx=ctx)
        def score(ids: oc.Tensor, classes: oc.Tensor) -> oc.Tensor:
            return nn.cross_entropy(head(embed(ids)), classes)

        assert score(np.array([[0, 1], [2, 3]]), np.array([[0, 1], [2, 3]])).size == 1
        double = oc.function(lambda x, k: x * k, ctx=ctx)
        np.testing.assert_array_equal(double(np.ones(3), np.arange(3)), np.arange(3))

    def test_integers_are_ids_where_there_is_one_for_each_row(self, ctx: oc.Context):
        """Also where they might be features: of bytes, as many as there are classes, or beside ids."""
        scores = np.eye(4, dtype=np.float32)
        right = oc.function(lambda x, y: oc.eq(x.argmax(-1), y).sum(), ctx=ctx)
        assert right(scores, np.arange(4)) == 4
        assert right((255 * scores).astype(np.uint8), np.arange(4)) == 4
        loss = oc.function(lambda x, y: nn.cross_entropy(x, y), ctx=ctx)
        np.testing.assert_allclose(loss(scores, np.arange(4)), np.log(np.e + 3) - 1, rtol=1e-6)
        embed = nn.embedding(num=3, dim=4)
        mean = oc.function(lambda ids, y: nn.cross_entropy(embed(ids).mean(1), y), ctx=ctx)
        assert mean(np.zeros((2, 3), int), np.zeros(2, int)).shape == ()

    def test_all_integers_are_ids_where_nothing_else_fits(self, ctx: oc.Context):
        """As the ends of edges, of which there are not as many as nodes."""

        @oc.function(ctx=ctx)
        def neighbours(nodes: oc.Tensor, ends: oc.Tensor, starts: oc.Tensor) -> oc.Tensor:
            return oc.scatter("e | d; e | => v | d", nodes[starts], ends, at="v", v=3)

        rows, ends, starts = np.arange(6.0).reshape(3, 2), np.array([0, 0, 2, 0]), np.array([1, 2, 2, 1])
        wanted = np.zeros((3, 2))
        np.add.at(wanted, ends, rows[starts])
        np.testing.assert_array_equal(neighbours(rows, ends, starts), wanted)

    def test_parts_of_ids_are_ids(self, ctx: oc.Context):
        """As words, each of which is a question and the answer to the one before."""
        table = np.eye(4)

        @oc.function(ctx=ctx)
        def loss(table: oc.Tensor, words: oc.Tensor) -> oc.Tensor:
            each = nn.cross_entropy(table[words[:, :-1]], words[:, 1:], reduction="none")
            return oc.mean(oc.where(oc.ne(words[:, 1:], 0), each, 0.0))

        same, other = np.log(np.e + 3) - 1, np.log(np.e + 3)
        np.testing.assert_allclose(
            loss(table, np.array([[1, 1, 2, 0], [3, 2, 0, 0]])), (same + 2 * other) / 6
        )

    def test_the_error_of_a_guess_is_told_beside_that_without_one(self, ctx: oc.Context):
        embed, head = nn.embedding(num=4, dim=3), nn.linear(out_dim=4)
        loss = oc.function(lambda x, y: nn.cross_entropy(head(embed(x)), y[..., :1]), ctx=ctx)
        with pytest.raises(oc.ShapeError, match=r"(?s)batch axes only.*nor do shapes fit with axes="):
            loss(np.zeros((4, 8), int), np.zeros((4, 8), int))

    def test_labels_for_another_number_of_rows(self, ctx: oc.Context):
        """Told as such, beside that they are no row of each example."""
        loss = oc.function(lambda x, y: nn.cross_entropy(x, y), ctx=ctx)
        with pytest.raises(oc.ShapeError, match=r"nor do shapes fit with axes=\{'y': 'b'\}") as caught:
            loss(np.zeros((6, 3)), np.zeros(4, int))
        assert re.search(r"size 6 in `x`, 4 in `y`|size 4 in `y`, 6 in `x`", str(caught.value))

    def test_one_number_for_each_row_is_in_a_batch_axis_where_nothing_else_fits(self, ctx: oc.Context):
        """Targets of a regression; users, films and their ratings."""
        rows, targets = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 4.0])
        error = oc.function(lambda x, y: nn.mse(x.sum(-1), y), ctx=ctx)
        assert error(rows, targets) == ((rows.sum(1) - targets) ** 2).mean()
        users, films = nn.embedding(num=4, dim=3, label="users"), nn.embedding(num=5, dim=3, label="films")
        rate = oc.function(lambda u, f, r: (oc.sum(users(u) * films(f), axes=-1) - r).named("r"), ctx=ctx)
        assert rate(np.arange(4), np.arange(4), np.zeros(4)).shape == (4,)
        add = oc.function(lambda x, y: x + y, ctx=ctx)
        np.testing.assert_array_equal(add(rows[:2], np.ones(2)), rows[:2] + 1)

    @pytest.mark.parametrize("result", [oc.forward, lambda x: [x, object()]])
    def test_results_that_are_no_values(self, result: Callable[[Any], Any], ctx: oc.Context):
        with pytest.raises(oc.ArgumentError, match="a function returns tensors and numbers, found"):
            oc.function(result, ctx=ctx)(1.0)

    def test_an_error_leaves_the_function_usable(self, ctx: oc.Context):
        same = oc.function(lambda x: 1 / 0 if x.shape.output == (3,) else x, ctx=ctx)
        with pytest.raises(ZeroDivisionError):
            same(np.ones(3))
        assert same(np.ones(1)) == 1

    def test_it_is_lowered_without_running(self, ctx: oc.Context):
        n = oc.node("n", output=1, init=0.0)

        @oc.function(ctx=ctx)
        def count(x: oc.Tensor) -> oc.Tensor:
            oc.accumulate(n, "add", x)
            return n

        lowered = count.lower(np.ones(1))
        assert "texpr.assign %n add= %x" in lowered.ir()
        assert "loops.nest" in lowered.ir("loops")
        assert lowered.schedule().startswith("kernel")
        assert isinstance(lowered.compile(), oc.Routine)
        assert count(np.ones(1)) == 1

    def test_its_routine_runs_with_the_arguments_it_was_lowered_for(self, ctx: oc.Context):
        double = oc.function(lambda x: (2 * x).named("y"), ctx=ctx)
        lowered = double.lower(np.array([3.0]))
        lowered.compile()()
        assert ctx[lowered.results.value] == 6
        assert double(np.array([4.0])) == 8
        lowered.compile()()
        assert ctx[lowered.results.value] == 8


class TestNesting:
    def test_a_block_has_the_arguments_of_its_function(self, ctx: oc.Context):
        model = oc.function(oc.Block(lambda ids, scale=2: scale * ids), ctx, {"ids": "b"})
        assert model(np.arange(2)).tolist() == [0, 2]

    def test_a_function_of_tensors_is_applied(self, ctx: oc.Context):
        square = oc.function(lambda x: x * x, ctx=ctx)
        assert oc.function(lambda x: square(square(x)) + 1, ctx=ctx)(2.0) == 17
        assert ctx[square(oc.data([3.0]))] == 9

    def test_two_threads_in_one_function(self, ctx: oc.Context):
        inside, go_on = threading.Event(), threading.Event()

        def wait(x: oc.Tensor) -> oc.Tensor:
            inside.set()
            assert go_on.wait(60)
            return x

        slow = oc.function(wait, ctx=ctx, name="slow")
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(slow(1.0)))
        thread.start()
        assert inside.wait(60)
        with pytest.raises(oc.OcannlError, match="function `slow` is running already, in another thread"):
            slow(2.0)
        go_on.set()
        thread.join()
        assert found == [1]


def test_a_defaultdict_is_a_dictionary():
    values = defaultdict(list[float], a=np.ones(2, np.float32), b=np.zeros(2, np.float32))
    found = oc.function(lambda given: given)(values)
    assert [*found] == ["a", "b"]
    np.testing.assert_array_equal(found["a"], values["a"])


def test_arrays_of_pytorch_and_jax(ctx: oc.Context):
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    double = oc.function(lambda x: 2 * x, ctx=ctx)
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for array in (w, w.T, w[:, 0], jnp.arange(3.0), jnp.ones(2, jnp.bfloat16), torch.arange(3)):
        found = double(array)
        wanted = 2 * np.asarray(array.detach() if hasattr(array, "detach") else array).astype(np.float64)
        np.testing.assert_array_equal(found.astype(np.float64), wanted)
    assert torch.from_numpy(double(torch.ones(2))).sum() == 4


def test_a_call_written_otherwise_is_the_same_call() -> None:
    @oc.function
    def difference(a: Any, b: Any = 2.0, flip: bool = False) -> Any:
        return b - a if flip else a - b

    @oc.function
    def plain(a: Any, b: Any) -> Any:
        return a - b

    x, y = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    for _ in range(3):
        for f in (difference, plain):
            for found in (f(x, y), f(x, b=y), f(a=x, b=y), f(b=y, a=x)):
                np.testing.assert_array_equal(found, [4, 5])
            np.testing.assert_array_equal(f(x.astype(np.uint64), y.astype(np.uint64)), [4, 5])
            np.testing.assert_array_equal(f(x, 2), [3, 5])
            np.testing.assert_array_equal(f(x, True), [4, 6])
        np.testing.assert_array_equal(difference(x), [3, 5])
        np.testing.assert_array_equal(difference(x, y, True), [-4, -5])


def test_parts_of_dictionaries_are_told_apart_by_their_names() -> None:
    @oc.function
    def difference(batch: Any) -> Any:
        return batch["a"] - batch["b"]

    for _ in range(2):
        assert difference({"a": 5.0, "b": 1.0}) == 4
        assert difference({"b": 1.0, "a": 5.0}) == 4
        assert difference({"b": 5.0, "a": 1.0}) == -4
