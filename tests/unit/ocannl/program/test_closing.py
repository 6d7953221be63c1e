"""Shapes that are decided only when they are demanded."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train


def shapes(target: oc.Tensor | oc.Code) -> dict[str, str]:
    oc.infer(target)
    return {name: str(p.shape) for name, p in oc.params(target).items()}


def two_layers(x: oc.Tensor) -> oc.Tensor:
    return oc.param("w2") @ oc.relu(oc.param("b1", output=16) + oc.param("w1") @ x)


def test_updates_from_their_own_value_do_not_close_parameters():
    x, y = oc.data(np.ones((10, 2))), oc.data(np.ones((10, 1)))
    loss = oc.relu(1 - y * two_layers(x)).einsum("...|... => 0") / 10
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9, weight_decay=0.1)
    assert shapes(code) == {"w2": "16->1", "b1": "16", "w1": "2->16"}


def test_an_operand_of_size_one_does_not_close_what_a_leaf_may_widen():
    x, target = oc.data(np.ones((10, 2))), oc.data(np.ones((10, 5)))
    logits = two_layers(x)
    shifted = logits - oc.einmax("...|...d => ...|...0", logits)
    loss = (target * shifted).einsum("...|... => 0")
    assert shapes(loss) == {"w2": "16->5", "b1": "16", "w1": "2->16"}
    assert str(shifted.shape) == "10|5"


def test_a_target_without_axes_closes_the_output_to_none():
    x, target = oc.data(np.ones((10, 2))), oc.data(np.ones(10), axes="b")
    loss = (two_layers(x) - target).einsum("...|... => 0")
    assert shapes(loss)["w2"] == "16->"


def test_two_uses_that_disagree_give_size_one():
    b = oc.param("b")
    loss = (b + oc.data(np.ones(3))).einsum("... => 0") + (b + oc.data(np.ones(4))).einsum("... => 0")
    assert shapes(loss) == {"b": "1"}


def test_numbers_in_a_product_meet_the_rows_of_their_partner():
    m = oc.data(np.ones((3, 4)), axes="oi")
    right, left = m @ 2, 2 @ m
    oc.infer(oc.forward(right) + oc.forward(left))
    assert str(right.shape) == "3"
    assert str(left.shape) == "4->"


@pytest.mark.parametrize("spec", ["a => a, b", "a => b", "a => b, a |", "a => a&b", "a => 2*b + a"])
def test_names_that_only_the_result_has_are_not_guessed(spec: str):
    x = oc.data(np.arange(6.0), label="x")
    new = oc.einsum(spec, x)
    message = (
        "nothing determines the size of `b`, which only the result of `einsum.*` has: give it, as in b=16"
    )
    with pytest.raises(oc.ShapeError, match=message):
        oc.infer(new)


def test_names_that_only_the_result_has_follow_from_uses():
    x = oc.data(np.arange(6.0), label="x")
    new = oc.einsum("a => a, b", x)
    oc.infer(new + oc.data(np.ones((6, 3))))
    assert new.shape == "6,3"
    given = oc.einsum("a => a, b", x, b=2)
    oc.infer(given)
    assert given.shape == "6,2"


def test_factors_are_not_guessed():
    x = oc.data(np.arange(6.0), label="x")
    with pytest.raises(oc.ShapeError, match="nothing tells the sizes in `a&b` apart: fix one by its name"):
        oc.infer(oc.einsum("a&b => a, b", x))


@pytest.mark.parametrize("spec", ["o <+ k => o", "o+k => k", "2*o <+ 3*k => o, k"])
def test_windows_are_not_guessed(spec: str):
    x = oc.data(np.arange(6.0), label="x")
    with pytest.raises(
        oc.ShapeError, match=r"nothing tells the sizes in `.*o.*k` apart: fix one by its name"
    ):
        oc.infer(oc.einsum(spec, x))
    oc.infer(oc.einsum("o <+ k; k => o", x, oc.data(np.ones(2))))
    assert oc.einsum("o <+ k => o", x, k=2).shape == "5"


class TestDemandedByPositions:
    """Of what depends on parameters whose shapes are open yet."""

    x = oc.data(np.arange(24.0).reshape(8, 3), label="x")

    def scores(self) -> tuple[oc.Tensor, oc.Tensor]:
        w = oc.param("w", np.arange(27.0).reshape(9, 3), output=9)
        return w, nn.linear(out_dim=9)(self.x) * 0.0 + w @ self.x

    def test_axes_and_sizes_are_those_that_closing_would_give(self):
        w, y = self.scores()
        values = self.x.numpy() @ np.arange(27.0).reshape(9, 3).T
        assert (tuple(y.shape), len(y.shape), y.shape[-1], y.ndim) == ((8, 9), 2, 9, 2)
        oc.default_context().init_params(y)
        np.testing.assert_array_equal(y[..., :3].numpy(), values[:, :3])
        np.testing.assert_array_equal(y[2].numpy(), values[2])
        np.testing.assert_array_equal(y.reshape(8, 3, 3).numpy(), values.reshape(8, 3, 3))
        np.testing.assert_array_equal(oc.sum(y, axes=1).numpy(), values.sum(1))
        assert str(w.shape) == "3->9"

    def test_a_parameter_stays_open_for_other_uses(self):
        w = oc.param("w", output=9)
        part = (w @ self.x)[..., :3]
        wider = w @ oc.data(np.ones((8, 2, 3)), axes="boo")
        assert shapes(part.sum() + wider.sum()) == {"w": "2,3->9"}

    def test_a_hidden_dimension_is_missing_as_in_the_end(self):
        hidden = oc.param("w1") @ self.x
        with pytest.raises(oc.ShapeError, match=r"hidden dimension of `w1` \(its output axes\)"):
            _ = (oc.param("w2", output=9) @ hidden)[..., :3]

    def test_looking_decides_nothing(self):
        _, y = self.scores()
        assert tuple(y.shape) == (8, 9)
        assert not y.shape.is_final
