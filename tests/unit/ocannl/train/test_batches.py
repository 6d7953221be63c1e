"""Batches: what is in them, in what order, and that a place is enough to go on from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocannl as oc
from ocannl import train

X, Y = np.arange(20).reshape(10, 2), np.arange(10)


def epoch(batches: train.Batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_rows_in_order(prefetch: int):
    batches = train.batches((X, Y), size=4, prefetch=prefetch)
    found = list(batches)
    assert len(batches) == len(found) == 3
    assert all(isinstance(batch, tuple) for batch in found)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in found]), X)
    assert [len(y) for _, y in found] == [4, 4, 2]
    assert [len(y) for _, y in train.batches((X, Y), size=4, drop_last=True)] == [4, 4]


def test_the_form_of_the_arrays_is_that_of_a_batch():
    assert [*map(sorted, train.batches({"x": X, "y": Y}, size=5))] == [["x", "y"], ["x", "y"]]
    assert epoch(train.batches(Y, size=5)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_an_order_is_that_of_its_seed_and_epoch():
    first, second, other = (train.batches(Y, size=3, shuffle=seed) for seed in (1, 1, 2))
    epochs = [epoch(first), epoch(first)]
    assert epochs == [epoch(second), epoch(second)]
    assert epochs[0] != epochs[1]
    assert epoch(other) not in epochs
    assert all(sorted(row for rows in each for row in rows) == Y.tolist() for each in epochs)
    assert list(map(len, epochs[0])) == [3, 3, 3, 1]


def changed(batch: Any, rng: np.random.Generator) -> Any:
    return batch + 100 * rng.integers(1, 10, len(batch))


@given(st.integers(0, 9), st.integers(0, 3))
def test_a_place_is_enough_to_go_on_from(done: int, prefetch: int):
    first, second = (
        train.batches(Y, size=3, shuffle=7, augment=changed, prefetch=ahead) for ahead in (prefetch, 0)
    )
    begun = list(islice(first.endless(), done))
    second.write(first.read())
    rest = [list(islice(each.endless(), 6)) for each in (first, second)]
    for one, other in zip(*rest, strict=True):
        np.testing.assert_array_equal(one, other)
    whole = islice(train.batches(Y, size=3, shuffle=7, augment=changed).endless(), done + 6)
    for one, other in zip([*begun, *rest[0]], whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_place_is_state():
    batches, ctx = train.batches(Y, size=4), oc.Context.cpu()
    next(iter(batches))
    assert oc.state(batches).kinds == {"batches": "counter"}
    assert ctx[oc.state(batches)["batches"]].tolist() == [0, 1]
    assert (batches.epoch, batches.position) == (0, 1)
    assert epoch(batches) == [[4, 5, 6, 7], [8, 9]]
    assert (batches.epoch, batches.position) == (1, 0)


class Loader:
    """An iterable as PyTorch's `DataLoader`."""

    def __init__(self) -> None:
        self.begun = 0

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[list[Any]]:
        self.begun += 1
        return iter([[[k, self.begun], k] for k in range(3)])


def test_batches_of_an_iterable():
    loader = Loader()
    batches = train.batches(loader)
    assert len(batches) == 3
    found = [(x.tolist(), int(y)) for x, y in batches]
    assert found == [([0, 1], 0), ([1, 1], 1), ([2, 1], 2)]
    batches.write([1, 2])
    assert [(x.tolist(), int(y)) for x, y in batches] == [([2, 2], 2)]
    with pytest.raises(oc.ArgumentError, match="does not tell how many batches"):
        len(train.batches(iter([1, 2])))


def test_a_loader_of_pytorch():
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    loader = data.DataLoader(data.TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=4)
    for (x, y), (ours_x, ours_y) in zip(train.batches(loader), train.batches((X, Y), size=4), strict=True):
        assert isinstance(x, np.ndarray)
        np.testing.assert_array_equal(x, ours_x)
        np.testing.assert_array_equal(y, ours_y)


def test_an_array_of_another_library_is_one_array():
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    for array in (torch.tensor(Y), torch.tensor(Y).bfloat16(), jnp.asarray(Y)):
        found = [np.asarray(batch, np.int64).tolist() for batch in train.batches(array, size=4)]
        assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("count", [0, 2])
