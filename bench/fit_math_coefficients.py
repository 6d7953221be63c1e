"""Derives the polynomials of `passes/expand_math` with mpmath: weighted minimax fits by Remez exchange.

Prints one Python tuple a polynomial, lowest power first, and the largest weighted error of each before rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mpmath import mp, mpf

Function = Callable[[mpf], mpf]
mp.dps = 50

EPSILON = mpf(10) ** -12  # keeps weights off zero
HALF = 0.5005
HALF_LN2 = float(mp.ln(2) / 2) * 1.001
LOG_LIMIT = float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * 1.001  # s^2, s = f / (2 + f), 1 + f = sqrt(2)
SIN_LIMIT = float(mp.pi / 2) ** 2 * 1.001


def remez(f: Function, weight: Function, low: float, high: float, degree: int) -> tuple[list[mpf], mpf]:
    """The polynomial p of a degree that minimizes max |weight * (f - p)| on an interval, and that maximum."""
    middle, half = mpf(low + high) / 2, mpf(high - low) / 2
    grid = [middle - half * mp.cos(mp.pi * i / 1000) for i in range(1001)]
    values = [(f(x), weight(x)) for x in grid]
    nodes = [round(1000 * i / (degree + 1)) for i in range(degree + 2)]
    for _ in range(12):
        rows = [
            [grid[i] ** k for k in range(degree + 1)] + [(-1) ** n / values[i][1]]
            for n, i in enumerate(nodes)
        ]
        *coefficients, level = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i][0] for i in nodes]))
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, (v, w) in zip(grid, values, strict=True)]
        worst = max(map(abs, errors))
        if worst < abs(level) * mpf("1.001"):
            break
        nodes = alternation(errors, degree + 2)
    return coefficients, worst


def alternation(errors: list[mpf], count: int) -> list[int]:
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


def series(numerator: Function, limit: mpf) -> Function:
    """A quotient that is 0 / 0 at 0, given its limit there."""
    return lambda x: numerator(x) if abs(x) > mpf(10) ** -12 else limit


def exp_tail(x: mpf) -> mpf:
    return (mp.expm1(x) - x) / x**2


def exp2_tail(x: mpf) -> mpf:
    return mp.expm1(x * mp.ln(2)) / x


def sin_tail(z: mpf) -> mpf:
    return (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def atanh_tail(z: mpf) -> mpf:
    """R of log(1 + f) = 2 s + s z R(z), s = f / (2 + f), z = s^2."""
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


def atanh_tail2(z: mpf) -> mpf:
    return (atanh_tail(z) - mpf(2) / 3) / z


def erf_tail(z: mpf) -> mpf:
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1


def erf_log2(x: mpf) -> mpf:
    return -mp.log(mp.erfc(x), 2)


FITS: dict[str, tuple[Function, Function, tuple[float, float], int, int]] = {
    # name: function, weight that makes errors relative, interval, degree for float32, degree for float64
    "exp": (series(exp_tail, mpf(1) / 2), lambda x: x**2 / mp.exp(x) + EPSILON, (-HALF_LN2, HALF_LN2), 4, 9),
    "exp2": (series(exp2_tail, mp.ln(2)), lambda x: abs(x) / 2**x + EPSILON, (-HALF, HALF), 5, 10),
    "log": (series(atanh_tail, mpf(2) / 3), lambda z: z / 2 + EPSILON, (0, LOG_LIMIT), 2, 6),
    "log beyond 2/3": (series(atanh_tail2, mpf(2) / 5), lambda z: z**2 / 2 + EPSILON, (0, LOG_LIMIT), 2, 6),
    "sin": (series(sin_tail, -mpf(1) / 6), lambda z: z + EPSILON, (0, SIN_LIMIT), 3, 7),
    "erf": (series(erf_tail, 2 / mp.sqrt(mp.pi) - 1), lambda z: mpf(1), (0, 1), 5, 11),
    "-log2(erfc)": (erf_log2, lambda x: mp.erfc(x) * mp.ln(2) / mp.erf(x), (0.98, 4), 6, 0),
    "-log2(erfc) ": (erf_log2, lambda x: mp.erfc(x) * mp.ln(2) / mp.erf(x), (0.98, 6), 0, 18),
}


def report(name: str, dtype: type[np.floating], degree: int) -> None:
    f, weight, (low, high), *_ = FITS[name]
    coefficients, worst = remez(f, weight, low, high, degree)
    digits = 9 if dtype is np.float32 else 17
    print(f"{name}, {dtype.__name__} (error {mp.nstr(worst, 2)}):")
    print("    (" + ", ".join(f"{float(dtype(float(c))):.{digits}g}" for c in coefficients) + ")")


if __name__ == "__main__":
    for name, fit in FITS.items():
        for dtype, degree in zip((np.float32, np.float64), fit[3:], strict=True):
            if degree:
                report(name, dtype, degree)
