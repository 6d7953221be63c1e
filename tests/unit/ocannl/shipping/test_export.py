"""Exported routines and functions, run by C, by Python with NumPy alone, on AArch64 and WebAssembly."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from support.arm_on_cpu import EMULATOR, LINKER, NEEDS_ARM

import ocannl as oc
from ocannl import nn, train
from ocannl.lowering.loops_to_c.names import c_names

CC = shutil.which("cc")
NEEDS_CC = pytest.mark.skipif(CC is None, reason="there is no C compiler")
NEEDS_WASM = pytest.mark.skipif(
    shutil.which("wasm-ld") is None or find_spec("wasmtime") is None,
    reason="there is no wasm-ld and wasmtime",
)
RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(5, 8, 3)).astype(np.float32)
MAIN = """
#include <stdio.h>
#include "step.h"

int main(void) {
    step_memory *memory = step_default();
    for (int64_t n = 0; n < 5; n++) {
        step_indices indices = {n};
        step_run(memory, &indices);
        printf("%a\\n", (double)memory->loss[0]);
    }
}
"""


def trained() -> tuple[oc.Routine, Callable[[], list[float]]]:
    """A training step with an index and dropout, and the losses of five steps by this process."""
    n = oc.index("n", 5)
    x = oc.data(INPUTS, label="x", axes="bbo")[n]
    model = nn.mlp(hid_dims=[40], out_dim=1)
    hidden = nn.dropout(rate=0.25)(model(x), train_step=n)
    loss = (hidden**2).einsum("...|... => 0").named("loss")
    ctx = oc.Context.cpu(2)
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01), name="step")
    ctx.init_params(loss)

    def losses() -> list[float]:
        found: list[float] = []
        for number in range(5):
            step(n=number)
            found.append(float(ctx[loss]))
        return found

    return step, losses


def run_main(folder: Path, compiler: str, *command: str, options: Sequence[str] = ()) -> list[float]:
    (folder / "main.c").write_text(MAIN)
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    linked = ["-static", "main.c", "step.o", "-o", "main", "-lm"]
    subprocess.run([compiler, *warnings, *options, *linked], cwd=folder, check=True)
    done = subprocess.run([*command, str(folder / "main")], capture_output=True, text=True, check=True)
    return [float.fromhex(line) for line in done.stdout.split()]


@NEEDS_CC
def test_c_has_the_same_bits(tmp_path: Path):
    step, losses = trained()
    assert oc.export(step, tmp_path / "step.o") == tmp_path / "step.o"
    assert run_main(tmp_path, str(CC)) == losses()


@pytest.mark.exhaustive
@NEEDS_CC
@pytest.mark.parametrize("options", [["-O1"], ["-O3", "-march=native", "-fopenmp"]], ids=str)
def test_the_text_of_c_is_equal_to_rounding(options: list[str], tmp_path: Path):
    step, losses = trained()
    assert oc.export(step, tmp_path / "step.c") == tmp_path / "step.c"
    assert "written by OCANNL in C" in (tmp_path / "step.h").read_text()
    compiler = [str(CC), "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fno-strict-aliasing"]
    subprocess.run([*compiler, *options, "-c", "step.c"], cwd=tmp_path, check=True)
    np.testing.assert_allclose(run_main(tmp_path, str(CC), options=options), losses(), rtol=1e-5)


@NEEDS_ARM
def test_aarch64(tmp_path: Path):
    step, losses = trained()
    oc.export(step, tmp_path / "step.o", target="neoverse-n1")
    np.testing.assert_allclose(run_main(tmp_path, str(LINKER), str(EMULATOR)), losses(), rtol=1e-5)


@NEEDS_WASM
def test_wasm(tmp_path: Path):
    wasm: Any = import_module("wasmtime")
    step, losses = trained()
    oc.export(step, tmp_path / "step.wasm")
    store = wasm.Store()
    module = wasm.Module.from_file(store.engine, str(tmp_path / "step.wasm"))
    assert not module.imports
    found = wasm.Instance(store, module, []).exports(store)
    memory, fields = found["memory"], (tmp_path / "step.h").read_text().partition("step_memory {")[2]
    place = next(k for k, line in enumerate(fields.splitlines()[1:]) if " *loss;" in line)
    values: list[float] = []
    at = found["step_default"](store)
    for number in range(5):
        memory.write(store, number.to_bytes(8, "little"), 8)
        found["step_run"](store, at, 8)
        loss = int.from_bytes(memory.read(store, at + 4 * place, at + 4 * place + 4), "little")
        values.append(float(np.frombuffer(memory.read(store, loss, loss + 4), np.float32)[0]))
    np.testing.assert_allclose(values, losses(), rtol=1e-5)


def in_python(wheel: Path, program: str) -> str:
    """The output of a program that finds the module of a wheel and NumPy alone."""
    with ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "installed")
    numpy = Path(np.__file__).parents[1]
    hidden = "import sys\nsys.modules['ocannl'] = sys.modules['llvmlite'] = sys.modules['xdsl'] = None\n"
    paths = f"sys.path[:0] = [{str(wheel.parent / 'installed')!r}]\nsys.path.append({str(numpy)!r})\n"
    command = [sys.executable, "-S", "-c", hidden + paths + "import numpy as np\n" + program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.sampled(3)
@NEEDS_CC
@pytest.mark.parametrize("parameters", ["embedded", "loaded"])
def test_a_wheel_of_a_routine(parameters: Any, tmp_path: Path):
    step, losses = trained()
    wheel = oc.export(step, tmp_path, parameters=parameters)
    program = "import step\nfor n in range(5):\n    step.run(n=n)\n    print(step.arrays['loss'][0])"
    assert [np.float32(line) for line in in_python(wheel, program).split()] == losses()
    program = "import step\ntry:\n    step.run(n=5)\nexcept ValueError as error:\n    print(error)"
    assert in_python(wheel, program) == "n is from 0 to 4, found 5"
    assert ("parameters.bin" in str(ZipFile(wheel).namelist())) == (parameters == "loaded")


@NEEDS_CC
def test_a_wheel_of_a_function(tmp_path: Path):
    model = nn.mlp(hid_dims=[5], out_dim=2)

    @oc.function
    def predict(x: oc.Tensor, scale: oc.Tensor):
        scores = model(x)
        return {"scores": scores * scale, "all": (scores.einsum("...|... => 0"), [scores, 3])}

    x = INPUTS[0]
    expected = predict(x, 2.0)
    wheel = oc.export(predict, tmp_path / "dist")
    np.save(tmp_path / "x.npy", x)
    program = f"""
