"""Random words as OCANNL in OCaml draws them, bit by bit, in expressions; and numbers made of them.

The generator is Threefry-4x32 (Salmon et al., 2011) with the rotations of Threefry-2x32, and what is called a
round there is two of the paper's. Four words are the last output axis of tensors of uint32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike

from ocannl.dialects.scalar.threefry import KEY_PARITY
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.leaves import data
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.einsums import concat, einsum
from ocannl.program.types.casts import cast
from ocannl.program.types.dtypes import bfloat16, is_integer, stored_dtype

# The rotations of even and of odd rounds.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
ROUNDS_PER_KEY = 4
GOLDEN_RATIO, KNUTH = 0x9E3779B9, 0x6C078965
Words = Sequence[Tensor]


def threefry4x32(key: TensorLike, counter: TensorLike, rounds: int = 2) -> Tensor:
    """The random words of a counter under a key, each of four words: ... | 4 (uint32) to ... | 4. They have
    no gradient.

    A Python integer of 64 bits stands for its low word, its high word, and two zeros; `oc.to_uint4x32` makes
    words of integers in tensors. With 2 `rounds` this is upstream's "light" generator, its default, with 20
    its "crypto" one. Raises `ArgumentError` for another number of rounds, and for longer integers.
    """
    if rounds not in (2, 20):
        raise ArgumentError(f"threefry4x32 has 2 or 20 rounds, found {rounds!r}")
    keys, state = _words(key), _words(counter)
    a, b, c, d = keys
    schedule, added = [*keys, a ^ b ^ c ^ d ^ KEY_PARITY], 0

    def with_key(state: Words) -> list[Tensor]:
        parts = [word + schedule[(added + k) % 5] for k, word in enumerate(state)]
        return [*parts[:3], parts[3] + added] if added else parts

    state = with_key(state)
    for number in range(rounds):
        first, second, third, fourth = ROTATIONS[number % 2]
        state = _mixed(_mixed(state, first, second), third, fourth)
        if (number + 1) % ROUNDS_PER_KEY == 0 or number == rounds - 1:
            added += 1
            state = with_key(state)
    return _joined(state).named("threefry4x32")


def _mixed(state: Words, first: int, second: int) -> Words:
    """Both pairs mixed, and their second words exchanged."""
    a, b, c, d = state
    a, c = a + b, c + d
    return a, _rotated(d, second) ^ c, c, _rotated(b, first) ^ a


def _rotated(word: Tensor, by: int) -> Tensor:
    return (word << by) | (word >> (32 - by))


def to_uint4x32(x: TensorLike) -> Tensor:
    """Four words (uint32) for each integer, on a new last output axis, as upstream makes them: of int32 and
    uint32 the number, and mixtures of its bits; of int64 its low and its high word, and of smaller integers
    the number, and zeros.

    Raises `ArgumentError` for values that are not integers.
    """
    tensor = as_tensor(x)
    if not is_integer(tensor.dtype):
        raise ArgumentError(f"words are made of integers, and `{tensor.label}` has {tensor.dtype}")
    word, zero = cast(tensor, np.uint32), cast(tensor * 0, np.uint32)
    if tensor.dtype.itemsize == 8:
        return _joined([word, cast(tensor >> 32, np.uint32), zero, zero])
    if tensor.dtype.itemsize < 4:
        return _joined([word, zero, zero, zero])
    return _joined([word, word ^ GOLDEN_RATIO, word ^ KNUTH, word ^ _rotated(word, 16)])


def uint4x32_to_prec_uniform(words: TensorLike, dtype: DTypeLike = np.float32) -> Tensor:
    """All random numbers that four words have bits for, as upstream makes them: ... | 4 (uint32) to ... | n.

    Floats are uniform: 4 of float32 in [0, 1), and in [0, 1], as the greatest are rounded to 1, 2 of float64,
    8 of float16 and bfloat16. Integers are uniform over all that the type has: 4 of int32 and uint32, 2 of
    int64, 8 of uint16, 16 of int8 and uint8. Raises `ArgumentError` for other dtypes, `PrecisionError` for
    what no target stores.
    """
    return _joined([number for group in _numbers(_words(words), stored_dtype(dtype)) for number in group])


def uint4x32_to_prec_uniform1(words: TensorLike, dtype: DTypeLike = np.float32) -> Tensor:
    """The first random number of four words, of `oc.uint4x32_to_prec_uniform`: ... | 4 (uint32) to ... | . In
    bfloat16 it has the 24 bits of float32 before rounding, to 1 at most.
    """
    kind = stored_dtype(dtype)
    if kind == bfloat16:
        return cast(_unit(_words(words)[0]), kind)
    return _numbers(_words(words), kind)[0][0]


def _numbers(words: Words, dtype: np.dtype[np.generic]) -> list[list[Tensor]]:
    """The numbers of each word, or pair of words."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    each: dict[object, Callable[[Tensor], list[Tensor]]] = {
        np.dtype(np.float32): lambda word: [_unit(word)],
        np.dtype(np.float16): lambda word: _halves(word, np.float16),
        np.dtype(bfloat16): lambda word: _halves(word, bfloat16),
        np.dtype(np.int32): lambda word: [cast(word, np.int32)],
        np.dtype(np.uint32): lambda word: [word],
        np.dtype(np.uint16): lambda word: [cast(part, np.uint16) for part in _parts(word, 16)],
        np.dtype(np.uint8): lambda word: [cast(part, np.uint8) for part in _parts(word, 8)],
        np.dtype(np.int8): lambda word: [cast(cast(part, np.uint8), np.int8) for part in _parts(word, 8)],
    }
    if dtype in each:
        return [each[dtype](word) for word in words]
    if dtype == np.float64:
        # The sum is rounded once.
        parts = [(cast(low, np.float64), cast(high, np.float64)) for low, high in pairs]
        return [[(high * 2.0**32 + low) * 2.0**-64] for low, high in parts]
    if dtype == np.int64:
        return [[(cast(high, np.int64) << 32) | cast(low, np.int64)] for low, high in pairs]
    raise ArgumentError(f"random words are no numbers of {dtype}")


