"""The passes over loops keep the values of all nodes that persist, alone and one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from support.interpret_loops import dtype, run_func
from support.loop_programs import choosing_programs, loop_programs, repeating_programs, row_programs
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, IntegerAttr, ModuleOp
from xdsl.dialects.math import Math
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from ocannl.dialects.assign import ASSIGN
from ocannl.dialects.loops import LOOPS, FuncOp, NestOp, StoreOp
from ocannl.lowering.assign_to_loops import LowerAssignToLoopsPass
from ocannl.lowering.pipelines import PIPELINES
from ocannl.passes.analysis.costs import footprints
from ocannl.passes.analysis.dataflow.memory import memory_report
from ocannl.passes.analysis.fusion import row_fusion
from ocannl.passes.analysis.fusion.fusion_legality import same_or_apart
from ocannl.passes.analysis.fusion.row_fusion import NestChain
from ocannl.passes.analysis.nests import Accesses, functions, nests, nodes, operations, uncalled
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops import rematerialize
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.rematerialize import RematerializePass
from ocannl.passes.loops.tile_and_fuse import tile_and_fuse
from ocannl.passes.loops.tile_and_fuse.tile_and_fuse import TileAndFusePass
from ocannl.passes.rewrites import row_groups

EXAMPLES = settings().max_examples


def over_loops() -> Iterator[type[ModulePass]]:
    """The passes from loops to loops, in the order of the pipeline for the CPU."""
    passes = PIPELINES["cpu"]
    for made in passes[passes.index(LowerAssignToLoopsPass) + 1 :]:
        assert isinstance(made, type)
        yield made


# Those that leave small programs as they are, that round, or whose results the interpreter does not run.
APART = {
    *("online-softmax", "expand-math", "rematerialize", "winograd", "tile-and-fuse"),
    *("fuse-operands", "schedule", "unfold-layers", "nontemporal-stores"),
}
PIPELINE = tuple(p for p in over_loops() if p.name not in APART)
Arrays = dict[str, NDArray[Any]]


def context() -> Context:
    found = Context()
    for dialect in (Builtin, Arith, Math, ASSIGN, LOOPS):
        found.load_dialect(dialect)
    return found


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def initial_arrays(func: FuncOp) -> Arrays:
    """Small whole numbers, other ones for every node; local nodes in one arena if memory is planned."""
    arena = func.attributes.get("arena")
    memory = np.zeros(arena.value.data if isinstance(arena, IntegerAttr) else 0, np.uint8)
    arrays: Arrays = {}
    for node in nodes(func):
        shape, element = node.result.type.get_shape(), dtype(node.result.type.get_element_type())
        if node.mode.data == "on_device":
            arrays[node.label.data] = (
                np.random.default_rng(list(node.label.data.encode())).integers(-4, 5, shape).astype(element)
            )
        elif node.offset is not None:
            start, size = node.offset.data, int(np.prod(shape)) * element.itemsize
            arrays[node.label.data] = memory[start : start + size].view(element).reshape(shape)
    return arrays


def run(module: ModuleOp) -> Arrays:
    """The nodes that persist, after a run with each value of the static index."""
    (func,) = uncalled(module)
    arrays = initial_arrays(func)
    for s in range(2):
        run_func(func, arrays, {"s": s})
    return {node.label.data: arrays[node.label.data] for node in nodes(func) if node.mode.data == "on_device"}


def assert_points_are_independent(module: ModuleOp) -> None:
    """The interpreter runs all points of a nest at once, and would not notice."""
    for nest in (nest for func in functions(module) for nest in nests(func)):
        accesses = Accesses.of(operations(nest.body.block))
        for node in accesses.written:
            if node in scattered(nest):
                assert len(accesses.maps[node]) == 1
                continue
            maps = accesses.maps[node]
            assert all(same_or_apart(a, b) for a in maps for b in maps), f"in {nest.label.data}:\n{module}"


def scattered(nest: NestOp) -> set[SSAValue]:
    """The nodes that a nest stores to at positions found at run time."""
    return {op.node for op in nest.body.block.ops if isinstance(op, StoreOp) and op.positions}


def check(text: str, *passes: type[ModulePass]) -> None:
    module = parse(text)
    expected = run(module)
    for transformation in passes:
        transformation().apply(context(), module)
        module.verify()
        assert_points_are_independent(module)
        found = run(module)
        for label, array in expected.items():
            np.testing.assert_array_equal(
                found[label], array, f"{label} after {transformation.name}\n{module}"
            )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transformation", PIPELINE)
@settings(max_examples=4, deadline=None)
@given(text=loop_programs())
def test_each_pass_keeps_values(transformation: type[ModulePass], text: str):
    check(text, transformation)


@settings(max_examples=EXAMPLES // 4)
@given(text=choosing_programs())
def test_gathers_and_scatters_keep_values(text: str):
    check(text, *PIPELINE)


@pytest.mark.exhaustive
@settings(max_examples=4, deadline=None)
@given(text=repeating_programs())
def test_passes_beside_loops_keep_values(text: str):
    check(text, *PIPELINE[:-1], RecomputeEverythingPass, GroupEverythingPass, PlanMemoryPass)


@settings(max_examples=6, deadline=None)
@given(text=loop_programs())
def test_nodes_of_one_nest_share_no_memory(text: str):
    module = parse(text)
    PlanMemoryPass().apply(context(), module)
    (func,) = functions(module)
    results: list[SSAValue] = [node.result for node in nodes(func)]
    rows = dict(zip(results, memory_report(func), strict=True))
    for nest in nests(func):
        touched = [rows[node] for node in Accesses.of(operations(nest.body.block)).maps]
        blocks = sorted((row.offset, row.offset + row.bytes) for row in touched if row.offset is not None)
        assert all(end <= start for (_, end), (start, _) in pairwise(blocks))


def everything(bytes: int, target: TargetDescription) -> bool:
    return True


class GroupEverythingPass(ModulePass):
    """Groups small nests too, row by row."""

    name = "group-everything"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(footprints, "STARTED_NEST", 0.0)
            patch.setattr(footprints, "STARTED_CONTRACTION", 0.0)
            patch.setattr(row_fusion, "is_far", everything)
            patch.setattr(tile_and_fuse, "is_far", everything)
            patch.setattr(row_groups, "PARTS", 2)
            self.patch(patch)
            TileAndFusePass(l1_bytes=32, l2_bytes=4096).apply(ctx, op)

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(row_fusion, "POINTS_OF_A_BLOCK", 1)


class GroupBlocksPass(GroupEverythingPass):
    """The same in blocks: the largest that leave more than one."""

    name = "group-blocks"

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        def blocks(chain: NestChain, _: TargetDescription) -> dict[str, int]:
            return {row: divisors(size, size)[-2] for row, size in chain.rows.items()}

        patch.setattr(NestChain, "blocks", blocks)


class RecomputeEverythingPass(ModulePass):
    """Computes small and costly nodes again, too."""

    name = "recompute-everything"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rematerialize, "WORTH", 1e9)
            patch.setattr(rematerialize, "HIGHEST_PRICE", 1e9)
            RematerializePass(l2_bytes=0, last_level_bytes=0).apply(ctx, op)


@pytest.mark.exhaustive
@settings(max_examples=EXAMPLES // 4)
@given(text=loop_programs() | row_programs())
def test_what_is_computed_again_keeps_values(text: str):
    check(text, RecomputeEverythingPass, PlanMemoryPass)
    check(text, *PIPELINE[:-1], RecomputeEverythingPass, PlanMemoryPass)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grouping", [GroupEverythingPass, GroupBlocksPass])
@settings(max_examples=4, deadline=None)
@given(text=loop_programs(((4,), (4, 6), (4, 6), (4, 6), (6,)), (4, 6)) | row_programs())
def test_groups_keep_values(grouping: type[ModulePass], text: str):
    check(text, grouping, PlanMemoryPass)
    check(text, *PIPELINE[:-1], grouping, PlanMemoryPass)


@settings(max_examples=EXAMPLES // 2)
@given(text=loop_programs())
def test_all_passes_keep_values(text: str):
    check(text, *PIPELINE)
