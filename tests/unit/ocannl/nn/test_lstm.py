"""Long short-term memory."""

from __future__ import annotations

from support.nn.check import Case, arrays_of, check_all
from support.nn.lstm import CASES, lstm, torch_lstm

from ocannl import nn


@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def test_one_position():
    case = Case(nn.lstm(3), arrays_of((2, 1, 4)), lstm, torch_lstm)
    case.check_numpy()
