"""Scalar terms: the combining function of every tensor operation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from ocannl.dialects.scalar import SCALAR_OPS, Array
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.term_type import ONE, ZERO, App, Arg, Const, Term, app

__all__ = [
    "App",
    "Arg",
    "Const",
    "Term",
    "arguments",
    "derivative",
    "evaluate",
    "lower",
    "simplify",
    "substitute",
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
                return SCALAR_OPS[op].reference(*map(value, operands))

    with np.errstate(all="ignore"):
        return value(term)


def lower(term: Term, operands: Sequence[SSAValue], builder: ArithBuilder) -> SSAValue:
    """Appends the operations of a term to a builder, equal subterms once; the value of the term."""
    known: dict[Term, SSAValue] = {}

    def value(term: Term) -> SSAValue:
        if term not in known:
            known[term] = emit(term)
        return known[term]

    def emit(term: Term) -> SSAValue:
        match term:
            case Arg(index):
                return operands[index]
            case Const(number):
                return builder.const(number)
            case App(op, args):
                return SCALAR_OPS[op].emit(builder, *map(value, args))

    return value(term)


def derivative(term: Term, wrt: int, result: int | None = None) -> Term:
    """The simplified partial derivative with respect to an operand; `Const(0.0)` if it is identically zero.

    Where the derivative of the outermost operator reads that operator's result, `Arg(result)` stands for
    it if given, so that the forward value can be reused.
    """
    whole = term if result is None else Arg(result)
    match term:
        case Arg(index):
            return ONE if index == wrt else ZERO
        case Const():
            return ZERO
        case App(op, args):
            chain = (
                app("mul", derivative(arg, wrt), substitute(partial, dict(enumerate((*args, whole)))))
                for arg, partial in zip(args, SCALAR_OPS[op].derivative, strict=True)
                if wrt in arguments(arg)
            )
            return simplify(_sum(chain))


_SIGNS = (Const(0.0), Const(1.0), Const(-1.0))


def _sum(terms: Iterator[Term]) -> Term:
    total: Term = ZERO
    for term in terms:
        total = app("add", total, term)
    return total


def simplify(term: Term) -> Term:
    """An equal term for finite operands, by algebra: in `x * 0` a NaN or an infinity is lost."""
    if not isinstance(term, App):
        return term
    term = App(term.op, tuple(simplify(a) for a in term.args))
    smaller = _fold(term) or _rewrite(term)
    return term if smaller is None else simplify(smaller)


def _fold(term: App) -> Const | None:
    """Constants are computed in double precision; a result that is not finite is left to run time."""
    if not all(isinstance(a, Const) for a in term.args):
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
        case "neg", (App("sub", (x, y)),):
            return app("sub", y, x)
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
        case "fma", (x, y, z) if z == ZERO or any(a in _SIGNS for a in (x, y)):
            return app("add", app("mul", x, y), z)
        case "mul3", (x, y, z) if any(isinstance(a, Const) for a in (x, y, z)):
            return app("mul", app("mul", x, y), z)
        case "where", (Const(condition), x, y):
            return x if condition else y
        case "where", (_, x, y) if x == y:
            return x
        case ("relu_gate" | "sat01_gate", (_, Const(0.0))):
            return ZERO
        case "relu_gate", (App("relu", (x,)), y):
            return app("relu_gate", x, y)
        case "sat01_gate", (App("sat01", (x,)), y):
            return app("sat01_gate", x, y)
        case _:
            return None


def _rewrite_add(x: Term, y: Term) -> Term | None:
    if x == ZERO:
        return y
    if y == ZERO:
        return x
    if isinstance(y, App) and y.op == "neg":
        return app("sub", x, y.args[0])
    if isinstance(x, App) and x.op == "neg":
        return app("sub", y, x.args[0])
    return None


def _rewrite_sub(x: Term, y: Term) -> Term | None:
    if y == ZERO:
        return x
    if x == ZERO:
        return app("neg", y)
    if isinstance(y, App) and y.op == "neg":
        return app("add", x, y.args[0])
    return None


def _rewrite_mul(x: Term, y: Term) -> Term | None:
    """Rules on the second factor: the caller tries both orders."""
    match y:
        case Const(0.0):
            return ZERO
        case Const(1.0):
            return x
        case Const(-1.0):
            return app("neg", x)
        case Const(outer) if isinstance(x, App) and x.op == "mul" and isinstance(x.args[0], Const):
            return app("mul", Const(outer * x.args[0].value), x.args[1])
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


def _rewrite_div(x: Term, y: Term) -> Term | None:
    if x == ZERO:
        return ZERO
    if y == ONE:
        return x
    if x == ONE:
        return app("recip", y)
    if isinstance(x, App) and x.op == "neg":
        return app("neg", app("div", x.args[0], y))
    return None


def _rewrite_power(x: Term, exponent: float) -> Term | None:
    """Small whole exponents without the power function, which costs some hundred instructions."""
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
