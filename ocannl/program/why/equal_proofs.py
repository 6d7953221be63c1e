"""Proofs of the shapes of all values of a program, where one of each equal kind is searched.

Equal lines with equal operands, in the same order, prove alike; layers are such lines. A value in a late
layer follows from a chain through those before it: of lines that repeat often, those between the first and
the last prove alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.shapes.shape import Dim, DimTerm, Shape
from ocannl.dialects.texpr import ApplyOp, MemoryOp, OfOp, TensorOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, shape_of
from ocannl.program.values import Value, is_memory, operation_of, value_of, values_of
from ocannl.program.why.shape_proofs import (
    MOST_LINES,
    Inference,
    Proves,
    fewest,
    none_needless,
    when_made,
    without_needless,
)

MOST_REPEATED = 16
"""The most lines that repeat together."""

LAST_SHOWN = 3
"""Of equal parts in turn, so many at the end may be needed in another way, and the first."""

NEAR = 16
"""Tokens of so few lines before are named by the number of these."""

# Properties that no shape depends on; dimensions are compared without the names of variables.
_IRRELEVANT = {
    *("accum", "compute", "dim", "dims", "factors", "label", "mode", "placement", "stages"),
    *("stop", "stream", "term", "value"),
}

_Token: TypeAlias = Hashable
_Named: TypeAlias = "list[tuple[int, int] | None]"
"""For each token of a line where it was named last: the line, and the place there."""
_Search: TypeAlias = Callable[[list[TensorOp], Proves], "list[TensorOp] | None"]


@dataclass
class EqualProofs:
    """The proofs of the shapes of the values of a program, whose lines are given."""

    lines: Iterable[TensorOp]
    _whole: Inference = field(init=False)
    _is_inferred: bool = field(init=False)
    _first_alike: dict[Shape, MemoryOp] = field(default_factory=dict[Shape, MemoryOp])
    """The first memory of each shape, as it was written."""
    _forms: dict[TensorOp, _Form] = field(default_factory=dict["TensorOp", "_Form"])
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _kept: dict[Hashable, tuple[bool, ...] | None] = field(
        default_factory=dict[Hashable, "tuple[bool, ...] | None"]
    )
    """Which of the lines of a kind are needed; None where these do not prove."""
    _proofs: dict[TensorOp, list[TensorOp] | None] = field(
        default_factory=dict[TensorOp, "list[TensorOp] | None"]
    )

    def __post_init__(self) -> None:
        self._whole = Inference(dict.fromkeys(self.lines))
        self._is_inferred = self._whole.run()
        memory = [op for op in self._whole.lines if isinstance(op, MemoryOp)]
        for op in sorted(memory, key=when_made):
            self._first_alike.setdefault(shape_of(op.result), op)

    def of(self, value: Value) -> list[TensorOp] | None:
        """Lines that prove the final shape of a value, the nearest first, of which none can be left out. None
        where the program alone does not determine it. Those of operands are asked for first, one in another:
        of long chains, values should be asked for in their order.
        """
        op = operation_of(value)
        if op not in self._proofs:
            self._proofs[op] = self._proof(value)
        return self._proofs[op]

    def shape(self, value: Value) -> Shape:
        """The shape of a value by all lines."""
        return self._whole.known(value)

    def _proof(self, value: Value) -> list[TensorOp] | None:
        if not self._is_inferred or operation_of(value) not in self._whole.lines:
            return None
        wanted = self.shape(value)
        for lines, search in self._searches(value):
            found = self._searched(value, wanted, lines, search)
            if found is not None:
                if len(found) <= MOST_LINES:
                    found = self._searched(value, wanted, found, fewest) or found
                return self._nearest_first(value, found) or [operation_of(value)]
        return None

    def _searches(self, value: Value) -> Iterator[tuple[Sequence[TensorOp], _Search]]:
        """Lines that may prove the shape of a value, and how those that are needed are found, the cheapest
        first.
        """
        yield [operation_of(value)], _as_they_are
        yield from self._from_operands(value)
        causes = self._whole.causes(value)
        yield _before(value, causes), _needed
        yield causes, _needed
        # Of a sum of sizes the solver does not note why its terms are known.
        yield [*self._whole.lines], _needed

    def _nearest_first(self, value: Value, lines: list[TensorOp]) -> list[TensorOp]:
        """Lines in the order in which they are causes."""
        if len(lines) < 2:
            return lines
        near = {op: at for at, op in enumerate(self._whole.causes(value))}
        return sorted(lines, key=lambda op: near.get(op, len(near)))

    def _from_operands(self, value: Value) -> Iterator[tuple[Sequence[TensorOp], _Search]]:
        """A line with the proofs of its operands: of one with its shape, if it is pointwise, and of all.
        Memory that was made in the shape of other memory has the proof of that.
        """
        op = operation_of(value)
        like = self._first_alike.get(shape_of(value))
        if is_memory(value) and like is not None and like is not op:
            lines = self.of(value_of(like))
            if lines is not None:
                yield [*dict.fromkeys([op, like, *lines])], _as_they_are
        if not isinstance(op, ApplyOp) or op.logic is None:
            return
        known = {a: lines for a in values_of(op) if (lines := self.of(_source(a))) is not None}
        if op.logic.data == ".":
            for operand, lines in sorted(known.items(), key=lambda one: len(one[1])):
                is_equal = self.shape(_source(operand)) == self.shape(value)
                if is_equal and op not in lines and not self._tell_of_others(operand, op, lines):
                    # Memory may share its shape with other memory, which is among the lines then.
                    if is_memory(operand):
                        yield [op, *(line for line in lines if line is not operand.op)], _as_they_are
                    yield [op, *lines], _as_they_are
        yield [*dict.fromkeys([op, *(line for lines in known.values() for line in lines)])], _few_needed

    def _tell_of_others(self, operand: Value, op: TensorOp, lines: Sequence[TensorOp]) -> bool:
        """Whether lines say anything of operands besides one."""
        own = set(_variables(operand))
        others = {token for a in values_of(op) if a is not operand for token in (a, *_variables(a))}
        return not (others - own).isdisjoint(token for line in lines for token in self._form(line).tokens)

    def _searched(
        self, value: Value, wanted: Shape, lines: Iterable[TensorOp], search: _Search
    ) -> list[TensorOp] | None:
        """The lines that a search finds among some, or has found among such as are equal."""
        ordered = sorted(lines, key=when_made)
        parts = self._parts(ordered, value)
        shown = parts.shown
        key = search, wanted, parts.key
        if key not in self._kept:
            found = _together(ordered, parts, search, self._question(value, wanted))
            if found is None:
                self._kept[key] = None
                return None
            taken = set(found)
            needed = [op in taken for op in ordered]
            if any(needed[at] != needed[parts.place[at]] for at in range(len(ordered))):
                return found
            self._kept[key] = tuple(needed[at] for at in shown)
            return found
        known = self._kept[key]
        if known is None:
            return None
        needed = dict(zip(shown, known, strict=True))
        found = [op for at, op in enumerate(ordered) if needed[parts.place[at]]]
        is_certain = search is _as_they_are or len(shown) == len(ordered)
        return found if is_certain or Inference(found).proves(value, wanted) else None

    def _question(self, value: Value, wanted: Shape) -> Proves:
        """Whether lines prove the shape of a value. Of lines that are about other values, nothing depends."""
        answers: dict[frozenset[TensorOp], bool] = {}

        def proves(lines: Collection[TensorOp]) -> bool:
            own = frozenset(self._about(value, lines))
            if own not in answers:
                answers[own] = Inference(own).proves(value, wanted)
            return answers[own]

        return proves

    def _about(self, value: Value, lines: Collection[TensorOp]) -> Iterable[TensorOp]:
        """Of some lines those that have to do with a value, directly or through others of them."""
        if any(line.regions for line in lines):
            return lines
        by_token: dict[_Token, list[TensorOp]] = {}
        for line in lines:
            for token in self._form(line).tokens:
                by_token.setdefault(token, []).append(line)
        found: dict[TensorOp, None] = {}
        tokens: list[_Token] = [value, *_variables(value)]
        while tokens:
            for line in by_token.pop(tokens.pop(), ()):
                if line not in found:
                    found[line] = None
                    tokens += self._form(line).tokens
        return found

    def _parts(self, ordered: Sequence[TensorOp], value: Value) -> _Parts:
        forms = [self._form(op) for op in ordered]
        named: list[_Named] = []
        last: dict[_Token, tuple[int, int]] = {}
        for at, form in enumerate(forms):
            named.append([last.get(token) for token in form.tokens])
            last |= {token: (at, slot) for slot, token in enumerate(form.tokens)}
        asked = operation_of(value)
        own = [self._number((form.code, op is asked)) for op, form in zip(ordered, forms, strict=True)]
        return _folded(own, named, self._number)

    def _form(self, op: TensorOp) -> _Form:
        form = self._forms.get(op)
        if form is None:
            form = self._forms[op] = _form(op, self._number)
        return form

    def _number(self, what: Hashable) -> int:
        return self._numbers.setdefault(what, len(self._numbers))


@dataclass(frozen=True, slots=True)
class _Form:
    """The contents of a line, without names: its number, and the values and variables in it, in order."""

    code: int
    tokens: tuple[_Token, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Lines in which what repeats often is left out in part: those that are shown, for each line the one that
    stands for it, and what is equal where lines are.
    """

    shown: list[int]
    place: list[int]
    key: Hashable


