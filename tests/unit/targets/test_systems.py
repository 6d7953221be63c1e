"""Code for other systems: object files, what these ask of the linker, and Windows programs under Wine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.nests import parse_module
from support.operators import FLOAT_OPERATORS, function
from support.teams import NEGATE
from support.windows_on_cpu import NEEDS_WINE, run_windows

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.lowering.entry import entry_symbol
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.cpu.parallel_regions import VCOMP
from ocannl.runtime.host.jit import emit_object
from ocannl.runtime.systems.table import WINDOWS

OBJDUMP = shutil.which("llvm-objdump")
NEEDS_OBJDUMP = pytest.mark.skipif(OBJDUMP is None, reason="there is no llvm-objdump")
MACHINES = {
    ("x86-64-v3", "linux"): b"\x7fELF\x02\x01",
    ("x86-64-v3", "windows"): b"\x64\x86",
    ("neoverse-n1", "windows"): b"\x64\xaa",
    ("apple-m2", "macos"): b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    ("x86-64-v2", "macos"): b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
}
SYSTEMS = ("linux", "macos", "windows")
PLACES = [*MACHINES, ("neoverse-n1", "linux"), ("x86-64", "windows"), ("x86-64", "macos")]
FUSED = {"x86-64-v3": "vfmadd", "x86-64-v2": "mulps", "neoverse-n1": "fmla", "apple-m2": "fmla"}
rng = np.random.default_rng(0)
X = rng.normal(size=(128, 300)).astype(np.float32)
CLASSES = rng.integers(0, 7, 128)


def trained() -> tuple[oc.Routine, Callable[[], list[float]]]:
    """A training step with a frame of many pages for packed operands, and the losses of five runs."""
    x, classes = oc.data(X, axes="bo", label="x"), oc.data(CLASSES, axes="b", label="classes")
    hidden = oc.relu(oc.param("w", output=256) @ x)
    loss = nn.cross_entropy(nn.linear(out_dim=7)(hidden), classes).named("loss")
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01), name="step")
    ctx.init_params(loss, seed=1)

    def losses() -> list[float]:
        found: list[float] = []
        for _ in range(5):
            step()
            found.append(float(ctx[loss]))
        return found

    return step, losses


@pytest.fixture(scope="module")
def step() -> oc.Routine:
    return trained()[0]


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("target", "system"), MACHINES)
def test_objects_have_the_format_of_their_system(target: str, system: Any, step: oc.Routine, tmp_path: Path):
    path = oc.export(step, tmp_path / "step.o", target=target, system=system)
    assert path.read_bytes().startswith(MACHINES[target, system])


def test_suffixes_tell_the_system(step: oc.Routine, tmp_path: Path):
    path = oc.export(step, tmp_path / "step.obj", target="x86-64-v3")
    assert path.read_bytes().startswith(MACHINES["x86-64-v3", "windows"])
    path = oc.export(step, tmp_path / "step.o", target="apple-m2")
    assert path.read_bytes().startswith(MACHINES["apple-m2", "macos"])
    wrong: Any = "beos"
    with pytest.raises(oc.DeviceError, match="systems are linux, macos, windows, found 'beos'"):
        oc.export(step, tmp_path / "step.o", system=wrong)


@NEEDS_OBJDUMP
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("target", "system"), MACHINES)
def test_code_is_vectorized_under_every_system(target: str, system: Any, step: oc.Routine, tmp_path: Path):
    oc.export(step, tmp_path / "step.o", target=target, system=system)
    assert disassembled(tmp_path / "step.o").count(FUSED[target]) > 40


@pytest.mark.sampled(3)
@NEEDS_OBJDUMP
@pytest.mark.parametrize("system", SYSTEMS)
def test_large_frames_are_probed_on_windows(system: Any, step: oc.Routine, tmp_path: Path):
    """There pages of the stack have to be touched in their order."""
    oc.export(step, tmp_path / "step.o", target="x86-64-v3", system=system)
    assert ("__chkstk" in undefined(tmp_path / "step.o")) == (system == "windows")


def disassembled(file: Path) -> str:
    assert OBJDUMP is not None
    command = [OBJDUMP, "-d", "--no-show-raw-insn", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def undefined(file: Path) -> set[str]:
    """The symbols that an object leaves to the linker, as C has them."""
    assert OBJDUMP is not None
    command = [OBJDUMP, "-t", str(file)]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in table.splitlines() if "*UND*" in line or "(sec  0)" in line]
    names = {line.split()[-1] for line in lines}
    is_macho = "mach-o" in table.splitlines()[1]
    return {re.sub(r"^_", "", name) if is_macho else name for name in names}


# What the compilers of each system give to every program, beside functions of C11.
GIVEN = {"linux": set[str](), "macos": set[str](), "windows": {"_fltused", "__chkstk"}}
ROUNDING = ("floor", "ceil", "trunc", "nearbyint", "fma")
C11 = {"memcpy", "memmove", "memset", *ROUNDING, *(f"{name}f" for name in ROUNDING)}
DTYPES = [np.float32, np.float64, np.int32, ml_dtypes.bfloat16]


def all_operators() -> oc.Code:
    """Every operator, on numbers of several types."""
    results: list[oc.Tensor] = []
    for dtype in DTYPES:
        tensors = [oc.data(abs(5 * rng.normal(size=9)).astype(dtype)) for _ in range(3)]
        is_integer = dtype is np.int32
        used = SCALAR_OPS if is_integer else FLOAT_OPERATORS
        results += [function(name)(*tensors[: op.arity]) for name, op in used.items()]
    return sum(map(oc.forward, results), oc.Code())


@pytest.fixture(scope="module")
def operators() -> oc.Routine:
    return oc.Context.cpu(1).compile(all_operators(), name="step")


@pytest.mark.exhaustive
@NEEDS_OBJDUMP
@pytest.mark.sampled(13)
@pytest.mark.parametrize(("target", "system"), PLACES)
def test_operators_call_what_every_system_has(
    operators: oc.Routine, target: str, system: Any, tmp_path: Path
):
    oc.export(operators, tmp_path / "step.o", target=target, system=system)
    assert undefined(tmp_path / "step.o") <= GIVEN[system] | C11


TEAM_MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "step.h"

void entry(int64_t *slots);
void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
static int numbers;

static int number(void) {
    int own = omp_get_thread_num();
    __atomic_fetch_or(&numbers, 1 << own, __ATOMIC_SEQ_CST);
    return own;
}

int main(void) {
    step_memory *memory = step_default();
    for (int k = 0; k < 5; k++) {
        step_run(memory, 0);
        printf("%a\\n", (double)memory->loss[0]);
    }
    float *x = _aligned_malloc(6400 * 4 + 64, 64), *y = _aligned_malloc(6400 * 4 + 64, 64), z[80], sum = 0;
    int64_t team[] = {3, (int64_t)GOMP_parallel, (int64_t)number, (int64_t)omp_get_num_threads};
    int64_t slots[] = {0, (int64_t)x, (int64_t)y, (int64_t)z, (int64_t)team};
    for (int k = 0; k < 6400; k++) x[k] = k;
    for (int run = 0; run < 100; run++) {
        for (int k = 0; k < 6400; k++) y[k] = 0;
        entry(slots);
    }
    int wrong = 0;
    for (int k = 0; k < 6400; k++) wrong += y[k] != -x[k];
    for (int k = 0; k < 64; k++) sum += z[k];
    printf("%d\\n%d\\n%a\\n", wrong, numbers, sum);
}
"""


