"""Generated ids: the best ones, with a cache and without; chosen ones; ends; and what is refused."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support.model_folders import GPT2, gpt2_weights, write_model

import ocannl as oc
from ocannl import nn
from ocannl.models.sampling import Sampling

RNG = np.random.default_rng(3)
IDS = RNG.integers(0, 31, (2, 6))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory):
    folder = write_model(tmp_path_factory.mktemp("gpt2"), GPT2, gpt2_weights(GPT2))
    return oc.models.load(folder)


@pytest.fixture(scope="module")
def best(model: Any):
    """The best ids, by scores of all positions."""
    score, ids = oc.function(lambda ids: model(ids), axes={"ids": "bb"}), IDS
    for _ in range(12):
        padded = np.pad(ids, [(0, 0), (0, 20 - ids.shape[1])])
        ids = np.append(ids, score(padded)[:, ids.shape[1] - 1].argmax(-1)[:, None], 1)
    return ids


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cache", [True, False])
def test_the_best_ids(model: Any, best: Any, cache: bool):
    found = oc.generate(model, IDS, max_new=12, temperature=0, cache=cache)
    np.testing.assert_array_equal(found, best)


def test_any_function_of_ids_is_a_model(model: Any, best: Any):
    plain = oc.generate(lambda ids: model(ids), IDS, max_new=4, temperature=0)
    np.testing.assert_array_equal(plain, best[:, :10])


def test_arrays_of_other_libraries_are_arrays(model: Any, best: Any):
    class Ids:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return IDS

    found = oc.generate(model, cast(Any, Ids()), max_new=4, temperature=0)
    np.testing.assert_array_equal(found, best[:, :10])


@pytest.mark.exhaustive
def test_prompts_of_different_lengths(model: Any, best: Any):
    short, long = oc.generate(model, [IDS[0, :3], IDS[1]], max_new=12, temperature=0)
    np.testing.assert_array_equal(long, best[1])
    np.testing.assert_array_equal(short, oc.generate(model, IDS[0, :3], max_new=12, temperature=0))


def test_a_sequence_ends_with_a_stop_and_the_others_go_on(model: Any, best: Any):
    end = int(best[0, 9])
    others = [int(i) for i in set(range(31)) - set(best[1, 6:].tolist()) if i == end]
    found = oc.generate(model, IDS, max_new=12, temperature=0, stop=end)
    first = 6 + best[0, 6:].tolist().index(end)
    np.testing.assert_array_equal(found[0, : first + 1], best[0, : first + 1])
    assert (found[0, first:] == end).all()
    if others:
        np.testing.assert_array_equal(found[1], best[1, : found.shape[1]])
    assert oc.generate(model, IDS[0], max_new=12, temperature=0, stop=[end]).size == first + 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("cache", [True, False])
def test_sequences_of_a_list_end_by_themselves(model: Any, cache: bool):
    prompts = [IDS[0, :3], IDS[1]]
    how: Any = {"max_new": 12, "temperature": 0, "cache": cache}
    whole = [oc.generate(model, ids, **how) for ids in prompts]
    stop = int(whole[0][5])
    wanted = [oc.generate(model, ids, stop=stop, **how) for ids in prompts]
    found = oc.generate(model, prompts, stop=[stop], **how)
    assert [row.tolist() for row in found] == [row.tolist() for row in wanted]
    assert len(found[0]) <= 6


def test_ids_are_streamed(model: Any, best: Any):
    seen: list[Any] = []
    oc.generate(model, IDS, max_new=5, temperature=0, stream=seen.append)
    np.testing.assert_array_equal(np.stack(seen, 1), best[:, 6:11])
    two = oc.generate(
        model, IDS, max_new=5, temperature=0, stream=lambda new: seen.append(new) or np.bool_(len(seen) == 7)
    )
    np.testing.assert_array_equal(two, best[:, :8])


@pytest.mark.parametrize(("how", "runs"), [({}, [11]), ({"stop": 99}, [11]), ({"stream": print}, [1] * 11)])
def test_ids_are_written_at_once(
    model: Any, best: Any, how: Any, runs: list[int], monkeypatch: pytest.MonkeyPatch
):
    """But where each is looked at."""
    found: list[int] = []
    run_loop = oc.Routine.run_loop

    def noted(self: oc.Routine, *, epochs: int, **others: Any) -> Any:
        found.append(epochs)
        return run_loop(self, epochs=epochs, **others)

    monkeypatch.setattr(oc.Routine, "run_loop", noted)
    np.testing.assert_array_equal(oc.generate(model, IDS, max_new=12, temperature=0, **how), best)
    assert found == runs


@pytest.mark.exhaustive
def test_seeds_are_reproducible(model: Any):
    how = {"max_new": 8, "temperature": 1.5}
    one, again, other = (oc.generate(model, IDS, seed=seed, **how) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    np.testing.assert_array_equal(one, oc.generate(model, IDS, seed=1, cache=False, **how))


def test_no_two_seeds_of_64_bits_choose_alike(model: Any):
    """Nor do small ones and those beyond 32 bits, and neither are negative ones cut off."""
    seeds = [1, 1 + 2**31, 1 + 2**32, 1 + 2**63, -1, 2**31 - 1]
    found = {oc.generate(model, IDS, max_new=12, temperature=2.0, seed=seed).tobytes() for seed in seeds}
    assert len(found) == len(seeds)


SCORES = np.log(np.array([0.05, 0.4, 0.1, 0.25, 0.2], np.float32))


CHANCES = np.exp(SCORES)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_ids_are_chosen_by_their_chances(temperature: float):
    @oc.function
    def draw(scores: Any, counter: Any, temperature: Any):
        return Sampling(temperature).chosen(scores, counter)

    found = draw(np.tile(SCORES, (4000, 1)), 7, temperature)
    wanted = CHANCES ** (1 / temperature)
    np.testing.assert_allclose(np.bincount(found, minlength=5) / 4000, wanted / wanted.sum(), atol=0.03)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("top_k", "top_p", "allowed"),
    [(2, 1.0, [1, 3]), (5, 0.8, [1, 3, 4]), (4, 0.5, [1, 3]), (9, 1.0, [0, 1, 2, 3, 4]), (1, 1.0, [1])],
)
def test_only_the_best_are_chosen(both: Any, top_k: int, top_p: float, allowed: list[int]):
    found = both(np.tile(SCORES, (4000, 1)), 7, top_k, top_p)
    wanted = np.where(np.isin(np.arange(5), allowed), CHANCES, 0)
    observed = np.bincount(found, minlength=5) / 4000
    assert (observed[wanted == 0] == 0).all()
    np.testing.assert_allclose(observed, wanted / wanted.sum(), atol=0.03)


@pytest.mark.parametrize(("min_p", "allowed"), [(0.9, [1]), (0.49, [1, 3, 4]), (0.01, [0, 1, 2, 3, 4])])
def test_only_parts_of_the_best_chance_are_chosen(min_p: float, allowed: list[int]):
    found = oc.function(lambda scores, counter, p: Sampling(1.0, min_p=p).chosen(scores, counter))(
        np.tile(SCORES, (2000, 1)), 7, min_p
    )
    assert sorted(set(found.tolist())) == allowed


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("low", [-np.inf, -1e30])
@pytest.mark.parametrize("above", [0, -5e9, 1e6])
def test_what_is_impossible_does_not_count(both: Any, low: float, above: float):
    """Ids of scores of negative infinity, and scores far from 0, in whose place there was one id, or any."""
    scores = np.append(SCORES * 0 + above, [low] * 3).astype(np.float32)
    scores[1] += 4096.0
    scores[3] += 4096.0
    for top_k, top_p in ((2, 1.0), (5, 0.9), (8, 1.0)):
        found = both(np.tile(scores, (4000, 1)), 7, top_k, top_p)
        np.testing.assert_allclose(np.bincount(found, minlength=8)[[1, 3]] / 4000, 0.5, atol=0.03)


@pytest.mark.exhaustive
def test_the_best_k_beside_what_is_impossible(both: Any):
    scores = np.append(SCORES, -np.inf).astype(np.float32)
    found = np.bincount(both(np.tile(scores, (4000, 1)), 7, 3, 1.0), minlength=6)
    np.testing.assert_allclose(found / 4000, np.array([0, 40, 0, 25, 20, 0]) / 85, atol=0.03)


@pytest.fixture(scope="module")
def both():
    @oc.function
    def draw(scores: Any, counter: Any, top_k: Any, top_p: Any):
        return Sampling(1.0, top_k, top_p).chosen(scores, counter)

    return draw


@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@pytest.mark.parametrize("how", [{"temperature": 0}, {"top_k": 1}, {"top_p": 1e-9, "cache": False}])
@pytest.mark.parametrize("score", [np.nan, -np.inf])
@pytest.mark.parametrize("new", [0, 3])
def test_scores_of_which_none_can_be_chosen(model: Any, best: Any, how: Any, score: float, new: int):
    """Neither the first new id nor one of those that are written at once after it; an end is no scores."""
    lost_after = int(best[0, 5 + new])

    def lost(ids: oc.Tensor, cache: Any = None) -> oc.Tensor:
        return oc.where(oc.eq(ids, lost_after), score, model(ids, cache=cache))

    with pytest.raises(oc.OcannlError, match=f"new position {new} of sequence 0"):
        oc.generate(lost, best[:1, :6], max_new=4, **how)
    if new:
        found = oc.generate(lost, best[:1, :6], max_new=4, stop=lost_after, **how)
        np.testing.assert_array_equal(found, best[:1, : 6 + new])


@pytest.mark.exhaustive
@pytest.mark.parametrize("top_k", [1, 7, 499])
def test_neighbouring_scores_are_told_apart(both: Any, top_k: int):
    scores = np.tile(RNG.normal(size=500).astype(np.float32), (200, 1))
    found = both(scores, 5, top_k, 1.0)
    assert scores[0, found].min() >= np.sort(scores[0])[-top_k]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_new": 80}, "more than its 40 positions"),
        ({"temperature": -1.0}, "a temperature is not negative"),
        ({"temperature": "hot"}, "a temperature is a number, found 'hot'"),
        ({"temperature": np.inf}, "a temperature is less than inf"),
        ({"stop": "."}, r"an id in `stop` is an integer, found '\.'"),
        ({"stop": [3, 1.5]}, r"an id in `stop` is an integer, found 1\.5"),
        ({"top_k": 0, "temperature": 0}, "top_k is at least 1"),
        ({"top_p": 1.5}, "top_p is more than 0"),
        ({"min_p": 0.0}, "min_p is more than 0"),
        ({"ids": [[]]}, "a prompt is one id or more"),
        ({"ids": [0.5]}, "a prompt is one id or more"),
        ({"max_new": -1}, "number of new ids"),
        ({"model": 3}, "a model is a function of ids"),
    ],
)
def test_wrong_arguments(model: Any, how: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        oc.generate(**{"model": model, "ids": IDS, "max_new": 2, **how})


def test_nothing_new(model: Any, tmp_path: Path):
    np.testing.assert_array_equal(oc.generate(model, IDS, max_new=0), IDS)


def test_lengths_by_turns_compile_nothing(monkeypatch: pytest.MonkeyPatch):
    scores = oc.data(np.roll(np.eye(31, dtype=np.float32), 1, 1))

    def following(ids: oc.Tensor, cache: Any = None) -> oc.Tensor:
        return scores[ids]

    made: list[Any] = []
    compiled = oc.Context.compile

    def noted(self: oc.Context, *args: Any, **how: Any) -> Any:
        made.append(args)
        return compiled(self, *args, **how)

    monkeypatch.setattr(oc.Context, "compile", noted)
    counts: list[int] = []
    for max_new in (3, 64, 3, 64):
        found = oc.generate(following, [*range(20)], max_new=max_new, temperature=0)
        np.testing.assert_array_equal(found, np.arange(20 + max_new) % 31)
        counts.append(len(made))
    assert counts[0] < counts[1] == counts[-1]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("page_size", [1, 3])
def test_a_cache_in_pages_writes_the_same_ids(model: Any, best: Any, page_size: int):
    cache, how = nn.paged_cache(length=18, pages=36, page_size=page_size), {"max_new": 12, "temperature": 0}
    for _ in range(2):
        found = oc.generate(model, IDS, cache=cache, **how)
        np.testing.assert_array_equal(found, best)
    short, long = oc.generate(model, [IDS[0, :3], IDS[1]], cache=cache, **how)
    np.testing.assert_array_equal(long, best[1])
    np.testing.assert_array_equal(short, oc.generate(model, IDS[0, :3], **how))
    assert sorted(cache.free) == [*range(1, 37)]


@pytest.mark.exhaustive
def test_equal_beginnings_share_pages(model: Any):
    rows = np.stack([IDS[0], IDS[0]])
    rows[1, 5] = (rows[0, 5] + 1) % 31
    # Two pages of the beginning, and two more for each sequence.
    cache = nn.paged_cache(length=8, pages=6, page_size=2)
    found = oc.generate(model, rows, max_new=2, temperature=0, cache=cache)
    np.testing.assert_array_equal(found, oc.generate(model, rows, max_new=2, temperature=0))
    with pytest.raises(oc.ArgumentError, match="8 pages of a cache are needed, of which 6 are free"):
        oc.generate(model, IDS, max_new=2, temperature=0, cache=cache)
    with pytest.raises(oc.ArgumentError, match="9 positions do not fit into a cache of 8"):
        oc.generate(model, IDS, max_new=3, cache=cache)
