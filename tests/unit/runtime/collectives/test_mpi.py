"""Two processes with MPI: results, and how a rank that fails ends all."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MPIRUN = Path(sys.executable).parent / "mpirun"
PROGRAM = """
import os, sys, time
mode, rank = sys.argv[1], int(os.environ["PMI_RANK"])
if mode == "early" and rank == 1:
    raise ValueError("my own message")
import numpy as np
import ocannl as oc
from ocannl import train
timeout = 3.0 if mode == "early" else 60.0

def be_impatient():
    # Now that both ranks have compiled, however long that took on a busy machine.
    ctx.once(lambda: None)
    if mode in ("left", "late", "apart", "stopped"):
        ctx.device.engine.timeout = 3.0

if mode in ("stages", "stopped"):
    ctx = oc.Context.cpu(1, mesh=oc.Mesh({"stage": 2}, microbatches=4, timeout=timeout))
    x = oc.data(np.ones((8, 3000)), label="x", shard={"batch": "microbatch"})
    with oc.stage(0):
        h = oc.param("w", 0.5, output=4000) @ x
    with oc.stage(1):
        y = (oc.param("v", 0.25, output=1) @ h).sum()
    step = ctx.compile(train.grad_update(y) + train.sgd_update(y, learning_rate=1e-9), name="step")
    ctx.init_params(y)
    be_impatient()
    if mode == "stopped" and rank == 0:
        time.sleep(60)
    step()
    print("found", float(ctx[y]))
    sys.exit()
ctx = oc.Context.cpu(1, mesh=oc.Mesh({"data": 2}, timeout=timeout))
x = oc.data(np.arange(8.0) + rank * (mode == "value"), label="x", shard={0: "data"})
w = oc.param("w", np.arange(4.0), input=[], shard={0: "data"})
if mode == "saved":
    keep, code = train.Checkpoints("runs", keep=1), oc.forward(w * 2.0)
    ctx.init_params(code)
    for number in (1, 2):
        path = keep.save(ctx, code, step=number)
    ctx[w] = 0
    keep.restore(ctx, code)
    print("found", ctx[w].sum(), len(keep.all))
    sys.exit()
y = (x * (2.0 + rank * (mode == "program"))).sum()
step = ctx.compile(oc.forward(y), name="step")
be_impatient()
if mode == "raise" and rank == 1:
    raise ValueError("my own message")
if mode == "late" and rank == 1:
    time.sleep(60)
if mode == "left" and rank == 1:
    sys.exit()
if mode == "apart" and rank == 0:
    ctx[w] = 0
step()
print("found", float(ctx[y]))
"""

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        find_spec("mpi4py") is None or not MPIRUN.exists(), reason="mpi4py or MPICH is missing"
    ),
]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("whole", "found 56.0"),
        ("saved", "found 6.0 1"),
        ("stages", "found 12000000.0"),
        ("stopped", "rank 0 did not come to this collective within 3 s"),
        ("value", "program.py:45: the value of `x` is another one on rank 1 than on rank 0"),
        ("program", "routine 'step' is another one on rank 1 than on rank 0"),
        ("raise", "ValueError: my own message"),
        ("early", "ValueError: my own message"),
        ("left", "program.py:44: rank 1 did not come to this collective within 3 s"),
        ("apart", "ranks wait at different collectives: rank "),
        ("late", "rank 1 did not come to this collective within 3 s"),
    ],
)
def test_ranks_are_processes(mode: str, told: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [str(MPIRUN), "-n", "2", sys.executable, str(program), mode]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert told in run.stdout + run.stderr
    assert run.stdout.count("found") == (mode in ("whole", "saved", "stages"))
    assert (run.returncode == 0) == (mode in ("whole", "saved", "stages"))
