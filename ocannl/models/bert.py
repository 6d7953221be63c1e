"""BERT (Devlin et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.encoder import attention, feed, is_for, norm_of, seen_by_all
from ocannl.models.model import Array, Config, batch_of_ids, setting
from ocannl.models.parts import activation
from ocannl.nn.transformers.kv_cache import places

# What the first files call the weights of norms.
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
LEFT_OUT = r"(cls\.predictions\.decoder|cls\.seq_relationship|pooler)\..*|.*position_ids"


def bert(config: Config) -> Callable[..., oc.Tensor]:
    """A function of ids, batch, position | , of which segment each is in, 0 or 1, and of a mask, 1 where
    there is one. It gives features, or scores of ids where the model was saved for masked language.
    """
    width = setting(config, "hidden_size")
    with oc.scope("embeddings"):
        words, positions, segments = (
            nn.embedding(num=setting(config, size), dim=width, label=f"{name}_embeddings")
            for name, size in (
                ("word", "vocab_size"),
                ("position", "max_position_embeddings"),
                ("token_type", "type_vocab_size"),
            )
        )
        norm = norm_of(config, "LayerNorm")
    layers = [layer(config, number) for number in range(setting(config, "num_hidden_layers"))]
    head = predictions(config, words) if is_for(config, "ForMaskedLM", "ForPreTraining") else None

    def model(
        ids: oc.TensorLike, types: oc.TensorLike | None = None, mask: oc.TensorLike | None = None
    ) -> oc.Tensor:
        ids = batch_of_ids(ids)
        types = ids * 0 if types is None else batch_of_ids(types)
        x = words(ids) + positions(places(0, ids.shape.array[-1])) + segments(types)
        x = norm(x)
        seen = seen_by_all(mask)
        for each in layers:
            x = each(x, seen)
        return x if head is None else head(x)

    return model


@oc.configurable
def layer(config: Config, number: int) -> Callable[..., oc.Tensor]:
    """Attention and a feed-forward block, each before a norm."""
    with oc.scope(f"encoder.layer.{number}"):
        attend, forward = attention(config, inner="self"), feed(config)
        first, second = (norm_of(config, f"{part}.LayerNorm") for part in ("attention.output", "output"))

    def apply(x: oc.Tensor, mask: oc.Tensor | None) -> oc.Tensor:
        x = first(x + attend(x, mask))
        return second(x + forward(x))

    return apply


@oc.configurable
def predictions(config: Config, words: oc.Block[..., oc.Tensor]) -> nn.Layer:
    """The scores of ids, by the embedding's vectors."""
    width, act, table = setting(config, "hidden_size"), activation(config, "hidden_act"), words.w
    with oc.scope("cls.predictions"):
        bias = oc.param("bias", 0.0, input=[], output=setting(config, "vocab_size"))
        with oc.scope("transform"):
            dense, norm = nn.linear(in_dim=width, out_dim=width, label="dense"), norm_of(config, "LayerNorm")
    return lambda x: table @ norm(act(dense(x))) + bias


def bert_weights(config: Config, name: str, array: Array) -> dict[str, Array]:
    """An array of the file by the name of its parameter."""
    stem, part, last = name.rpartition("LayerNorm.")
    return {stem + OLD_NAMES.get(part + last, part + last): array}
