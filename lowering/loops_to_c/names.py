"""Names in C text: those of a program's nodes and variables, made fit for it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ocannl.lowering.c_family.operators import ELEMENTARY, EXACT
from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.loops_to_c.functions import FUNCTIONS

# Words that are not names in C and C++, those that are most like labels of tensors.
WORDS = """
auto bool break case catch char class const continue default delete do double else enum explicit export
extern false float for friend goto if inline int long mutable namespace new operator private protected
public register restrict return short signed sizeof static struct switch template this throw true try
typedef typename union unsigned using virtual void volatile while workspace
"""
KEYWORDS = frozenset(WORDS.split())
# Types, macros, and what the text itself uses.
OWN_WORDS = """
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t memory indices work memcpy NAN INFINITY OMP
INT8_MIN INT16_MIN INT32_MIN INT64_MIN INT64_C fmax fmaxf fmin fminf fmod fmodf erf erff expm1 expm1f log1p
log1pf
"""
MATHEMATICS = {call.partition("{f}")[0] for call in (*EXACT.values(), *ELEMENTARY.values())}
RESERVED = frozenset(
    {*KEYWORDS, *OWN_WORDS.split(), *FUNCTIONS, *MATHEMATICS, *(f"{name}f" for name in MATHEMATICS)}
)
# Values and accumulators.
OWN = re.compile(r"(v|sum|product|most|least|any|all)\d+|y[01n]|j[01n]|gamma")


def variable_names() -> VariableNames:
    """Identifiers for the nodes and the variables of a function, by their names in the program."""
    return VariableNames(RESERVED, OWN)


def c_name(text: str) -> str:
    """The nearest name of C."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "node"
    if name[0].isdigit():
        return f"n{name}"
    return f"{name}_" if name in KEYWORDS else name


def c_names(labels: Iterable[str]) -> dict[str, str]:
    """A name of C for each label, all different."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        name = base = c_name(label)
        number = 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        names[label] = name
        taken.add(name)
    return names
