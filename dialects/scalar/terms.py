"""Scalar terms: the combining function of every tensor operation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from ocannl.dialects.scalar import SCALAR_OPS, Array
from ocannl.dialects.scalar.kinds import WHOLE
from ocannl.dialects.scalar.term_type import ONE, ZERO, App, Arg, Const, Term, app

__all__ = [
    "App",
    "Arg",
    "Const",
    "Term",
    "arguments",
    "derivative",
    "evaluate",
    "product",
    "simplify",
    "substitute",
    "total",
]


def arguments(term: Term) -> set[int]:
    """The operand positions that a term reads."""
    match term:
        case Arg(index):
            return {index}
        case Const():
            return set()
        case App(_, args):
            return {index for a in args for index in arguments(a)}


def substitute(term: Term, replacements: Mapping[int, Term]) -> Term:
    """The term with operands replaced, all at once; operands without a replacement stay."""
    match term:
        case Arg(index):
            return replacements.get(index, term)
        case Const():
            return term
        case App(op, args):
            return App(op, tuple(substitute(a, replacements) for a in args))


def evaluate(term: Term, args: Sequence[Array]) -> Array:
    """The value of a term over NumPy arrays of one float dtype, to which constants are cast."""
    dtype = np.result_type(*args) if args else np.dtype(np.float64)
    known: dict[Term, Array] = {}

    def value(term: Term) -> Array:
        if term not in known:
            known[term] = compute(term)
        return known[term]

    def compute(term: Term) -> Array:
        match term:
            case Arg(index):
                return np.asarray(args[index])
            case Const(number):
                return np.asarray(number, dtype)
            case App(op, operands):
                return np.asarray(SCALAR_OPS[op].reference(*map(value, operands)), dtype)

    with np.errstate(all="ignore"):
        return value(term)


def derivative(term: Term, wrt: int, result: int | None = None) -> Term | None:
    """The simplified partial derivative with respect to an operand; None if it is identically zero.

    Where the derivative of the outermost operator reads that operator's result, `Arg(result)` stands for
    it if given, so that the forward value can be reused.
    """
    whole = term if result is None else Arg(result)
    match term:
        case Arg(index):
            return ONE if index == wrt else None
        case Const():
            return None
        case App(op, args):
            known = dict(enumerate((*args, whole)))
            return total(
                product(_partial(slope, known), derivative(arg, wrt))
                for arg, slope in zip(args, SCALAR_OPS[op].derivative, strict=True)
                if wrt in arguments(arg)
            )


def _partial(slope: Term, operands: Mapping[int, Term]) -> Term | None:
    """A derivative of the table at operands; None if a rule of the table makes it zero.

    A zero that is a number of the program is a factor like any other: times infinity it is NaN.
    """
    found = simplify(substitute(slope, operands))
    is_rule = isinstance(slope, Const) or (isinstance(slope, App) and slope.op == "where")
    return None if is_rule and found == ZERO else found


def product(x: Term | None, y: Term | None) -> Term | None:
    """The simplified product of derivatives, of which None is identically zero, whatever the other is."""
    return None if x is None or y is None else simplify(app("mul", y, x))


def total(terms: Iterable[Term | None]) -> Term | None:
    """The simplified sum of derivatives, of which None is identically zero."""
    summands = [term for term in terms if term is not None]
    return simplify(reduce(partial(app, "add"), summands)) if summands else None


_NEGATIVE_ZERO = Const(-0.0)
_SIGNS = (ZERO, _NEGATIVE_ZERO, ONE, Const(-1.0))
_TRUTHS = frozenset({"lt", "le", "eq", "ne", "not", "and", "or"})


def simplify(term: Term) -> Term:
    """An equal term, by algebra, for all operands: NaN, infinities, and zeros of both signs.

    Except that a product with a gate of 1, or with `where` of 1 and 0, becomes the gate of the product: a
    derivative that is exactly zero hides what it is multiplied by. Results may be rounded once less.
    """
    if not isinstance(term, App):
        return term
    term = App(term.op, tuple(simplify(a) for a in term.args))
    smaller = _fold(term) or _rewrite(term)
    return term if smaller is None else simplify(smaller)


def _fold(term: App) -> Const | None:
    """Floats are computed in double precision; a result that is not finite is left to run time."""
    if not all(isinstance(a, Const) and isinstance(a.value, float) for a in term.args):
        return None
    if SCALAR_OPS[term.op].kind in WHOLE:
        return None
    value = float(evaluate(term, ()))
    return Const(value) if math.isfinite(value) else None


def _rewrite(term: App) -> Term | None:
    """One step towards a simpler equal term."""
    match term.op, term.args:
        case ("id", (x,)) | ("fst", (x, _)) | ("snd", (_, x)):
            return x
        case "neg", (App("neg", (x,)),):
            return x
        case "neg", (App("mul", (Const(number), x)),):
            return app("mul", Const(-number), x)
        case "add", (x, y):
            return _rewrite_add(x, y)
        case "sub", (x, y):
            return _rewrite_sub(x, y)
        case "mul", (x, y):
            return _rewrite_mul(x, y) or _rewrite_mul(y, x)
        case "div", (x, y):
            return _rewrite_div(x, y)
        case "pow", (x, Const(exponent)):
            return _rewrite_power(x, exponent)
        case "fma", (x, y, z) if z == _NEGATIVE_ZERO or any(a in _SIGNS for a in (x, y)):
            return app("add", app("mul", x, y), z)
        case "mul3", (x, y, z) if any(isinstance(a, Const) for a in (x, y, z)):
            return app("mul", app("mul", x, y), z)
        case "where", (Const(condition), x, y):
            return x if condition else y
        case "where", (_, x, y) if x == y:
            return x
        case ("relu_gate" | "sat01_gate", (_, y)) if y == ZERO:
            return ZERO
        case "relu_gate", (App("relu", (x,)), y):
            return app("relu_gate", x, y)
        case "sat01_gate", (App("sat01", (x,)), y):
            return app("sat01_gate", x, y)
        case _:
            return None


def _rewrite_add(x: Term, y: Term) -> Term | None:
    """`x + 0.0` stays: it is 0.0 where x is -0.0. The zero is put last: first, it starts an accumulation."""
    if x == _NEGATIVE_ZERO:
        return y
    if x == ZERO:
        return app("add", y, x)
    if y == _NEGATIVE_ZERO:
        return x
    if isinstance(y, App) and y.op == "neg":
        return app("sub", x, y.args[0])
    if isinstance(x, App) and x.op == "neg":
        return app("sub", y, x.args[0])
    return None


def _rewrite_sub(x: Term, y: Term) -> Term | None:
    if y == ZERO:
        return x
    if x == _NEGATIVE_ZERO:
        return app("neg", y)
    if isinstance(y, App) and y.op == "neg":
        return app("add", x, y.args[0])
    return None


def _rewrite_mul(x: Term, y: Term) -> Term | None:
    """Rules on the second factor: the caller tries both orders."""
    match y:
        case Const(0.0) if isinstance(x, App) and x.op in _TRUTHS:
            return y
        case Const(1.0):
            return x
        case Const(-1.0):
            return app("neg", x)
        case Const(outer) if isinstance(x, App) and x.op == "mul" and isinstance(x.args[0], Const):
            factor = outer * x.args[0].value
            return app("mul", Const(factor), x.args[1]) if _is_moderate(factor) else None
        case Const() if isinstance(x, App) and x.op == "mul" and isinstance(x.args[1], Const):
            return app("mul", app("mul", x.args[1], x.args[0]), y)
        case App("neg", (z,)):
            return app("neg", app("mul", x, z))
        case App("recip", (z,)):
            return app("div", x, z)
        case App("relu_gate" | "sat01_gate" as gate, (condition, Const(1.0))):
            return app(gate, condition, x)
        case App("where", (condition, Const(1.0), Const(0.0))):
            return app("where", condition, x, ZERO)
        case App("where", (condition, Const(0.0), Const(1.0))):
            return app("where", condition, ZERO, x)
        case _:
            return None


def _is_moderate(factor: float) -> bool:
    """Whether a factor neither overflows nor underflows in any float type that computes."""
    return 2.0**-100 < abs(factor) < 2.0**100


def _rewrite_div(x: Term, y: Term) -> Term | None:
    if y == ONE:
        return x
    if x == ONE:
        return app("recip", y)
    if isinstance(x, App) and x.op == "neg":
        return app("neg", app("div", x.args[0], y))
    return None


def is_short_power(exponent: float) -> bool:
    """Whether a power of floats is computed without the power function."""
    return _rewrite_power(Arg(0), float(exponent)) is not None


def _rewrite_power(x: Term, exponent: float) -> Term | None:
    """Small whole exponents without the power function, which costs some hundred instructions. Powers of
    integers are products.
    """
    if isinstance(exponent, int):
        return None
    match exponent:
        case 0.0:
            return ONE
        case 1.0:
            return x
        case 2.0:
            return app("mul", x, x)
        case 3.0:
            return app("mul3", x, x, x)
        case -1.0:
            return app("recip", x)
        case _:
            return None
