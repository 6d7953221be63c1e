"""The examples of decoding: speculative decoding writes what the model alone writes, and a beam search finds
what one that computes all positions finds.
"""

from pathlib import Path
from typing import Any

import beam_search as beams
import numpy as np
import pytest
import speculative
from beam_search import beam_search
from speculative import kept, speculate
from support.model_folders import GPT2, folder_with_tokenizer, gpt2_weights, write_model

import ocannl as oc
from ocannl import nn

IDS = [3, 1, 4, 15]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory):
    """One, and a smaller one that often agrees with it: it has the first of its layers."""
    folder = tmp_path_factory.mktemp("models")
    weights = gpt2_weights(GPT2)
    for name in weights:
        if ".c_" in name:
            weights[name] = weights[name] / 4
    small = {**GPT2, "n_layer": 1}
    first = {name: array for name, array in weights.items() if not name.startswith("h.1.")}
    return [
        oc.models.load(write_model(folder / name, config, arrays))
        for name, config, arrays in (("large", GPT2, weights), ("small", small, first))
    ]


@pytest.mark.exhaustive
def test_speculative_decoding_writes_the_best_ids(models: Any):
    large, small = models
    found = speculate(large, small, IDS, 12, ahead=3)
    assert found.ids == oc.generate(large, np.array(IDS), max_new=12, temperature=0).tolist()
    assert 3 <= found.steps < 12
    # A model agrees with itself: each step adds 4 ids.
    assert speculate(large, large, IDS, 12, ahead=3) == (found.ids, 3)


def test_speculative_decoding_has_the_distribution_of_the_model():
    rng = np.random.default_rng(1)
    chances, guess = np.array([[0.5, 0.2, 0.3], [1, 0, 0]]), np.array([0.1, 0.6, 0.3])
    counts = np.zeros(3)
    for _ in range(4000):
        drafted = int(rng.choice(3, p=guess))
        counts[kept([drafted], [guess.astype(np.float32)], chances.astype(np.float32), rng)[0]] += 1
    np.testing.assert_allclose(counts / 4000, chances[0], atol=0.03)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop", [None, 7])
def test_beam_search(models: Any, stop: int | None):
    model, width, max_new = models[0], 3, 4
    scores = oc.function(lambda ids: nn.log_softmax()(model(ids)), axes={"ids": "bb"})
    rows, totals = np.array([IDS]), np.zeros(1)
    for _ in range(max_new):
        new = np.pad(rows, [(0, width - len(rows)), (0, 8 - rows.shape[1])])
        chances = scores(new)[: len(rows), rows.shape[1] - 1].astype(np.float64)
        for row, chance in zip(rows, chances, strict=True):
            if stop in row[len(IDS) :]:
                chance[:] = -np.inf
                chance[stop] = 0
        pairs = [
            (total + chance[id], [*row, id])
            for row, total, chance in zip(rows.tolist(), totals, chances, strict=True)
            for id in range(31)
        ]
        best = sorted(pairs, key=lambda pair: -pair[0])[:width]
        rows, totals = np.array([row for _, row in best]), np.array([total for total, _ in best])
    found = beam_search(model, IDS, width=width, max_new=max_new, stop=stop)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_allclose(found.totals, totals, rtol=1e-4)


@pytest.mark.exhaustive
def test_the_commands(tmp_path: Path, capsys: Any):
    folder = str(folder_with_tokenizer(tmp_path))
    beams.main([folder, "the cat", "--max-new", "2", "--width", "2"])
    first, second = (line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert float(first[0]) >= float(second[0])
    assert first[1].startswith("the cat")
    speculative.main([folder, folder, "the cat", "--max-new", "4"])
    text, count = capsys.readouterr().out.splitlines()
    assert text.startswith("the cat")
    assert count == "4 ids in 1 steps"


@pytest.mark.exhaustive
def test_beam_search_against_transformers(tmp_path: Path):
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64)
    module = transformers.GPT2LMHeadModel(config).eval()
    for parameter in module.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    module.save_pretrained(tmp_path)
    count = {"max_new_tokens": 20, "min_new_tokens": 20}
    how = {"num_beams": 4, "num_return_sequences": 4, "do_sample": False, "pad_token_id": 0}
    wanted = module.generate(torch.tensor([IDS]), eos_token_id=None, length_penalty=0.0, **count, **how)
    found = beam_search(oc.models.load(tmp_path), IDS, width=4, max_new=20)
    np.testing.assert_array_equal(found.rows, wanted.numpy())
