"""The choice of experts for tokens, and the order of tokens in front of each expert."""

from __future__ import annotations

from dataclasses import dataclass

import ocannl as oc
from ocannl.nn.softmax import softmax
from ocannl.program.location import here


@dataclass(frozen=True)
class Routing:
    """The experts of each token, the likeliest first.

    Attributes:
        probs: the probability of each expert: groups, tokens | experts.
        chosen: the numbers of the chosen experts, which have no gradient: groups, tokens | k.
        gates: the weights of what these give: groups, tokens | k.
        experts: how many experts there are.
        top_k: how many of them a token has.
        tokens: how many tokens a group has.
    """

    probs: oc.Tensor
    chosen: oc.Tensor
    gates: oc.Tensor
    experts: int
    top_k: int
    tokens: int

    def hot(self) -> oc.Tensor:
        """Whether a choice is an expert: groups, tokens, k | experts."""
        return oc.one_hot(oc.einsum("..., s | k => ..., s, k |", self.chosen), self.experts)

    def counts(self) -> oc.Tensor:
        """How often each expert is chosen: groups | experts."""
        return oc.einsum("..., s, k | e => ... | e", self.hot())

    def earlier(self) -> oc.Tensor:
        """How many choices of the same expert are before each one: groups, tokens | k. All first choices are
        before all second ones, and each in the order of tokens (Lepikhin et al., 2021).
        """
        hot = self.hot()
        line = oc.einsum("..., s, k | e => ... | e, k&s", hot, k=self.top_k, s=self.tokens)
        upto = oc.cumsum(line)
        return oc.einsum("... | e, k&s; ..., s, k | e => ..., s | k", upto, hot) - 1

    def balance(self) -> oc.Tensor:
        """One number: over the experts, the sum of their shares of all choices times their mean
        probabilities, times how many they are (Fedus et al., 2022). It is 1 where all have the same share.
        """
        n, choices = oc.Dim("n"), oc.Dim("choices")
        hot = oc.one_hot(oc.einsum("... | k => ..., k |", self.chosen), self.experts)
        counts = oc.einsum("..n.. | e => e", hot, n=choices)
        likely = oc.einsum("..n.. | e => e", self.probs, n=n) / n
        # Counts are exact, and are divided last.
        return oc.einsum("e; e => ", oc.stop_gradient(counts), likely) * (self.experts / choices)


def route(x: oc.Tensor, router: oc.Tensor, experts: int, top_k: int, *, normalize: bool) -> Routing:
    """Chooses the `top_k` experts of the greatest probabilities, a softmax of `router @ x`: groups, tokens |
    in. Of equal ones that of the lower number. Gates are these probabilities, with `normalize` scaled to sum
    to 1.
    """
    probs = softmax()(oc.einsum("... | ..m..; ..m.. -> e => ... | e", x, router))
    # Has these rows alone, where those of `x` are open.
    probs = oc.einsum("... | e => ... | e", probs).named("expert_probs")
    gates, chosen = oc.topk(probs, top_k)
    if normalize:
        gates = gates / oc.einsum("... | k => ... | 0", gates)
    return Routing(probs, oc.stop_gradient(chosen), gates, experts, top_k, tokens_of(x))


def tokens_of(x: oc.Tensor) -> int:
    """The size of the last batch axis. Raises `ShapeError` where nothing determines it, or there is none."""
    if not x.shape.batch or not isinstance(x.shape.batch[-1], int):
        oc.infer(x)
    if not x.shape.batch:
        raise oc.ShapeError(
            here(f"tokens are the last batch axis, and `{x.label}` of shape {x.shape} has none")
        )
    size = x.shape.batch[-1]
    assert isinstance(size, int), "the shape is final"
    return size
