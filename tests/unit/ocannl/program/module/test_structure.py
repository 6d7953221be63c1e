"""Types are inferred once for parts of the program that are equal but for names."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import nn
from ocannl.lowering.pipelines import PassMaker, run_passes
from ocannl.program.code import computing
from ocannl.program.module.extract import Part, part_of
from ocannl.program.module.structure import structure_of


def part(x: oc.Tensor) -> Part:
    return part_of(computing(x.ir_value).statements)


def layer(x: oc.Tensor, label: str, width: int = 3) -> oc.Tensor:
    return oc.relu(oc.param(f"{label}.w", output=width) @ x + oc.param(f"{label}.b"))


def data() -> oc.Tensor:
    return oc.data(np.ones((4, 2), np.float32), label="x", axes="bo")


def test_names_and_lines_are_not_in_a_structure():
    one, other = layer(data(), "one"), layer(data(), "other")
    assert structure_of(part(one), ()) == structure_of(part(other), ())


@pytest.mark.parametrize(
    "changed",
    [
        lambda: layer(data(), "w", 4),
        lambda: layer(oc.data(np.ones((4, 2)), axes="bo"), "w"),
        lambda: layer(oc.data(np.ones((4, 2), np.float32), axes="bb"), "w"),
        lambda: oc.tanh(oc.param("w", output=3) @ data() + oc.param("b")),
        lambda: oc.relu(oc.param("w", output=3) @ data() + 1),
        lambda: oc.relu(oc.param("w", output=3) @ data() + 1.0),
        lambda: oc.relu(oc.param("w", output=3) @ data() + oc.data(np.ones(3, np.float32))),
    ],
    ids=["size", "precision", "rows", "function", "integer", "float", "operands"],
)
def test_all_that_types_follow_from_is_in_a_structure(changed: Callable[[], oc.Tensor]):
    kinds = [layer(data(), "w"), oc.relu(oc.param("w", output=3) @ data() + 2.0), changed()]
    assert len({structure_of(part(x), ()) for x in kinds}) == len(kinds)


def test_what_other_code_tells_of_open_shapes_is_in_a_structure():
    one, other = (oc.param("w") @ data() for _ in range(2))
    assert structure_of(part(one), ()) == structure_of(part(other), ())
    _ = oc.einsum("..r.. | 5 => ...", other)
    assert structure_of(part(one), ()) != structure_of(part(other), ())


def test_equal_parts_get_the_types_that_were_inferred_once(monkeypatch: pytest.MonkeyPatch):
    made = [layer(data(), label) for label in ("a", "b")]
    oc.infer(made[0])
    monkeypatch.setattr("ocannl.execute.inference.run_passes", None)
    oc.infer(made[1])
    assert {name: str(p.shape) for name, p in oc.params(made[1]).items()} == {"b.w": "2->3", "b.b": "3"}
    assert made[1].dtype == np.float32


def test_an_error_is_told_each_time():
    for _ in range(2):
        with pytest.raises(oc.ShapeError, match="hidden dimension"):
            oc.infer(oc.param("w") @ data())


def test_extremes_of_nothing_are_told_each_time():
    for _ in range(2):
        y = oc.einsum("d, => d,", oc.param("w", init=1.0))
        with pytest.raises(oc.ShapeError, match="has no elements there"):
            oc.infer(y.max(0) + (y + oc.zeros(0)).sum())


def test_loops_have_no_structure():
    zero, x = oc.data(np.float32(0)), oc.data(np.ones(3, np.float32), axes="b")
    ys, _ = oc.scan(lambda carry, x: (carry + x, carry), zero, x)
    assert structure_of(part(ys), ()) is None
    oc.infer(ys)
    assert str(ys.shape) == "3|"


def test_layers_with_a_cache_infer_their_types_once(monkeypatch: pytest.MonkeyPatch):
    ran: list[object] = []

    def run(module: ModuleOp, passes: Sequence[PassMaker]) -> None:
        ran.append(module)
        run_passes(module, passes)

    monkeypatch.setattr("ocannl.execute.inference.run_passes", run)
    x, cache = oc.data(np.ones((1, 2, 8), np.float32), label="x", axes="bbo"), nn.kv_cache(length=8)
    counts: list[int] = []
    with oc.code():
        for _ in range(6):
            x = x + nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, cache=cache)(x)
            counts.append(len(ran))
    assert 0 < counts[2] == counts[-1]
