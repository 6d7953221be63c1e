"""The types of scalar terms, by those of their operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from typing import TypeAlias

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.kinds import TRUTHS, WHOLE, Kind
from ocannl.dialects.scalar.precisions import BOOL, float_of, is_float, promote, work_type
from ocannl.dialects.scalar.term_type import App, Arg, Const, Term

Element: TypeAlias = Attribute | None
"""An element type, or None for the weak one of whole numbers, which take that of what they stand beside."""


def term_type(term: Term, elements: Sequence[Element]) -> Element:
    """The element type of a term; None for one of whole numbers alone.

    Other numbers count as f32. Raises `FloatError` for an operator that floats have not.
    """
    match term:
        case Arg(index):
            return elements[index]
        case Const(value):
            return None if isinstance(value, int) else f32
        case App(name):
            kind, common = SCALAR_OPS[name].kind, common_type(term, elements)
            if kind in WHOLE and common is not None and is_float(common):
                raise FloatError(name, common)
            if kind in TRUTHS:
                return BOOL
            if kind is Kind.FLOAT:
                return f32 if common is None else float_of(common)
            return i32 if common == BOOL and kind in (Kind.ARITHMETIC, Kind.SHIFT) else common


@lru_cache(maxsize=4096)
def type_over(term: Term, elements: tuple[Element, ...]) -> Element:
    """`term_type`, once for all operations of a program that have the same term. Raises `FloatError`."""
    return term_type(term, elements)


def common_type(term: App, elements: Sequence[Element]) -> Element:
    """The common type of the operands that an operator combines, which conditions are not."""
    return promoted(term_type(a, elements) for a in term.args[SCALAR_OPS[term.op].conditions :])


def promoted(types: Iterable[Element]) -> Element:
    """The common type of numbers; None if all are weak. Whole numbers make an i32 of a truth value."""
    all = list(types)
    known = [e for e in all if e is not None]
    found = reduce(promote, known) if known else None
    return i32 if found == BOOL and len(known) < len(all) else found


def map_leaves(
    term: Term, elements: Sequence[Element], wanted: Element, leaf: Callable[[Arg | Const, Element], Term]
) -> Term:
    """The term with `leaf` of each operand and number, and of the type in which it is combined with others.

    `wanted` is the type of the result; None where there is none.
    """
    if not isinstance(term, App):
        return leaf(term, wanted)
    op = SCALAR_OPS[term.op]
    match op.kind:
        case Kind.FLOAT | Kind.TEST:
            inner = f32
        case Kind.LOGIC:
            inner = None
        case Kind.COMPARISON:
            common = common_type(term, elements)
            inner = None if common is None else work_type(common)
        case _:
            common = common_type(term, elements)
            inner = common if wanted is None else wanted if common is None else promote(common, wanted)
            inner = i32 if inner is None and op.kind in WHOLE else inner
    types = [None] * op.conditions + [inner] * (len(term.args) - op.conditions)
    return App(
        term.op, tuple(map_leaves(a, elements, t, leaf) for a, t in zip(term.args, types, strict=True))
    )


class FloatError(Exception):
    """An operator of integers has floats as operands."""

    def __init__(self, op: str, element: Attribute) -> None:
        super().__init__(f"`{op}` is of integers and truth values, found {element}; oc.cast converts")