def _together(
    ordered: Sequence[TensorOp], parts: _Parts, search: _Search, proves: Proves
) -> list[TensorOp] | None:
    """The lines that a search finds, where lines that repeat are all taken or none, unless some of them are
    needed and others not.
    """
    nearest = [*reversed(ordered)]
    # Among all causes, the nearest of such lines may be enough.
    if search is not _few_needed or len(parts.shown) == len(ordered):
        return search(nearest, proves)
    alike: dict[TensorOp, list[TensorOp]] = {}
    for op, place in zip(ordered, parts.place, strict=True):
        alike.setdefault(ordered[place], []).append(op)

    def all_of(shown: Collection[TensorOp]) -> list[TensorOp]:
        taken = {op for one in shown for op in alike[one]}
        return [op for op in nearest if op in taken]

    found = search([ordered[at] for at in reversed(parts.shown)], lambda some: proves(all_of(some)))
    if found is None:
        return None
    lines, repeated = all_of(found), [alike[op][-1] for op in found if len(alike[op]) > 1]
    if any(proves([op for op in lines if op is not one]) for one in repeated):
        return search(nearest, proves)
    return lines


def _needed(lines: list[TensorOp], proves: Proves) -> list[TensorOp] | None:
    return without_needless(lines, proves) if proves(lines) else None


