"""Plans of training steps of GPT and Llama on many devices, as rows for the table in docs/planning.md: one or
more of `gpt2`, `megatron`, `llama-8b` and `llama-70b`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.plans.plan import scaled, time_text
from ocannl.models.gpt2 import gpt2
from ocannl.models.llama import llama
from ocannl.program.meshes.sharding import Shard

GPT2 = {
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
}
LLAMA = {
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "max_position_embeddings": 8192,
}
LLAMA_8B = {
    **LLAMA,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
}
LLAMA_70B = {
    **LLAMA,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}
# Rows of table 1 of Narayanan et al. (2021): 512 and 1024 sequences of 2048 ids, of a vocabulary of 51,200.
MEGATRON = {
    "n_positions": 2048,
    "vocab_size": 51200,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
}
GPT_7B = {**MEGATRON, "n_embd": 4096, "n_head": 32, "n_layer": 36}
GPT_18B = {**MEGATRON, "n_embd": 6144, "n_head": 48, "n_layer": 40}
TENSOR_PARALLEL: dict[str, Shard] = {"c_attn.w": {("output", 1): "model"}, "c_fc.w": {"output": "model"}}
"""The first weights of attention and of feed-forward layers, as in Megatron-LM: the second ones follow."""


@dataclass(frozen=True)
class Case:
    """A step of a model over `batch` sequences of each replica, on a mesh; `in_parts` is ZeRO-3."""

    title: str
    model: Callable[[Any], Callable[..., oc.Tensor]]
    config: dict[str, Any]
    batch: int
    length: int
    mesh: dict[str, int]
    machine: str
    in_parts: bool = False

    def step(self) -> oc.Code:
        with oc.precision("float32", compute="bfloat16"):
            model = self.model(self.config)
        sequences = self.batch * self.mesh["data"]
        ids = np.broadcast_to(np.int32(0), (sequences, self.length))
        x, y = (oc.data(ids, axes="bb", label=label, shard={("batch", 0): "data"}) for label in ("x", "y"))
        loss = nn.cross_entropy(model(x), y).named("loss")
        for name, param in oc.params(loss).items():
            self.place(name, param)
        return train.grad_update(loss) + train.adam_update(loss)

    def place(self, name: str, param: oc.Tensor) -> None:
        placement: dict[Any, str] = {}
        if self.in_parts and param.shape.input:
            placement |= {"input": "data"}
        if "model" in self.mesh:
            placement |= next((dict(own) for end, own in TENSOR_PARALLEL.items() if name.endswith(end)), {})
        if placement:
            oc.shard(param, placement)

    def plan(self) -> oc.Plan:
        return oc.plan(self.step(), oc.Mesh(self.mesh), self.machine)


def cases(name: str) -> Iterator[Case]:
    match name:
        case "gpt2":
            for nodes in (1, 8, 64, 512):
                mesh = {"data": 8 * nodes}
                yield Case("GPT-2 124M, data parallel", gpt2, GPT2, 8, 1024, mesh, f"{nodes}x8xH100")
            for nodes in (1, 8):
                mesh = {"data": 8 * nodes}
                yield Case("GPT-2 124M, ZeRO-3", gpt2, GPT2, 8, 1024, mesh, f"{nodes}x8xH100", True)
        case "megatron":
            mesh = {"data": 32, "model": 4}
            yield Case("GPT 7.5B, tensor parallel 4", gpt2, GPT_7B, 16, 2048, mesh, "16x8xA100")
            mesh = {"data": 32, "model": 8}
            yield Case("GPT 18.4B, tensor parallel 8", gpt2, GPT_18B, 32, 2048, mesh, "32x8xA100")
        case "llama-8b":
            yield Case("Llama 3 8B, ZeRO-3", llama, LLAMA_8B, 2, 8192, {"data": 8}, "1x8xH100", True)
            yield Case("Llama 3 8B, ZeRO-3", llama, LLAMA_8B, 1, 8192, {"data": 64}, "8x8xA100", True)
        case _:
            yield Case("Llama 3 70B, ZeRO-3", llama, LLAMA_70B, 1, 8192, {"data": 64}, "8x8xA100", True)


def row(case: Case, plan: oc.Plan) -> str:
    memory = plan.memory
    kept = memory.parameters + memory.gradients + memory.moments
    tokens = case.batch * case.length * case.mesh["data"] / plan.ranks
    cells = (
        case.title,
        case.machine,
        f"{scaled(kept)}B",
        f"{scaled(memory.activations + memory.exchanged)}B",
        f"{scaled(plan.sent)}B",
        f"{scaled(plan.engine_sent)}B",
        str(plan.messages),
        time_text(plan.compute_seconds),
        time_text(plan.communication_seconds),
        f"{100 * plan.utilization:.0f} %",
        f"{tokens / plan.seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", choices=("gpt2", "megatron", "llama-8b", "llama-70b"))
    parser.add_argument("--tables", action="store_true", help="print whole plans")
    options = parser.parse_args()
    for name in options.models:
        for case in cases(name):
            start = time.perf_counter()
            plan = case.plan()
            if options.tables:
                print(plan)
            print(row(case, plan), f"<!-- {time.perf_counter() - start:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
