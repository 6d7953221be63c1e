"""`online-softmax` keeps what attention and its gradients are, and never has all scores in memory."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from support.attention import (
    BATCH,
    CASES,
    FEATURES,
    HEADS,
    KEYS,
    QUERIES,
    Array,
    leaf,
    numbers,
    some_hidden,
    step_of,
)
from support.interpret_loops import run_func
from support.nests import compare, parse_module, random_arrays
from xdsl.context import Context

import ocannl as oc
from ocannl import nn
from ocannl.dialects.loops import GroupOp
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.passes.loops.online_softmax import online_softmax
from ocannl.passes.loops.online_softmax.online_softmax import OnlineSoftmaxPass
from ocannl.passes.loops.online_softmax.recognize import Sorter


def text_before(code: oc.Code) -> str:
    """The nests that the pass finds."""
    return oc.Context.cpu(threads=1).compile(code, name="f").ir("reuse-reductions")


def applied(text: str, kernels: bool = False):
    module = parse_module(text)
    OnlineSoftmaxPass(l2_bytes=1, kernels=kernels).apply(Context(), module)
    module.verify()
    (func,) = functions(module)
    return func


def groups(text: str) -> list[GroupOp]:
    return [op for op in applied(text).body.block.ops if isinstance(op, GroupOp)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(online_softmax, "MOST_ROWS", 16)
    monkeypatch.setattr(online_softmax, "MOST_KEYS", 64)
    monkeypatch.setattr(online_softmax, "MOST_KEYS_HIDDEN", 64)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_kept(case: str, kernels: bool):
    """Gradients are one group; for a GPU, those of queries are apart from those of keys and values."""
    attend, kv_heads = CASES[case]
    text = text_before(step_of(attend, kv_heads))
    before, after = functions(parse_module(text))[0], applied(text, kernels)
    expected = random_arrays(before)
    if "mask" in expected:
        expected["mask"][...] = some_hidden()
    found = {label: array.copy() for label, array in expected.items()}
    run_func(before, expected)
    run_func(after, found)
    compare(found, expected, 1e-5)
    made = [op for op in after.body.block.ops if isinstance(op, GroupOp)]
    assert len(made) == (3 if kernels else 2)
    if kernels:
        assert all(len(group.clashing) <= 1 for group in made)
    scores = BATCH * QUERIES * HEADS * KEYS * 4
    assert all(byte_size(node) < scores for node in nodes(after) if node.mode.data == "local")


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("compute", [oc.float32, oc.bfloat16])
def test_gradients_of_what_is_made_of_rounded_results(compute: oc.DType, kernels: bool):
    """The sum over keys that the gradient of a softmax asks for is one over features, also where results are
    rounded, or only their squares are kept. Scores of bf16 that a mask hides are left out.
    """

    q = leaf("q", numbers(BATCH, QUERIES, HEADS, FEATURES, seed=1))
    k, v = (leaf(label, numbers(BATCH, KEYS, HEADS, FEATURES, seed=s)) for s, label in enumerate("kv", 2))
    with oc.precision(oc.float32, compute=compute):
        y = nn.dot_product_attention(q, k, v, nn.causal_mask())
    gradients = oc.grad((oc.cast(y, oc.float32) ** 2).sum(), [q, k, v])
    text = text_before(sum((oc.forward(gradient) for gradient in gradients), oc.Code()))
    before, after = functions(parse_module(text))[0], applied(text, kernels)
    made = [op for op in after.body.block.ops if isinstance(op, GroupOp)]
    assert len(made) == (3 if kernels else 2)
    assert all(group.bounds for group in made)
    expected = random_arrays(before)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(before, expected)
    run_func(after, found)
    compare(found, expected, 1e-5 if compute is oc.float32 else 2e-2)


@pytest.mark.exhaustive
def test_exponentials_of_products_of_16_bits_may_be_approximated():
    """In kernels; elsewhere, and where queries and keys are f32, they are expanded."""
    leaves = [oc.data(numbers(1, 256, 2, 16, seed=1).astype(oc.bfloat16), axes="bboo") for _ in "qkv"]
    y = nn.dot_product_attention(*leaves)
    exact = nn.dot_product_attention(*(oc.cast(leaf, oc.float32) for leaf in leaves))
    for result, kernels, count in ((y, True, 2), (y, False, 0), (exact, True, 0)):
        ctx = oc.Context.emulated_gpu() if kernels else oc.Context.cpu(threads=1)
        text = ctx.compile(oc.forward(result), name="f").ir("loops")
        assert text.count("math.exp2 ") == len(re.findall("math.exp2 .* fastmath<afn>", text)) == count


@pytest.mark.exhaustive
def test_keys_that_no_row_of_a_block_sees_are_left_out():
    attend, _ = CASES["causal"]
    assert [str(bound) for group in groups(text_before(step_of(attend))) for bound in group.bounds] == [
        "64*key_block - 16*row_block + 32 < 48"
    ] * 2
    for other in ("plain", "masked"):
        assert not any(group.bounds for group in groups(text_before(step_of(CASES[other][0]))))


OTHER_SUMS: dict[str, Callable[[oc.Tensor, oc.Tensor], oc.Tensor]] = {
    "scores of a row": lambda scores, weights: oc.einsum("... s | t -> h => ... s | h", scores),
    "scores of a key": lambda scores, weights: oc.einsum("... s | t -> h => ... t | h", scores),
    "of a row with a number": lambda scores, weights: oc.einsum("... s | t -> h => ... s | h", weights + 1),
    "the least weight": lambda scores, weights: oc.einmin("... s | t -> h => ... s | h", weights),
    "a diagonal": lambda scores, weights: oc.einsum("... s | s -> h => ... | h", weights),
}


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("other", OTHER_SUMS)
def test_what_a_mask_hides_counts_in_other_sums(other: str, kernels: bool):
    """Blocks of keys that a mask hides are left out of sums of weights alone."""
    q, k, v = (leaf(label, numbers(BATCH, KEYS, 1, FEATURES, seed=s)) for s, label in enumerate("qkv", 1))
    scores = oc.einsum("... s|hd; ... t|hd => ... s|t->h", q, k)
    weights = nn.softmax(spec="... | ... t -> ...")(oc.where(nn.causal_mask(), scores, -1e9))
    y = oc.einsum("... s|t->h; ... t|hd => ... s|hd", weights, v).named("y")
    z = OTHER_SUMS[other](scores, weights).named("z")
    text = text_before(oc.forward(y) + oc.forward(z))
    before, after = functions(parse_module(text))[0], applied(text, kernels)
    expected = random_arrays(before)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(before, expected)
    run_func(after, found)
    compare(found, expected, 1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hidden", ["some", "all", "not a number", "infinite"])
def test_rows_of_special_scores(hidden: str):
    """-inf counts as hidden, also in whole blocks; a row of nothing else, NaN and inf give NaN."""
    bias = np.zeros((QUERIES, KEYS), np.float32)
    bias[5, :128] = -np.inf
    bias[9, 100:] = -np.inf
    special = {"all": -np.inf, "not a number": np.nan, "infinite": np.inf}
    if hidden in special:
        bias[7, slice(None) if hidden == "all" else 70] = special[hidden]

    def attend(q: oc.Tensor, k: oc.Tensor, v: oc.Tensor) -> oc.Tensor:
        added = oc.param("bias", bias, batch=[QUERIES], output=[], input=[KEYS])
        scores = oc.einsum("... s|hd; ... t|hd => ... s|t->h", q, k) + added
        return oc.einsum("... s|t->h; ... t|hd => ... s|hd", nn.softmax(spec="... | ... t -> ...")(scores), v)

    text = text_before(step_of(attend, gradients=False))
    before, after = functions(parse_module(text))[0], applied(text)
    assert any(isinstance(op, GroupOp) for op in after.body.block.ops)
    expected = random_arrays(before)
    expected["bias"][...] = bias
    found = {label: array.copy() for label, array in expected.items()}
    run_func(before, expected)
    run_func(after, found)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-4, atol=1e-5)
    assert np.isnan(found["y"][:, 7]).all() == (hidden != "some")


def test_weights_that_are_read_stay_in_memory():
    def attend(q: oc.Tensor, k: oc.Tensor, v: oc.Tensor) -> oc.Tensor:
        scores = oc.einsum("... s|hd; ... t|hd => ... s|t->h", q, k)
        weights = oc.materialize(nn.softmax(spec="... | ... t -> ...")(scores))
        return oc.einsum("... s|t->h; ... t|hd => ... s|hd", weights, v) + weights.max()

    assert not groups(text_before(step_of(attend, gradients=False)))


def test_lengths_without_good_blocks_are_left_alone():
    assert not groups(text_before(step_of(nn.dot_product_attention, keys=191, gradients=False)))


def reference(q: Array, k: Array, v: Array, g: Array) -> tuple[Array, ...]:
    """Causal attention of one head and its gradients, in f64."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    y, of_weights = weights @ v, g @ v.T
    of_scores = (
        weights * (of_weights - (of_weights * weights).sum(axis=1, keepdims=True)) / np.sqrt(q.shape[1])
    )
    return y, of_scores @ k, of_scores.T @ q, weights.T @ g


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
def test_long_causal_attention_runs(threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    length, heads, features = 1024, 3, 16
    q, k, v = (numbers(1, length, heads, features, seed=seed) for seed in range(3))
    ctx = oc.Context.cpu(threads=threads, target="x86-64-v3")
    leaves = [leaf(label, value) for label, value in zip("qkv", (q, k, v), strict=True)]
    y = nn.dot_product_attention(leaves[0], leaves[1], leaves[2], nn.causal_mask()).named("y")
    zeros = sum((oc.set(p.grad, 0) for p in leaves), oc.Code())
    step = ctx.compile(oc.forward(y) + zeros + y.backprop, name="step")
    assert "where 128*key_block" in step.ir("loops")
    ctx.init_params(y)
    ctx[y.grad] = gradient = numbers(1, length, heads, features, seed=4)
    step()
    for head in range(heads):
        expected = reference(*(x[0, :, head] for x in (q, k, v, gradient)))
        for node, right in zip((y, *(p.grad for p in leaves)), expected, strict=True):
            np.testing.assert_allclose(np.asarray(ctx[node])[0, :, head], right, rtol=1e-3, atol=1e-5)


def test_each_softmax_looks_at_its_own_steps(monkeypatch: pytest.MonkeyPatch):
    """So what several take together grows with their number, not with its square."""
    seen: list[object] = []
    sort = Sorter.sort
    monkeypatch.setattr(
        Sorter, "sort", lambda self, step, levels: seen.append(step) or sort(self, step, levels)
    )

    def looks(number: int) -> int:
        seen.clear()
        q = leaf("q", numbers(1, 64, 1, 8, seed=1))
        for _ in range(number):
            q = nn.dot_product_attention(q, q, q)
        applied(text_before(oc.forward(q.named("y"))))
        return len(seen)

    assert looks(3) == 3 * looks(1) > 0
