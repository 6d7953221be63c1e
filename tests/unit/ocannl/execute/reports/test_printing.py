"""The text that `oc.print` prints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.execute import evaluation
from ocannl.program.types import final_types


def printed(capsys: pytest.CaptureFixture[str], t: Any, **how: Any) -> str:
    with oc.Context.cpu(threads=1):
        oc.print(t, **how)
    return capsys.readouterr().out


def test_a_label_needs_no_value(capsys: pytest.CaptureFixture[str]):
    w = oc.param("w", input=3, output=4)
    assert printed(capsys, w, style="label") == "w: 3->4, f32\n"
    for style in ("grid", "inline"):
        with pytest.raises(oc.UninitializedError):
            printed(capsys, w, style=style)


def test_values_on_one_line(capsys: pytest.CaptureFixture[str]):
    x = oc.data(np.arange(24.0).reshape(2, 12), label="x")
    assert printed(capsys, x, style="inline", most=3) == "x: 2|12, f64 = [[0 1 … 11] [12 13 … 23]]\n"
    assert printed(capsys, oc.sum(x).named("s"), style="inline") == "s: (), f64 = 276\n"
    third = oc.data([1 / 3], label="third")
    assert printed(capsys, third, style="inline", digits=2) == "third: 1, f32 = [0.33]\n"


def test_a_table_of_a_matrix(capsys: pytest.CaptureFixture[str]):
    w = oc.data(np.array([[1, -20, 3], [4, 5, 6]]), axes="oi", label="w")
    assert printed(capsys, w).splitlines() == [
        "w: 3->2, i64",
        "         │ input 0",
        "output 0 │ 0    1  2",
        "─────────┼──────────",
        "       0 │ 1  -20  3",
        "       1 │ 4    5  6",
    ]


def test_tables_are_nested_by_the_first_axes(capsys: pytest.CaptureFixture[str]):
    x = oc.data(np.arange(40).reshape(5, 2, 4), axes="boi", label="x")
    assert printed(capsys, x, most=2).splitlines()[1:8] == [
        "batch 0 = 0",
        "  ".ljust(11) + "│ input 0",
        "  output 0 │ 0     3",
        "  ─────────┼────────",
        "         0 │ 0  …  3",
        "         1 │ 4  …  7",
        "…",
    ]


def test_a_row_and_a_number(capsys: pytest.CaptureFixture[str]):
    assert printed(capsys, oc.data([True, False], label="x")).splitlines()[1:] == [
        "output 0:",
        "   0      1",
        "True  False",
    ]
    assert printed(capsys, oc.sum(oc.data([1.0, 2.0])).named("s")) == "s: (), f32 = 3\n"


def tree() -> tuple[oc.Tensor, oc.Tensor]:
    w = oc.param("w", np.array([[1.0, 2.0]]), dtype=np.float64)
    x = oc.data(np.array([[3.0, 4.0], [5.0, 6.0]]), label="x")
    y = oc.tanh(w @ x * 0.0)
    return (oc.sum(y * y) + oc.sum(x)).named("loss"), w


def test_a_tree_has_values_and_gradients(capsys: pytest.CaptureFixture[str]):
    loss, w = tree()
    with oc.Context.cpu(threads=1) as ctx:
        ctx.init_params(loss)
        asked = w.grad
        ctx.compile(train.grad_update(loss))()
        assert asked in ctx
        oc.print(loss, style="tree")
    assert capsys.readouterr().out.splitlines() == [
        "loss (add): (), f64 = 18, grad = 1",
        "├─ einsum: (), f64 = 0",
        "│  └─ mul: 2|1, f64 = [[0] [0]]",
        "│     ├─ tanh: 2|1, f64 = [[0] [0]]",
        "│     │  └─ mul: 2|1, f64 = [[0] [0]]",
        "│     │     └─ product: 2|1, f64 = [[11] [17]]",
        "│     │        ├─ w (param): 2->1, f64 = [[1 2]], grad = [[0 0]]",
        "│     │        └─ x (data): 2|2, f64 = [[3 4] [5 6]]",
        "│     └─ tanh (above)",
        "└─ einsum: (), f64 = 18",
        "   └─ x (data): 2|2, f64 = [[3 4] [5 6]]",
    ]


def test_a_tree_of_what_has_no_value_yet_decides_nothing(capsys: pytest.CaptureFixture[str]):
    loss, w = tree()
    before = repr(w), repr(loss)
    lines = printed(capsys, loss, style="tree").splitlines()
    assert (repr(w), repr(loss)) == before
    assert [line for line in lines if "=" in line and "x (data)" not in line] == ["└─ einsum: (), f64 = 18"]


def test_the_number_that_a_mean_divides_by_is_one_line(capsys: pytest.CaptureFixture[str]):
    x = oc.data(np.ones((2, 3)), label="x")
    lines = printed(capsys, nn.mse(oc.sin(x), 1.0), style="tree").splitlines()
    assert [line.strip("│├└─ ").split(":")[0] for line in lines][-2:] == ["sub (above)", "mul (of sizes)"]


def test_a_deep_tree_ends(capsys: pytest.CaptureFixture[str]):
    x = oc.data([1.0], label="x")
    for _ in range(30):
        x = x + 1
    lines = printed(capsys, x, style="tree", depth=2).splitlines()
    assert [line.strip().split(":")[0] for line in lines] == ["add", "└─ add", "└─ add", "└─ …"]


def test_a_tree_is_one_inference_and_one_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*given: Any) -> Any:
            calls[name] += 1
            return function(*given)

        monkeypatch.setattr(module, name, call)

    counted(final_types, "run_passes")
    counted(evaluation, "compile_module")
    x, w = oc.data([1.0], label="x"), oc.param("w", input=[], output=1, batch=[])
    for _ in range(15):
        x = oc.sin(x)
    lines = printed(capsys, oc.tanh(x * w), style="tree").splitlines()
    assert [" = " in line for line in lines] == [False, False, *[True] * 16, False]
    assert calls == {"run_passes": 2, "compile_module": 1}


def test_a_tree_of_open_shapes(capsys: pytest.CaptureFixture[str]):
    y = oc.tanh(oc.param("w") @ oc.data([1.0, 2.0], label="x"))
    before = repr(y)
    lines = printed(capsys, y, style="tree").splitlines()
    assert lines[0] == f"tanh: {y.shape}, f32"
    assert lines[-1] == "   └─ x (data): 2, f32 = [1 2]"
    assert repr(y) == before


def test_a_tree_has_the_values_that_a_routine_keeps(capsys: pytest.CaptureFixture[str]):
    x = oc.data([1.0, 2.0], label="x")
    y = oc.sum(x).named("y")
    with oc.Context.cpu(threads=1) as ctx:
        ctx.compile(y)()
        ctx[x] = [3.0, 4.0]
        for style in ("inline", "tree"):
            oc.print(y, style=style)
            assert capsys.readouterr().out.splitlines()[0].endswith(f" = {ctx[y].item():g}")


def test_a_tree_of_static_indices(capsys: pytest.CaptureFixture[str]):
    x = oc.data([[1.0], [2.0]], axes="bo", label="x")
    lines = printed(capsys, x[oc.index("i", 2)] * oc.sum(x), style="tree").splitlines()
    assert [line.partition(" = ")[2] for line in lines] == ["", "", "[[1] [2]]", "3", "[[1] [2]]"]


def test_eager_values(capsys: pytest.CaptureFixture[str]):
    with oc.eager():
        w = oc.tensor([1.0, 2.0])
        y = w * 3
        w[...] = 0.0
        assert printed(capsys, y, style="inline").endswith("= [3 6]\n")
        assert printed(capsys, y, style="tree").splitlines()[0].endswith("= [3 6]")
        p = oc.param("p", 2.0, output=1, input=[], batch=[])
        assert printed(capsys, p * 2, style="tree").splitlines() == [
            "mul: 1, f32 = [4]",
            "└─ p (param): 1, f32 = [2]",
        ]


def test_another_context(capsys: pytest.CaptureFixture[str]):
    p, ctx = oc.param("p", 2.0, output=1, input=[], batch=[]), oc.Context.cpu(threads=1)
    ctx.init_params(p)
    oc.print(p, style="inline", ctx=ctx)
    assert capsys.readouterr().out == "p: 1, f32 = [2]\n"


def test_what_cannot_be_asked_for():
    with pytest.raises(oc.ArgumentError, match="printed as grid, inline, label, tree, found 'table'"):
        oc.print(oc.data([1.0]), style="table")
    with pytest.raises(oc.ArgumentError, match="digits"):
        oc.print(oc.data([1.0]), digits=0)