def _unit(word: Tensor) -> Tensor:
    """The upper 24 bits as a number in [0, 1)."""
    return cast(word >> 8, np.float32) * 2.0**-24


def _halves(word: Tensor, dtype: DTypeLike) -> list[Tensor]:
    return [cast(cast(part, np.float32) * 2.0**-16, dtype) for part in _parts(word, 16)]


def _parts(word: Tensor, bits: int) -> list[Tensor]:
    """The parts of a word, the lowest first."""
    return [(word >> shift) & (2**bits - 1) for shift in range(0, 32, bits)]


def _words(t: TensorLike) -> list[Tensor]:
    """The four words of the last output axis, or of an integer."""
    if isinstance(t, int | np.integer):
        if not -(2**63) <= t < 2**64:
            raise ArgumentError(f"random words are made of an integer of 64 bits, found {t}")
        low_and_high = [int(t) % 2**32, int(t) // 2**32 % 2**32, 0, 0]
        return [data(np.array(word, np.uint32), label="word") for word in low_and_high]
    tensor = as_tensor(t)
    if tensor.dtype != np.uint32:
        raise ArgumentError(
            f"random words are uint32, and `{tensor.label}` has {tensor.dtype}: oc.to_uint4x32 makes words"
        )
    spec = "... | ... -> ..., word => ... | ... -> ..., word"
    tensor = einsum(spec, tensor, word=4)
    return [einsum(f"... | ... -> ..., {k} => ... | ... -> ...", tensor) for k in range(4)]


def _joined(parts: Words) -> Tensor:
    """Tensors side by side on a new last output axis."""
    names = [f"p{k}" for k in range(len(parts))]
    single = [
        einsum(f"... | ... -> ... => ... | ... -> ..., {name}", part, use_padding=False, **{name: 1})
        for name, part in zip(names, parts, strict=True)
    ]
    operands = "; ".join(f"... | ... -> ..., {name}" for name in names)
    return concat(f"{operands} => ... | ... -> ..., {'^'.join(names)}", *single)
