"""Programs under random placements, whose parts together must be what one rank computes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.partitioned import Interpreter, Ranks
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects import texpr
from ocannl.dialects.texpr.placement import AskedAxis, Placement, PlacementAttr
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.lowering.pipelines import parse_text, passes_until, run_passes
from ocannl.passes.texpr.partition.partition import PartitionPass
from ocannl.program.code import Code
from ocannl.program.module.extract import extract

Array = NDArray[Any]
WHOLE_PROGRAM = "distribute-scans"
"""The last pass before `partition`."""


@dataclass
class Placed:
    """A projected program, and what its memory begins with."""

    text: str
    contents: Mapping[str, Array]
    indices: Mapping[str, int]

    @staticmethod
    def of(code: Code, **indices: int) -> Placed:
        """A program with its data; other memory begins with random numbers."""
        program = extract(code.statements, "step")
        module = program.module
        run_passes(module, passes_until("cpu", "infer-precisions"))
        rng, contents = np.random.default_rng(3), dict[str, Array]()
        for op in program.routine.body.block.ops:
            if isinstance(op, texpr.MemoryOp):
                sizes, label = shape_of(op.result).memory_sizes, op.label.data
                array = None if label not in program.values else program.values[label].array
                is_given = isinstance(array, np.ndarray)
                given = array.reshape(sizes) if is_given else rng.uniform(-1, 1, sizes)
                contents[label] = np.asarray(given, np.float64)
        passes = passes_until("cpu", WHOLE_PROGRAM)
        # Folded layers are as many as are needed to unfold them, and not a whole program.
        run_passes(module, [p for p in passes[2:] if p.name != "fold-layers"])
        return Placed(str(module), contents, indices)

    def module(self, mesh: Mapping[str, int], placements: random.Random | None) -> ModuleOp:
        """The program on a mesh, with random placements of memory and a few expressions."""
        module = parse_text(self.text)
        (routine,) = module.body.block.ops
        assert isinstance(routine, texpr.TexprRoutineOp)
        if mesh:
            routine.set_mesh(mesh)
        for op in routine.body.block.ops:
            if isinstance(op, texpr.MemoryOp | texpr.ApplyOp) and placements is not None:
                chance = 0.4 if isinstance(op, texpr.MemoryOp) else 0.05
                axes = range(len(shape_of(op.result).memory_sizes))
                asked = tuple(
                    (axis, AskedAxis(None, placements.choice(axes)))
                    for axis in mesh
                    if axes and placements.random() < chance
                )
                if asked:
                    op.properties["placement"] = PlacementAttr(Placement(asked))
        return module

    def run(self, module: ModuleOp, mesh: Mapping[str, int]) -> dict[str, Array]:
        """All memory after a run, by label or name."""
        interpreter = Interpreter(Ranks(mesh, self.indices), self.contents)
        interpreter.run(module)
        (routine,) = module.body.block.ops
        found: dict[str, Array] = {}
        for op in routine.regions[0].block.ops:
            match op:
                case texpr.MemoryOp():
                    found[op.label.data] = interpreter.whole(op.result)
                case texpr.GradOp():
                    found[f"{op.source.name_hint}.grad"] = interpreter.whole(op.result)
                case texpr.ForwardOp():
                    found[f"{op.tensor.name_hint} forward"] = interpreter.whole(op.tensor)
                case _:
                    pass
        return found

    def check(self, mesh: Mapping[str, int], placements: random.Random | None = None) -> ModuleOp:
        """Compares with one rank, and gives the partitioned program."""
        wanted = self.run(parse_text(self.text), {})
        module = self.module(mesh, placements)
        run_passes(module, [PartitionPass], verify=True)
        found = self.run(module, mesh)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
        return module
