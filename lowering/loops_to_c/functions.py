"""The functions of ours that C text calls; they stand before the routines, each if one calls it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute

from ocannl.dialects.scalar.small_floats import FORMATS, Format
from ocannl.dialects.scalar.threefry import KEY_PARITY, ROTATIONS, ROUNDS, ROUNDS_PER_KEY
from ocannl.lowering.c_family.word_functions import (
    Dialect,
    narrowing,
    narrowing_function,
    widening,
    widening_function,
)

C = Dialect("static inline", "uint32_t", "(uint32_t)bits_of_f32", "float_of_bits")


def bits_of(type: Attribute) -> str:
    """The name of the function from a float to its bits."""
    return "bits_of_f32" if isinstance(type, Float32Type) else "bits_of_f64"


def float_of(type: Attribute) -> str:
    """The name of the function from bits to a float of a type."""
    return "float_of_bits" if isinstance(type, Float32Type) else "double_of_bits"


def _copied(name: str, source: str, target: str) -> str:
    return f"""\
static inline {target} {name}({source} x) {{
  {target} y;
  memcpy(&y, &x, sizeof y);
  return y;
}}"""


def _extremum(name: str, type: str, sign: str) -> str:
    return f"""\
// NaN if one of them is.
static inline {type} {name}({type} x, {type} y) {{ return y {sign} x || y != y ? y : x; }}"""


def _threefry() -> str:
    turns = ", ".join([f"{{{first}, {second}}}" for first, second in ROTATIONS])
    return f"""\
// Threefry-4x32: four random words x of a counter, under a key.
static inline void threefry(uint32_t x[4], const uint32_t key[4]) {{
  static const int turns[{len(ROTATIONS)}][2] = {{{turns}}};
  const uint32_t keys[5] = {{key[0], key[1], key[2], key[3],
                            0x{KEY_PARITY:08X}u ^ key[0] ^ key[1] ^ key[2] ^ key[3]}};
  for (uint32_t n = 0; n <= {ROUNDS // ROUNDS_PER_KEY}; n++) {{
    for (uint32_t i = 0; i < 4; i++) x[i] += keys[(n + i) % 5] + (i == 3 ? n : 0);
    for (uint32_t r = {ROUNDS_PER_KEY} * n; r < {ROUNDS} && r < {ROUNDS_PER_KEY} * (n + 1); r++) {{
      for (int i = 0; i < 2; i++) {{
        uint32_t *a = &x[2 * i], *b = &x[(2 * i + 1 + 2 * (r % 2)) % 4];
        const int turn = turns[r % {len(ROTATIONS)}][i];
        *a += *b;
        *b = (*b << turn | *b >> (32 - turn)) ^ *a;
      }}
    }}
  }}
}}"""


def _uniform(name: str, type: str, number: str) -> str:
    return f"""\
// A random number in [0, 1), of which a block has two.
static inline {type} {name}(uint64_t place, int64_t counter, const uint32_t key[4], int second) {{
  const uint64_t count = (uint64_t)counter;
  uint32_t x[4] = {{(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)count, (uint32_t)(count >> 32)}};
  threefry(x, key);
  return {number};
}}"""


ROUND_TO_ODD = """\
// A double as the float from which rounding again gives what rounding once would.
static inline float round_to_odd(double x) {
  const float near = (float)x;
  if ((double)near == x || x != x) return near;
  const int32_t bits = bits_of_f32(near) - (fabs((double)near) > fabs(x));
  return float_of_bits(bits | 1);
}"""


def _small(format: Format) -> dict[str, Callable[[], str]]:
    stored = f"uint{format.bits}_t"
    return {
        widening(format): partial(widening_function, format, stored, C),
        narrowing(format): partial(narrowing_function, format, stored, C),
    }


# The functions by name, in the order of the text: each after those that it calls.
FUNCTIONS: dict[str, Callable[[], str]] = {
    "max_nanf": partial(_extremum, "max_nanf", "float", ">"),
    "min_nanf": partial(_extremum, "min_nanf", "float", "<"),
    "max_nan": partial(_extremum, "max_nan", "double", ">"),
    "min_nan": partial(_extremum, "min_nan", "double", "<"),
    "bits_of_f32": partial(_copied, "bits_of_f32", "float", "int32_t"),
    "bits_of_f64": partial(_copied, "bits_of_f64", "double", "int64_t"),
    "float_of_bits": partial(_copied, "float_of_bits", "int32_t", "float"),
    "double_of_bits": partial(_copied, "double_of_bits", "int64_t", "double"),
    "round_to_odd": lambda: ROUND_TO_ODD,
    **{name: make for format in FORMATS.values() for name, make in _small(format).items()},
    "threefry": _threefry,
    "uniformf": partial(_uniform, "uniformf", "float", "(float)(x[2 * second] >> 8) * 0x1p-24f"),
    "uniform": partial(
        _uniform,
        "uniform",
        "double",
        "((double)(x[2 * second] >> 5) * 0x1p26 + (double)(x[2 * second + 1] >> 6)) * 0x1p-53",
    ),
}
NAMES = re.compile(rf"\b({'|'.join(FUNCTIONS)})\b")


def definitions(texts: Iterable[str]) -> list[str]:
    """The functions that texts call, and those that they call."""
    needed, found = set[str](), list[str]()
    texts = list(texts)
    while texts:
        names = {name for text in texts for name in NAMES.findall(text)} - needed
        needed |= names
        texts = [FUNCTIONS[name]() for name in names]
    found += [function() for name, function in FUNCTIONS.items() if name in needed]
    return found
