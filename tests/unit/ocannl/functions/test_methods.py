"""`oc.function` of methods."""

from __future__ import annotations

import copy
import gc
import pickle
from weakref import ref

import numpy as np
import pytest
from support.tensors import param

import ocannl as oc

CTX = oc.Context.cpu(threads=1)


class Scaled:
    """Multiplies by a number."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @oc.function
    def predict(self, x: oc.Tensor) -> oc.Tensor:
        return self.factor * x


def test_methods():
    class Model:
        def __init__(self, w: float) -> None:
            self.w = param("w", np.array([w]))

        @oc.function(ctx=CTX)
        def predict(self, x: oc.Tensor) -> oc.Tensor:
            return self.w * x

        @oc.function(ctx=CTX, static="self")
        def twice(self, x: oc.Tensor) -> oc.Tensor:
            return 2 * self.predict(x)

    one, other = Model(3.0), Model(5.0)
    x = np.ones(1)
    assert (one.predict(x), other.predict(x), one.twice(x)) == (3, 5, 6)
    assert one.predict is one.predict
    assert Model.predict(one, x) == 3
    for wrong in (
        lambda: Model.predict(x),
        lambda: Model.predict.lower(x),
        lambda: Model.predict(oc.data(x)),
    ):
        with pytest.raises(
            oc.ArgumentError, match=r"`Model\(...\).predict`, and was called as `Model.predict`"
        ):
            wrong()
    assert [*oc.state(one.predict)] == ["w"]
    np.testing.assert_array_equal(oc.grad(one.predict)(x), [3.0])
    copied = copy.copy(one)
    copied.w = other.w
    assert (copied.predict(x), one.predict(x)) == (5, 3)
    gone = ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_objects_of_methods_are_copied_without_their_functions():
    model = Scaled(3.0)
    assert model.predict(np.ones(1)) == 3
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        copied.factor = 4.0
        assert copied.predict(np.ones(1)) == 4


def test_a_method_of_an_object_without_a_dict():
    class Slots:
        __slots__ = ("factor",)

        @oc.function(ctx=CTX, static="self")
        def predict(self, x: oc.Tensor) -> oc.Tensor:
            return self.factor * x

    one = Slots()
    one.factor = 2.0
    assert one.predict(np.ones(1)) == 2
