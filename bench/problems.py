"""All training steps that are measured, and where a framework has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernels import ATTENTION, CONV
from models import MODELS
from steps import PROBLEMS, Problem

STEPS: Mapping[str, Callable[[], Problem]] = {**PROBLEMS, **MODELS}


def module_of(name: str, framework: str) -> str:
    """The module that has a benchmark in a framework."""
    kind = "steps" if name in PROBLEMS else "models" if name in MODELS else "kernels"
    kind = "convolutions" if CONV.fullmatch(name) else "attentions" if ATTENTION.fullmatch(name) else kind
    return f"{kind}_{framework}"
