"""Splits of all values of a partitioned routine, noted beside its text for traces, which gather them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, SSAValue
from xdsl.utils.hints import isa

from ocannl.dialects.index.splits import SplitAxis, SplitsAttr
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.texpr import MemoryOp, OfOp, ScanOp, TensorOp
from ocannl.dialects.texpr.placement import placement_in
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.texpr.partition.versions import Form, Versions

NOTED = "splits"

Splits = tuple[SplitAxis, ...]


def noted_splits(value: SSAValue) -> Splits:
    """The axes of a value that the ranks of a mesh share, as far as that is noted."""
    owner = value.owner
    if isinstance(owner, Block):
        scan, index = owner.parent_op(), owner.args.index(value)
        if isinstance(scan, ScanOp) and index < scan.carried.data:
            return noted_splits(scan.results[index])
        return ()
    if isinstance(owner, MemoryOp | OfOp):
        return placement_in(owner).splits
    noted = owner.attributes.get(NOTED)
    if noted is None or not isa(noted, ArrayAttr[SplitsAttr]):
        return ()
    return noted.data[owner.results.index(value)].data


def note_splits(versions: Versions, sizes: Mapping[str, int]) -> None:
    """Notes the splits of all forms of values over a mesh axis, with those over earlier axes; `sizes` are
    those of the mesh.
    """
    found = {form.made: _splits_of(form, versions, sizes) for form in versions.forms}
    for owner in dict.fromkeys(value.owner for value in found):
        if isinstance(owner, TensorOp) and not isinstance(owner, MemoryOp | OfOp):
            own = [found.get(result, noted_splits(result)) for result in owner.results]
            owner.attributes[NOTED] = ArrayAttr([SplitsAttr(splits) for splits in own])


def _splits_of(form: Form, versions: Versions, sizes: Mapping[str, int]) -> Splits:
    earlier = tuple([own for own in noted_splits(form.value) if own.mesh != versions.mesh])
    if form.split < 0:
        return earlier
    if versions.mesh == MICROBATCH:
        return _within_part(earlier, form, sizes)
    size = versions.types[form.value].shape.data.memory_sizes[form.split]
    return (*earlier, SplitAxis(form.split, size, versions.mesh))


def _within_part(splits: Sequence[SplitAxis], form: Form, sizes: Mapping[str, int]) -> Splits:
    """The splits of one microbatch, which is a whole of its own."""
    size, found = shape_of(form.made).memory_sizes[form.split], list[SplitAxis]()
    for own in reversed(splits):
        if own.axis == form.split:
            size *= sizes[own.mesh]
            own = replace(own, size=size)
        found.append(own)
    return tuple(reversed(found))
