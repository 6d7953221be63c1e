"""Guesses which rows the axes of arguments belong to, where `axes=` does not say.

Each guess is letters by argument, as in `axes=`; `trace` tries them one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.functions.arguments import ArrayType, Signature, shared_letters
from ocannl.program.types.dtypes import is_integer


def axes_of_ids(
    signature: Signature, axes: Mapping[str, str], *, only_floats: bool = False
) -> dict[str, str]:
    """The letters of integers that may be ids: of which there is one for each row of an array, one of floats
    if `only_floats`.
    """
    arrays = [(path, leaf) for path, leaf in signature.leaves if isinstance(leaf, ArrayType) and leaf.shape]
    rows = [leaf.shape[:-1] for _, leaf in arrays if not (only_floats and is_integer(leaf.dtype))]
    return {
        path: "b" * len(leaf.shape)
        for path, leaf in arrays
        if is_integer(leaf.dtype)
        and shared_letters(axes, path) is None
        and (not rows or leaf.shape in [row[: len(leaf.shape)] for row in rows])
    }


def axes_of_integers(signature: Signature, axes: Mapping[str, str]) -> dict[str, str]:
    """The letters of all integers, as ids."""
    return {
        path: "b" * len(leaf.shape)
        for path, leaf in signature.leaves
        if isinstance(leaf, ArrayType)
        and leaf.shape
        and is_integer(leaf.dtype)
        and shared_letters(axes, path) is None
    }


def axes_of_columns(signature: Signature, axes: Mapping[str, str]) -> dict[str, str]:
    """The letters of arrays of one axis, or of a number for each row of another array, and of ids, where the
    first axes of all arrays are equal.
    """
    arrays = [(path, leaf) for path, leaf in signature.leaves if isinstance(leaf, ArrayType) and leaf.shape]
    if len({leaf.shape[0] for _, leaf in arrays}) != 1 or len(arrays) == 1:
        return {}
    rows = [leaf.shape[:-1] for _, leaf in arrays]
    return {
        path: "b" * len(leaf.shape)
        for path, leaf in arrays
        if (len(leaf.shape) == 1 or leaf.shape in rows or is_integer(leaf.dtype))
        and shared_letters(axes, path) is None
    }
