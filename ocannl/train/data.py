"""Batches of data: shuffled and changed, with a place that is state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ocannl as oc
from ocannl.program.arguments.arrays import as_array, is_array
from ocannl.program.arguments.checks import integer
from ocannl.program.memory.state import Held
from ocannl.program.values import Kind
from ocannl.train.prefetch import prefetched

Batch: TypeAlias = Any
"""An array, or a tuple or dictionary of arrays."""
SIZE = 64
NO_BATCH = (
    "there is no batch: what batches are taken from is empty, or used up after one epoch, as a generator is; "
    "the function that makes the generator is called for each"
)
Augment: TypeAlias = Callable[[Batch, np.random.Generator], Batch] | Callable[[Batch], Batch]


class Batches(Held):
    """Batches for training. Iterating goes on from the present place to the end of the epoch; then comes
    the next epoch. The place, `epoch` and how many of its batches were given, `position`, is state.
    """

    kind: Kind = "counter"

    def __init__(self, source: Source, augment: Augment | None, seed: int, prefetch: int, label: str) -> None:
        self.label, self.epoch, self.position = label, 0, 0
        self._source, self._seed, self._prefetch = source, seed, prefetch
        self._augment = None if augment is None else _of_batch_and_rng(augment)

    def __len__(self) -> int:
        """The number of batches in an epoch. Raises `ArgumentError` for an iterable that does not tell."""
        return self._source.count()

    def __iter__(self) -> Iterator[Batch]:
        epoch, first, number = self.epoch, self.position, 0
        with closing(prefetched(self._made(epoch, first), self._prefetch)) as made:
            for number, batch in enumerate(made, first + 1):
                self.position = number
                yield batch
        if not number and not first:
            raise oc.ArgumentError(NO_BATCH)
        self.epoch, self.position = epoch + 1, 0

    def first(self) -> Batch:
        """The first batch of all, without moving the place. Raises `ArgumentError` where there is none."""
        for batch in self._changed(self._source.first(), 0, 0):
            return batch
        raise oc.ArgumentError(NO_BATCH)

    def endless(self) -> Iterator[Batch]:
        """Batches of this epoch and of all that follow. Raises `ArgumentError` for an epoch without any."""
        while True:
            yield from self

    def _made(self, epoch: int, first: int) -> Iterator[Batch]:
        return self._changed(self._source.batches(epoch, first), epoch, first)

    def _changed(self, batches: Iterator[Batch], epoch: int, first: int) -> Iterator[Batch]:
        for number, batch in enumerate(batches, first):
            if self._augment is not None:
                batch = self._augment(batch, np.random.default_rng([self._seed, epoch, number]))
            yield batch

    def read(self) -> NDArray[Any]:
        return np.array([self.epoch, self.position], np.int64)

    def write(self, array: ArrayLike) -> None:
        self.epoch, self.position = map(int, np.asarray(array))

    def __repr__(self) -> str:
        return f"<batches: epoch {self.epoch}, batch {self.position}>"


class Source(Protocol):
    """Where batches come from."""

    def count(self) -> int:
        """The number of batches in an epoch."""
        ...

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from a number on."""
        ...

    def first(self) -> Iterator[Batch]:
        """Batches of which the first is that of all; they go on giving it."""
        ...


class Arrays:
    """Rows of arrays, in an order that depends on the seed and the epoch only."""

    def __init__(self, arrays: Batch, size: int, shuffle: int | None, drop_last: bool) -> None:
        leaves = _leaves(arrays)
        if scalars := [name for name, array in leaves.items() if not array.ndim]:
            raise oc.ArgumentError(f"batches are rows of arrays, and {scalars[0]} has none: it is one number")
        lengths = {name: len(array) for name, array in leaves.items()}
        if len(set(lengths.values())) != 1:
            (first, count), *others = lengths.items()
            found = ", ".join([f"`{first}` has {count} rows", *(f"`{name}` {n}" for name, n in others)])
            raise oc.ArgumentError(f"{found}: a batch takes the same rows of all arrays")
        self.arrays, self.size, self.shuffle, self.drop_last = arrays, size, shuffle, drop_last
        (self.rows,) = set(lengths.values())
        if self.count() == 0:
            raise oc.ArgumentError(f"{self.rows} rows make no batch of {size}")

    def count(self) -> int:
        return self.rows // self.size if self.drop_last else -(-self.rows // self.size)

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        order = np.arange(self.rows)
        if self.shuffle is not None:
            order = np.random.default_rng([self.shuffle, epoch]).permutation(self.rows)
        for number in range(first, self.count()):
            chosen = order[number * self.size : (number + 1) * self.size]
            yield _mapped(itemgetter(chosen), self.arrays)

    def first(self) -> Iterator[Batch]:
        return self.batches(0, 0)


