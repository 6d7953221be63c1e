"""Derives the polynomials of `passes/expand_math` with mpmath: weighted minimax fits by Remez exchange.

Prints one Python tuple a polynomial, lowest power first, and its largest weighted error before rounding.
"""

# mpmath gives its context most functions at run time.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from mpmath import mp, mpf

Real = Any  # an mpmath number: the library has no types
Function = Callable[[Real], Real]
mp.dps = 50

HALF = 0.5005
HALF_LN2 = float(mp.ln(2) / 2) * 1.001
LOG_LIMIT = float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * 1.001  # s^2, s = f / (2 + f), 1 + f = sqrt(2)
SIN_LIMIT = 1.73**2
ERF_CENTER, ERF_LIMIT = 2.5, 3.90625
ATAN_LIMIT = float(cast("Real", mp.tan(mp.pi / 8))) ** 2 * 1.001


class Fit(NamedTuple):
    """A function on an interval, and the weight of the errors of its approximation."""

    f: Function
    weight: Function
    low: float
    high: float


def remez(fit: Fit, degree: int) -> tuple[list[Real], Real]:
    """The polynomial p of a degree that minimizes max |weight * (f - p)|, and that maximum."""
    middle, half = mpf(fit.low + fit.high) / 2, mpf(fit.high - fit.low) / 2
    # Shifted off 0, where quotients are undefined.
    grid = [middle - half * mp.cos(mp.pi * (i + mpf("0.3")) / 1001) for i in range(1001)]
    values = [(fit.f(x), fit.weight(x)) for x in grid]
    nodes = [round(1000 * i / (degree + 1)) for i in range(degree + 2)]
    while True:
        rows = [
            [grid[i] ** k for k in range(degree + 1)] + [(-1) ** n / values[i][1]]
            for n, i in enumerate(nodes)
        ]
        *coefficients, level = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i][0] for i in nodes]))
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, (v, w) in zip(grid, values, strict=True)]
        worst = max(map(abs, errors))
        exchanged = alternation(errors, degree + 2)
        if worst < abs(level) * mpf("1.001") or exchanged == nodes:
            return coefficients, worst
        nodes = exchanged


def alternation(errors: list[Real], count: int) -> list[int]:
    """The positions of the largest errors of alternating sign."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def rounded(fit: Fit, degree: int, dtype: type[np.floating]) -> list[float]:
    """Coefficients in a dtype; on one side of 0, the others make up for the rounding of the lowest."""
    best, _ = remez(fit, degree)
    if fit.low < 0:
        return [float(dtype(float(c))) for c in best]
    lowest = float(dtype(float(best[0])))
    rest = Fit(lambda x: (fit.f(x) - lowest) / x, lambda x: fit.weight(x) * x, fit.low, fit.high)
    others, _ = remez(rest, degree - 1)
    return [lowest, *(float(dtype(float(c))) for c in others)]


def exp_tail(x: Real) -> Real:
    return (mp.expm1(x) - x) / x**2


def exp2_tail(x: Real) -> Real:
    return mp.expm1(x * mp.ln(2)) / x


def sin_tail(z: Real) -> Real:
    return (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def atanh_tail(z: Real) -> Real:
    """R of log(1 + f) = 2 s + s z R(z), s = f / (2 + f), z = s^2."""
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


def atanh_tail2(z: Real) -> Real:
    return (atanh_tail(z) - mpf(2) / 3) / z


def asin_tail(z: Real) -> Real:
    return (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def atan_tail(z: Real) -> Real:
    return (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def erf_tail(z: Real) -> Real:
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1


def shifted_erf(u: Real) -> Real:
    return mp.erf(u + ERF_CENTER)


def erfc_log2(x: Real) -> Real:
    return mp.log(mp.erfc(x), 2)


def erfc_weight(x: Real) -> Real:
    """The relative error of `erf(x) = 1 - 2^p(x)` for an error of p."""
    return mp.erfc(x) * mp.ln(2) / mp.erf(x)


FITS: dict[str, tuple[Fit, int, int]] = {
    # name: what to fit, with a weight that makes errors relative; degree for float32, degree for float64
    "exp": (Fit(exp_tail, lambda x: x**2 / mp.exp(x), -HALF_LN2, HALF_LN2), 4, 9),
    "exp2": (Fit(exp2_tail, lambda x: abs(x) / 2**x, -HALF, HALF), 5, 10),
    "log": (Fit(atanh_tail, lambda z: z / 2, 0, LOG_LIMIT), 2, 6),
    "log beyond 2/3": (Fit(atanh_tail2, lambda z: z**2 / 2, 0, LOG_LIMIT), 2, 6),
    "sin": (Fit(sin_tail, lambda z: z, 0, SIN_LIMIT), 4, 7),
    "asin": (Fit(asin_tail, lambda z: z, 0, 0.2501), 4, 11),
    "atan": (Fit(atan_tail, lambda z: z, 0, ATAN_LIMIT), 4, 10),
    "erf": (Fit(erf_tail, lambda z: mpf(1), 0, 1), 5, 11),
    "erf beyond 1": (
        Fit(shifted_erf, lambda u: 1 / shifted_erf(u), 0.98 - ERF_CENTER, ERF_LIMIT - ERF_CENTER),
        12,
        0,
    ),
    "log2(erfc)": (Fit(erfc_log2, erfc_weight, 0.98, 6), 0, 18),
    "erf for 16 bits": (Fit(erf_tail, lambda z: mpf(1), 0, 1), 3, 0),
    "log2(erfc) for 16 bits": (Fit(erfc_log2, erfc_weight, 0.98, 3.3), 2, 0),
}


def report(name: str, fit: Fit, degree: int, dtype: type[np.floating]) -> None:
    _, worst = remez(fit, degree)
    digits = 9 if dtype is np.float32 else 17
    print(f"{name}, {dtype.__name__} (error {mp.nstr(worst, 2)}):")
    print("    (" + ", ".join(f"{c:.{digits}g}" for c in rounded(fit, degree, dtype)) + ")")


if __name__ == "__main__":
    for name, (fit, *degrees) in FITS.items():
        for dtype, degree in zip((np.float32, np.float64), degrees, strict=True):
            if degree:
                report(name, fit, degree, dtype)
