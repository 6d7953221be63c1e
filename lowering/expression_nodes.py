"""The nodes of a routine of tensor expressions: what has memory, in which mode, and under which label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import LocationAttr, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ocannl.dialects import assign, texpr
from ocannl.dialects.assign.node import OWN_MEMORY
from ocannl.dialects.index.memref import array_type
from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr.apply import MATERIALIZED, VIRTUAL
from ocannl.dialects.texpr.collectives import CollectiveOp
from ocannl.dialects.texpr.messages import SendOp
from ocannl.dialects.texpr.placement import PlacementAttr
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.passes.texpr.partition.noted_splits import noted_splits

OF_COLLECTIVES = "of a collective"
"""Why nodes that are packed and exchanged have memory."""


@dataclass
class ExpressionNodes:
    """The nodes of one block of expressions, and the uses that decide on their modes."""

    nodes: list[Operation] = field(default_factory=list[Operation], kw_only=True)
    node_of: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue], kw_only=True)
    labels: set[str] = field(default_factory=set[str], kw_only=True)
    forwarded: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    valued: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    materialized: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    kept_names: frozenset[str] = field(default=frozenset(), kw_only=True)
    assigned: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    passed: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    """The values that scans, collectives and the positions of assignments read from nodes."""
    wide: set[SSAValue] = field(default_factory=set[SSAValue], kw_only=True)
    """The values of small floats that are kept in f32."""

    def declare_use(self, op: Operation) -> None:
        if isinstance(op, texpr.ForwardOp):
            self.forwarded.add(op.tensor)
        elif isinstance(op, texpr.AssignOp):
            self.assigned.add(memory_of(op.target))
            self.passed.update(op.ids)
        elif isinstance(op, texpr.ValueOp):
            self.valued.add(op.source)
        elif isinstance(op, texpr.ApplyOp) and op.mode_name == MATERIALIZED:
            self.materialized.add(op.result)
        elif isinstance(op, texpr.ScanOp):
            self.passed.update(op.operands[op.carried.data :])
        elif isinstance(op, CollectiveOp | SendOp):
            self.passed.add(op.tensor)

    def is_kept(self, value: SSAValue) -> bool:
        return value in self.forwarded or value in self.valued or value in self.materialized

    def node(self, value: SSAValue) -> SSAValue:
        memory = memory_of(value)
        if memory not in self.node_of:
            self.node_of[memory] = self.declare(memory, *self._mode(memory))
        return self.node_of[memory]

    def declare(
        self,
        memory: SSAValue,
        mode: str,
        why: str,
        hint: str | None = None,
        sizes: tuple[int, ...] | None = None,
    ) -> SSAValue:
        """Declares a node of the sizes of a value, or of others."""
        label = self._label(memory, hint)
        element = f32 if memory in self.wide else tensor_type(memory).element_or_none
        op = memory.owner.parent_op() if isinstance(memory.owner, Block) else memory.owner
        assert isinstance(op, Operation)
        if element is None or not shape_of(memory).is_final:
            missing = "final shape: run infer-shapes" if element else "element type: run infer-precisions"
            raise OcannlError(at_line(op, f"`{label}` has no {missing} first"))
        inlined = mode == "local" and is_virtual(memory)
        type = array_type(element, shape_of(memory).memory_sizes if sizes is None else sizes)
        noted = () if sizes is not None else noted_splits(memory)
        splits = noted or (splits_of(op) if mode in OWN_MEMORY else ())
        node = assign.NodeOp(label, mode, why, type, always_inline=inlined, splits=splits)
        node.result.name_hint = hint or memory.name_hint
        node.location = op.location
        self.nodes.append(node)
        return node.result

    def declare_bucket(
        self, name: str, element: Attribute, sizes: tuple[int, ...], location: LocationAttr
    ) -> SSAValue:
        """Declares a node of what several collectives exchange."""
        label = self._free_label(name, self.kept_names)
        node = assign.NodeOp(label, "local", OF_COLLECTIVES, array_type(element, sizes))
        node.result.name_hint = name
        node.location = location
        self.nodes.append(node)
        return node.result

    def _mode(self, memory: SSAValue) -> tuple[str, str]:
        match memory.owner:
            case texpr.ParamOp():
                return "on_device", "parameter"
            case texpr.DataOp():
                return (
                    ("on_device", "data that code writes")
                    if memory in self.assigned
                    else ("constant", "data")
                )
            case texpr.NodeOp():
                return "on_device", "node"
            case texpr.GradOp():
                return "on_device", "gradient"
            case texpr.MergeOp():
                return "on_device", "merge buffer"
            case _:
                pass
        if memory in self.valued:
            return "on_device", "its value is asked for"
        if memory in self.forwarded:
            return "on_device", "computed by forward"
        if memory in self.materialized:
            return "on_device", "it is to be in memory"
        if is_virtual(memory):
            return "local", "it is to be computed where it is used"
        return "local", "intermediate value"

    def _label(self, memory: SSAValue, hint: str | None = None) -> str:
        op = memory.owner
        if hint is not None:
            wanted = hint
        elif isinstance(op, texpr.MemoryOp):
            wanted = op.label.data
        elif isinstance(op, texpr.GradOp):
            wanted = f"{self._label_of_source(op.source)}.grad"
        else:
            wanted = memory.name_hint or "n"
        # Nodes that persist are known outside by their names: no other node may take these.
        return self._free_label(wanted, frozenset() if self.is_kept(memory) else self.kept_names)

    def _free_label(self, wanted: str, reserved: frozenset[str]) -> str:
        label, count = wanted, 0
        while label in self.labels or label in reserved:
            count += 1
            label = f"{wanted}_{count}"
        self.labels.add(label)
        return label

    def _label_of_source(self, source: SSAValue) -> str:
        node = self.node(source).owner
        assert isinstance(node, assign.NodeOp)
        return node.label.data


def memory_of(value: SSAValue) -> SSAValue:
    """The value that owns the memory: all gradients of a tensor are one node, `texpr.value %x` is the node
    of `%x`.
    """
    op = value.owner
    if isinstance(op, texpr.ValueOp):
        return op.source
    if isinstance(op, texpr.GradOp):
        for use in op.source.uses:
            if isinstance(use.operation, texpr.GradOp):
                return use.operation.result
    return value


def splits_of(op: Operation) -> Sequence[SplitAxis]:
    """The axes of what an operation gives that the ranks of a mesh share."""
    placement = op.properties.get("placement")
    return placement.data.splits if isinstance(placement, PlacementAttr) else ()


def is_virtual(value: SSAValue) -> bool:
    """Whether the program says that a value has no memory."""
    return isinstance(value.owner, texpr.ApplyOp) and value.owner.mode_name == VIRTUAL
