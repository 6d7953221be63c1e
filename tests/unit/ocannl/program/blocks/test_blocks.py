"""Blocks as objects: parts, texts, frozen and replaced parts, summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

X = oc.data(np.ones((4, 5)), label="x")


def trained(result: oc.Tensor) -> set[str]:
    return set(oc.params(nn.mean(result), trained=True))


def shape(result: oc.Tensor) -> str:
    oc.infer(result)
    return str(result.shape)


def language_model() -> Any:
    embed, head = nn.embedding(num=7, dim=4), nn.linear(out_dim=3, label="head")
    layers = nn.decoder_only(2, 2, 4, 4, 8)
    return oc.Block(lambda ids: head(layers(embed(ids))))


class TestParts:
    def test_they_have_the_names_of_variables(self):
        model = language_model()
        assert list(model.parts) == ["embed", "head", "layers"]
        assert model.embed.w.label == "embedding.w"
        assert model.layers.layers[1].attend.w_q.label == "decoder.layer2.attention.w_q"
        assert "embed" in dir(model)

    def test_of_helpers_are_those_of_the_block(self):
        assert list(nn.conv2d(out_channels=3).parts) == ["w", "b"]
        assert list(nn.batch_norm2d().parts) == ["gain", "offset", "running_mean", "running_variance"]
        assert nn.decoder_only(2, 1, 1, 1, 1).layers[0].feed.into.b.label.endswith("into.b")

    def test_parameters_and_state_are_there_before_they_are_used(self):
        norm = nn.batch_norm1d()
        assert list(norm.params) == ["batch_norm.gain", "batch_norm.offset"]
        assert list(norm.state) == [*norm.params, "batch_norm.running_mean", "batch_norm.running_variance"]
        assert list(nn.mlp(hid_dims=[4]).params) == ["mlp.layer1.w", "mlp.layer1.b", "mlp.w_out"]

    def test_names_are_those_of_what_is_computed(self):
        first, second = nn.linear(out_dim=4), nn.linear(out_dim=3)
        both = oc.Block(lambda x: second(first(x)))
        assert both.params == oc.params(both(X))
        assert set(both.params) == {"linear.w", "linear.b", "linear_1.w", "linear_1.b"}

    def test_a_part_that_there_is_not(self):
        with pytest.raises(AttributeError, match=r"linear\(out_dim=2\) has no part `v`; its parts are w, b"):
            _ = nn.linear(out_dim=2).v
        with pytest.raises(AttributeError, match=r"parts are w, b; in place of `parameters`: \.params"):
            _ = nn.linear(out_dim=2).parameters

    def test_of_inline_blocks_exist_from_the_first_application(self):
        @oc.block
        def model(p: Any, x: oc.Tensor, *, out: int = 2) -> oc.Tensor:
            return p.head(nn.linear(out_dim=out))(oc.relu(p.w(output=3) @ x))

        instance = model(out=6)
        with pytest.raises(oc.ArgumentError, match="first applied"):
            _ = instance.params
        assert shape(instance(X)) == shape(instance(X)) == "4|6"
        assert list(instance.params) == ["model.linear.w", "model.linear.b", "model.w"]
        assert instance.head.w.label == "model.linear.w"
        assert repr(instance).startswith("model(out=6)\n  head: linear(out_dim=6)\n    w: ")

    def test_plain_functions_are_parts(self):
        def layer(label: str) -> nn.Layer:
            with oc.scope(label):
                w = oc.param("w", output=4)
            return lambda x: w @ x

        first, second = layer("first"), layer("second")

        def apply(x: oc.Tensor) -> oc.Tensor:
            return second(first(x))

        assert list(oc.Block(apply).params) == ["first.w", "second.w"]


OUTER = nn.linear(out_dim=2, label="outer")


def of_module(x: oc.Tensor) -> oc.Tensor:
    return OUTER(x)


def test_global_variables_are_parts():
    block = oc.Block(of_module)
    assert block.OUTER is OUTER
    assert shape(block.replace("OUTER", nn.linear(out_dim=3))(X)) == "4|3"
    assert shape(block(X)) == "4|2"


def test_a_tree_as_text():
    block = nn.mlp(hid_dims=[3], out_dim=2)
    oc.infer(block(X))
    assert repr(block) == (
        "mlp(hid_dims=[3], out_dim=2)\n  layers[0]: mlp_layer(hid_dim=3, label='layer1')\n"
        "    w: 5->3\n    b: 3\n  w_out: 3->2"
    )
    attention = nn.multi_head_attention(num_heads=1, d_k=2, d_v=2, pos_embed=nn.rotary(base=10.0))
    title = "multi_head_attention(num_heads=1, d_k=2, d_v=2, pos_embed=rotary(base=10.0))"
    assert repr(attention).startswith(f"{title}\n  w_q: ")


class TestFreezing:
    def test_frozen_parameters_are_not_trained(self):
        model = nn.mlp(hid_dims=[4], out_dim=2)
        frozen = model.freeze()
        assert trained(frozen(X)) == set()
        assert trained(model(X)) == set(frozen.params) == set(model.params)
        assert frozen.w_out == model.w_out
        assert repr(frozen).startswith("mlp(hid_dims=[4], out_dim=2) frozen\n  layers[0]: mlp_layer(")

    def test_values_are_the_same(self):
        model, ctx = nn.mlp(hid_dims=[4], out_dim=2), oc.Context.cpu(threads=1)
        y, z = model(X), model.freeze()(X)
        ctx.init_params(y)
        np.testing.assert_array_equal(ctx[y], ctx[z])

    def test_what_replaces_a_part_is_trained(self):
        model = language_model()
        tuned = model.freeze().replace("head", nn.linear(out_dim=2, label="new"))
        ids = oc.data(np.array([[1, 2, 3]]), axes="bb")
        assert shape(tuned(ids)) == "1,3|2"
        assert trained(tuned(ids)) == {"new.w", "new.b"}
        assert shape(model(ids)) == "1,3|3"
        assert tuned.embed.w == model.embed.w

    def test_what_two_helpers_use_is_changed_once(self):
        """Else what replaces a part in one would leave the other its own."""

        def model() -> Any:
            layers = [nn.linear(out_dim=2, label="first")]

            def computed(x: oc.Tensor) -> oc.Tensor:
                return layers[0](x)

            def twice(x: oc.Tensor) -> oc.Tensor:
                return computed(x) + layers[0](x)

            return oc.Block(lambda x: twice(x) + computed(x))

        frozen = model().freeze()
        assert list(frozen.params) == ["first.w", "first.b"]
        tuned = frozen.replace("layers[0]", nn.linear(out_dim=2, label="new"))
        assert list(tuned.params) == ["new.w", "new.b"]
        assert trained(tuned(X)) == {"new.w", "new.b"}

    def test_running_statistics_go_on(self):
        norm = nn.batch_norm1d().freeze()
        loss = nn.mean(norm(nn.linear(out_dim=3)(X), train_step=oc.index("step_n")))
        ctx = oc.Context.cpu(threads=1)
        step = ctx.compile(train.grad_update(loss))
        ctx.init_params(loss)
        step()
        assert trained(loss) == {"linear.w", "linear.b"}
        assert np.any(ctx[norm.running_mean] != 0)

    def test_of_an_inline_block(self):
        @oc.block
        def model(p: Any, x: oc.Tensor) -> oc.Tensor:
            return p.v @ p.w(output=3) @ x

        instance = model()
        instance(X)
        assert trained(instance.freeze()(X)) == set()
        assert trained(instance.freeze().replace("v", oc.param("u", output=2))(X)) == set()
        assert trained(instance.replace("v", oc.param("u", output=2))(X)) == {"u", "model.w"}


class TestReplacing:
    def test_along_a_path(self):
        model = language_model()
        w = oc.param("mine", output=[2, 4])
        other = model.replace("layers.layers[1].attend.w_q", w)
        assert other.layers.layers[1].attend.w_q == w
        assert other.layers.layers[0] is model.layers.layers[0]
        assert model.layers.layers[1].attend.w_q != w
        assert "mine" in other.params

    def test_ties_parameters(self):
        embed = nn.embedding(num=5, dim=4)
        tied = nn.linear(bias=False).replace("w", embed.w)
        ids = oc.data(np.array([1, 2]), axes="b")
        assert list(oc.params(tied(embed(ids)))) == ["embedding.w"]

    @pytest.mark.parametrize(
        "name", ["", "tail", "head.v", "layers[7]", "layers.layers[7]", "head.w.x", "a b", 3]
    )
    def test_a_part_that_there_is_not(self, name: Any):
        with pytest.raises(oc.ArgumentError):
            language_model().replace(name, OUTER)


class TestSummaries:
    def test_of_a_model(self):
        model = nn.mlp(hid_dims=[16], out_dim=3)
        rows = {row.part: row for row in model.summary(X).rows}
        assert list(rows) == ["(whole)", "layers[0]"]
        assert [rows["(whole)"].parameters, rows["layers[0]"].parameters] == [
            5 * 16 + 16 + 16 * 3,
            5 * 16 + 16,
        ]
        assert [rows["(whole)"].multiply_adds, rows["layers[0]"].multiply_adds] == [4 * (80 + 48), 4 * 80]
        assert rows["layers[0]"].output == "4|16"
        assert str(model.summary(X)).splitlines()[0].split() == [
            "part",
            "block",
            "output",
            "parameters",
            "multiply-adds",
            "bytes",
        ]
        assert rows["layers[0]"].bytes == 8 * (5 * 16 + 16 + 4 * 16)

    def test_of_convolutions(self):
        images = oc.data(np.zeros((2, 8, 8, 3)), label="images")
        (whole,) = nn.conv2d(kernel_size=3, out_channels=4, bias=False).summary(images).rows
        assert whole.multiply_adds == 2 * 8 * 8 * 9 * 3 * 4

    def test_decide_nothing(self):
        model = nn.mlp(hid_dims=[16], out_dim=3)
        before = repr(model)
        assert str(model.summary(X)) == str(model.summary(X))
        assert repr(model) == before
        assert shape(model(oc.data(np.ones((2, 9))))) == "2|3"

    def test_raise_what_applying_raises(self):
        with pytest.raises(oc.ShapeError):
            nn.linear(out_dim=2).replace("w", oc.param("w", output=2, input=3)).summary(X)
        with pytest.raises(oc.ArgumentError, match="gives tensors"):
            oc.Block(lambda x: None).summary(X)
        with pytest.raises(oc.ArgumentError, match=r"linear\(out_dim=2\): missing .* Its arguments are x"):
            nn.linear(out_dim=2).summary()

    def test_of_arrays_and_of_blocks_that_give_several_tensors(self):
        model = nn.lstm(hid_dim=8)
        array = np.zeros((4, 5, 3), np.float32)
        (whole,) = model.summary(array, states=True).rows
        assert whole.output.split(", ")[0] == str(model.summary(oc.data(array)).rows[0].output)
        assert whole.multiply_adds == 4 * 5 * 4 * 8 * (3 + 8)
        ids = np.zeros((2, 5), np.int64)
        (whole,) = nn.embedding(num=3, dim=4).summary(ids).rows
        assert whole.output == "2,5|4"


def test_initial_values_are_given():
    ones = nn.linear(out_dim=2, init=1.0)
    y = ones(X)
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(y)
    np.testing.assert_array_equal(ctx[y], np.full((4, 2), 5.0))
    for block in (
        nn.embedding(num=3, dim=2, init=0.5),
        nn.mlp(hid_dims=[2], init=oc.init.normal()),
        nn.lstm(2, init=0.5),
        nn.layer_norm(init=2.0),
        nn.learned_positions(init=0.5),
    ):
        assert block.params


def test_a_user_configures():
    @oc.configurable
    def classifier(classes: int = 2, *, label: str = "classifier") -> nn.Layer:
        with oc.scope(label):
            body, head = nn.mlp_layer(hid_dim=3), nn.linear(out_dim=classes)
        return lambda x: head(body(x))

    model = classifier(5)
    assert repr(model).startswith("classifier(classes=5)\n  body: mlp_layer(hid_dim=3)\n")
    assert model.head.w.label == "classifier.linear.w"


def test_a_block_is_made_of_a_function():
    block = nn.linear(out_dim=2)
    assert oc.Block(block).w == block.w
    with pytest.raises(oc.ArgumentError, match="made of a function"):
        oc.Block(3)  # pyright: ignore[reportArgumentType]


def test_flags_are_true_or_false():
    for make in (
        lambda: nn.linear(bias="no"),  # pyright: ignore[reportArgumentType]
        lambda: nn.conv2d(use_padding=0),  # pyright: ignore[reportArgumentType]
        lambda: nn.max_pool2d(ceil_mode=None),  # pyright: ignore[reportArgumentType]
        lambda: nn.transformer_encoder(1, 1, 2, 2, 4, last_norm="no"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(oc.ArgumentError, match="is True or False, found"):
            make()
