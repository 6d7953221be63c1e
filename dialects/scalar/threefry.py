"""The random number generator Threefry-4x32: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011.

It turns a counter of four words of 32 bits and a key of as many into four words that look random. It is
written once, for words of any kind: of NumPy, values of a program, or of LLVM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

W = TypeVar("W")
K = TypeVar("K", contravariant=True)

KEY_PARITY = 0x1BD11BDA
ROUNDS = 20
ROUNDS_PER_KEY = 4
# Rotations of round r (mod 8): of the first and of the second pair of words that the round mixes.
ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


class ThreefryArithmetic(Protocol[W, K]):
    """Operations of the generator on words, and on words of the key."""

    def add(self, word: W, key_word: K, /) -> W:
        """The sum modulo 2**32."""
        ...

    def mix(self, a: W, b: W, rotation: int) -> tuple[W, W]:
        """Threefish's MIX: `a + b`, and `b` rotated left, exclusive or that sum."""
        ...


def threefry4x32(
    counter: Sequence[W], key: Sequence[int], words: ThreefryArithmetic[W, int], rounds: int = ROUNDS
) -> list[W]:
    """The four words of a counter under a key, four words each.

    The paper recommends 20 rounds, and found none of the standard tests to fail from 13 on.
    """
    return mixed(counter, key_schedule(key, rounds), words, rounds)


def key_schedule(key: Sequence[int], rounds: int = ROUNDS) -> list[list[int]]:
    """The four words that are added before the first round, and after every fourth one: those of the key and
    their parity, rotated by one more each time, and the number of times so far in the last word.
    """
    parity = KEY_PARITY
    for word in key:
        parity ^= word
    key_words = (*key, parity)
    schedule = [[key_words[(n + i) % 5] for i in range(4)] for n in range(rounds // ROUNDS_PER_KEY + 1)]
    for n, added in enumerate(schedule):
        added[3] = (added[3] + n) % 2**32
    return schedule


def mixed(
    counter: Sequence[W],
    schedule: Sequence[Sequence[K]],
    words: ThreefryArithmetic[W, K],
    rounds: int = ROUNDS,
) -> list[W]:
    """The four words of a counter under a schedule of key words."""

    def add_key(state: Sequence[W], injection: int) -> list[W]:
        return [words.add(word, added) for word, added in zip(state, schedule[injection], strict=True)]

    state = add_key(counter, 0)
    for r in range(rounds):
        first, second = ROTATIONS[r % 8]
        b, d = (1, 3) if r % 2 == 0 else (3, 1)
        state[0], state[b] = words.mix(state[0], state[b], first)
        state[2], state[d] = words.mix(state[2], state[d], second)
        if r % ROUNDS_PER_KEY == ROUNDS_PER_KEY - 1:
            state = add_key(state, (r + 1) // ROUNDS_PER_KEY)
    return state


def key_words(seed: int, name: str) -> tuple[int, ...]:
    """The four words of the key of the stream `name` under a seed, which counts modulo 2**64."""
    seed_bytes = (seed % 2**64).to_bytes(8, "little")
    name_bytes = hashlib.blake2s(name.encode(), digest_size=8).digest()
    key = seed_bytes + name_bytes
    return tuple(int.from_bytes(key[i : i + 4], "little") for i in range(0, 16, 4))
