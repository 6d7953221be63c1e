"""Ids that choose in several rows, and parts and reductions of data, beside other tensors point by point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

X = np.random.default_rng(5).normal(size=(3, 3))
Y = np.stack([X, X + 1])
DIAGONAL = np.eye(3) > 0
ROWS, COLS = [0, 1, 2], [2, 0, 1]
CTX = oc.Context.cpu(1)
Case = Callable[[Any, Any, Any], Any]

AS_IN_NUMPY: dict[str, Case] = {
    "a row of the same data": lambda x, y, np: x[ROWS, COLS] * x[0],
    "a column": lambda x, y, np: x[ROWS, COLS] * x[:, 0],
    "a row and a column": lambda x, y, np: x[ROWS, COLS] * x[0] * x[:, 0],
    "a reduction": lambda x, y, np: -2 * x[ROWS, COLS] ** 2 * x.sum(0),
    "ids that are computed": lambda x, y, np: x[np.arange(3), np.arange(3)] + x[1],
    "ids of two axes": lambda x, y, np: x[[ROWS, COLS], [COLS, ROWS]] * x[0],
    "beside batch axes": lambda x, y, np: y[:, ROWS, COLS] * x[0],
    "parts": lambda x, y, np: x[ROWS, COLS][1:] * x[0][1:],
    "a new axis": lambda x, y, np: x[ROWS, COLS][:, None] * x[0],
    "a mask": lambda x, y, np: x[DIAGONAL] - x[2],
    "operands of where": lambda x, y, np: np.where(x[ROWS, COLS] > 0, x[0], 0.0),
    "extremes": lambda x, y, np: np.maximum(x[ROWS, COLS], x[0]),
}


@pytest.mark.parametrize("name", AS_IN_NUMPY)
def test_ids_in_several_rows(name: str, recwarn: pytest.WarningsRecorder):
    case = AS_IN_NUMPY[name]
    found, wanted = CTX[case(oc.data(X), oc.data(Y), oc)], case(X, Y, np)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert not recwarn.list


def test_ids_in_several_rows_beside_another_size():
    x = oc.data(np.arange(12.0).reshape(3, 4))
    with pytest.raises(oc.ShapeError, match=f"{__file__}.*size 2 in .*, 3 in"):
        _ = x[[1, 1], [2, 2]] * x[0, :3]


def test_gradients_of_ids_in_several_rows():
    x = oc.data(X)
    wanted = np.zeros_like(X)
    wanted[ROWS, COLS] += X[0]
    wanted[0] += X[ROWS, COLS]
    np.testing.assert_allclose(CTX[oc.grad((x[ROWS, COLS] * x[0]).sum(), x)], wanted, rtol=1e-14)


def test_what_an_argument_is_beside_chosen_elements():
    """Targets, one for each row: the ids' axis is a batch axis beside them."""

    @oc.function
    def weighted(x: oc.Tensor, ids: oc.Tensor, weights: oc.Tensor) -> oc.Tensor:
        return (x[oc.arange(3), ids] * weights * x.mean(-1)).sum()

    wanted = (X[range(3), COLS] * X[1] * X.mean(-1)).sum()
    np.testing.assert_allclose(weighted(X, np.array(COLS), X[1]), wanted, rtol=1e-12)


ALL_PAIRS: dict[str, Callable[[Any], Any]] = {
    "a column and a row": lambda x: x[:, 1] * x[1],
    "parts of them": lambda x: x[:2, 1] - x[0, 1:],
    "reductions": lambda x: x.mean(-1) - x.mean(0),
    "reductions by NumPy's integers": lambda x: x.mean(np.int64(-1)) - x.sum((np.int64(0),)),
    "deviations": lambda x: x.std("output") + x.std("batch"),
    "a slice at an index": lambda x: oc.data(Y)[:, 0, 0] + x[1, :2],
}


@pytest.mark.parametrize("name", ALL_PAIRS)
def test_all_pairs_of_parts_of_data_are_told(name: str):
    with pytest.warns(UserWarning, match=r"all pairs .*oc.rearrange\(t, 'a -> a', axes='b'\)") as told:
        pairs = ALL_PAIRS[name](oc.data(X))
    assert pairs.ndim == 2
    assert told[0].filename == __file__


def test_labels_of_minibatches_in_all_pairs_are_told():
    n = oc.index("n", 2)
    predicted = oc.data(Y)[n].sum(-1)
    with pytest.warns(UserWarning, match="all pairs"):
        _ = predicted - oc.data(Y[:, 0])[n]


def test_the_way_that_the_warning_says():
    x = oc.data(X)
    found = x[:, 1] * oc.rearrange(x[1], "a -> a", axes="b")
    np.testing.assert_allclose(CTX[found], X[:, 1] * X[1])


def test_pairs_that_are_said_are_not_told(recwarn: pytest.WarningsRecorder):
    x = oc.data(X)
    w = oc.param("w", output=3)
    for pairs in (
        x[:, 1][:, None] * x[1],
        x.mean(-1) * w,
        x - x.mean(0),
        x.mean(-1) * x[1, :2],
        x.mean(0) * x[1],
    ):
        assert pairs.ndim
    assert not recwarn.list
