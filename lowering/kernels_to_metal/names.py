"""Names in Metal text: those of a program's variables, made fit for it."""

from __future__ import annotations

import re

from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.kernels_to_metal.functions import FUNCTIONS

# Words of C++ and of Metal, functions and macros, and what the text itself uses.
WORDS = """
alignas alignof and and_eq asm atomic auto bfloat bitand bitor block_number bool break case catch char
char16_t char32_t class compl const const_cast constant constexpr continue decltype default delete device do
double dynamic_cast else enum explicit export extern false float for fragment friend goto half if inline int
kernel long main metal mutable namespace new nodes noexcept not not_eq nullptr object_data operator or or_eq
precise private protected public ray_data register reinterpret_cast return short signed sizeof static
static_assert static_cast struct switch template this thread thread_number thread_local threadgroup
threadgroup_imageblock throw true try typedef typeid typename uchar uint ulong union unsigned ushort using
vertex virtual void volatile wchar_t while xor xor_eq as_type ceil copysign fabs floor fma fmax fmin max
max_nan mem_flags min min_nan rint round simd_shuffle_xor threadgroup_barrier trunc INFINITY NAN UNROLL
"""
RESERVED = frozenset(WORDS.split()) | FUNCTIONS.keys()
# Parameters, values, shared arrays and vectors, and the types of vectors.
OWN = re.compile(r"[pvsw]\d+|(?:float|half|bfloat|int|uint|long|uchar)[24]")


def variable_names() -> VariableNames:
    """Identifiers for the variables of a kernel and the static indices, by their names in the program."""
    return VariableNames(RESERVED, OWN)
