"""The decisions of inference come from the cache, and are those that inference would make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import Float64Type, IntegerType, f16, f32

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.shapes.shape import Dim, Row, Shape
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.runtime.cache.inference_cache import Inferred, decoded, encoded

INFERENCE = ("infer-shapes", "infer-precisions")
Model = Callable[[], tuple[oc.Tensor, oc.Code]]


def captured_size() -> tuple[oc.Tensor, oc.Code]:
    """A size as a number, flat data, a range that its use ends, and integers."""
    d = oc.Dim("d")
    x = oc.data(np.arange(12, dtype=np.int32), flat=True, label="x")
    y = oc.einsum("b | i; i -> o => b | o", x, oc.param("v", 0.5, input=3), i=d, o=2)
    loss = (y * d + oc.range(oc.Dim("n"))).einsum("...|... => 0")
    return loss, oc.forward(loss)


def mixed_precisions() -> tuple[oc.Tensor, oc.Code]:
    x = oc.data(np.linspace(0, 1, 6).reshape(2, 3), label="x", axes="bo")
    with oc.precision(oc.float32, compute=oc.bfloat16):
        h = oc.relu(oc.param("w") @ x + oc.param("b", output=4))
    loss = (h * oc.param("s", dtype=oc.float16)).einsum("...|... => 0")
    return loss, train.grad_update(loss) + train.adam_update(loss, learning_rate=0.1)


def with_dropout() -> tuple[oc.Tensor, oc.Code]:
    step = oc.index("step_n")
    x = oc.data(np.ones((4, 3), np.float32), label="x")
    h = nn.dropout(0.5)(oc.tanh(oc.param("w", output=5) @ x), train_step=step)
    loss = (oc.param("v", output=2) @ h).einsum("...|... => 0")
    return loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)


MODELS: tuple[Model, ...] = (captured_size, mixed_precisions, with_dropout)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiled(model: Model) -> tuple[oc.Routine, str, dict[str, oc.Tensor]]:
    loss, code = model()
    routine = oc.Context.cpu().compile(code, name="step")
    return routine, code.ir("texpr"), oc.params(loss)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.usefixtures("folder")
def test_the_second_time_nothing_is_inferred(model: Model):
    (cold, text, params), (warm, same, others) = compiled(model), compiled(model)
    assert all(name in cold.compile_seconds for name in INFERENCE)
    assert not any(name in warm.compile_seconds for name in INFERENCE)
    # The text of the program, with what compiling has decided for it.
    assert text == same
    assert {name: str(p.shape) for name, p in params.items()} == {
        name: str(p.shape) for name, p in others.items()
    }


@pytest.mark.usefixtures("folder")
def test_a_program_whose_shapes_are_known_is_the_same_routine():
    _, code = with_dropout()
    routines = [oc.Context.cpu().compile(code, name="step") for _ in range(3)]
    assert ["schedule" in routine.compile_seconds for routine in routines] == [True, False, False]
    assert [INFERENCE[0] in routine.compile_seconds for routine in routines] == [True, True, False]


@pytest.mark.usefixtures("folder")
def test_an_error_is_an_error_again():
    for _ in range(2):
        with pytest.raises(oc.ShapeError, match="`w`"):
            oc.Context.cpu().compile(oc.param("w") @ oc.data(np.ones(2, np.float32), label="x"))


@pytest.mark.usefixtures("folder")
def test_what_is_not_the_same_is_not_taken():
    """Programs that differ in what only inference looks at."""

    def size(count: int, dtype: type[np.generic]) -> str:
        x = oc.data(np.ones(count, dtype), flat=True, label="x")
        y = x.einsum("a, 2 => a")
        oc.Context.cpu().compile(y, name="y")
        return f"{y.shape} {x.ir()}"

    cases = [(4, np.float32), (6, np.float32), (4, np.float64), (4, np.int32)]
    assert len({size(*case) for case in cases}) == len(cases)


def test_types_are_stored_as_they_are():
    batch, split = Row(trailing=(Dim(2), Dim(3, "rgb"))), Row((Dim(4),), None, (Dim(5),))
    types = (
        TensorType.of(Shape(Row(), Row(), Row()), f32),
        TensorType.of(Shape(batch, split, Row((Dim(6),), None, ())), Float64Type()),
        TensorType.of(Shape(batch, Row(), Row()), IntegerType(64)),
        TensorType.of(Shape(Row(), Row(), batch), f16),
    )
    inferred = Inferred((*types, *types[1:3]), "key")
    assert decoded(encoded(inferred)) == inferred