def test_an_epoch_without_batches_is_an_error(count: int, prefetch: int):
    """An empty iterable, and a generator that is used up, of which `endless` found no end."""
    batches = train.batches((Y for _ in range(count)), prefetch=prefetch).endless()
    assert len(list(islice(batches, count))) == count
    with pytest.raises(oc.ArgumentError, match=r"there is no batch: .* empty, or used up after one epoch"):
        next(batches)
    with pytest.raises(oc.ArgumentError, match="there is no batch"):
        train.batches([]).first()


def test_a_generator_keeps_the_batch_that_is_looked_at():
    batches = train.batches(Y[k:] for k in range(2))
    assert batches.first().tolist() == batches.first().tolist() == Y.tolist()
    assert epoch(batches) == [Y.tolist(), Y[1:].tolist()]


def counted() -> Iterator[Any]:
    """Batches that are one array, set anew for each."""
    own = np.zeros(1)
    for k in range(5):
        own[:] = k
        yield own


def test_an_iterable_may_give_the_same_array_again():
    assert [batch.tolist() for batch in list(train.batches(counted, prefetch=2))] == [[k] for k in range(5)]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_augmentation_changes_no_array_of_the_iterable(prefetch: int):
    def doubled(batch: Any) -> Any:
        batch *= 2
        return batch

    batches = train.batches(lambda: [X], augment=doubled, prefetch=prefetch)
    before = X.copy()
    assert [epoch(batches) for _ in range(2)] == [[(2 * before).tolist()]] * 2
    assert X.tolist() == before.tolist()


def test_a_function_that_makes_a_generator_is_called_for_each_epoch():
    batches = train.batches(lambda: (Y[k:] for k in range(2)))
    assert batches.first().tolist() == Y.tolist()
    assert [epoch(batches) for _ in range(2)] == [[Y.tolist(), Y[1:].tolist()]] * 2
    with pytest.raises(oc.ArgumentError, match=r"test_batches.py:\d+: .* returns an iterable, found None"):
        epoch(train.batches(lambda: None))


@pytest.mark.parametrize("error", [ValueError, SystemExit])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_of_augmentation_come_where_the_batch_would(error: type[BaseException], prefetch: int):
    def fail(batch: Any, rng: np.random.Generator) -> Any:
        if 5 in batch:
            raise error("a 5")
        return batch

    batches = iter(train.batches(Y, size=2, augment=fail, prefetch=prefetch))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(error, match="a 5"):
        next(batches)


def test_no_thread_is_left():
    before = threading.active_count()
    batches = train.batches(Y, size=1, prefetch=2)
    begun = iter(batches)
    next(begun)
    begun.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert threading.active_count() == before
    assert len(list(batches)) == 9
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train.batches((X, Y[:4])), "`0` has 10 rows, `1` 4: a batch takes the same rows"),
        (lambda: train.batches(Y, size=11, drop_last=True), "10 rows make no batch of 11"),
        (lambda: train.batches(Y, size=0), "the size of a batch is at least 1"),
        (lambda: train.batches([Y], shuffle=-1), "the seed of the order is at least 0"),
        (lambda: train.batches(Loader(), shuffle=1), "their size, order and number are its own"),
        (lambda: train.batches([[1, 2], [3, 4]], size=1), "their size, order and number are its own"),
        (lambda: train.batches("rows"), "made of arrays, or an iterable of them, found 'rows'"),
        (lambda: train.batches((X, np.array(1.0))), "rows of arrays, and 1 has none: it is one number"),
        (lambda: train.batches({"x": (Y, Y)}), "one tuple or dictionary of arrays, without others inside"),
        (lambda: next(iter(train.batches([{"x": {"y": Y}}]))), "a tuple or dictionary of arrays, found"),
        (lambda: train.batches(3), "made of arrays, or an iterable of them, found 3"),
    ],
)
def test_errors(make: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        make()


@pytest.mark.parametrize("augment", [lambda batch, rng: batch + 10, lambda batch: batch + 10])
def test_augmentation_may_leave_the_generator_out(augment: Any):
    found = [*train.batches(np.arange(5), size=2, augment=augment)]
    np.testing.assert_array_equal(np.concatenate(found), np.arange(5) + 10)
