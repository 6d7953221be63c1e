"""The kinds of models that there are: how each is built, and how its weights differ from those of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ocannl as oc
from ocannl.models.bert import LEFT_OUT, bert, bert_weights
from ocannl.models.experts import Stacked, experts_joined, mixtral, qwen2_moe, qwen3_moe
from ocannl.models.gemma import gemma, gemma2, gemma3
from ocannl.models.gpt2 import gpt2, gpt2_weights
from ocannl.models.llama import llama, mistral
from ocannl.models.model import Array, Config
from ocannl.models.modernbert import modernbert
from ocannl.models.phi import phi, phi3, phi3_weights
from ocannl.models.qwen import qwen2, qwen3
from ocannl.models.vit import vit, vit_weights
from ocannl.models.whisper import whisper, whisper_weights

Stored: TypeAlias = Array | Stacked
"""A parameter in a file: one array, or those of experts."""


@dataclass(frozen=True)
class Architecture:
    """A kind of model: the function that builds it, and how its weights differ from the file's.

    Attributes:
        build: a function of the configuration to the model's function.
        defaults: settings that hold where a configuration has none, as `transformers` has them.
        prefix: in front of names of the file, where it is there.
        left_out: a pattern of names of the file that are not parameters.
        convert: the arrays of parameters for an array of the file, by its name.
        join: the arrays of parameters that are several of the file.
        fixed: settings with other values of which it is another model than is built.
    """

    build: Callable[[Config], Callable[..., Any]]
    defaults: Config = field(default_factory=dict[str, Any])
    prefix: str = "model."
    left_out: str = r".*rotary_emb\.inv_freq"
    convert: Callable[[Config, str, Array], Mapping[str, Array]] = lambda config, name, array: {name: array}
    join: Callable[[Config, Mapping[str, Array]], dict[str, Stored]] = lambda config, stored: {**stored}
    fixed: Config = field(default_factory=dict[str, Any])


TIED = {"tie_word_embeddings": True}
SILU = {"hidden_act": "silu"}
QWEN = SILU | {"use_sliding_window": False, "sliding_window": 4096}
DENSE_QWEN = QWEN | {"max_window_layers": 28}
GEMMA = {"head_dim": 256} | TIED
GEMMA2 = GEMMA | {
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
}
GEMMA2_CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
GEMMA3 = GEMMA2 | {"rope_theta": 1e6, "rope_local_base_freq": 1e4}

ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": Architecture(
        gpt2,
        {"activation_function": "gelu_new"} | TIED,
        "transformer.",
        r".*\.attn\.(masked_)?bias",
        gpt2_weights,
    ),
    "llama": Architecture(llama, SILU),
    "mistral": Architecture(mistral, SILU | {"sliding_window": 4096}),
    "qwen2": Architecture(qwen2, DENSE_QWEN),
    "qwen3": Architecture(qwen3, DENSE_QWEN | {"head_dim": 128}),
    "mixtral": Architecture(mixtral, SILU | {"rms_norm_eps": 1e-5, "rope_theta": 1e6}, join=experts_joined),
    "qwen2_moe": Architecture(qwen2_moe, DENSE_QWEN, join=experts_joined),
    "qwen3_moe": Architecture(qwen3_moe, QWEN, join=experts_joined),
    "gemma": Architecture(gemma, GEMMA | {"hidden_act": "gelu_pytorch_tanh"}),
    "gemma2": Architecture(gemma2, GEMMA2 | GEMMA2_CAPS),
    "gemma3_text": Architecture(gemma3, GEMMA3),
    "bert": Architecture(bert, {"type_vocab_size": 2}, "bert.", LEFT_OUT, bert_weights, fixed=TIED),
    "modernbert": Architecture(modernbert, left_out=r"decoder\.weight", fixed=TIED),
    "whisper": Architecture(whisper, left_out=r"proj_out\.weight", convert=whisper_weights, fixed=TIED),
    "vit": Architecture(vit, {"num_channels": 3}, "vit.", r"pooler\..*", vit_weights),
    "phi": Architecture(phi, {"hidden_act": "gelu_new", "partial_rotary_factor": 0.5}),
    "phi3": Architecture(phi3, SILU | {"rms_norm_eps": 1e-5}, convert=phi3_weights),
}

# Settings that are fixed for all.
FIXED: Config = {
    "is_decoder": False,
    "add_cross_attention": False,
    "use_bidirectional_attention": False,
    "quantization_config": None,
}


def architecture(config: Config) -> Architecture:
    """The kind of model of a configuration. Raises `OcannlError` where there is none."""
    name = config.get("model_type")
    if name not in ARCHITECTURES:
        raise oc.OcannlError(f"there is no model of type {name!r}; there are {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[name]
    for setting, value in {**FIXED, **kind.fixed}.items():
        found = config.get(setting)
        if found is not None and found != value:
            raise oc.OcannlError(f"there is no {name} whose `{setting}` is {found!r:.60}")
    return kind


def built(kind: Architecture, config: Config) -> Callable[..., Any]:
    """The function of a model."""
    return kind.build({**kind.defaults, **config})