@NEEDS_WINE
@pytest.mark.exhaustive
def test_programs_run_under_wine(tmp_path: Path):
    """A training step with a large frame is right to rounding; Wine's vcomp140 runs a routine on threads."""
    target = processor("x86-64-v3")
    step, losses = trained()
    oc.export(step, tmp_path / "step.obj", target="x86-64-v3")
    module = parse_module(NEGATE)
    call = f'call void @"{entry_symbol("negate")}"(ptr %slots)'
    entry = f"define void @entry(ptr %slots) {{\n  {call}\n  ret void\n}}\n"
    texts = {"negate.obj": f"{loops_to_llvm(module, target=target)}\n{entry}", "vcomp.obj": VCOMP}
    objects = {name: emit_object(text, target, under=WINDOWS) for name, text in texts.items()}
    objects["step.obj"] = (tmp_path / "step.obj").read_bytes()
    functions = ["_vcomp_fork", "omp_set_num_threads", "omp_get_thread_num", "omp_get_num_threads"]
    *found, wrong, numbers, total = run_windows(tmp_path, TEAM_MAIN, objects, *functions).split()
    np.testing.assert_allclose([float.fromhex(loss) for loss in found], losses(), rtol=1e-4)
    assert (wrong, numbers, float.fromhex(total)) == ("0", "7", -6400 * 6399 / 2)