class Loader:
    """Batches of an iterable, such as a loader of PyTorch, which begins anew with each epoch. With `copies`
    each batch is copied, as the iterable may write into the same arrays again.
    """

    def __init__(self, batches: Iterable[Any], copies: bool) -> None:
        self.iterable = batches
        self._array = _copied if copies else _array

    def count(self) -> int:
        if not isinstance(self.iterable, Sized):
            raise oc.ArgumentError("an iterable without a length does not tell how many batches it has")
        return len(self.iterable)

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        return (_mapped(self._array, batch) for batch in islice(iter(self.iterable), first, None))

    def first(self) -> Iterator[Batch]:
        if not isinstance(self.iterable, GeneratorType | chain):
            return self.batches(0, 0)
        # A generator gives a batch once: what is looked at is put back.
        looked_at = list(islice(cast(Iterator[Any], self.iterable), 1))
        self.iterable = chain(looked_at, cast(Iterator[Any], self.iterable))
        return map(partial(_mapped, self._array), looked_at)


@dataclass(frozen=True, slots=True)
class Made:
    """Batches that a function makes anew for each epoch. Raises `ArgumentError` where it gives nothing to go
    through.
    """

    make: Callable[[], object]

    def __iter__(self) -> Iterator[Batch]:
        made = self.make()
        if not isinstance(made, Iterable):
            raise oc.ArgumentError(f"a function of batches yields or returns an iterable, found {made!r}")
        return iter(cast("Iterable[Batch]", made))


def batches(
    arrays: Any,
    size: int = SIZE,
    *,
    shuffle: int | None = None,
    drop_last: bool = False,
    augment: Augment | None = None,
    prefetch: int = 2,
    label: str = "batches",
) -> Batches:
    """Batches of `size` rows of an array, or of a tuple or dictionary of arrays of one length, in the same
    form. `shuffle` is the seed of the order, another one in each epoch; None keeps the order. Without
    `drop_last`, the last batch of an epoch has the rows that are left.

    `arrays` may also be any iterable of batches, a `DataLoader` too: these are taken as they come. One that
    is used up after an epoch, such as a generator, is an error in the next; a function that makes it, such as
    one with `yield`, is called for each epoch.

    `augment(batch, rng)`, or `augment(batch)`, makes of a batch what training gets, with a random generator
    that depends on the seed, the epoch and the batch only. A thread makes up to `prefetch` batches ahead.
    """
    size = integer(size, "the size of a batch", least=1)
    prefetch = integer(prefetch, "the number of batches that are made ahead")
    seed = None if shuffle is None else integer(shuffle, "the seed of the order")
    is_made = callable(arrays) and not isinstance(arrays, Iterable)
    given = cast("Any", Made(cast("Callable[[], object]", arrays)) if is_made else arrays)
    if is_array(given) or isinstance(given, Mapping) or _is_tuple_of_arrays(given):
        source: Source = Arrays(_mapped(_array_of_rows, given), size, seed, drop_last)
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        if shuffle is not None or drop_last or size != SIZE:
            raise oc.ArgumentError(
                "batches of an iterable come as they are: their size, order and number are its own"
            )
        source = Loader(cast(Iterable[Any], given), copies=prefetch > 0 or augment is not None)
    else:
        raise oc.ArgumentError(f"batches are made of arrays, or an iterable of them, found {arrays!r}")
    return Batches(source, augment, seed or 0, prefetch, label)


def _of_batch_and_rng(augment: Augment) -> Callable[[Batch, np.random.Generator], Batch]:
    """The function of a batch and a random generator that makes what `augment` does of one or both."""
    try:
        inspect.signature(augment).bind(None, None)
    except TypeError:
        one = cast("Callable[[Batch], Batch]", augment)
        return lambda batch, _: one(batch)
    except ValueError:  # It is not written in Python.
        pass
    return cast("Callable[[Batch, np.random.Generator], Batch]", augment)


def _is_tuple_of_arrays(value: object) -> bool:
    if not isinstance(value, tuple | list):
        return False
    items = cast(Sequence[object], value)
    return bool(items) and all(map(is_array, items))


def _array(value: object) -> NDArray[Any]:
    """An array of a batch. Raises `ArgumentError` for what is none."""
    found = as_array(value, "a batch is made of arrays")
    if found.dtype == np.object_:
        raise oc.ArgumentError(
            f"a batch is an array, or a tuple or dictionary of arrays, found {value!r:.60}"
        )
    return found


def _copied(value: object) -> NDArray[Any]:
    """`_array`, in memory of its own."""
    return np.array(_array(value))


def _array_of_rows(value: Any) -> NDArray[Any]:
    found = _array(value)
    if isinstance(value, tuple) and any(map(is_array, cast(tuple[Any, ...], value))):
        raise oc.ArgumentError("batches are made of one tuple or dictionary of arrays, without others inside")
    return found


def _leaves(batch: Batch) -> dict[str, NDArray[Any]]:
    if isinstance(batch, Mapping):
        return {str(key): array for key, array in cast(Mapping[Any, Any], batch).items()}
    if isinstance(batch, tuple):
        return {str(number): array for number, array in enumerate(cast(tuple[Any, ...], batch))}
    return {"0": batch}


def _mapped(change: Callable[[Any], Any], batch: Batch) -> Batch:
    """A batch whose arrays are changed."""
    if isinstance(batch, Mapping):
        return {key: change(array) for key, array in cast(Mapping[Any, Any], batch).items()}
    if isinstance(batch, tuple | list):
        return tuple(change(array) for array in cast(Sequence[Any], batch))
    return change(batch)