def _few_needed(lines: list[TensorOp], proves: Proves) -> list[TensorOp] | None:
    return none_needless(lines, proves) if proves(lines) else None


def _as_they_are(lines: list[TensorOp], proves: Proves) -> list[TensorOp] | None:
    """Lines that are needed as long as those of the operand are."""
    return lines if proves(lines) else None


def _before(value: Value, lines: Sequence[TensorOp]) -> list[TensorOp]:
    """The lines that a value depends on."""
    among, found = set(lines), {operation_of(value)}
    for op in sorted(lines, key=when_made, reverse=True):
        if op in found:
            found |= {o.owner for o in operands_of(op) if isinstance(o.owner, TensorOp)}
    return [op for op in lines if op in found & among]


def _near(at: int, named: tuple[int, int] | None) -> Hashable:
    """How a line refers to where something was last named: None for what is new."""
    if named is None:
        return None
    line, slot = named
    return (at - line, slot) if at - line <= NEAR else "far"


def _folded(own: list[int], named: list[_Named], number: Callable[[Hashable], int]) -> _Parts:
    """Lines, given by what each says and where it was said before, with one of the equal parts between the
    first and the last ones.
    """
    codes = [
        number((code, tuple(_near(at, ref) for ref in refs)))
        for at, (code, refs) in enumerate(zip(own, named, strict=True))
    ]
    place: list[int] = []
    for start, size, often in _repetitions(codes):
        for part in range(often):
            stands = 1 if 0 < part < often - LAST_SHOWN else part
            place += range(start + size * stands, start + size * (stands + 1))
    for at, refs in enumerate(named):
        if at != place[at] and _far(at, refs, place) != _far(place[at], named[place[at]], place):
            place = [*range(len(own))]
            break
    shown = [at for at in range(len(own)) if place[at] == at]
    among = {at: k for k, at in enumerate(shown)}
    refs = [tuple(r and (among[place[r[0]]], r[1]) for r in named[at]) for at in shown]
    return _Parts(shown, place, tuple(zip((own[at] for at in shown), refs, strict=True)))


