"""The two columns of the page for those who come from PyTorch agree: values and gradients.

The rows of tables are compared, and `pytorch` examples that end in an assignment, with the Python example
after them: both make the tensor of that name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.nn.check import Array, weighted_sum, weights_like
from support.pages import FROM_PYTORCH, Runner, fences, rows_of_code

import ocannl as oc
from ocannl import train
from ocannl.dialects.texpr import DataOp
from ocannl.program.values import is_memory

torch: Any = pytest.importorskip("torch")
functional = torch.nn.functional

Names = dict[str, Any]

# Random numbers, and blocks whose own tests compare them, since their parameters are arranged in another way.
APART = re.compile(r"rand|[Dd]ropout|MultiheadAttention|Transformer|LSTM|register_buffer")


@cache
def page() -> Names:
    """The names that the examples of the page define."""
    with TemporaryDirectory() as folder:
        runner = Runner(FROM_PYTORCH, Path(folder))
        runner.run_all()
    return runner.names


@contextmanager
def recorded() -> Generator[list[oc.Tensor]]:
    """The parameters that are made inside, in order."""
    made: list[oc.Tensor] = []
    make = oc.param

    def param(*args: Any, **rows: Any) -> oc.Tensor:
        made.append(make(*args, **rows))
        return made[-1]

    with patch.object(oc, "param", param):
        yield made


def pictures(array: Array) -> Array:
    """Channels come first in PyTorch."""
    return np.moveaxis(array, -1, 1)


def data_of(names: Names) -> dict[str, oc.Tensor]:
    return {n: t for n, t in names.items() if isinstance(t, oc.Tensor) and isinstance(t.op, DataOp)}


class Torch:
    """The same names, for PyTorch; `parameters` are those of all modules that ran, in the order of making."""

    def __init__(self, names: Names) -> None:
        self.leaves: Names = {}
        for name, tensor in data_of(names).items():
            array = np.asarray(oc.Context.cpu()[tensor])
            array = pictures(array) if name == "images" else array
            self.leaves[name] = torch.tensor(array, requires_grad=array.dtype.kind == "f")
        self.names: Names = {"torch": torch, "nn": torch.nn, "F": functional, "__name__": "pytorch"}
        self.names |= {**self.leaves, "n": 8, "array": np.ones((3, 2))}
        self.parameters: list[Any] = []

    def run(self, program: str) -> Any:
        """The value of an expression, or of what the last line assigns to."""
        hook = torch.nn.modules.module.register_module_forward_pre_hook(self._note)
        torch.set_default_dtype(torch.float64)
        try:
            name = assigned(program)
            if name is None:
                return eval(program, self.names)
            exec(program, self.names)
            return self.names[name]
        finally:
            torch.set_default_dtype(torch.float32)
            hook.remove()

    def _note(self, module: Any, _: Any) -> None:
        """A module runs before those inside it."""
        known = {id(p) for p in self.parameters}
        self.parameters += [p for p in module.parameters() if id(p) not in known]


def assigned(program: str) -> str | None:
    """The name that the last line assigns to."""
    match ast.parse(program).body[-1]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def arranged(theirs: Any, shape: tuple[int, ...]) -> Array:
    """A parameter of PyTorch with our axes: output, then input, where channels come last."""
    array = theirs.detach().numpy()
    if array.shape[0] != shape[0]:
        array = array.swapaxes(0, 1)
    if len(shape) < 3:
        return array
    return np.moveaxis(array.reshape(shape[0], shape[-1], *shape[1:-1]), 1, -1)


def compare(program: str, result: oc.Tensor, made: list[oc.Tensor], names: Names) -> None:
    """Values, gradients of parameters in the order of their making, and gradients of data."""
    pytorch, ctx = Torch(names), oc.Context.cpu()
    theirs = pytorch.run(program)
    if is_memory(result.ir_value):
        ctx.init_params(result)
        agree(ctx[result], theirs)
        return
    used = list(oc.params(result).values())
    params = [p for p in made if p in used]
    data = {name: tensor for name, tensor in data_of(names).items() if pytorch.leaves[name].requires_grad}
    for tensor in data.values():
        _ = tensor.grad
    step = ctx.compile(train.grad_update(weighted_sum(result)) + result.forward)
    for ours, other in zip(params, pytorch.parameters, strict=True):
        ctx[ours] = arranged(other, ours.shape.array)
    step()
    is_picture = theirs.ndim == 4 and "images" in program
    agree(ctx[result], theirs.movedim(1, -1) if is_picture else theirs)
    if theirs.requires_grad:
        weights = weights_like(np.asarray(ctx[result]))
        weights = pictures(weights) if is_picture else weights.reshape(theirs.shape)
        theirs.backward(torch.tensor(weights, dtype=theirs.dtype))
    for ours, other in zip(params, pytorch.parameters, strict=True):
        agree(ctx[ours.grad], arranged(other.grad, ours.shape.array))
    for name, tensor in data.items():
        gradient = pytorch.leaves[name].grad
        if gradient is not None:
            agree(ctx[tensor.grad], gradient.movedim(1, -1) if name == "images" else gradient)


def agree(ours: Any, theirs: Any) -> None:
    wanted = np.asarray(theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs)
    found = np.asarray(ours)
    assert found.shape in ((), (1,), wanted.shape)
    rtol, atol = (1e-9, 1e-10) if found.dtype == np.float64 else (1e-5, 1e-6)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the rows write their files."""
    return tmp_path_factory.mktemp("rows")


def compared_rows() -> list[tuple[str, str]]:
    return [row for row in rows_of_code(FROM_PYTORCH) if not APART.search(row[0])]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("theirs", "ours"), compared_rows(), ids=[theirs for theirs, _ in compared_rows()])
def test_rows(theirs: str, ours: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    names = page()
    with recorded() as made:
        result = eval(ours, names)
    if isinstance(result, oc.Tensor):
        compare(theirs, result, made, names)


def test_examples(tmp_path: Path):
    runner, compared, before = Runner(FROM_PYTORCH, tmp_path), list[str](), ""
    with recorded() as made:
        for fence in fences(FROM_PYTORCH.read_text()):
            runner.run(fence)
            name = assigned(before) if before else None
            if name is not None:
                compare(before, runner.names[name], made, runner.names)
                compared.append(name)
            before = fence.text if fence.language == "pytorch" else ""
    assert compared == ["blurred", "scores", "features", "growth", "result"]
