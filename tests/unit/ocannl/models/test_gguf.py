"""Files of GGUF against folders with the same weights, decoded by the package `gguf`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.model_folders import write_model

import ocannl as oc
from ocannl.models.gguf_files import GgufTensor

gguf: Any = pytest.importorskip("gguf")

Array = NDArray[Any]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "head_dim": 64,
    "hidden_act": "silu",
    "vocab_size": 40,
}
AT = "blk.0"
# The names in a file and in a folder, the shape, and the type.
TENSORS = [
    ("token_embd", "model.embed_tokens", (40, 256), "F16"),
    ("output", "lm_head", (40, 256), "Q8_0"),
    ("output_norm", "model.norm", (256,), "F32"),
    *(
        (f"{AT}.attn_{n}", f"model.layers.0.self_attn.{n}_proj", (s, 256), "Q8_0")
        for n, s in zip("qkv", (256, 128, 128), strict=True)
    ),
    (f"{AT}.attn_output", "model.layers.0.self_attn.o_proj", (256, 256), "BF16"),
    *((f"{AT}.ffn_{n}", f"model.layers.0.mlp.{n}_proj", (256, 256), "Q4_K") for n in ("gate", "up", "down")),
    (f"{AT}.attn_norm", "model.layers.0.input_layernorm", (256,), "F32"),
    (f"{AT}.ffn_norm", "model.layers.0.post_attention_layernorm", (256,), "F32"),
]
IDS = np.random.default_rng(2).integers(0, 40, (1, 7))


def encoded(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    if kind.name != "Q4_K":
        return gguf.quants.quantize(rng.normal(0, 0.1, shape).astype(np.float32), kind)
    rows = rng.integers(0, 256, (shape[0], shape[1] // 256, 144), np.uint8)
    rows[..., :4] = rng.uniform(1e-4, 3e-4, (*rows.shape[:2], 2)).astype(np.float16).view(np.uint8)
    return rows.reshape(shape[0], -1)


def halves(name: str, array: Array) -> Array:
    """Rows of queries and keys in the order of a folder."""
    heads = {"attn_q": 4, "attn_k": 2}.get(name.rpartition(".")[2])
    return array if heads is None else array.reshape(heads, -1, 2, 256).swapaxes(1, 2).reshape(array.shape)


def files(folder: Path) -> tuple[Path, Path]:
    """A file, and a folder with the same weights in f32."""
    rng, path, arrays = np.random.default_rng(1), folder / "model.gguf", dict[str, Array]()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(256)
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_feed_forward_length(256)
    writer.add_context_length(64)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    for name, other, shape, type in TENSORS:
        kind = gguf.GGMLQuantizationType[type]
        data = encoded(rng, shape, kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
        arrays[f"{other}.weight"] = halves(name, gguf.quants.dequantize(data, kind).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, write_model(folder / "folder", CONFIG, arrays)


@pytest.mark.exhaustive
def test_scores_are_those_of_the_decoded_weights(tmp_path: Path):
    found: list[Array] = []
    for place in files(tmp_path):
        with oc.Context.cpu(1) as ctx:
            model = oc.models.load(place)
            found.append(ctx[model(IDS)])
            kept = [name for name in model.state if name.endswith((".scales", ".mins"))]
        assert len(kept) == (10 if place.suffix else 0)
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_a_dtype_decodes_and_other_blocks_are_encoded_anew(tmp_path: Path):
    path, _ = files(tmp_path)
    with oc.Context.cpu(1):
        decoded = oc.models.load(path, dtype=np.float32)
        assert {tensor.dtype.name for tensor in decoded.state.values()} == {"float32"}
    rows = np.zeros((2, 22), np.uint8)
    assert GgufTensor("Q5_0", (2, 32), rows, lambda: rows).quantized == "q8_0"
    assert GgufTensor("BF16", (2, 32), rows, lambda: rows).quantized is None


def test_what_a_file_lacks_is_said(tmp_path: Path):
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_tensor("token_embd.weight", np.zeros((2, 2), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(oc.OcannlError, match="architecture 'mamba'; there are llama, qwen2, qwen3, gpt2"):
        oc.models.load(path)


def test_what_is_no_such_file(tmp_path: Path):
    bad = tmp_path / "bad.gguf"
    for told in ("No such file", "magic invalid"):
        with pytest.raises(oc.OcannlError, match=rf"bad.gguf is no file of GGUF: .*{told}"):
            oc.models.load(bad)
        bad.write_bytes(b"no such file")