def _far(at: int, refs: _Named, place: list[int]) -> list[tuple[int, int] | None]:
    """The places of what was named long before."""
    return [(r and at - r[0] > NEAR and (place[r[0]], r[1])) or None for r in refs]


def _repetitions(codes: list[int]) -> Iterator[tuple[int, int, int]]:
    """Parts of a list: where each begins, its length, and how often it stands there: so often that some
    are left out, or once.
    """
    start = 0
    while start < len(codes):
        size, often = 1, 1
        for length in range(1, MOST_REPEATED + 1):
            times, part = 1, codes[start : start + length]
            while codes[start + length * times : start + length * (times + 1)] == part:
                times += 1
            if times > LAST_SHOWN + 2 and length * times > size * often:
                size, often = length, times
        yield start, size, often
        start += size * often


def _form(op: TensorOp, number: Callable[[Hashable], int]) -> _Form:
    tokens: list[_Token] = [op.result]
    code: list[Hashable] = [op.name, *_written(shape_of(op.result), tokens)]
    for operand in operands_of(op):
        code += [_token(operand, tokens), *_written(shape_of(operand), tokens)]
    dims = op.properties.get("dims")
    if isinstance(dims, DimsAttr):
        code += ["dims", *((name, _dim(dim, tokens)) for name, dim in dims.data)]
    code += [(name, op.properties[name]) for name in sorted(op.properties) if name not in _IRRELEVANT]
    code += [op.attributes.get("indices"), op if op.regions else None]
    return _Form(number(tuple(code)), tuple(tokens))


def _source(value: Value) -> Value:
    """The value that a gradient or last value is of, which has the same shape."""
    return values_of(value.op)[0] if isinstance(value.op, OfOp) else value


def _variables(value: Value) -> list[_Token]:
    """The variables in the shape of a value as it was written."""
    tokens: list[_Token] = []
    for _ in _written(shape_of(value), tokens):
        pass
    return tokens


def _written(shape: Shape, tokens: list[_Token]) -> Iterator[Hashable]:
    """The rows of a shape as they were written, with variables as the places of tokens."""
    for row in shape:
        yield tuple(_dim(dim, tokens) for dim in row.leading)
        yield None if row.var is None else _token(row.var, tokens)
        yield tuple(_dim(dim, tokens) for dim in row.trailing)


def _dim(dim: DimTerm, tokens: list[_Token]) -> Hashable:
    return dim if isinstance(dim, Dim) else _token(dim, tokens)


def _token(token: _Token, tokens: list[_Token]) -> int:
    if token not in tokens:
        tokens.append(token)
    return tokens.index(token)
