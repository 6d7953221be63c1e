"""Open models against `transformers`, with random weights saved to a folder: scores, and the ids of greedy
decoding with and without a cache. Nothing is downloaded.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ocannl as oc
from ocannl import nn

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
GROUPED = SIZES | {"num_key_value_heads": 2}
EXPERTS = GROUPED | {
    "num_hidden_layers": 3,
    "num_experts": 5,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "mlp_only_layers": [1],
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.4],
    "long_factor": [1.0, 2.0, 4.0, 9.0],
    "original_max_position_embeddings": 32,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 128}
WHISPER = {"layers": 2, "attention_heads": 4, "ffn_dim": 48}
TWO_KINDS = ["sliding_attention", "full_attention"]
# The names of classes before `Config` and `ForCausalLM`, and settings.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2 with other scales": (
        "GPT2",
        GPT2 | {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    ),
    "llama2": ("Llama", GROUPED | {"attention_bias": True, "mlp_bias": True}),
    "llama2 that rotates all": ("Llama", GROUPED | {"partial_rotary_factor": 0.5}),
    "llama3": ("Llama", GROUPED | {"rope_parameters": LLAMA3}),
    "linear": ("Llama", GROUPED | {"rope_parameters": {"rope_type": "linear", "factor": 4.0}}),
    "dynamic": ("Llama", GROUPED | {"rope_parameters": DYNAMIC}),
    "yarn": ("Qwen2", GROUPED | {"rope_parameters": YARN}),
    "yarn with scales": (
        "Llama",
        GROUPED | {"rope_parameters": YARN | {"mscale": 2.0, "mscale_all_dim": 0.5}},
    ),
    "longrope": ("Phi3", GROUPED | {"pad_token_id": 0, "rope_parameters": LONGROPE}),
    "longrope beyond": (
        "Phi3",
        GROUPED | {"pad_token_id": 0, "rope_parameters": LONGROPE | {"original_max_position_embeddings": 16}},
    ),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 6}),
    "qwen2": ("Qwen2", GROUPED | {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", GROUPED | {"head_dim": 16}),
    "qwen3 with windows": (
        "Qwen3",
        GROUPED | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "gemma": ("Gemma", GROUPED | {"head_dim": 16}),
    "gemma2": ("Gemma2", GROUPED | {"head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 20}),
    "gemma3": ("Gemma3", GROUPED | {"head_dim": 16, "sliding_window": 6, "layer_types": TWO_KINDS}),
    "phi": ("Phi", SIZES),
    "phi with norms of heads, tied": ("Phi", SIZES | {"qk_layernorm": True, "tie_word_embeddings": True}),
    "phi3 that rotates a part": ("Phi3", GROUPED | {"pad_token_id": 0, "partial_rotary_factor": 0.5}),
    "phi3": ("Phi3", GROUPED | {"pad_token_id": 0, "sliding_window": 6}),
    "mixtral": ("Mixtral", GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2 with experts": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 40}),
    "qwen3 with experts": ("Qwen3Moe", EXPERTS | {"head_dim": 16, "norm_topk_prob": True}),
}
IDS = np.random.default_rng(1).integers(3, 99, (2, 20))
CTX = oc.Context.cpu(threads=1)


def saved(folder: Path, name: str, kind: str, settings: dict[str, Any]) -> Any:
    """A model of `transformers` with weights that are no small numbers, saved."""
    torch.manual_seed(1)
    config = f"{name}TextConfig" if name == "Gemma3" else f"{name}Config"
    kind = "LMHeadModel" if name == "GPT2" else kind
    module = getattr(transformers, f"{name}{kind}")(getattr(transformers, config)(**settings)).eval()
    for parameter in module.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    module.save_pretrained(folder)
    return module


def as_before(folder: Path, config: Any) -> None:
    """Writes a configuration as most on the Hub are: without what is the default, and with the settings of
    rotations as they once were.
    """
    default, found = type(config)(), config.to_dict()
    rotations, plain = found.pop("rope_parameters", {}), default.to_dict()
    kept = {
        name: value for name, value in found.items() if value != plain.get(name) or name.startswith("num_")
    }
    if "full_attention" in rotations:
        # The base of local layers is the default.
        rotations = rotations["full_attention"]
    elif rotations:
        kept["rope_theta"] = rotations.pop("rope_theta")
    if rotations.get("rope_type", "default") != "default":
        kept["rope_scaling"] = {"type": rotations.pop("rope_type"), **rotations}
    if config.model_type == "gemma":
        kept["hidden_act"] = "gelu"
    (folder / "config.json").write_text(json.dumps(kept | {"model_type": config.model_type}))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("form", [None, as_before])
@pytest.mark.parametrize("case", DECODERS)
def test_scores(tmp_path: Path, case: str, form: Any):
    name, settings = DECODERS[case]
    module = saved(tmp_path, name, "ForCausalLM", settings)
    if form is not None:
        form(tmp_path, module.config)
    with CTX:
        found = CTX[oc.models.load(tmp_path)(IDS)]
    np.testing.assert_allclose(found, module(torch.tensor(IDS)).logits.detach(), rtol=1e-4, atol=1e-4)


def test_a_dynamic_scaling_allows_texts_beyond_those_of_training(tmp_path: Path):
    settings = GROUPED | {"rope_parameters": DYNAMIC, "max_position_embeddings": 16}
    module = saved(tmp_path, "Llama", "ForCausalLM", settings)
    with CTX:
        model = oc.models.load(tmp_path)
        found = CTX[model(IDS)]
        written = oc.generate(model, IDS[0], max_new=3, temperature=0, cache=False)
    np.testing.assert_allclose(found, module(torch.tensor(IDS)).logits.detach(), rtol=1e-4, atol=1e-4)
    assert written[20] == found[0, -1].argmax()
    with pytest.raises(oc.ArgumentError, match="20 ids and 60 new ones are more than its 64 positions"):
        oc.generate(model, IDS[0], max_new=60)


def test_padding_does_not_choose_the_frequencies_of_long_texts(tmp_path: Path):
    """The limit is between the length of texts and that which they are padded to."""
    scaling = LONGROPE | {"original_max_position_embeddings": 24}
    saved(tmp_path, "Phi3", "ForCausalLM", GROUPED | {"pad_token_id": 0, "rope_parameters": scaling})
    with CTX:
        model = oc.models.load(tmp_path)
        wanted = CTX[model(IDS)][:, -1]
        at = oc.data(np.array([19, 19], np.int32), axes="b", label="at")
        found = CTX[model(np.pad(IDS, ((0, 0), (0, 12))), at=at)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", DECODERS)
def test_greedy_decoding(tmp_path: Path, case: str):
    name, settings = DECODERS[case]
    module, count = saved(tmp_path, name, "ForCausalLM", settings), 64
    how = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False, "pad_token_id": 0}
    wanted = module.generate(torch.tensor(IDS), eos_token_id=None, **how).numpy()
    with CTX:
        model = oc.models.load(tmp_path)
        for cache in (True, False, nn.paged_cache(length=84, pages=12)):
            found = oc.generate(model, IDS, max_new=count, temperature=0, cache=cache)
            np.testing.assert_array_equal(found, wanted)
        prompts = [IDS[0, :7], IDS[1]]
        for row, prompt in zip(oc.generate(model, prompts, max_new=20, temperature=0), prompts, strict=True):
            alone = oc.generate(model, prompt, max_new=20, temperature=0, cache=False)
            np.testing.assert_array_equal(row, alone)


@pytest.mark.exhaustive
def test_bert(tmp_path: Path):
    module, rng = saved(tmp_path, "Bert", "ForMaskedLM", SIZES), np.random.default_rng(2)
    types, mask = rng.integers(0, 2, IDS.shape), np.ones(IDS.shape, int)
    mask[0, 12:] = 0
    given = {"token_type_ids": torch.tensor(types), "attention_mask": torch.tensor(mask)}
    # As the first files name the weights of norms.
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    weights = load_file(tmp_path / "model.safetensors")
    for name in [*weights]:
        stem, part, last = name.rpartition("LayerNorm.")
        weights[stem + old.get(part + last, part + last)] = weights.pop(name)
    save_file(weights, tmp_path / "model.safetensors")
    with CTX:
        model = oc.models.load(tmp_path)
        plain, masked = CTX[model(IDS)], CTX[model(IDS, types, mask)]
    np.testing.assert_allclose(plain, module(torch.tensor(IDS)).logits.detach(), rtol=1e-4, atol=1e-4)
    wanted = module(torch.tensor(IDS), **given).logits.detach()
    np.testing.assert_allclose(masked, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["ForMaskedLM", "Model"])
def test_modernbert(tmp_path: Path, kind: str):
    special = {f"{name}_token_id": number for number, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
    settings = SIZES | special | {"num_hidden_layers": 4, "local_attention": 8}
    module = saved(tmp_path, "ModernBert", kind, settings)
    mask = np.ones(IDS.shape, int)
    mask[0, 12:] = 0
    with CTX:
        model = oc.models.load(tmp_path)
        plain, masked = CTX[model(IDS)], CTX[model(IDS, mask)]
    np.testing.assert_allclose(plain, module(torch.tensor(IDS))[0].detach(), rtol=1e-4, atol=1e-4)
    wanted = module(torch.tensor(IDS), attention_mask=torch.tensor(mask))[0].detach()
    np.testing.assert_allclose(masked[mask > 0], wanted[mask > 0], rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["ForImageClassification", "Model"])
def test_vit(tmp_path: Path, kind: str):
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    sizes = {name: SIZES[name] for name in names} | {"image_size": 12, "patch_size": 4, "num_labels": 5}
    module = saved(tmp_path, "ViT", kind, sizes)
    images = np.random.default_rng(3).normal(size=(2, 12, 12, 3)).astype(np.float32)
    with CTX:
        found = CTX[oc.models.load(tmp_path)(images)]
    wanted = module(torch.tensor(images).permute(0, 3, 1, 2))[0].detach()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
def test_whisper(tmp_path: Path):
    sizes = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in WHISPER.items()}
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    rest = {"vocab_size": 99, "d_model": 32, "num_mel_bins": 8, "max_source_positions": 20}
    settings = sizes | ends | rest | {"max_target_positions": 64}
    module = saved(tmp_path, "Whisper", "ForConditionalGeneration", settings)
    features, wanted = np.random.default_rng(4).normal(size=(2, 40, 8)).astype(np.float32), IDS[:, :5]
    sound = torch.tensor(features).transpose(1, 2)

    def scores(ids: Any) -> Any:
        return module(sound, decoder_input_ids=torch.tensor(ids)).logits.detach().numpy()

    with CTX:
        model = oc.models.load(tmp_path)
        np.testing.assert_allclose(CTX[model(wanted, features)], scores(wanted), rtol=1e-4, atol=1e-4)
        heard = oc.data(CTX[model.encode(features)], axes="bbo")

        def decode(ids: Any, cache: Any = None, at: Any = None) -> Any:
            return model(ids, heard=heard, cache=cache, at=at)

        found = oc.generate(decode, wanted, max_new=20, temperature=0)
        with pytest.raises(oc.ArgumentError, match="a sound is given by its features"):
            model(wanted)
    for _ in range(20):
        wanted = np.append(wanted, scores(wanted)[:, -1:].argmax(-1), 1)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.exhaustive
def test_weights_of_16_bits(tmp_path: Path):
    name, settings = DECODERS["llama3"]
    module = saved(tmp_path, name, "ForCausalLM", settings)
    module.to(torch.bfloat16).save_pretrained(tmp_path)
    with CTX:
        model = oc.models.load(tmp_path, activations="float32")
        assert model.params["embed_tokens.w"].dtype == oc.bfloat16
        found = CTX[model(IDS)]
    # Anew: the frequencies of positions were rounded, too.
    wide = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    wanted = wide(torch.tensor(IDS)).logits.detach()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
def test_several_files(tmp_path: Path):
    name, settings = DECODERS["llama3"]
    module = saved(tmp_path, name, "ForCausalLM", settings)
    (tmp_path / "model.safetensors").unlink()
    module.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    with CTX:
        found = CTX[oc.models.load(tmp_path)(IDS)]
    np.testing.assert_allclose(found, module(torch.tensor(IDS)).logits.detach(), rtol=1e-4, atol=1e-4)
