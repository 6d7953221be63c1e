"""Matrix multiply-accumulate on tensor cores (`mma`): a warp multiplies fragments held in its registers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    AnyFloatConstr,
    ArrayAttr,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    StringAttr,
    UnitAttr,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.bounds import BoundsAttr
from ocannl.dialects.index.linear import MapAttr
from ocannl.dialects.ir.op_helpers import given, operation_definition, parse_defined_operand
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.launch import PendingOp, TogetherOp, enclosing_launch
from ocannl.dialects.loops import ReduceOp, YieldOp
from ocannl.dialects.records import dataclass

# The rows and the columns of a product of fragments, and the threads of a warp along its columns.
ROWS, COLUMNS, ACROSS = 16, 8, 4
Point: TypeAlias = dict[str, int]


@dataclass(frozen=True)
class Fragments:
    """The layout of fragments of an element type over the threads of a warp.

    Attributes:
        depth: the length of the reduction.
        pack: the elements, neighbours along the depth, in one 32-bit register of a thread.
        sums: the type of the product.
    """

    depth: int
    pack: int
    sums: AnyFloat = f32

    @property
    def halves(self) -> int:
        """The registers of a thread along the depth."""
        return self.depth // (ACROSS * self.pack)

    @property
    def depth_variables(self) -> int:
        """How many register variables with two values tell the elements of a thread along the depth apart."""
        return (self.halves > 1) + len(self.steps)

    @property
    def steps(self) -> tuple[int, ...]:
        """Those along the depth of the variables that tell the elements of a register apart."""
        return tuple(self.pack >> k for k in range(1, self.pack.bit_length()))


FRAGMENTS: dict[type[Attribute], Fragments] = {
    Float32Type: Fragments(8, 1),
    Float16Type: Fragments(16, 2),
    BFloat16Type: Fragments(16, 2),
    Float64Type: Fragments(4, 1, f64),
    Float8E4M3FNType: Fragments(32, 4),
    Float8E5M2Type: Fragments(32, 4),
}
# Types of 8 bits: warpgroups multiply them; else they are widened.
QUARTERS = (Float8E4M3FNType, Float8E5M2Type)


@operation_definition
class MmaOp(TogetherOp):
    """`kernel.mma %x, %w rows (h) deep (q) columns (c)`: the product of `16 x 8` and `8 x 8` elements.

    Thread `l` of a warp has the elements `[l / 4 + 8*h, l % 4 + 4*q]` of the left matrix and
    `[l % 4 + 4*q, l / 4]` of the right one, and gets `[l / 4 + 8*h, 2 * (l % 4) + c]` of the product. With
    elements of 16 bits the depth is 16, and `deep (q, e)` stands for `2 * (l % 4) + 8*q + e`; with those of 8
    bits it is 32, and `deep (q, d, e)` stands for `4 * (l % 4) + 16*q + 2*d + e`. Operands of f32
    are rounded to TF32, with 10 bits after the point; sums are in f32, in any order. With f64 the depth is 4,
    that of the threads: `deep ()`; sums are in f64.

    Hardware adds up products of 8 bits with 14 bits or so. So it makes the sum of a reduction alone, which is
    added in f32 to that of the reduction around.

    The products of a reduction may be `async`: a group that goes on while the threads do other things, and
    reads its operands until a `kernel.wait_products`. The reduction around adds the groups, and ends when all
    of them are done.

    https://docs.nvidia.com/cuda/parallel-thread-execution, "Matrix Fragments for mma.m16n8k8"
    """

    name = "kernel.mma"
    left = operand_def()
    right = operand_def()
    rows = prop_def(StringAttr)
    deep = prop_def(ArrayAttr[StringAttr])
    columns = prop_def(StringAttr)
    asynchronous = opt_prop_def(UnitAttr)
    result = result_def(AnyFloatConstr)

    def __init__(
        self,
        left: SSAValue,
        right: SSAValue,
        rows: str,
        deep: Sequence[str],
        columns: str,
        *,
        is_async: bool = False,
    ) -> None:
        Operation.__init__(
            self,
            operands=[left, right],
            properties=given(
                rows=StringAttr(rows),
                deep=ArrayAttr(map(StringAttr, deep)),
                columns=StringAttr(columns),
                asynchronous=UnitAttr() if is_async else None,
            ),
            result_types=[FRAGMENTS[type(left.type)].sums if type(left.type) in FRAGMENTS else f32],
        )

    @property
    def is_async(self) -> bool:
        return self.asynchronous is not None

    @property
    def depth_names(self) -> tuple[str, ...]:
        return tuple(name.data for name in self.deep)

    @property
    def fragments(self) -> Fragments:
        return FRAGMENTS[type(self.left.type)]

    def places(self, point: Mapping[str, int]) -> tuple[list[Point], list[Point], list[Point]]:
        """The points at which a thread has the elements of the left operand, the right one and the result, as
        the instruction orders them, by the values of the other register variables.
        """
        rows, columns, deep = self.rows.data, self.columns.data, self.depth_names
        left = (*deep[:1], rows, *deep[1:])
        return _points(point, *left), _points(point, *deep), _points(point, rows, columns)

    def print(self, printer: Printer) -> None:
        printer.print_string(" async " if self.is_async else " ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(
            f" rows ({self.rows.data}) deep ({', '.join(self.depth_names)}) columns ({self.columns.data})"
        )

    @classmethod
    def parse(cls, parser: Parser) -> MmaOp:
        is_async = parser.parse_optional_keyword("async") is not None
        left = parse_defined_operand(parser)
        parser.parse_punctuation(",")
        right = parse_defined_operand(parser)
        (rows,), deep, (columns,) = (
            _parse_names(parser, what, count) for what, count in (("rows", 1), ("deep", None), ("columns", 1))
        )
        return cls(left, right, rows, deep, columns, is_async=is_async)

    def verify_(self) -> None:
        super().verify_()
        type_ = self.left.type
        if type_ != self.right.type or type(type_) not in FRAGMENTS:
            raise VerifyException(
                "both operands are f64, f32, f16, bf16, f8E4M3FN or f8E5M2, "
                f"found {self.left.type} and {self.right.type}"
            )
        if self.result.type != self.fragments.sums:
            raise VerifyException(f"the product of {type_} is {self.fragments.sums}")
        deep, count = self.depth_names, self.fragments.depth_variables
        if len(deep) != count:
            raise VerifyException(f"the depth of {type_} has {count} variables, found {len(deep)}")
        names = [self.rows.data, *deep, self.columns.data]
        launch = enclosing_launch(self)
        if launch is not None:
            sizes = dict(launch.registers.data)
            for name in names:
                if sizes.get(name) != 2:
                    raise VerifyException(f"`{name}` is no register variable with two values")
            if launch.threads % WARP:
                raise VerifyException(f"the {launch.threads} threads of the block are no whole warps")
        if len(set(names)) != len(names):
            raise VerifyException("a variable stands for two things")
        for value, others in ((self.left, names[-1:]), (self.right, [names[0], names[-1]])):
            for name in others:
                if depends(value, name):
                    raise VerifyException(f"an operand depends on `{name}`, which is not its own")
        if self.is_async and launch is not None and async_sum(self) is None:
            raise VerifyException(
                "an async product is that of a reduction, which another one adds up, and nothing else uses it"
            )


@operation_definition
class WaitProductsOp(PendingOp):
    """`kernel.wait_products 1`: waits for the thread's groups of async products, but for the last one.

    Their operands may be overwritten once all threads that read them have waited, after a barrier.
    """

    name = "kernel.wait_products"


def async_sum(product: MmaOp) -> ReduceOp | None:
    """The reduction that adds up the groups of an async product; None if there is no such."""
    group = _adds(product.result)
    return None if group is None else _adds(group.result)


def _adds(value: SSAValue) -> ReduceOp | None:
    """The reduction that adds a value, if nothing else uses it and it has no bounds."""
    users = [use.operation for use in value.uses]
    reduce = users[0].parent_op() if len(users) == 1 and isinstance(users[0], YieldOp) else None
    if isinstance(reduce, ReduceOp) and reduce.accum.data == "add" and reduce.where is None:
        return reduce
    return None


def _points(point: Mapping[str, int], *names: str) -> list[Point]:
    """The points with all values of some variables, the last of which varies fastest."""
    values = itertools.product(range(2), repeat=len(names))
    return [{**point, **dict(zip(names, at, strict=True))} for at in values]


def _parse_names(parser: Parser, what: str, count: int | None) -> list[str]:
    parser.parse_characters(what)
    pos = parser.pos
    names = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_identifier(" naming a register variable")
    )
    if count is not None and len(names) != count:
        parser.raise_error("expected one register variable", pos, parser.pos)
    return names


def depends(value: SSAValue, name: str) -> bool:
    """Whether the index maps or bounds behind a value name a variable."""
    pending, known = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in known or not isinstance(value.owner, Operation):
            continue
        known.add(value)
        ops = list(value.owner.walk()) if isinstance(value.owner, ReduceOp) else [value.owner]
        for op in ops:
            pending += op.operands
            for attribute in op.properties.values():
                indices = attribute.data if isinstance(attribute, MapAttr) else ()
                bounds = attribute.data if isinstance(attribute, BoundsAttr) else ()
                if any(name in index.names for index in (*indices, *(bound.index for bound in bounds))):
                    return True
    return False
