"""Scripts that start the ranks of a program on several nodes."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
BIN = Path(sys.executable).parent
SRUN = '#!/bin/bash\necho "$OCANNL_THREADS $SLURM_MPI_TYPE $SRUN_CPUS_PER_TASK" "$@"\n'
RAY = """
import sys, types
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(8)

class Task:
    def __init__(self, function): self.function = function
    def remote(self, *given): return pool.submit(self.function, *given)

def init(): pass
def remote(num_cpus, max_retries, scheduling_strategy): return Task
def get(task): return [each.result() for each in task] if isinstance(task, list) else task.result()
def get_node_ip_address(): return "127.0.0.1"
def remove_placement_group(group): print("removed", group.bundles)
def PlacementGroupSchedulingStrategy(group, placement_group_bundle_index): pass

class placement_group:
    def __init__(self, bundles, strategy): self.bundles = bundles
    def ready(self): return pool.submit(int)

for name in ("util", "util.placement_group", "util.scheduling_strategies"):
    sys.modules[f"ray.{name}"] = sys.modules["ray"]
"""
PROGRAM = """
import sys
from mpi4py import MPI
ranks = MPI.COMM_WORLD.gather(MPI.COMM_WORLD.rank)
if ranks is not None: print(ranks, sys.argv[1:], flush=True)
"""


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="there is no bash")
def test_slurm_starts_one_rank_a_task(tmp_path: Path):
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    command = ["/bin/bash", str(LAUNCH / "slurm.sh")]
    paths = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "8"}
    program = [*command, "train.py", "a b"]
    found = subprocess.run(program, capture_output=True, text=True, env=paths, check=True)
    assert found.stdout == "8 pmi2 8 --kill-on-bad-exit=1 --wait=60 --cpu-bind=cores python train.py a b\n"
    missing = subprocess.run(command, capture_output=True, text=True, env=paths, check=False)
    assert missing.returncode == 2
    assert missing.stderr.startswith("usage: sbatch")


@pytest.mark.exhaustive
@pytest.mark.skipif(
    find_spec("mpi4py") is None or not (BIN / "mpiexec").exists(), reason="mpi4py or MPICH is missing"
)
def test_ray_starts_the_proxies_of_mpiexec(tmp_path: Path):
    """With a stand-in for Ray that runs tasks as threads."""
    (tmp_path / "ray.py").write_text(RAY)
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--nodes", "1", "--ranks-per-node", "2", "--cpus", "3", str(tmp_path / "program.py"), "--x"]
    paths = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(LAUNCH / "ray_ranks.py"), *options]
    found = subprocess.run(
        command, capture_output=True, text=True, env=paths, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert found.stdout.splitlines() == ["[0, 1] ['--x']", "removed [{'CPU': 6}]"]
