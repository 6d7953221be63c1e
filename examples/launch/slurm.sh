#!/bin/bash
# Starts a program on the nodes of a SLURM allocation, one rank a task:
#
#     sbatch --nodes=2 --ntasks-per-node=2 --cpus-per-task=8 examples/launch/slurm.sh train.py --epochs 10
#
# The mesh of the program has as many ranks as there are tasks: here oc.Mesh({"data": 4}). After a failure, or
# with other --nodes, the same command goes on from the last checkpoint that `keep.restore` finds in a folder
# that all nodes see.
#SBATCH --job-name=ocannl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
#SBATCH --requeue
set -euo pipefail

if [[ $# -eq 0 ]]; then
    echo "usage: sbatch $0 PROGRAM [ARGUMENT ...]" >&2
    exit 2
fi

# A rank has the cores of its task, for its threads; srun no longer takes their number from sbatch.
export OCANNL_THREADS=${SLURM_CPUS_PER_TASK:-1}
export SRUN_CPUS_PER_TASK=$OCANNL_THREADS
# What SLURM says to processes as they start: `srun --mpi=list` has what it was built with. MPICH of PyPI
# takes pmi2, Open MPI pmix.
export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmi2}

# One rank that fails ends all, within a minute; its number is in the message of SLURM.
exec srun --kill-on-bad-exit=1 --wait=60 --cpu-bind=cores "${PYTHON:-python}" "$@"