from predict import predict
found = predict(np.load({str(tmp_path / "x.npy")!r}), 2.0)
total, (scores, three) = found["all"]
print(found["scores"].tobytes().hex(), total.tobytes().hex(), scores.shape, three)"""
    total, (scores, _) = expected["all"]
    wanted = f"{expected['scores'].tobytes().hex()} {total.tobytes().hex()} {scores.shape} 3"
    assert in_python(wheel, program) == wanted


@NEEDS_CC
@pytest.mark.parametrize("suffix", [".o", ".c"])
def test_a_trained_model_is_exported_without_gradients(suffix: str, tmp_path: Path):
    x, model, optimizer = INPUTS[0], nn.linear(out_dim=1), train.sgd(lr=0.1)

    @oc.function
    def step(x: oc.Tensor):
        loss = (model(x) ** 2).sum()
        optimizer.step(loss)
        return loss

    @oc.function
    def predict(x: oc.Tensor):
        return model(x).named("found")

    step(x)
    expected = predict(x)
    oc.export(predict, tmp_path / f"predict{suffix}")
    header = (tmp_path / "predict.h").read_text()
    assert "linear.w: " in header
    assert "grad" not in header
    (tmp_path / "main.c").write_text("""
#include <stdio.h>
#include "predict.h"

int main(void) {
    predict_memory *memory = predict_default();
    predict_run(memory, 0);
    for (int k = 0; k < 8; k++) printf("%a\\n", (double)memory->found[k]);
}
""")
    command = [str(CC), "-fno-strict-aliasing", "main.c", f"predict{suffix}", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = [float.fromhex(line) for line in done.stdout.split()]
    np.testing.assert_allclose(found, expected[:, 0], rtol=1e-5)


@NEEDS_CC
def test_a_wheel_has_a_version(tmp_path: Path):
    step, _ = trained()
    wheel = oc.export(step, tmp_path, version="1.2.post3")
    assert wheel.name.startswith("step-1.2.post3-py3-none-")
    with ZipFile(wheel) as archive:
        assert b"\nVersion: 1.2.post3\n" in archive.read("step-1.2.post3.dist-info/METADATA")
    for wrong in ("next", "1.", "1-2", 1.2):
        with pytest.raises(oc.ArgumentError, match="a version is numbers with points"):
            oc.export(step, tmp_path, version=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.exhaustive
@NEEDS_CC
def test_equal_programs_have_equal_wheels(tmp_path: Path):
    step, _ = trained()
    one, other = (oc.export(step, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert one == other


@NEEDS_CC
def test_parameters_apart(tmp_path: Path):
    """C reads them from the file, at the places that the header says."""
    step, losses = trained()
    oc.export(step, tmp_path / "step.o", parameters="loaded")
    load = """
    static _Alignas(64) char parameters[1 << 16];
    FILE *file = fopen("step.bin", "rb");
    if (!fread(parameters, 1, sizeof parameters, file)) return 1;
    memory->mlp_layer1_w = (float *)(parameters + STEP_OFFSET_mlp_layer1_w);
    memory->mlp_layer1_b = (float *)(parameters + STEP_OFFSET_mlp_layer1_b);
    memory->mlp_w_out = (float *)(parameters + STEP_OFFSET_mlp_w_out);
    """
    main = MAIN.replace("step_default();", "step_default();" + load)
    (tmp_path / "main.c").write_text(main)
    subprocess.run([str(CC), "main.c", "step.o", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [float.fromhex(line) for line in done.stdout.split()] == losses()


@pytest.mark.sampled(3)
@NEEDS_CC
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8", "int64", "bool"])
def test_types(dtype: str, tmp_path: Path):
    x = oc.data(np.array([0, 1, 3, 2]).astype(np.dtype(dtype)), label="x")
    y = oc.where(x > 1, x, 0).named("y") if dtype != "bool" else oc.where(x, 0, 1).named("y")
    ctx = oc.Context.cpu(1)
    routine = ctx.compile(oc.forward(y), name="f")
    wheel = oc.export(routine, tmp_path)
    routine()
    found = in_python(wheel, "import f\nf.run()\nprint(f.arrays['y'].tobytes().hex())")
    assert found == ctx[y].tobytes().hex()


def test_names_of_c():
    names = c_names(["a.b", "a_b", "while", "2x", "ä", "a_b_2"])
    assert list(names.values()) == ["a_b", "a_b_2", "while_", "n2x", "node", "a_b_2_2"]


class TestErrors:
    def test_a_node_without_a_value(self, tmp_path: Path):
        step = oc.Context.cpu(1).compile(oc.forward(oc.param("w", output=3) * 2))
        with pytest.raises(oc.UninitializedError, match="`w`"):
            oc.export(step, tmp_path / "step.o")

    def test_targets(self, tmp_path: Path):
        step, _ = trained()
        with pytest.raises(oc.DeviceError, match="there is no target 'znver9'"):
            oc.export(step, tmp_path / "step.o", target="znver9")
        with pytest.raises(oc.DeviceError, match="is not linked here"):
            oc.export(step, tmp_path / "step.so", target="wasm32")

    @pytest.mark.exhaustive
    def test_arguments(self, tmp_path: Path):
        step, _ = trained()
        wrong: Any = "inside"
        with pytest.raises(oc.ArgumentError, match="embedded or loaded, found 'inside'"):
            oc.export(step, tmp_path / "step.o", parameters=wrong)
        wrong = 3
        with pytest.raises(oc.ArgumentError, match="a routine or a function is exported, found int"):
            oc.export(wrong, tmp_path / "step.o")
        wrong = nn.linear(out_dim=1)
        with pytest.raises(oc.ArgumentError, match=r"found Block; oc\.function of it is one"):
            oc.export(wrong, tmp_path / "step.o")
        with pytest.raises(oc.OcannlError, match="cannot write"):
            oc.export(step, tmp_path / "none" / "step.o")

    def test_a_function_that_was_not_called(self, tmp_path: Path):
        @oc.function
        def double(x: oc.Tensor):
            return 2 * x

        with pytest.raises(oc.OcannlError, match="double has not been called"):
            oc.export(double, tmp_path)
