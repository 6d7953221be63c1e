"""Losses."""

from __future__ import annotations

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.losses import CASES, IDS, X1, X3, log_softmax, picked

import ocannl as oc
from ocannl import nn


@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def test_targets_of_a_batch():
    n = oc.index("n", 2)
    logits, ids = oc.data(X3)[n], oc.data(IDS[4], axes="bbb")[n]
    loss = nn.cross_entropy(logits, ids)
    ctx = oc.Context.cpu()
    step = ctx.compile(loss.forward)
    step(n=1)
    np.testing.assert_allclose(ctx[loss], -picked(log_softmax(X3[1]), IDS[4][1]).mean())


def test_ids_say_nothing_about_the_number_of_classes():
    with pytest.raises(oc.ShapeError, match=r"hidden dimension of `linear\.w`"):
        oc.infer(nn.cross_entropy(nn.linear()(oc.data(X1)), oc.data(IDS[2], axes="b")))


def test_ids_are_of_one_output_axis():
    with pytest.raises(oc.ShapeError):
        nn.cross_entropy(oc.data(X3, axes="bboo"), oc.data(IDS[4][..., 0], axes="bb"))
