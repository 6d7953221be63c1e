"""The shapes of a program are a function of the set of its constraints."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.spec_cases import sized_cases
from support.written_specs import Case
from xdsl.ir import Operation

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.texpr import TensorOp
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.texpr.infer_shapes.constraints import demands_of
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.infer_shapes import leaves_of, variables
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import Constraint, DimTerm, Leaf, Shape
from ocannl.program import graph
from ocannl.program.module.extract import extract
from ocannl.program.module.needed import needed


def operations(code: oc.Code) -> list[Operation]:
    """Those of a program as they were built, before anything was known of other shapes."""
    blank = Solver()
    blank.reserve(*variables(needed(code.statements)))
    with patch.object(graph, "_solver", blank):
        return list(extract(code.statements, "program").routine.body.block.ops)


class Constraints:
    """All that the operations of a program, as built, demand of its shapes."""

    def __init__(self, code: oc.Code) -> None:
        ops = operations(code)
        self.solver = Solver()
        self.solver.reserve(*variables(ops))
        demands = [demands_of(op, self.solver) for op in ops]
        self.all: list[Constraint] = [constraint for found in demands for constraint in found.found]
        self.dims: list[DimTerm] = [dim for found in demands for dim in found.names.values()]
        self.leaves: list[Leaf] = [leaf for op in ops for leaf in leaves_of(op)]
        self.shapes: list[Shape] = [shape_of(op.result) for op in ops if isinstance(op, TensorOp)]

    def solved(self, order: list[int]) -> object:
        """The shapes and named dimensions, or the class of the error."""
        solver = self.solver.copy()
        try:
            for place in order:
                solver.add(self.all[place])
            solver.close(self.leaves)
        except ShapeInferenceError as error:
            return type(error)
        return [solver.shape(shape) for shape in self.shapes], [solver.dim(dim) for dim in self.dims]

    def check(self, shuffles: int, rng: random.Random) -> object:
        """Raises where another order gives something else."""
        places = list(range(len(self.all)))
        expected = self.solved(places)
        assert self.solved(places[::-1]) == expected
        for _ in range(shuffles):
            assert self.solved(rng.sample(places, len(places))) == expected
        return expected


def images(size: int = 8) -> oc.Tensor:
    return oc.data(np.ones((2, size, size, 3), np.float32), axes="bbbo", label="images")


def words() -> oc.Tensor:
    return oc.data(np.zeros((2, 6), np.int32), axes="bb", label="words")


def sequence(label: str = "sequence") -> oc.Tensor:
    return oc.data(np.ones((2, 6, 8), np.float32), axes="bbo", label=label)


def update(result: oc.Tensor) -> oc.Code:
    """A whole step of training."""
    loss = oc.param("scale", input=[], output=[]) * nn.mean(result * result)
    return train.grad_update(loss) + train.sgd_update(
        loss, learning_rate=0.1, momentum=0.9, weight_decay=1e-3
    )


def language_model(hidden: int | None) -> oc.Code:
    ids, width = words(), 8
    layer = nn.decoder_only(2, 2, 4, 4, 16)
    x = nn.learned_positions(num=6)(nn.embedding(num=7, dim=width)(ids))
    logits = nn.linear(out_dim=7)(layer(x, mask=nn.causal_mask(6), train_step=oc.index("step_n")))
    loss = nn.cross_entropy(logits, ids)
    extra = oc.param("v") @ oc.relu(oc.param("u", output=hidden) @ nn.output_mean(x))
    return update(extra * loss)


def indexed() -> oc.Code:
    ids = words()
    rows = oc.gather("v d; b t | => b t | d", oc.param("table", output=[7, 5]), ids, at="v")
    counts = oc.scatter("b t | d; b t | => v d", rows, ids, at="v", v=oc.Dim("v"))
    return update(
        counts * oc.one_hot(oc.data(np.arange(7), axes="b"), 5).einsum("v | d => v d") @ oc.constant(2.0)
        + oc.stack([counts, counts], axis="batch")
    )


def flat_weights() -> oc.Code:
    kernel = oc.data(np.arange(36.0), flat=True, label="kernel")
    spec = "..., h + u, w + v | i; u v i -> c => ..., h, w | c".replace(" v i", ", v, i")
    return update(oc.einsum(spec, images(), kernel, u=oc.Dim("u", 2), v=2, use_padding=True))


PROGRAMS: dict[str, Callable[[], oc.Code]] = {
    "mlp": lambda: update(nn.mlp(hid_dims=[4, 5], out_dim=3)(sequence())),
    "lenet": lambda: update(nn.lenet(num_classes=4)(images())),
    "resnet": lambda: update(
        nn.resnet_block(out_channels=4, stride=2)(images(), train_step=oc.index("step_n"))
    ),
    "vgg": lambda: update(nn.vgg_block(num_convs=2, out_channels=4)(images())),
    "mobile": lambda: update(nn.mobile_cnn(num_classes=3)(images(16))),
    "transposed": lambda: update(nn.conv_transpose2d(out_channels=2, stride=2)(images())),
    "pools": lambda: update(
        nn.max_pool2d()(images()) * nn.avg_pool2d()(images()) + nn.mean(nn.global_avg_pool2d(images()))
    ),
    "encoder": lambda: update(nn.transformer_encoder(2, 2, 4, 4, 16)(sequence())),
    "decoder": lambda: update(nn.transformer_decoder(1, 2, 4, 4, 16)(sequence(), sequence("memory"))),
    "lstm": lambda: update(nn.lstm(hid_dim=3)(sequence())),
    "language model": lambda: language_model(5),
    "indexed": indexed,
    "flat": flat_weights,
    "a missing dimension": lambda: language_model(None),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_order_of_a_programs_constraints_changes_nothing(name: str):
    found = Constraints(PROGRAMS[name]()).check(2, random.Random(7))
    assert isinstance(found, tuple) == (name != "a missing dimension")


@settings(
    max_examples=24,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
@given(sized_cases(), st.integers(0, 2), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_a_specs_constraints_changes_nothing(
    sized: tuple[Case, dict[str, int]], hidden: int, forgets: bool, rng: random.Random
):
    """With an operand of which nothing is said, and sizes that may be missing."""
    case, sizes = sized
    note(case.text)
    slots = enumerate(case.operands)
    tensors = [oc.data(np.ones(case.shape(slot)), axes=case.letters(slot)) for _, slot in slots]
    if hidden < len(tensors):
        tensors[hidden] = oc.param("hidden", batch=None)
    coefficients = {name: size for name, size in sizes.items() if name not in case.names}
    given = coefficients if forgets else sizes
    try:
        result = oc.einsum(case.text, *tensors, use_padding=case.use_padding, **given)
        code = oc.forward(result + oc.param("bias") * result)
    except oc.OcannlError:
        return
    Constraints(code).check(3, rng)
