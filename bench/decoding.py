"""Times a token of GPT-2 124M with random weights, and its prompt, beside `transformers`.

Both are in one process and take turns; the fastest round counts. Below any token is the time in which NumPy
reads as many bytes as the weights have, by a product with a vector. docs/bench.md tells more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peak import processor
from processes import environment, pin

# Behind a colon, the dtype of activations.
DTYPES = ("float32", "bfloat16", "q8_0", "q8_0:int8", "q4_k", "q4_k:int8", "int8", "int8:int8")
# Bytes of a weight, with its part of the scales.
BYTES = {"float32": 4.0, "bfloat16": 2.0, "q8_0": 34 / 32, "q4_k": 144 / 256, "int8": 1.0}
PROMPT, LONG_PROMPT = 8, 512

Write = Callable[[int], NDArray[Any]]


def folder_of(path: str, small: bool) -> int:
    """Writes a GPT-2 with random weights; how many it has, without those of positions."""
    from transformers import GPT2Config, GPT2LMHeadModel, utils

    utils.logging.disable_progress_bar()
    small_sizes: dict[str, Any] = {"n_layer": 2, "n_embd": 256, "n_head": 4, "vocab_size": 512}
    sizes = small_sizes if small else {}
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0, **sizes))
    model.save_pretrained(path)
    return model.num_parameters() - model.transformer.wpe.weight.numel()


def ours(path: str, ids: NDArray[Any], dtype: str) -> Write:
    import ocannl as oc

    kept, _, activations = dtype.partition(":")
    model = oc.models.load(path, dtype=None if kept == "float32" else kept, activations=activations or None)
    return lambda count: oc.generate(model, ids, max_new=count, temperature=0)


def of_transformers(path: str, ids: NDArray[Any], dtype: str) -> Write:
    import torch
    from transformers import GPT2LMHeadModel

    model: Any = GPT2LMHeadModel.from_pretrained(path, dtype=getattr(torch, dtype)).eval()
    prompt = torch.from_numpy(ids)[None]

    def write(count: int) -> NDArray[Any]:
        with torch.inference_mode():
            length = {"max_new_tokens": count, "min_new_tokens": count}
            found = model.generate(prompt, do_sample=False, use_cache=True, pad_token_id=0, **length)
        return found[0].numpy()

    return write


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def token_seconds(writers: Sequence[Write], tokens: int, rounds: int) -> list[float]:
    """The least seconds of each for a token after the first one; they take turns."""
    for write in writers:
        write(1)
        write(1 + tokens)
    longer: list[list[float]] = [[] for _ in writers]
    first: list[list[float]] = [[] for _ in writers]
    for _ in range(rounds):
        for k, write in enumerate(writers):
            first[k].append(seconds(lambda write=write: write(1)))
            longer[k].append(seconds(lambda write=write: write(1 + tokens)))
    return [(min(long) - min(short)) / tokens for long, short in zip(longer, first, strict=True)]


def prompt_seconds(writers: Sequence[Write], rounds: int) -> list[float]:
    """The least seconds of each until the first token."""
    for write in writers:
        write(1)
    found: list[list[float]] = [[] for _ in writers]
    for _ in range(rounds):
        for times, write in zip(found, writers, strict=True):
            times.append(seconds(lambda write=write: write(1)))
    return [min(times) for times in found]


def reading_seconds(count: float) -> float:
    """The least seconds in which NumPy reads some bytes, by a product of a matrix with a vector."""
    matrix = np.ones((int(count) // 4096, 1024), np.float32)
    vector, result = np.ones(1024, np.float32), np.empty(len(matrix), np.float32)
    return min(seconds(lambda: np.matmul(matrix, vector, out=result)) for _ in range(10))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dtypes", nargs="*", choices=[*DTYPES, []], help="by default all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--quick", action="store_true", help="a small model of the same form")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as path:
        os.environ |= environment(options.threads, cache)
        pin(options.threads)
        weights = folder_of(path, options.quick)
        ids = rng.integers(0, 512, LONG_PROMPT)
        print(f"{processor()}, threads: {options.threads}; milliseconds, and of `transformers`")
        print(f"{'':<10}{'a token':>10}{'reading':>10}{'transformers':>16}{f'{LONG_PROMPT} ids':>10}")
        expected = of_transformers(path, ids[:PROMPT], "float32")(options.tokens)
        for dtype in options.dtypes or DTYPES:
            short, long = ours(path, ids[:PROMPT], dtype), ours(path, ids, dtype)
            if dtype == "float32":
                assert (short(options.tokens) == expected).all(), "other ids than those of `transformers`"
            has_peer = dtype in ("float32", "bfloat16")
            peers = [of_transformers(path, which, dtype) for which in (ids[:PROMPT], ids)] if has_peer else []
            token = token_seconds([short, *peers[:1]], options.tokens, options.rounds)
            prompt = prompt_seconds([long, *peers[1:]], options.rounds)
            read = reading_seconds(weights * BYTES[dtype.partition(":")[0]])
            ratio = f"x{token[1] / token[0]:.2f}" if has_peer else ""
            line = f"{dtype:<10}{token[0] * 1e3:>10.2f}{read * 1e3:>10.2f}{ratio:>16}{prompt[0] * 1e3:>10.1f}"
            print(line + (f" x{prompt[1] / prompt[0]:.2f}" if has_peer else ""), flush=True)


if __name__ == "__main__":
    main()
