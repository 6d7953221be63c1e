# pyright: basic, reportMissingImports=false
"""Starts a program on the nodes of a Ray cluster, as the ranks of a mesh, by MPI:

    python examples/launch/ray_ranks.py --nodes 2 --ranks-per-node 2 --cpus 8 train.py --epochs 10

Ray reserves the nodes all at once, by a placement group. MPICH's `mpiexec -launcher manual` prints the
commands that start its proxies, one a node, and Ray runs each on its node; they start the ranks and connect
them. The packages ocannl[mpi] and ray, and the program's folder, are on all nodes at the same places. The
mesh has as many ranks as are started: here oc.Mesh({"data": 4}).
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

LAUNCH, END = "HYDRA_LAUNCH:", "HYDRA_LAUNCH_END"
"""How lines of `mpiexec -launcher manual` begin that have a command, and the line after them."""


def proxy_commands(lines: Iterable[str]) -> list[list[str]]:
    """The commands that start the proxies, in the order of the hosts that mpiexec was given."""
    found: list[list[str]] = []
    for line in lines:
        if line.strip() == END:
            return found
        if line.startswith(LAUNCH):
            found.append(shlex.split(line.removeprefix(LAUNCH)))
    raise SystemExit("mpiexec ended before it had said how its proxies are started")


def mpiexec_command(hosts: Sequence[str], ranks: int, threads: int, program: Sequence[str]) -> list[str]:
    """As many ranks on each host, with as many threads each."""
    places = ",".join(f"{host}:{ranks}" for host in hosts)
    # The first host is this one or another: never by its loopback address, which others do not reach.
    options = ["-launcher", "manual", "-localhost", get_node_ip_address(), "-hosts", places]
    count = ["-n", str(ranks * len(hosts)), "-genv", "OCANNL_THREADS", str(threads)]
    return ["mpiexec", *options, *count, sys.executable, *program]


def run_proxy(command: Sequence[str], folder: str) -> int:
    """Runs a proxy, and with it the ranks of its node, to their end."""
    return subprocess.run(command, cwd=folder, check=False).returncode


def launch(program: Sequence[str], nodes: int, ranks: int, cpus: int) -> int:
    """Runs the program on nodes that Ray reserves; returns its exit status."""
    ray.init()  # the cluster that RAY_ADDRESS names, or that runs here
    group = placement_group([{"CPU": ranks * cpus}] * nodes, strategy="STRICT_SPREAD")
    ray.get(group.ready())

    def on(node: int, function: Callable[..., Any]) -> Any:
        """A task on a node. It is not tried again: ranks begin together."""
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node)
        return ray.remote(num_cpus=ranks * cpus, max_retries=0, scheduling_strategy=strategy)(function)

    try:
        hosts = ray.get([on(node, get_node_ip_address).remote() for node in range(nodes)])
        command = mpiexec_command(hosts, ranks, cpus, program)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mpiexec:
            assert mpiexec.stdout is not None
            proxies = enumerate(proxy_commands(mpiexec.stdout))
            running = [on(node, run_proxy).remote(proxy, os.getcwd()) for node, proxy in proxies]
            for line in mpiexec.stdout:
                print(line, end="", flush=True)
            ray.get(running)
        return mpiexec.returncode
    finally:
        remove_placement_group(group)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=1, help="of each rank, for its threads")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    return launch(options.program, options.nodes, options.ranks_per_node, options.cpus)


if __name__ == "__main__":
    sys.exit(main())
