"""The forms of each value on one rank: as it is split, and as operations need it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.texpr import ApplyOp, ConstantOp, EmbedOp, RangeOp, TensorOp
from ocannl.dialects.texpr.collectives import part_of
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Split
from ocannl.passes.analysis.projection import whole
from ocannl.passes.texpr.partition.divide import SCALAR
from ocannl.passes.texpr.partition.local_types import with_size
from ocannl.passes.texpr.partition.moves import moved_parts, moved_sum
from ocannl.passes.texpr.partition.program import FREE
from ocannl.passes.texpr.partition.ways import Dividing


@dataclass(frozen=True, slots=True)
class Form:
    """A value in a split, and what has it so."""

    value: SSAValue
    split: Split
    made: SSAValue


@dataclass
class Versions:
    """The versions of values by split, made where they are first needed, each once.

    Weights that ranks hold in parts are gathered for each operation that reads them, and are whole no longer
    than that (ZeRO-3; Rajbhandari et al., 2020).
    """

    dividing: Dividing
    mesh: str
    taken: frozenset[str]
    """The static indices of the routine."""
    weights: frozenset[SSAValue] = frozenset()
    """Parameters, and what is computed from parameters alone."""
    types: dict[SSAValue, TensorType] = field(default_factory=dict[SSAValue, TensorType])
    """The types of whole values."""
    known: dict[tuple[SSAValue, Split], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Split], SSAValue]
    )
    splits: dict[SSAValue, Split] = field(default_factory=dict[SSAValue, Split])
    forms: list[Form] = field(default_factory=list[Form])
    """All versions, of weights that are gathered several times too."""

    def add(self, value: SSAValue, split: Split, made: SSAValue) -> SSAValue:
        """Notes the version of a value in a split."""
        self.known[value, split] = made
        self.forms.append(Form(value, split, made))
        return made

    def local_type(self, value: SSAValue, split: Split) -> TensorType:
        type = self.types[value]
        if split < 0:
            return type
        size = type.shape.data.memory_sizes[split]
        return with_size(type, split, part_of(size, self.dividing.ranks))

    def define(self, value: SSAValue, made: SSAValue, given: Split, split: Split, accum: str) -> None:
        """Notes what an operation gives of a value, and moves that to how the value is split."""
        self.add(value, given, made)
        self.splits[value] = split
        if split != given:
            hint = value.name_hint
            moved = self._moved(value, given, split, accum)
            if hint is not None:
                made.name_hint, moved.name_hint = f"{hint}_part", hint
            self.add(value, split, moved)

    def of(self, value: SSAValue, split: Split) -> SSAValue:
        """A value in a split."""
        known = self.known.get((value, split))
        if known is not None:
            return known
        owner = value.owner
        if isinstance(owner, FREE):
            return self.add(value, split, value if split < 0 else self._own_part(owner, split))
        made = self._moved(value, self.splits[value], split, "add")
        made.name_hint = value.name_hint and f"{value.name_hint}_{'whole' if split < 0 else 'part'}"
        self.add(value, split, made)
        if value in self.weights and split == WHOLE:
            self.known.pop((value, split))
        return made

    def operands(self, values: Iterable[SSAValue], needs: Iterable[Split]) -> list[SSAValue]:
        """The operands of an operation in the splits that it needs."""
        pairs = [*zip(values, needs, strict=True)]
        versions = {(value, need): self.of(value, need) for value, need in dict.fromkeys(pairs)}
        return [versions[pair] for pair in pairs]

    def kept(self, value: SSAValue) -> SSAValue:
        """A value as it is split."""
        return self.of(value, self.splits.get(value, WHOLE))

    def own_operation(self, value: SSAValue, split: Split) -> ApplyOp:
        """The operation that computes a version, with index maps: a copy of what a collective gives."""
        known = self.of(value, split)
        owner = known.owner
        assert isinstance(owner, Operation)
        if isinstance(owner, ApplyOp):
            return owner
        maps, space = whole(shape_of(known).memory_sizes, self.taken)
        copied = Combination.of(Arg(0), [known], [maps])
        made = ApplyOp.projected(copied, tensor_type(known), None, maps, space)
        self._after(owner, made)
        hint = known.name_hint
        made.result.name_hint, known.name_hint = hint, hint and f"{hint}_moved"
        self.add(value, split, made.result)
        return made

    def _own_part(self, op: FREE, split: Split) -> SSAValue:
        """A rank's part of numbers or positions."""
        type = self.local_type(op.result, split)
        if isinstance(op, ConstantOp):
            return self._after(op, ConstantOp(op.value, type))
        assert isinstance(op, RangeOp)
        positions = self._after(op, RangeOp(type))
        assert isinstance(positions.owner, Operation)
        (size,) = type.shape.data.memory_sizes
        start = self._after(op, EmbedOp(Linear.var(self.dividing.rank) * size, TensorType.of(SCALAR, i32)))
        maps, space = whole((size,), self.taken)
        term = App("add", (Arg(0), Arg(1)))
        combination = Combination.of(term, [positions, start], [maps, ()])
        return self._after(positions.owner, ApplyOp.projected(combination, type, None, maps, space))

    def _moved(self, value: SSAValue, source: Split, target: Split, accum: str) -> SSAValue:
        known = self.known[value, source]
        owner = known.owner
        type = self.local_type(value, target)
        if source == WHOLE:
            return self._cut(owner, known, type, target)
        if source == PARTIAL:
            return self._after(owner, moved_sum(known, accum, target, self.mesh, type))
        size = self.types[value].shape.data.memory_sizes[source]
        return self._after(owner, moved_parts(known, source, size, target, self.mesh, type))

    def _cut(self, owner: Operation | Block, known: SSAValue, type: TensorType, axis: int) -> SSAValue:
        """A rank's part of a value that is whole."""
        sizes = type.shape.data.memory_sizes
        extra = sizes[axis] * self.dividing.ranks - shape_of(known).memory_sizes[axis]
        if extra:
            known = self._padded(owner, known, axis, extra)
            owner = known.owner
        maps, space = whole(sizes, self.taken)
        start = Linear.var(self.dividing.rank) * sizes[axis]
        place = (*maps[:axis], maps[axis] + start, *maps[axis + 1 :])
        made = ApplyOp.projected(Combination.of(Arg(0), [known], [place]), type, None, maps, space)
        return self._after(owner, made)

    def _padded(self, owner: Operation | Block, known: SSAValue, axis: int, extra: int) -> SSAValue:
        """A value with zeros behind the end of an axis."""
        type = tensor_type(known)
        sizes = type.shape.data.memory_sizes
        maps, space = whole(sizes, self.taken)
        copied = Part(Combination.of(Arg(0), [known], [maps]), maps, space)
        beyond, rest = whole((*sizes[:axis], extra, *sizes[axis + 1 :]), self.taken)
        behind = (*beyond[:axis], beyond[axis] + Linear((), sizes[axis]), *beyond[axis + 1 :])
        zeros = Part(Combination(Const(0.0), (), ()), behind, rest)
        made = ApplyOp.of_parts([copied, zeros], with_size(type, axis, sizes[axis] + extra), None)
        return self._after(owner, made)

    def _after(self, owner: Operation | Block, op: TensorOp) -> SSAValue:
        """Puts an operation behind the one from which it comes, for an argument at the begin of its block."""
        if isinstance(owner, Block):
            scan, first = owner.parent_op(), owner.first_op
            assert scan is not None
            assert first is not None
            op.location = scan.location
            owner.insert_op_before(op, first)
        else:
            block = owner.parent_block()
            assert block is not None
            op.location = owner.location
            block.insert_op_after(op, owner)
        return op.result
