"""The floats that Metal lacks, those of 8 bits, which are stored as their bits."""

from __future__ import annotations

from ocannl.dialects.scalar.small_floats import F8E4M3FN, F8E5M2
from ocannl.lowering.c_family.word_functions import Dialect

METAL = Dialect("inline", "uint", "as_type<uint>", "as_type<float>")
"""How Metal writes functions of words."""

STORED_AS_BITS = {format.name: "uchar" for format in (F8E5M2, F8E4M3FN)}
"""The types in which small floats are stored that are no types of Metal, by name."""
